//! `kinform record`: what a server sends about one resource, as a file.
//!
//! ```text
//! connection → source → Recorder → informer (lists, watches, tries again)     Recorder → file
//! ```
//!
//! An informer asks, so that its relists, retries and watches are what is recorded. It ends at a signal
//! or after a time; the file is whole then, and readable up to its last seconds if the process is
//! killed. Values of Secrets are digests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kinform::recording::{Recorder, RecorderStats};
use kinform::source::{HttpSource, Wire};
use kinform::{Informer, InformerFactory, Report, ReportEvent};
use kube_core::DynamicObject;

use crate::args::recording::RecordArgs;
use crate::connect::{Connection, split_name};
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::sync::{REJECTED_HINT, is_rejected};
use crate::watch::{elapsed, failure};

/// An informer that is recorded.
struct Recording {
    title: String,
    recorder: Arc<Recorder>,
    factory: InformerFactory,
    informer: Informer<DynamicObject>,
}

/// Records until a signal or the end of the time.
pub(crate) async fn run(args: RecordArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let mut elapsed = Box::pin(elapsed(args.run_for));
    let recording = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        () = &mut elapsed => return Ok(Ending::NeverSynced),
        ready = set_up(&args) => ready?,
    };
    let mut reports = recording.informer.reports();
    recording.factory.start().map_err(failure)?;
    let title = &recording.title;
    crate::progress!("{title}: recording to {}", args.out.display());
    if recording.informer.resource().is_secrets() {
        crate::progress!("  values of Secrets are digests in it, with a key that is not kept");
    }
    let mut last_failure = String::new();
    let ending = loop {
        tokio::select! {
            biased;
            ending = signals.ending() => break Ok(ending),
            () = &mut elapsed => break Ok(match recording.informer.has_synced() {
                true => Ending::Done,
                false => Ending::NeverSynced,
            }),
            Some(report) = reports.next() => {
                if let Err(failed) = tell(&recording, &report, &mut last_failure) {
                    break Err(failed);
                }
            }
        }
    };
    signals.end_at_next();
    recording
        .factory
        .shutdown_within(Duration::from_secs(2))
        .await;
    // What was read until then is in the recording.
    let objects = recording.informer.store().len();
    let events = recording.informer.stats().events;
    let stats = recording.recorder.finish().await.map_err(failure)?;
    let sizes = Sizes(&stats);
    crate::progress!("{title}: {objects} objects, {events} events; {sizes}");
    ending
}

async fn set_up(args: &RecordArgs) -> Result<Recording, Failure> {
    let connection = Connection::open(&args.cluster).await?;
    let (kind, name) = split_name(&args.word);
    let mut entries = connection.resolve(&[kind]).await?;
    // A word names one type.
    let entry = entries.remove(0);
    let info = connection.info(&entry, &args.select, name.as_deref());
    // JSON has all fields of the server, also those that this version does not know.
    let source = HttpSource::new(connection.client, info.clone()).with_wire(Wire::Json);
    let recorder = Recorder::create(Arc::new(source), &args.out).map_err(failure)?;
    let recorder = Arc::new(recorder);
    let source = Arc::clone(&recorder);
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _).build();
    let informer = factory.select::<DynamicObject>(info).build();
    Ok(Recording {
        title: entry.title(),
        recorder,
        factory,
        informer,
    })
}

/// Prints what a user should know. A request that the server rejects is the end.
fn tell(recording: &Recording, report: &Report, last: &mut String) -> Result<(), Failure> {
    let title = &recording.title;
    match &report.event {
        ReportEvent::Failed(trouble) => {
            if !recording.informer.has_synced() && is_rejected(trouble) {
                let message = format!("{title}: {}", trouble.message);
                return Err(Failure::new(message).with_hint(REJECTED_HINT));
            }
            // A failure comes with each try.
            if *last != trouble.message {
                last.clone_from(&trouble.message);
                crate::progress!("{title}: {}", trouble.message);
            }
        }
        ReportEvent::Listed { version, relist } => {
            let again = relist.as_deref().map(|why| format!(" again: {why}"));
            let again = again.unwrap_or_default();
            crate::progress!("{title}: listed at {version}{again}");
        }
        other => tracing::debug!("{title}: {other:?}"),
    }
    Ok(())
}

/// The sizes of a recording, for people.
struct Sizes<'a>(&'a RecorderStats);

impl fmt::Display for Sizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        let RecorderStats {
            body_bytes,
            file_bytes,
            gaps,
            ..
        } = self.0;
        write!(
            f,
            "{:.1} KiB of {:.1} KiB that came",
            kib(*file_bytes),
            kib(*body_bytes)
        )?;
        match gaps {
            0 => Ok(()),
            1 => f.write_str("; 1 gap, since the disk was too slow"),
            gaps => write!(f, "; {gaps} gaps, since the disk was too slow"),
        }
    }
}
