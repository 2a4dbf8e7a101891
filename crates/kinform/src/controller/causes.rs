//! The causes of a run, and the last runs of a controller.
//!
//! ```text
//! queue: causes, reasons ─▶ run begins: own writes named ─▶ Ctx, span ─▶ ended: History (1,024 runs)
//! ```
//!
//! A key that is idle has no record. A run has at least one cause.
//!
//! Upstream counterpart: none (`controller-runtime#1997`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kinform_api::ObjectKey;
use kinform_core::causes::{Cause as Known, Causes as Record};
pub use kinform_core::causes::{Event as CauseEvent, Origin};
use kinform_core::object::changed::Changed;
use kinform_core::queue::{Priority, Waiting, Waits};
use kinform_core::time::Instant;

use crate::source::ResourceInfo;
use crate::sync::lock;

/// BOUND: runs that a controller keeps, a few hundred bytes each.
const RUNS: usize = 1024;

/// The causes of a run: events, retries, wake-ups. The last 8 are kept.
#[derive(Clone)]
pub struct Causes(Arc<Began>);

struct Began {
    key: ObjectKey,
    sources: Arc<[ResourceInfo]>,
    causes: Record,
    started: Instant,
    waited: Duration,
}

/// One cause of a run.
#[derive(Clone, Copy)]
pub struct Cause<'a> {
    run: &'a Began,
    known: &'a Known,
}

impl Causes {
    /// The causes of a run of `key` that starts now and was ready for `waited`.
    pub(super) fn new(
        key: ObjectKey,
        sources: &Arc<[ResourceInfo]>,
        causes: Record,
        (started, waited): (Instant, Duration),
    ) -> Self {
        Self(Arc::new(Began {
            key,
            sources: Arc::clone(sources),
            causes,
            started,
            waited,
        }))
    }

    /// The causes of a key that waits, as they are `now`.
    pub(super) fn so_far(
        waiting: Waiting<ObjectKey>,
        sources: &Arc<[ResourceInfo]>,
        now: Instant,
    ) -> Self {
        let age = waiting.waits.age();
        let mut record = waiting.causes;
        for event in waiting.reasons.events() {
            let mut cause = Known::of(event);
            cause.enqueued = now - age;
            match &mut record {
                Some(record) => record.add(cause),
                None => record = Some(Record::of(cause)),
            }
        }
        // A key that waits for its wake-up time alone has no reason yet.
        let record = record.unwrap_or_else(|| Record::of(Known::of(CauseEvent::Woken)));
        Self::new(waiting.key, sources, record, (now, age))
    }

    /// The key of the causes.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.0.key
    }

    /// The bare record, for a key that is not worked on now.
    pub(super) fn into_record(self) -> Record {
        match Arc::try_unwrap(self.0) {
            Ok(run) => run.causes,
            Err(run) => run.causes.clone(),
        }
    }

    /// The causes, the oldest first; at least one.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Cause<'_>> {
        let run = &*self.0;
        run.causes.iter().map(move |known| Cause { run, known })
    }

    /// The number of older causes that were not kept.
    #[must_use]
    pub fn left_out(&self) -> u32 {
        self.0.causes.left_out()
    }

    /// The number of all causes: those kept, those merged into them and those left out.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.causes.total()
    }

    /// Returns whether all causes are writes of this controller, as far as it knows.
    #[must_use]
    pub fn are_own(&self) -> bool {
        self.0.causes.are_own()
    }

    /// The time between the moment when the key was ready and the start of the run.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.0.waited
    }
}

impl<'a> Cause<'a> {
    /// The event.
    #[must_use]
    pub fn event(self) -> CauseEvent {
        self.known.event
    }

    /// The resource of the object; `None` if it is no event of an object.
    #[must_use]
    pub fn source(self) -> Option<&'a ResourceInfo> {
        let source = self.run.sources.get(usize::from(self.known.source));
        source.filter(|_| self.known.event.is_of_object())
    }

    /// The key of the object of the event; else the key that is reconciled.
    #[must_use]
    pub fn key(self) -> &'a ObjectKey {
        self.known.key.as_ref().unwrap_or(&self.run.key)
    }

    /// The version of the object, if it is a number.
    #[must_use]
    pub fn version(self) -> Option<u64> {
        self.known.version.map(std::num::NonZeroU64::get)
    }

    /// The parts that an update changed.
    #[must_use]
    pub fn changed(self) -> Changed {
        self.known.changed
    }

    /// The writer of that version: this controller or another.
    #[must_use]
    pub fn origin(self) -> Origin {
        self.known.origin
    }

    /// The number of further equal causes that came meanwhile.
    #[must_use]
    pub fn merged(self) -> u32 {
        self.known.merged
    }

    /// The time between this cause and the start of the run.
    #[must_use]
    pub fn waited(self) -> Duration {
        self.run.started.since(self.known.enqueued)
    }
}

impl fmt::Display for Cause<'_> {
    /// `updated ConfigMap a/x@7 status own`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.event().name())?;
        if let Some(source) = self.source() {
            write!(f, " {}", source.kind)?;
        }
        if let Some(key) = &self.known.key {
            write!(f, " {key}")?;
        }
        if let Some(version) = self.version() {
            write!(f, "@{version}")?;
        }
        if !self.changed().is_empty() {
            write!(f, " {}", self.changed())?;
        }
        if self.origin() == Origin::Own {
            f.write_str(" own")?;
        }
        Ok(())
    }
}

impl fmt::Display for Causes {
    /// The last cause, and the number of the others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(last) = self.iter().next_back() {
            last.fmt(f)?;
        }
        match self.total().saturating_sub(1) {
            0 => Ok(()),
            others => write!(f, " +{others}"),
        }
    }
}

impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cause({self})")
    }
}

/// A key that waits for a worker, or for its time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingKey {
    /// The thing that it waits for.
    pub waits: Waits,
    /// The lane of its next run.
    pub priority: Priority,
    /// The number of its failures in a row.
    pub failures: u32,
    /// Why it will run; without the mark of own writes, which is set when the run begins.
    pub causes: Causes,
}

impl WaitingKey {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.causes.key()
    }
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The reconcile function succeeded.
    Succeeded,
    /// It failed, panicked, or met its deadline.
    Failed,
    /// The object was gone, and there is no function for that.
    Gone,
    /// The object did not decode.
    Undecodable,
    /// Its shard became another replica's: the run was dropped at its next await.
    Lost,
}

/// One of the last runs of a controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecentRun {
    /// Why it ran.
    pub causes: Causes,
    /// When it started.
    pub started: Timestamp,
    /// The time that it took.
    pub took: Duration,
    /// Its end.
    pub outcome: RunOutcome,
}

impl RecentRun {
    /// The key that was reconciled.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.causes.0.key
    }
}

/// The last runs.
#[derive(Debug, Default)]
pub(super) struct History {
    // BOUND: `RUNS`.
    runs: Mutex<VecDeque<RecentRun>>,
}

impl History {
    pub(super) fn add(&self, run: RecentRun) {
        let mut runs = lock(&self.runs);
        let oldest = if runs.len() >= RUNS {
            runs.pop_front()
        } else {
            None
        };
        runs.push_back(run);
        drop(runs);
        // Freed outside of the lock.
        drop(oldest);
    }

    pub(super) fn read(&self) -> Vec<RecentRun> {
        lock(&self.runs).iter().cloned().collect()
    }
}
