//! The outlet of one watch: its counters, and the broadcast of its reports.
//!
//! ```text
//! loop, handlers, readers → Reporter ─┬─▶ Telemetry → InformerStats
//!                                     └─▶ broadcast → Reports
//! ```
//!
//! Every part that reports holds a reporter, so it need not know the informer. A handle of an
//! object holds [`Reporters`], which finds the watch of a namespace and keeps no cache alive.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`WatchErrorHandler`).

use std::sync::{Arc, Mutex, Weak};

use futures::Stream;
use futures::stream;
use kinform_core::object::typed::DecodeError;
use tokio::sync::broadcast;

use crate::metrics::Telemetry;
use crate::report::{Report, ReportEvent};
use crate::sync::lock;

/// BOUND: reports kept for a subscriber that is late; one is about 200 bytes.
const REPORTS_KEPT: usize = 256;

/// Counts and reports for one watch.
#[derive(Debug)]
pub(crate) struct Reporter {
    pub(crate) telemetry: Telemetry,
    sender: broadcast::Sender<Report>,
}

impl Reporter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            telemetry: Telemetry::default(),
            sender: broadcast::Sender::new(REPORTS_KEPT),
        })
    }

    /// Sends a report to every subscriber; having none is normal.
    pub(crate) fn report(&self, event: ReportEvent) {
        let _ = self.sender.send(Report::now(event));
    }

    /// The reports from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Report> {
        self.sender.subscribe()
    }
}

/// The reports of one watch.
pub(crate) fn stream_of(
    receiver: broadcast::Receiver<Report>,
) -> impl Stream<Item = Report> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        let report = match receiver.recv().await {
            Ok(report) => report,
            Err(broadcast::error::RecvError::Lagged(lost)) => Report::now(ReportEvent::Lost(lost)),
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((report, receiver))
    })
}

/// The reporters of an informer's watches by namespace; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reporters(Arc<Mutex<Vec<ByNamespace>>>);

/// The namespace of a watch, if it has one, and its reporter.
type ByNamespace = (Option<String>, Weak<Reporter>);

impl Reporters {
    /// Replaces the reporters: one for each namespace watched, or one without a namespace for all.
    pub(crate) fn replace<'a>(
        &self,
        all: impl Iterator<Item = (Option<&'a str>, &'a Arc<Reporter>)>,
    ) {
        // Weak: an object that a caller keeps must not keep a stream of reports from ending.
        let all = all.map(|(namespace, one)| (namespace.map(str::to_owned), Arc::downgrade(one)));
        *lock(&self.0) = all.collect();
    }

    /// Counts and reports an object that a reader left out because it does not decode.
    pub(crate) fn undecodable(&self, error: &DecodeError) {
        let reporter = self.of(error.key().key_ref().namespace);
        if let Some(reporter) = &reporter {
            reporter.telemetry.undecodable();
        }
        // There may be as many as there are objects, and the step of the budget was reported.
        if error.is_given_up() {
            return;
        }
        tracing::warn!(%error, "an object is left out");
        if let Some(reporter) = reporter {
            reporter.report(ReportEvent::Undecodable {
                key: error.key().clone(),
                reason: error.to_string(),
            });
        }
    }

    fn of(&self, namespace: &str) -> Option<Arc<Reporter>> {
        let all = lock(&self.0);
        let is_its = |watched: &Option<String>| watched.as_deref().is_none_or(|w| w == namespace);
        let found = all.iter().find(|(watched, _)| is_its(watched));
        found.and_then(|(_, reporter)| reporter.upgrade())
    }
}
