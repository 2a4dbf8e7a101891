//! One worker: takes a key, looks its object up, calls the user's function, settles the key.
//!
//! ```text
//! queue.get() → object (decoded) → reconcile, in a span, with a deadline
//!     Ok → forget (+ requeue)      error, panic, deadline → retry when the limiter allows
//! ```
//!
//! All user code (decoding, the call, the future) runs where a panic is caught: it is that key's
//! error. A key is settled on every way out; a worker that is aborted drops its item, which counts
//! as failed.
//!
//! Upstream counterpart: `sample-controller:controller.go` (`processNextWorkItem`).

use std::any::Any;
use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kinform_api::{ObjectKey, mutant};
use kinform_core::causes::{Cause, Causes as Record, Event};
use kinform_core::loops::Finding;
use kinform_core::queue::{Next, Verdict};
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::action::{Action, Ctx};
use super::causes::{Causes, RecentRun, RunOutcome};
use super::conflicts::Conflicts;
use super::echo::Echoes;
use super::findings::{report, show};
use super::outcome::{BoxError, Meaning, chain, meaning};
use super::sharded::Sharded;
use super::signs::{Effects, HOT, Sign};
use super::site::Site;
use super::stats::Counters;
use super::writes::park::Parked;
use super::writes::{Writer, Writes};
use crate::env::{Env, wall_clock};
use crate::share::Pass;
use crate::source::ResourceInfo;
use crate::workqueue::{Get, Item, WorkQueue};

/// The user's function with all types but the context's erased. It records the object's version in
/// the current span.
pub(super) type Call<C> = Arc<dyn Fn(Ctx<C>) -> BoxFuture<'static, Ended> + Send + Sync>;

/// The result of the work on one key.
pub(super) enum Ended {
    Done(Action),
    Failed(BoxError),
    /// The object is gone and there is no function for deleted objects.
    Gone,
    /// The object does not decode: it will be tried again when it changes.
    Undecodable(BoxError),
    /// Its shard is no longer this replica's: the work was dropped.
    Lost,
}

impl Ended {
    fn outcome(&self) -> RunOutcome {
        match self {
            Self::Done(_) => RunOutcome::Succeeded,
            Self::Failed(_) => RunOutcome::Failed,
            Self::Gone => RunOutcome::Gone,
            Self::Undecodable(_) => RunOutcome::Undecodable,
            Self::Lost => RunOutcome::Lost,
        }
    }
}

/// The state that the workers of a controller share.
pub(super) struct Work<C> {
    pub(super) resource: String,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) context: Arc<C>,
    pub(super) site: Arc<Site>,
    pub(super) conflicts: Arc<Conflicts>,
    /// The controller's own writes, and the parking of keys that wait for them.
    pub(super) writes: (Arc<Writes>, Arc<Parked>),
    pub(super) echoes: Echoes,
    pub(super) sources: Arc<[ResourceInfo]>,
    pub(super) env: Env,
    pub(super) call: Call<C>,
    pub(super) timeout: Option<Duration>,
    pub(super) stopping: CancellationToken,
    pub(super) counters: Arc<Counters>,
    pub(super) sharded: Option<Sharded>,
}

impl<C: Send + Sync + 'static> Work<C> {
    /// Works until the queue is shut down and empty.
    pub(super) async fn run(self: Arc<Self>) {
        let mut next = self.queue.get();
        while let Some(mut item) = next.await {
            let causes = self.causes_of(&mut item);
            let span = tracing::info_span!(
                "reconcile",
                controller = %self.site.name,
                resource = %self.resource,
                key = %item.key(),
                version = tracing::field::Empty,
                failures = item.failures(),
                cause = %causes,
            );
            next = self.process(item, causes).instrument(span).await;
            // Reconciles with nothing to do wait for nothing: other tasks get their turn here.
            consume_budget().await;
        }
    }

    /// Makes the causes of a run: those that were stated, then those of the queue.
    fn causes_of(&self, item: &mut Item<ObjectKey>) -> Causes {
        let (started, waited) = (self.env.now(), item.waited());
        let (stated, reasons) = item.take_causes();
        let mut record = stated.map(|stated| *stated);
        for event in reasons.events() {
            let mut cause = Cause::of(event);
            cause.enqueued = started - waited;
            match &mut record {
                Some(record) => record.add(cause),
                None => record = Some(Record::of(cause)),
            }
        }
        debug_assert!(record.is_some(), "a run has a cause");
        let mut record = record.unwrap_or_else(|| Record::of(Cause::of(Event::Asked)));
        let (writes, _) = &self.writes;
        writes.own.name(item.key().key_ref(), &mut record);
        let times = (started, waited);
        Causes::new(item.key().clone(), &self.sources, record, times)
    }

    /// Works on one key; the returned future settles it and waits for the next.
    async fn process(&self, item: Item<ObjectKey>, causes: Causes) -> Get<ObjectKey> {
        let Ok(pass) = self.pass(item.key()) else {
            self.counters.elsewhere.add(1);
            return item.settle_and_get(Verdict::Gone);
        };
        let (writes, parked) = &self.writes;
        if writes.must_wait(item.key()) {
            self.counters.parked.add(1);
            parked.add(item.key(), causes.into_record());
            return item.settle_and_get(Verdict::Done);
        }
        let is_stale = writes.begin(item.key());
        let found = writes
            .loops
            .began(item.key(), |change| writes.own.writer(change));
        self.report(found, item.key()).await;
        let writer = Writer::new(Arc::clone(writes));
        let ctx = Ctx {
            context: Arc::clone(&self.context),
            key: item.key().clone(),
            failures: item.failures(),
            stopping: self.stopping.clone(),
            site: Arc::clone(&self.site),
            object: None,
            writer: writer.clone(),
            is_stale,
            causes: causes.clone(),
        };
        let (since, started) = (self.env.now(), wall_clock());
        let call = async {
            tokio::select! {
                biased;
                () = lost(pass.as_ref()) => Ended::Lost,
                ended = (self.call)(ctx) => ended,
            }
        };
        let caught = self.named_if_slow(item.key(), AssertUnwindSafe(call).catch_unwind());
        let caught = match self.timeout {
            None => Ok(caught.await),
            Some(timeout) => tokio::time::timeout(timeout, caught)
                .await
                .map_err(|_| timeout),
        };
        let (ended, sign) = match caught {
            Ok(Ok(ended)) => {
                let sign = sign_of(&ended, writer.effects());
                (ended, sign)
            }
            Ok(Err(panic)) => (self.panicked(&*panic), Some(Sign::Panic)),
            Err(timeout) => (self.timed_out(timeout), Some(Sign::Timeout)),
        };
        self.show(sign, &ended, item.key());
        let is_own = causes.are_own();
        self.counters.history.add(RecentRun {
            causes,
            started,
            took: self.env.now().since(since),
            outcome: ended.outcome(),
        });
        let found = writes
            .loops
            .ended(item.key(), is_own, |change| writes.own.writer(change));
        self.report(found, item.key()).await;
        let next = self.settle(item, ended);
        writer.end().await;
        drop(pass);
        next
    }

    /// The right to work on a key, where keys are divided; `Err` if it is another replica's.
    fn pass(&self, key: &ObjectKey) -> Result<Option<Pass>, Elsewhere> {
        let sharded = self.sharded.as_ref();
        let pass = sharded.map(|sharded| sharded.enter(key).ok_or(Elsewhere));
        pass.transpose()
    }

    async fn report(&self, found: Option<Finding>, key: &ObjectKey) {
        if let Some(found) = found {
            report(found, key, &self.sources, &self.site, &self.counters).await;
        }
    }

    /// Reports a sign of trouble, if one is due.
    fn show(&self, sign: Option<Sign>, ended: &Ended, key: &ObjectKey) {
        let (writes, _) = &self.writes;
        let Some(sign) = sign else {
            writes.streaks.end(key);
            return;
        };
        let said = match ended {
            Ended::Failed(error) => chain(&**error),
            _ => String::new(),
        };
        let when = (key, self.env.now());
        show(sign, &said, when, (&self.site, writes), &self.counters);
    }

    /// Awaits a reconcile, and logs once if it is slow. The span names its key.
    async fn named_if_slow<F: Future>(&self, key: &ObjectKey, reconciling: F) -> F::Output {
        let mut reconciling = std::pin::pin!(reconciling);
        tokio::select! {
            biased;
            ended = &mut reconciling => return ended,
            () = tokio::time::sleep(SLOW) => {}
        }
        self.counters.slow.add(1);
        let said = format!("a reconcile runs for more than {SLOW:?}");
        tracing::warn!("{said}");
        let since = self.env.now();
        let (writes, _) = &self.writes;
        let of = (&*self.site, &**writes);
        show(Sign::Slow, &said, (key, since), of, &self.counters);
        let ended = reconciling.await;
        let took = SLOW + self.env.now().since(since);
        tracing::info!(?took, "the slow reconcile has ended");
        ended
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Ended {
        self.counters.panics.add(1);
        if mutant!("D15") {
            panic!("a reconcile's panic goes on");
        }
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Ended::Failed(format!("reconcile panicked: {}", said.unwrap_or("no message")).into())
    }

    fn timed_out(&self, timeout: Duration) -> Ended {
        self.counters.timeouts.add(1);
        Ended::Failed(format!("reconcile did not end within {timeout:?}").into())
    }

    fn settle(&self, item: Item<ObjectKey>, ended: Ended) -> Get<ObjectKey> {
        if self.echoes == Echoes::Ignored {
            let (writes, _) = &self.writes;
            let key = item.key().key_ref();
            item.retract(|cause| writes.own.is_echo(key, cause));
        }
        if !matches!(ended, Ended::Failed(_)) {
            self.conflicts.none(item.key());
        }
        let verdict = match ended {
            Ended::Done(action) => {
                self.counters.succeeded.add(1);
                tracing::debug!(?action, "reconciled");
                let verdict = Self::verdict(action);
                if verdict != Verdict::Forget {
                    self.counters.requeued.add(1);
                }
                verdict
            }
            Ended::Failed(error) => return self.failed(item, &*error),
            Ended::Gone => {
                self.counters.gone.add(1);
                tracing::debug!("the object is gone");
                Verdict::Gone
            }
            Ended::Lost => {
                self.counters.elsewhere.add(1);
                tracing::info!("the shard was lost; its reconcile was dropped");
                Verdict::Gone
            }
            Ended::Undecodable(error) => {
                self.counters.undecodable.add(1);
                let error = chain(&*error);
                tracing::warn!(
                    error,
                    "the object does not decode; waiting for its next version"
                );
                Self::verdict(Action::await_change())
            }
        };
        item.settle_and_get(verdict)
    }

    /// The verdict on a key that needs no retry. The queue keeps a wake-up until it comes.
    fn verdict(action: Action) -> Verdict {
        if let Some(time) = action.wakes_at() {
            let delay = time.duration_since(wall_clock()).try_into();
            return Verdict::WakeAfter(delay.unwrap_or(Duration::ZERO));
        }
        action
            .requeue_after()
            .map_or(Verdict::Forget, Verdict::Again)
    }

    fn failed(
        &self,
        item: Item<ObjectKey>,
        error: &(dyn StdError + Send + Sync + 'static),
    ) -> Get<ObjectKey> {
        let key = item.key();
        let meaning = meaning(error);
        if meaning != Meaning::Conflict {
            self.conflicts.none(key);
        }
        let verdict = match meaning {
            Meaning::Failure => Verdict::Retry,
            Meaning::Permanent if mutant!("K23") => Verdict::Retry,
            Meaning::Permanent => {
                self.counters.permanent.add(1);
                Self::verdict(Action::await_change())
            }
            Meaning::Decided(action) => Self::verdict(action),
            Meaning::Throttled(delay) => Verdict::Later(delay),
            Meaning::Stale if mutant!("R3") => Verdict::Retry,
            Meaning::Stale => Verdict::Later(STALE),
            Meaning::Conflict => self
                .conflicts
                .met(key)
                .map_or(Verdict::Retry, Verdict::Later),
        };
        let error = chain(error);
        if let Verdict::Later(delay) = verdict {
            let counter = match meaning {
                Meaning::Conflict => &self.counters.conflicts,
                Meaning::Stale => &self.counters.stale,
                _ => &self.counters.throttled,
            };
            counter.add(1);
            tracing::debug!(error, ?delay, "reconcile is tried again");
            Self::retry(item, verdict);
            return self.queue.get();
        }
        self.counters.failed.add(1);
        let failures = item.failures().saturating_add(1);
        match verdict {
            Verdict::Retry => {
                let retry_in = Self::retry(item, verdict);
                tracing::warn!(error, failures, ?retry_in, "reconcile failed");
                self.queue.get()
            }
            verdict => {
                tracing::warn!(error, next = ?verdict, "reconcile failed; the limiter does not decide its retry");
                item.settle_and_get(verdict)
            }
        }
    }

    /// Settles a key that is tried again. Returns the delay.
    fn retry(item: Item<ObjectKey>, verdict: Verdict) -> Option<Duration> {
        match item.settle(verdict) {
            Next::After(delay) => Some(delay),
            Next::Ready => Some(Duration::ZERO),
            Next::Nothing | Next::Refused => None,
        }
    }
}

/// A key is another replica's.
struct Elsewhere;

/// Waits until the work on a key has to end; for ever, where keys are not divided.
async fn lost(pass: Option<&Pass>) {
    match pass {
        Some(pass) => pass.ended().await,
        None => std::future::pending().await,
    }
}

/// The sign of trouble that a run shows by its end.
fn sign_of(ended: &Ended, effects: &Effects) -> Option<Sign> {
    match ended {
        Ended::Failed(error) => match meaning(&**error) {
            Meaning::Permanent => Some(Sign::Permanent),
            Meaning::Stale => Some(Sign::Stale),
            _ => None,
        },
        Ended::Done(_) if effects.are_noop() => Some(Sign::Noop),
        Ended::Done(action) => {
            let is_soon = action.requeue_after().is_some_and(|after| after < HOT);
            (is_soon && !effects.have_changed()).then_some(Sign::Hot)
        }
        Ended::Gone | Ended::Undecodable(_) | Ended::Lost => None,
    }
}

/// The time after which a reconcile that still runs is named in the log.
const SLOW: Duration = Duration::from_secs(60);

/// The pause of a key whose run needed a fresher view.
const STALE: Duration = Duration::from_secs(1);

/// Records the version of the object in the span.
pub(super) fn record_version(version: &str) {
    Span::current().record("version", version);
}
