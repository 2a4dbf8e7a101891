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
use kinform_core::queue::{Next, Verdict};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Action;
use super::action::Ctx;
use super::stats::Counters;
use crate::workqueue::{Get, Item, WorkQueue};

/// The error type of a user's function.
pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

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
}

/// The state that the workers of a controller share.
pub(super) struct Work<C> {
    pub(super) resource: String,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) context: Arc<C>,
    pub(super) call: Call<C>,
    pub(super) timeout: Option<Duration>,
    pub(super) stopping: CancellationToken,
    pub(super) counters: Arc<Counters>,
}

impl<C: Send + Sync + 'static> Work<C> {
    /// Works until the queue is shut down and empty.
    pub(super) async fn run(self: Arc<Self>) {
        let mut next = self.queue.get();
        while let Some(item) = next.await {
            let span = tracing::info_span!(
                "reconcile",
                resource = %self.resource,
                key = %item.key(),
                version = tracing::field::Empty,
                failures = item.failures(),
            );
            next = self.process(item).instrument(span).await;
        }
    }

    /// Works on one key; the returned future settles it and waits for the next.
    async fn process(&self, item: Item<ObjectKey>) -> Get<ObjectKey> {
        let ctx = Ctx {
            context: Arc::clone(&self.context),
            key: item.key().clone(),
            failures: item.failures(),
            stopping: self.stopping.clone(),
        };
        let call = async { (self.call)(ctx).await };
        let caught = AssertUnwindSafe(call).catch_unwind();
        let ended = match self.timeout {
            None => caught.await.unwrap_or_else(|panic| self.panicked(&*panic)),
            Some(timeout) => match tokio::time::timeout(timeout, caught).await {
                Ok(ended) => ended.unwrap_or_else(|panic| self.panicked(&*panic)),
                Err(_) => self.timed_out(timeout),
            },
        };
        self.settle(item, ended)
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
        let verdict = match ended {
            Ended::Done(action) => {
                self.counters.succeeded.add(1);
                tracing::debug!(?action, "reconciled");
                action
                    .requeue_after()
                    .map_or(Verdict::Forget, Verdict::Again)
            }
            Ended::Failed(error) => {
                self.counters.failed.add(1);
                self.retry(item, &*error);
                return self.queue.get();
            }
            Ended::Gone => {
                self.counters.gone.add(1);
                tracing::debug!("the object is gone");
                Verdict::Gone
            }
            Ended::Undecodable(error) => {
                self.counters.undecodable.add(1);
                let error = chain(&*error);
                tracing::warn!(
                    error,
                    "the object does not decode; waiting for its next version"
                );
                Verdict::Forget
            }
        };
        item.settle_and_get(verdict)
    }

    fn retry(&self, item: Item<ObjectKey>, error: &(dyn StdError + Send + Sync)) {
        let failures = item.failures().saturating_add(1);
        let retry_in = match item.settle(Verdict::Retry) {
            Next::After(delay) => Some(delay),
            Next::Ready => Some(Duration::ZERO),
            Next::Nothing | Next::Refused => None,
        };
        let error = chain(error);
        tracing::warn!(error, failures, ?retry_in, "reconcile failed");
    }
}

/// Records the version of the object in the span.
pub(super) fn record_version(version: &str) {
    Span::current().record("version", version);
}

/// An error with its causes, as one line.
fn chain(error: &dyn StdError) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    // BOUND: a chain can be a circle in a broken error type.
    for _ in 0..16 {
        let Some(error) = cause else { break };
        let said = error.to_string();
        if !line.ends_with(&said) {
            line = line + ": " + &said;
        }
        cause = error.source();
    }
    line
}
