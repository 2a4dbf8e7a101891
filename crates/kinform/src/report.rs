//! Events in the life of an informer, reported in order to subscribers.
//!
//! ```text
//! reflectors' events, applied batches, handlers' panics → Report → Reports (a stream), tracing
//! ```
//!
//! For people, dashboards and tests: no code decides by them. A subscriber that does not keep up
//! loses the oldest reports and receives their number. Messages carry a server's statement about a
//! request, never objects.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`SetWatchErrorHandler`).

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::stream::{BoxStream, StreamExt};
use jiff::Timestamp;
use kinform_api::ObjectKey;
use kinform_core::delta::Quarantine;
use kinform_core::informer::audit::Divergence;
use kinform_core::reflector::report::{Problem, ProblemKind, ReflectorEvent};
use kinform_core::store::index::IndexFailure;

use crate::memory::{MemoryStep, MemoryUse};
use crate::state::{InformerState, Trouble};

/// One report: a time and an event.
#[derive(Clone, Debug)]
pub struct Report {
    /// The time of the event.
    pub time: Timestamp,
    /// The event that is reported.
    pub event: ReportEvent,
}

/// An event in the life of an informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReportEvent {
    /// The state changed.
    State(InformerState),
    /// A request failed, or a watch broke, and is tried again.
    Failed(Trouble),
    /// A whole list was stored.
    Listed {
        /// Its version.
        version: String,
        /// The reason of a relist; `None` for the first list.
        relist: Option<String>,
    },
    /// The cache was read from disk: it can be read, and is stale until [`Resumed`](Self::Resumed) or
    /// [`Listed`](Self::Listed).
    Restored {
        /// The number of objects.
        objects: usize,
        /// The version of the snapshot.
        version: String,
    },
    /// The objects that were read from disk were brought up to date without a list.
    Resumed {
        /// The version of the snapshot.
        from: String,
        /// The version that was reached.
        version: String,
    },
    /// A snapshot on disk is not used; everything is listed.
    SnapshotRefused {
        /// The reason, in one line.
        reason: String,
    },
    /// The cache could not be written to disk; it is tried again later.
    SnapshotFailed {
        /// The reason, in one line.
        reason: String,
    },
    /// A watch continues at the version where the one before stopped.
    Reopened {
        /// The version.
        version: String,
    },
    /// A streaming list was abandoned for pages.
    FellBack {
        /// The reason.
        reason: String,
    },
    /// A watch was silent for longer than bookmarks allow.
    Silent {
        /// The duration of the silence.
        quiet: Duration,
    },
    /// The server's version went back: the server was restored, emptied or replaced.
    ServerWentBack {
        /// The version that the server stated before.
        from: String,
        /// The version that the server states now.
        to: String,
    },
    /// An object was quarantined because it could not be parsed, or because its list had another of
    /// its name.
    Quarantined(Quarantine),
    /// A list had an item whose name could not be read. It may be any of the objects that the list did
    /// not name: they are kept until a list tells.
    DeletionsWithheld {
        /// The number of these objects.
        objects: usize,
    },
    /// An object is stored with U+FFFD in place of bytes that are not UTF-8, as Go's JSON shows
    /// them. Protobuf only.
    Mended {
        /// The object.
        key: ObjectKey,
        /// The path of the first such text.
        path: String,
    },
    /// An object is stored but left out of an index.
    Unindexed {
        /// The index.
        index: String,
        /// The object.
        key: ObjectKey,
        /// The reason.
        reason: String,
    },
    /// A reader left an object out because it does not decode.
    Undecodable {
        /// The object.
        key: ObjectKey,
        /// The reason.
        reason: String,
    },
    /// A handler panicked on an object; it continues with the next.
    HandlerPanicked {
        /// Its name.
        handler: String,
        /// The object, if the call was about one.
        key: Option<ObjectKey>,
    },
    /// An unknown part of a stream was skipped, which no server sends today.
    Skipped {
        /// A few words about it.
        what: String,
    },
    /// The cache was compared with the server's list at the same version; see
    /// [`ReflectorOptions::with_audit_period`](crate::ReflectorOptions::with_audit_period).
    Compared {
        /// The version.
        version: String,
        /// The difference, if there is one; the resource is then listed again.
        divergence: Option<Divergence>,
    },
    /// The store of a [`Reflector`](crate::Reflector) failed: everything is listed again.
    StoreFailed {
        /// The reason.
        reason: String,
        /// The delay until the next list, from the time of this report.
        relist_in: Duration,
    },
    /// The informer gave something up to hold the memory budget, or has it again; or the budget cannot be held,
    /// or can be again.
    Memory {
        /// The things that are given up now.
        step: MemoryStep,
        /// The reason: the memory of the factory.
        usage: MemoryUse,
    },
    /// This subscriber fell behind and lost this number of reports.
    Lost(u64),
}

impl Report {
    pub(crate) fn now(event: ReportEvent) -> Self {
        Self {
            time: crate::env::wall_clock(),
            event,
        }
    }
}

/// The reports of one informer, from the moment of subscription. Dropping it ends it.
pub struct Reports(BoxStream<'static, Report>);

impl Reports {
    pub(crate) fn of(reports: impl Stream<Item = Report> + Send + 'static) -> Self {
        Self(reports.boxed())
    }
}

impl Stream for Reports {
    type Item = Report;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Report>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reports")
    }
}

/// The report of an object that is left out of an index.
pub(crate) fn unindexed(failure: IndexFailure) -> ReportEvent {
    ReportEvent::Unindexed {
        index: failure.index.to_string(),
        key: failure.key,
        reason: failure.error.to_string(),
    }
}

/// The report of a reflector's event; states are reported separately, see [`crate::state`].
pub(crate) fn translate(event: &ReflectorEvent) -> Option<ReportEvent> {
    Some(match event {
        ReflectorEvent::Retrying { after, problem } => {
            ReportEvent::Failed(trouble(problem, Some(*after)))
        }
        ReflectorEvent::Listed { version, relist } => ReportEvent::Listed {
            version: version.to_string(),
            relist: relist.map(|reason| reason.as_str().to_owned()),
        },
        ReflectorEvent::Resumed { from, version } => ReportEvent::Resumed {
            from: from.to_string(),
            version: version.to_string(),
        },
        ReflectorEvent::Reopened { version } => ReportEvent::Reopened {
            version: version.to_string(),
        },
        ReflectorEvent::FellBack { reason, .. } => ReportEvent::FellBack {
            reason: reason.as_str().to_owned(),
        },
        ReflectorEvent::Silent { quiet } => ReportEvent::Silent { quiet: *quiet },
        ReflectorEvent::EpochChanged { from, to } => ReportEvent::ServerWentBack {
            from: from.to_string(),
            to: to.to_string(),
        },
        ReflectorEvent::Skipped { what } => ReportEvent::Skipped { what: what.clone() },
        ReflectorEvent::State(_) | ReflectorEvent::Relisting { .. } | ReflectorEvent::Aborted => {
            return None;
        }
    })
}

pub(crate) fn trouble(problem: &Problem, retry_in: Option<Duration>) -> Trouble {
    Trouble {
        reason: reason(problem.kind).to_owned(),
        message: problem.to_string(),
        retry_in,
    }
}

/// One word for scripts.
fn reason(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Refused => "ConnectionRefused",
        ProblemKind::Certificate => "CertificateNotAccepted",
        ProblemKind::Transport => "ConnectionFailed",
        ProblemKind::Deadline => "DeadlineExceeded",
        ProblemKind::NotKubernetes => "NotKubernetes",
        ProblemKind::TooManyRequests => "TooManyRequests",
        ProblemKind::Unavailable => "ServiceUnavailable",
        ProblemKind::Internal => "InternalError",
        ProblemKind::StoreRead => "StoreReadError",
        ProblemKind::Unauthorized => "Unauthorized",
        ProblemKind::Forbidden => "Forbidden",
        ProblemKind::NotFound => "NotFound",
        ProblemKind::Expired => "Expired",
        ProblemKind::TooLarge => "ResourceVersionTooLarge",
        ProblemKind::Rejected => "Rejected",
        ProblemKind::Garbled => "Garbled",
        ProblemKind::OverLimit => "OverLimit",
        ProblemKind::VeryShortWatch => "VeryShortWatch",
        ProblemKind::OutOfOrder => "OutOfOrder",
        ProblemKind::Other => "Failure",
    }
}
