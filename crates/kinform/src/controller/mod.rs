//! The controller: a reconcile function, called for every object until it has the desired state.
//!
//! ```text
//! informers → keys → queue → N workers → reconcile(object, context) → Action | error → queue
//! ```
//!
//! It waits until all its informers have their first list, then works on keys: one worker a key, a
//! key that failed again when the rate limiter allows, a success forgets the failures, a panic is
//! that key's error. It stops in order: no new keys, then the running reconciles end within a
//! deadline. Everything lives inside [`Controller::run`]: dropping its future ends the workers,
//! removes the handlers and leaves no task behind.
//! Never: calls the API. Writes are up to the user's reconcile function.
//!
//! Upstream counterpart: `sample-controller:controller.go`,
//! `controller-runtime:pkg/internal/controller`.

mod action;
mod feed;
mod informers;
mod stats;
mod stop;
#[cfg(test)]
mod tests;
mod worker;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, select_all, try_join_all};
use kinform_api::{ObjectKey, mutant};
use kinform_core::queue::{Fairness, Limiter};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::action::{Action, Ctx};
pub use self::feed::Enqueue;
use self::feed::{Feed, Listening, Mapped, Primary, Trigger, owner_key};
use self::stats::Counters;
pub use self::stats::{ControllerMetrics, ControllerStats};
use self::stop::{Signals, Stop};
use self::worker::{BoxError, Call, Ended, Work, record_version};
use crate::error::{Error, ErrorKind};
use crate::object::Obj;
use crate::workqueue::WorkQueue;

/// The default grace period of running reconciles: a little less than the 30 s
/// that Kubernetes grants a pod.
const GRACE: Duration = Duration::from_secs(25);

/// Reconciles the objects of one informer.
#[must_use = "a controller does nothing before `run`"]
pub struct Controller<K, C = ()> {
    primary: Arc<dyn Feed<K>>,
    triggers: Vec<Box<dyn Trigger>>,
    context: Arc<C>,
    on_gone: Option<OnGone<C>>,
    queue: WorkQueue<ObjectKey>,
    fairness: Fairness<ObjectKey>,
    counters: Arc<Counters>,
    workers: usize,
    timeout: Option<Duration>,
    grace: Duration,
    resync_period: Option<Duration>,
    stop: CancellationToken,
    signals: bool,
}

type OnGone<C> = Arc<dyn Fn(Ctx<C>) -> Reconciling + Send + Sync>;
type Reconciling = BoxFuture<'static, Result<Action, BoxError>>;

impl<K: Send + Sync + 'static> Controller<K> {
    fn over(primary: Arc<dyn Feed<K>>) -> Self {
        let fairness = Fairness::by_namespace();
        Self {
            triggers: vec![Box::new(Primary(Arc::clone(&primary)))],
            primary,
            context: Arc::new(()),
            on_gone: None,
            queue: WorkQueue::default().fair_by(fairness.clone()),
            fairness,
            counters: Arc::default(),
            workers: 1,
            timeout: None,
            grace: GRACE,
            resync_period: None,
            stop: CancellationToken::new(),
            signals: false,
        }
    }

    /// Sets the context of every reconcile. The default is `()`.
    pub fn context<C: Send + Sync + 'static>(self, context: C) -> Controller<K, C> {
        let on_gone = self
            .on_gone
            .map(|on_gone| -> OnGone<C> { Arc::new(move |ctx| on_gone(ctx.without_context())) });
        Controller {
            primary: self.primary,
            triggers: self.triggers,
            context: Arc::new(context),
            on_gone,
            queue: self.queue,
            fairness: self.fairness,
            counters: self.counters,
            workers: self.workers,
            timeout: self.timeout,
            grace: self.grace,
            resync_period: self.resync_period,
            stop: self.stop,
            signals: self.signals,
        }
    }
}

impl<K: Send + Sync + 'static, C: Send + Sync + 'static> Controller<K, C> {
    fn owns_feed<T: 'static>(self, feed: Arc<dyn Feed<T>>) -> Self {
        let primary = self.primary.resource().clone();
        self.watches_feed(feed, move |object: &Obj<T>| owner_key(object, &primary))
    }

    fn watches_feed<T: 'static, I>(
        mut self,
        feed: Arc<dyn Feed<T>>,
        keys_of: impl Fn(&Obj<T>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item: Into<Enqueue>>,
    {
        let keys_of =
            Arc::new(move |object: &Obj<T>| keys_of(object).into_iter().map(Into::into).collect());
        self.triggers.push(Box::new(Mapped { feed, keys_of }));
        self
    }

    /// Sets the number of workers. Units and default: 1; 0 is taken as 1.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Sets the delays of failed keys. Units and default: upstream's, see [`Limiter::default`]. To
    /// be called before [`Controller::queue`] and [`Controller::metrics`].
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.queue = WorkQueue::new(limiter).fair_by(self.fairness.clone());
        self
    }

    /// Sets the groups that take turns, so that a key never waits for all keys of another group.
    /// Units and default: [`Fairness::by_namespace`].
    ///
    /// # Order guarantees
    /// Among keys of one priority, G groups and W workers, the first key of a group waits for at
    /// most ⌈(G-1)/W⌉+1 reconciles. Within a group keys are first in, first out.
    pub fn fair_by(mut self, fairness: Fairness<ObjectKey>) -> Self {
        self.queue = self.queue.fair_by(fairness.clone());
        self.fairness = fairness;
        self
    }

    /// Sets the deadline of a reconcile, which is then dropped at its next await and counts as
    /// failed. Units and default: none.
    pub fn reconcile_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time that running reconciles have to end after the controller was asked to stop.
    /// Units and default: 25 s.
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Reconciles every object again each period without a change, at the lowest priority. A period
    /// is at least one second; zero disables it. Default: the informer's.
    #[doc(alias = "SyncPeriod")]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.resync_period = Some(period);
        self
    }

    /// Stops when `token` is cancelled.
    pub fn shutdown_on(mut self, token: CancellationToken) -> Self {
        self.stop = token;
        self
    }

    /// Stops on SIGTERM, SIGINT or ctrl-c; a second one does not wait for running reconciles.
    pub fn shutdown_on_signal(mut self) -> Self {
        self.signals = true;
        self
    }

    /// Calls `gone` for a key whose object is gone: after its deletion, and when an owned or
    /// related object changes afterwards. Without this, such keys are dropped.
    pub fn on_gone<F, R, E>(mut self, gone: F) -> Self
    where
        F: Fn(ObjectKey, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.on_gone = Some(Arc::new(move |ctx| {
            let gone = gone(ctx.key().clone(), ctx);
            Box::pin(async move { gone.await.map_err(Into::into) })
        }));
        self
    }

    /// The queue, for adding keys from elsewhere.
    #[must_use]
    pub fn queue(&self) -> WorkQueue<ObjectKey> {
        self.queue.clone()
    }

    /// The numbers, readable while the controller runs.
    #[must_use]
    pub fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            counters: Arc::clone(&self.counters),
            queue: self.queue.clone(),
        }
    }

    /// Reconciles objects until the controller is stopped, or one of its informers is.
    ///
    /// `reconcile` receives the object that the cache has when the worker starts. It is decoded
    /// each time, unless the informer keeps decoded values
    /// ([`DecodedValues`](crate::DecodedValues)). An object that does not decode is logged,
    /// counted and skipped until it changes.
    ///
    /// # Errors
    /// - Signals cannot be listened to, the caller is outside of a tokio runtime, or an informer is
    ///   stopped already.
    /// - An informer is stopped before its first list.
    /// - Reconciles are still running when the grace period is over. The error names their keys,
    ///   and they are dropped.
    /// - A second signal arrived during the grace period ([`Error::is_stopped`]). The running
    ///   reconciles are dropped.
    ///
    /// # Cancel safety
    /// Dropping it drops the running reconciles at their next await, removes the handlers and
    /// closes the queue. No task is left.
    ///
    /// # Order guarantees
    /// One key is never in two reconciles at the same time. A change during a reconcile of its key
    /// leads to another reconcile after it.
    pub async fn run<F, R, E>(self, reconcile: F) -> Result<(), Error>
    where
        K: DeserializeOwned + Any,
        F: Fn(Arc<K>, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let (feed, on_gone) = (Arc::clone(&self.primary), self.on_gone.clone());
        let reconcile = Arc::new(reconcile);
        let call: Call<C> = Arc::new(move |ctx| {
            let Some(object) = feed.get(ctx.key()) else {
                return match &on_gone {
                    Some(on_gone) => ended(on_gone(ctx)),
                    None => Box::pin(async { Ended::Gone }),
                };
            };
            record_version(object.resource_version());
            match object.typed() {
                Ok(typed) => ended(reconcile(typed, ctx)),
                Err(error) => Box::pin(async move { Ended::Undecodable(error.into()) }),
            }
        });
        self.run_calls(call).await
    }

    /// The same with the bare key: the function looks the object up itself, if it still exists.
    ///
    /// # Errors
    /// As [`Controller::run`].
    ///
    /// # Cancel safety
    /// As [`Controller::run`].
    pub async fn run_keys<F, R, E>(self, reconcile: F) -> Result<(), Error>
    where
        F: Fn(ObjectKey, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let call: Call<C> = Arc::new(move |ctx| ended(reconcile(ctx.key().clone(), ctx)));
        self.run_calls(call).await
    }

    async fn run_calls(self, call: Call<C>) -> Result<(), Error> {
        let signals = if self.signals {
            Some(Signals::new()?)
        } else {
            None
        };
        let mut stop = Stop {
            token: self.stop.clone(),
            signals,
        };
        let stopping = CancellationToken::new();
        let mut intake = Intake {
            queue: self.queue.clone(),
            listening: Vec::new(),
        };
        for trigger in &self.triggers {
            intake
                .listening
                .push(trigger.listen(&self.queue, self.resync_period)?);
        }
        let resource = self.primary.resource().to_string();
        let _stopping_on_drop = stopping.clone().drop_guard();
        let synced = try_join_all(self.triggers.iter().map(|trigger| trigger.synced()));
        tokio::select! {
            biased;
            () = stop.asked() => return Ok(()),
            synced = synced => { synced?; }
        }
        let informers: Vec<_> = self
            .triggers
            .iter()
            .map(|t| t.resource().to_string())
            .collect();
        tracing::info!(
            resource,
            ?informers,
            workers = self.workers,
            "controller starts to work"
        );
        let work = Arc::new(Work {
            resource,
            queue: self.queue,
            context: self.context,
            call,
            timeout: self.timeout,
            stopping: stopping.clone(),
            counters: self.counters,
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            workers.spawn(Arc::clone(&work).run());
        }
        let mut an_end = select_all(self.triggers.iter().map(|trigger| trigger.stopped()));
        loop {
            tokio::select! {
                biased;
                () = stop.asked() => break,
                _ = &mut an_end => {
                    tracing::info!(resource = work.resource, "an informer of the controller stopped");
                    break;
                }
                Some(ended) = workers.join_next() => match ended {
                    // Another caller closed the queue: there is no more work.
                    Ok(()) => break,
                    Err(panic) if mutant!("D15") => panic!("{panic}"),
                    Err(panic) => {
                        tracing::error!(%panic, "a worker died while it dropped a reconcile");
                        workers.spawn(Arc::clone(&work).run());
                    }
                },
            }
        }
        stopping.cancel();
        let given_up = intake.close();
        tracing::info!(resource = work.resource, given_up, "controller stops");
        tokio::select! {
            biased;
            drained = work.queue.drain(self.grace) => drained.map(drop).map_err(|left| {
                Error::new(ErrorKind::TimedOut, left.to_string()).with_cause(left)
            })?,
            () = stop.forced() => {
                return Err(Error::new(ErrorKind::Stopped, "stopped without waiting for reconciles"));
            }
        }
        while workers.join_next().await.is_some() {}
        Ok(())
    }
}

/// Awaits a reconcile and makes its result an [`Ended`]. `Work::process` catches a panic.
fn ended<R, E>(reconciling: R) -> BoxFuture<'static, Ended>
where
    R: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<BoxError>,
{
    Box::pin(async move {
        match reconciling.await {
            Ok(action) => Ended::Done(action),
            Err(error) => Ended::Failed(error.into()),
        }
    })
}

/// The source of keys. Closed when it is dropped.
struct Intake {
    queue: WorkQueue<ObjectKey>,
    listening: Vec<Box<dyn Listening>>,
}

impl Intake {
    /// Stops listening and drops the waiting keys. Returns their number.
    fn close(&mut self) -> usize {
        self.listening
            .drain(..)
            .for_each(|handler| handler.remove());
        self.queue.close().len()
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.close();
    }
}

impl<K, C> fmt::Debug for Controller<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
