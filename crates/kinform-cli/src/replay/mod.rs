//! `kinform replay`: a recording again, as changes or as an API server.
//!
//! ```text
//! file → ReplaySource → informer ─┬─▶ lines, as `kinform watch` prints them
//!                                 └─▶ embedded server → COMMAND with its KUBECONFIG
//! ```
//!
//! Nothing is asked of a cluster. Changes end with the recording; a command runs as long as it likes.
//!
//! * `paced.rs`: the source of `--speed max`, which waits for handlers and for nothing else.
//! * `served.rs`: the server and the command.

mod paced;
mod served;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use kinform::env::Env;
use kinform::recording::{Pace, ReplaySource, ReplayState};
use kinform::source::ListerWatcher;
use kinform::{FactoryBuilder, Informer, InformerFactory};
use kube_core::DynamicObject;

use self::paced::Paced;
use crate::args::reading::WatchArgs;
use crate::args::recording::{ReplayArgs, Speed};
use crate::catalogue::ResourceEntry;
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::watch::{Following, Watched, failure, follow};

/// The time without a change after which everything that was sent has been heard.
const QUIET: Duration = Duration::from_millis(300);

/// Replays until the end of the recording, or of the command.
pub(crate) async fn run(args: ReplayArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let source = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        opened = ReplaySource::open(&args.file) => opened.map_err(failure)?,
    };
    let (env, pace) = match args.speed {
        Speed::Times(factor) => (Env::system().with_speed(factor), Pace::Recorded),
        Speed::Most => (Env::system(), Pace::AtOnce),
    };
    let source = Arc::new(source.with_pace(pace).with_env(env.clone()));
    tell_of(&source);
    let paced = (args.speed == Speed::Most).then(|| Arc::new(Paced::new(Arc::clone(&source))));
    let replay = Replay { source, paced, env };
    let ending = match args.command.is_empty() {
        true => printed(&args, &replay, signals).await,
        false => served::run(&args, &replay, signals).await,
    };
    let stats = replay.source.stats();
    if stats.otherwise > 0 {
        crate::progress!(
            "{} of {} requests got the answer to another one: without waiting, an informer decides otherwise",
            stats.otherwise,
            stats.answered
        );
    }
    ending
}

/// A recording that is replayed, and the clock of the replay.
struct Replay {
    source: Arc<ReplaySource>,
    /// With `--speed max`: stands between the source and the informer.
    paced: Option<Arc<Paced>>,
    env: Env,
}

impl Replay {
    /// A factory over the recording, by its clock.
    fn factory(&self) -> FactoryBuilder {
        let source: Arc<dyn ListerWatcher> = match &self.paced {
            Some(paced) => Arc::clone(paced) as _,
            None => Arc::clone(&self.source) as _,
        };
        InformerFactory::with_sources(move |_, _| Arc::clone(&source)).env(self.env.clone())
    }

    /// With `--speed max`, sends only as fast as the handlers of this informer hear.
    fn wait_for(&self, informer: &Informer<DynamicObject>) {
        if let Some(paced) = &self.paced {
            paced.wait_for(informer);
        }
    }
}

/// Prints what was recorded, and what is wrong with the file.
fn tell_of(source: &ReplaySource) {
    let recording = source.recording();
    let started = &recording.subject().started;
    let seconds = recording.length().as_secs_f64();
    crate::progress!(
        "{}: {seconds:.1} s, recorded at {started}",
        source.resource()
    );
    if let Some(damage) = recording.damage() {
        crate::progress!("  the file is not whole ({damage}): what is before is replayed");
    }
    if recording.has_gaps() {
        crate::progress!("  the recording has gaps: its disk was too slow");
    }
}

async fn printed(args: &ReplayArgs, replay: &Replay, signals: Signals) -> Result<Ending, Failure> {
    let (source, started) = (&replay.source, Instant::now());
    let factory = replay.factory().build();
    let informer = factory.select(source.resource().clone()).build();
    replay.wait_for(&informer);
    let watched = Watched::new(entry(source), informer).without_giving_up();
    let words = WatchArgs {
        types: Vec::new(),
        cluster: Default::default(),
        select: Default::default(),
        watch_only: args.watch_only,
        run_for: None,
        expression: args.expression.clone(),
        output_watch_events: args.output_watch_events,
        output: args.output,
        cache_dir: None,
        silence_limit: None,
    };
    let following = Following {
        client: None,
        factory,
        watched: vec![watched],
        quiet: Some(QUIET),
    };
    let ended = source.ended().boxed();
    let ending = follow(&words, following, (signals, started), ended).await?;
    Ok(match ending {
        // A recording of a server that never answered is replayed when it ends.
        Ending::NeverSynced if source.stats().state == ReplayState::Ended => Ending::Done,
        other => other,
    })
}

/// The recorded type, as far as a recording says it.
fn entry(source: &ReplaySource) -> ResourceEntry {
    let info = source.resource();
    ResourceEntry {
        gvr: info.resource.clone(),
        kind: info.kind.clone(),
        singular: info.kind.to_lowercase(),
        short_names: Vec::new(),
        scope: info.scope,
        verbs: Vec::new(),
    }
}
