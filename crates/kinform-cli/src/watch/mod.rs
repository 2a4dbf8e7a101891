//! `kinform watch`: every change of some resources, as informers' handlers hear it.
//!
//! ```text
//! informers → changes ─┐
//!             reports ─┴→ one ordered stream → lines on stdout, progress on stderr → summary
//! ```
//!
//! It does not end by itself once a server has answered: errors are lines, and it tries again.
//! Output is written in batches and flushed whenever no further change is ready. On a terminal,
//! without `-o`, there is one row an object that is refreshed in place; the rows stay on the
//! terminal at the end, which is left as it was.
//!
//! * `selection.rs`: `--where`; `rows.rs`: the rows and what changed in them, pure; `screen.rs`: the
//!   terminal.

mod rows;
mod screen;
mod selection;

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use kinform::source::Wire;
use kinform::{
    DiskCache, Informer, InformerFactory, Notification, ReflectorOptions, Report, ReportEvent,
};
use kube_client::Client;
use kube_core::DynamicObject;

use self::rows::Rows;
use self::screen::Screen;
use self::selection::Selection;
use crate::args::reading::WatchArgs;
use crate::catalogue::ResourceEntry;
use crate::connect::{Connection, split_name, split_types};
use crate::exit::{Ending, Failure};
use crate::output::change::{Change, EventWords, Printer, WatchOutput};
use crate::output::line::{Event, Summary};
use crate::progress;
use crate::signals::Signals;
use crate::sync::{REJECTED_HINT, is_rejected};

/// BOUND: notifications written between two flushes.
const BATCH: usize = 1024;

/// One watched type.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) entry: ResourceEntry,
    informer: Informer<DynamicObject>,
    synced: bool,
    has_reported_pages: bool,
    /// The last failure that was printed, and the time.
    printed: Option<(String, Instant)>,
    /// True if a request that the server rejects is the end.
    gives_up: bool,
}

/// Informers to be followed.
pub(crate) struct Following {
    /// The client that is asked how many objects there are, if there is a server.
    pub(crate) client: Option<Client>,
    pub(crate) factory: InformerFactory,
    pub(crate) watched: Vec<Watched>,
    /// At the end, the time without a change after which everything was heard.
    pub(crate) quiet: Option<Duration>,
}

/// A failure that comes with each try is printed once in this time.
const REPEATED: Duration = Duration::from_secs(60);

impl Watched {
    pub(crate) fn new(entry: ResourceEntry, informer: Informer<DynamicObject>) -> Self {
        Self {
            entry,
            informer,
            synced: false,
            has_reported_pages: false,
            printed: None,
            gives_up: true,
        }
    }

    /// The same, which goes on whatever its source says.
    pub(crate) fn without_giving_up(self) -> Self {
        Self {
            gives_up: false,
            ..self
        }
    }

    /// Returns whether this failure was printed a moment ago. If not, it is printed now.
    fn has_printed(&mut self, message: &str) -> bool {
        let now = Instant::now();
        let last = self.printed.as_ref();
        let is_repeated = last.is_some_and(|(said, at)| said == message && now - *at < REPEATED);
        if !is_repeated {
            self.printed = Some((message.to_owned(), now));
        }
        is_repeated
    }
}

/// The output of an informer, with the index of its type.
enum WatchInput {
    Change(usize, Notification<DynamicObject>),
    Report(usize, Box<Report>),
}

/// Watches until a signal or the end of the time.
pub(crate) async fn run(args: WatchArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let started = Instant::now();
    let mut elapsed = elapsed(args.run_for).boxed();
    // A mistake in it is an error before a server is asked.
    Selection::parse(args.expression.as_deref())?;
    let following = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        () = &mut elapsed => return Ok(Ending::NeverSynced),
        ready = set_up(&args) => ready?,
    };
    follow(&args, following, (signals, started), elapsed).await
}

/// Prints what informers say until a signal, or until `elapsed` is over.
pub(crate) async fn follow(
    args: &WatchArgs,
    following: Following,
    (mut signals, started): (Signals, Instant),
    mut elapsed: BoxFuture<'_, ()>,
) -> Result<Ending, Failure> {
    let selection = Selection::parse(args.expression.as_deref())?;
    let Following {
        client,
        factory,
        mut watched,
        quiet,
    } = following;
    let mut heard = listen(&watched)?.ready_chunks(BATCH);
    factory.start().map_err(failure)?;

    let mut view = View::new(args, selection)?;
    let syncing = watched
        .iter()
        .map(|one| (one.entry.title(), one.informer.clone()));
    let mut progress = match client {
        Some(client) => progress::tell(client, syncing.collect()).boxed(),
        None => std::future::pending().boxed(),
    };
    let mut is_syncing = true;
    let ending = loop {
        tokio::select! {
            biased;
            ending = signals.ending() => break ending,
            ending = view.tick(&watched) => match ending? {
                Some(ending) => break ending,
                None => continue,
            },
            () = &mut progress, if is_syncing => is_syncing = false,
            () = &mut elapsed => {
                if let Some(quiet) = quiet {
                    while let Ok(Some(batch)) = tokio::time::timeout(quiet, heard.next()).await {
                        tell_all(args, &mut view, &mut watched, batch)?;
                    }
                }
                break if watched.iter().all(|w| w.synced) { Ending::Done } else { Ending::NeverSynced };
            }
            batch = heard.next() => {
                let Some(batch) = batch else { break Ending::Done };
                tell_all(args, &mut view, &mut watched, batch)?;
            }
        }
    };
    signals.end_at_next();
    let summary = summary(&watched, started);
    view.close(&watched)?;
    tell_summary(args, &mut view, &summary)?;
    factory.shutdown_within(Duration::from_secs(2)).await;
    Ok(ending)
}

fn tell_all(
    args: &WatchArgs,
    view: &mut View,
    watched: &mut [Watched],
    batch: Vec<WatchInput>,
) -> Result<(), Failure> {
    for one in batch {
        tell(args, view, watched, one)?;
    }
    view.printer.flush()
}

fn tell_summary(args: &WatchArgs, view: &mut View, summary: &Summary) -> Result<(), Failure> {
    if args.output == Some(WatchOutput::Json) && !args.output_watch_events {
        view.printer.json(summary)?;
        return view.printer.flush();
    }
    crate::progress!(
        "{} objects, {} events, {} relists, {} reopened watches, {} unreadable objects in {:.1} s",
        summary.objects,
        summary.events,
        summary.relists,
        summary.reopens,
        summary.quarantined,
        summary.seconds
    );
    Ok(())
}

async fn set_up(args: &WatchArgs) -> Result<Following, Failure> {
    let connection = Connection::open(&args.cluster).await?;
    let words: Vec<(String, Option<String>)> = split_types(&args.types)
        .iter()
        .map(|word| split_name(word))
        .collect();
    let kinds: Vec<String> = words.iter().map(|(kind, _)| kind.clone()).collect();
    let entries = connection.resolve(&kinds).await?;
    let mut options = ReflectorOptions::new();
    if let Some(limit) = args.silence_limit {
        options = options
            .with_silence_limit(limit)
            .with_progress_limit(limit.max(Duration::from_secs(1)));
    }
    let factory = InformerFactory::builder(connection.client.clone())
        .reflector(options)
        // All fields of the server are printed, also those that this version does not know.
        .wire(Wire::Json)
        .disk_cache(args.cache_dir.as_ref().map(DiskCache::in_dir))
        .build();
    let watched = entries
        .into_iter()
        .zip(&words)
        .map(|(entry, (_, name))| {
            let info = connection.info(&entry, &args.select, name.as_deref());
            let informer = factory.select::<DynamicObject>(info).build();
            Watched::new(entry, informer)
        })
        .collect();
    Ok(Following {
        client: Some(connection.client),
        factory,
        watched,
        quiet: None,
    })
}

fn listen(watched: &[Watched]) -> Result<BoxStream<'static, WatchInput>, Failure> {
    let mut streams: Vec<BoxStream<'static, WatchInput>> = Vec::new();
    for (place, watched) in watched.iter().enumerate() {
        let changes = watched.informer.changes().map_err(failure)?;
        streams.push(
            changes
                .map(move |change| WatchInput::Change(place, change))
                .boxed(),
        );
        let reports = watched.informer.reports();
        streams.push(
            reports
                .map(move |report| WatchInput::Report(place, Box::new(report)))
                .boxed(),
        );
    }
    Ok(stream::select_all(streams).boxed())
}

fn tell(
    args: &WatchArgs,
    view: &mut View,
    watched: &mut [Watched],
    input: WatchInput,
) -> Result<(), Failure> {
    match input {
        WatchInput::Change(place, change) => {
            if let Notification::Synced = change {
                let watched = &mut watched[place];
                watched.synced = true;
                let version = watched
                    .informer
                    .snapshot()
                    .versions()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                view.printer.synced(&watched.entry, &version)?;
                crate::progress!(
                    "{}: {} objects, synced at {version}",
                    watched.entry.title(),
                    watched.informer.store().len()
                );
                return Ok(());
            }
            let Some(change) = Change::of(&change) else {
                return Ok(());
            };
            let Some(change) = view.selection.select(place, change)? else {
                return Ok(());
            };
            if args.watch_only && change.initial == Some(true) {
                return Ok(());
            }
            view.change(place, &watched[place].entry, &change)
        }
        WatchInput::Report(place, report) => {
            tell_report(&mut view.printer, &mut watched[place], &report)
        }
    }
}

/// Prints a report: a failure and a quarantined object as data, too.
fn tell_report(
    printer: &mut Printer,
    watched: &mut Watched,
    report: &Report,
) -> Result<(), Failure> {
    let is_repeated = match &report.event {
        ReportEvent::Failed(trouble) => watched.has_printed(&trouble.message),
        // A list comes with each watch that is refused.
        ReportEvent::Listed { relist, .. } => relist.as_deref() == Some("watch refused"),
        _ => false,
    };
    let Watched {
        entry,
        has_reported_pages,
        synced,
        gives_up,
        ..
    } = watched;
    match &report.event {
        ReportEvent::Failed(trouble) => {
            printer.error(
                entry,
                &report.time,
                &trouble.reason,
                &trouble.message,
                trouble.retry_in,
            )?;
            if *gives_up && !*synced && is_rejected(trouble) {
                let message = format!("{}: {}", entry.title(), trouble.message);
                return Err(Failure::new(message).with_hint(REJECTED_HINT));
            }
            if !is_repeated {
                let (title, words) = (entry.title(), &trouble.message);
                crate::progress!("{title}: {words}");
                if let Some(hint) = hint(&trouble.reason) {
                    crate::progress!("  hint: {hint}");
                }
            }
        }
        ReportEvent::Quarantined(object) => printer.unreadable(entry, &report.time, object)?,
        ReportEvent::Listed {
            version,
            relist: Some(why),
        } if !is_repeated => {
            crate::progress!("{}: listed again at {version}: {why}", entry.title());
        }
        // A refusal comes with each try, but is printed once.
        ReportEvent::FellBack { reason } if !*has_reported_pages => {
            *has_reported_pages = true;
            crate::progress!("{}: lists by pages: {reason}", entry.title());
        }
        ReportEvent::SnapshotRefused { reason } | ReportEvent::SnapshotFailed { reason } => {
            crate::progress!("{}: --cache-dir: {reason}", entry.title());
        }
        ReportEvent::Silent { quiet } => {
            crate::progress!(
                "{}: silent for {:.0} s, opening the watch again",
                entry.title(),
                quiet.as_secs_f64()
            );
        }
        ReportEvent::Lost(count) => {
            crate::progress!("{}: {count} reports were lost", entry.title())
        }
        other => tracing::debug!("{}: {other:?}", entry.title()),
    }
    Ok(())
}

/// The hint for a failure that does not pass by itself.
fn hint(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "Forbidden" => {
            "list and watch are rights of their own; `kubectl auth can-i watch TYPE` tells"
        }
        "Unauthorized" => "the token or certificate is wrong or has expired",
        "NotKubernetes" => "a proxy or login page in between?",
        "NotFound" => "its definition is not installed (any more); waiting for it",
        _ => return None,
    })
}

/// The place where changes are shown: lines on stdout, or rows on a full screen.
struct View {
    printer: Printer,
    selection: Selection,
    full: Option<(Screen, Rows)>,
}

impl View {
    fn new(args: &WatchArgs, selection: Selection) -> Result<Self, Failure> {
        let words = match args.output_watch_events {
            true => EventWords::Server,
            false => EventWords::Handler,
        };
        let screen = match args.output {
            None => Screen::open()?,
            Some(_) => None,
        };
        let form = args.output.unwrap_or(WatchOutput::Wide);
        Ok(Self {
            printer: Printer::new(form, words),
            selection,
            full: screen.map(|screen| (screen, Rows::new(words))),
        })
    }

    fn change(
        &mut self,
        place: usize,
        entry: &ResourceEntry,
        change: &Change<'_>,
    ) -> Result<(), Failure> {
        match &mut self.full {
            Some((_, rows)) => {
                rows.hear(place, entry, change, Instant::now());
                Ok(())
            }
            None => self.printer.change(entry, change),
        }
    }

    /// Waits until the screen is due, then reads keys and draws it. Without a screen it waits for
    /// ever.
    async fn tick(&mut self, watched: &[Watched]) -> Result<Option<Ending>, Failure> {
        let Some((screen, rows)) = &mut self.full else {
            return std::future::pending().await;
        };
        screen.due().await;
        if let Some(ending) = screen.keys()? {
            return Ok(Some(ending));
        }
        let synced = watched.iter().filter(|one| one.synced).count();
        let titles: Vec<String> = watched.iter().map(|one| one.entry.title()).collect();
        let head = match synced == watched.len() {
            true => titles.join(", "),
            false => format!(
                "{}: {synced} of {} types synced",
                titles.join(", "),
                watched.len()
            ),
        };
        screen.draw(&head, watched.len(), rows)?;
        Ok(None)
    }

    /// Gives the terminal back, and leaves the rows on it.
    fn close(&mut self, watched: &[Watched]) -> Result<(), Failure> {
        let Some((screen, rows)) = self.full.take() else {
            return Ok(());
        };
        drop(screen);
        self.printer.text(&rows.table(watched.len()))?;
        self.printer.flush()
    }
}

fn summary(watched: &[Watched], started: Instant) -> Summary {
    let mut summary = Summary {
        event: Event::Summary,
        objects: 0,
        events: 0,
        relists: 0,
        reopens: 0,
        quarantined: 0,
        seconds: started.elapsed().as_secs_f64(),
    };
    for watched in watched {
        let stats = watched.informer.stats();
        summary.objects += stats.objects;
        summary.events += stats.events;
        summary.relists += stats.relists;
        summary.reopens += stats.reopens;
        summary.quarantined += stats.quarantined;
    }
    summary
}

/// Waits for the end of a time; for ever without one.
pub(crate) async fn elapsed(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// An error of the library in the user's terms.
pub(crate) fn failure(error: kinform::Error) -> Failure {
    Failure::new(error.to_string())
}
