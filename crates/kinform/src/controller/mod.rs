//! The controller: a reconcile function, called for every object until it has the desired state.
//!
//! ```text
//! informers → keys → queue → N workers → reconcile(object, context) → Action | error → queue
//! ```
//!
//! It waits until all its informers have their first list and its handlers have heard it, then works
//! on keys: one worker a key, a key that failed again when the rate limiter allows, a success forgets
//! the failures, a panic is that key's error. It stops in order: no new keys, then the running
//! reconciles end within a deadline. Everything lives inside [`Controller::run`]: dropping its future ends the workers,
//! removes the handlers and leaves no task behind.
//! Calls the API itself only to keep a finalizer, to ask for the version of a collection, and to read
//! an object that it reports about. Writes are up to the user's reconcile function, whose context has
//! the verbs.
//!
//! Upstream counterpart: `sample-controller:controller.go`,
//! `controller-runtime:pkg/internal/controller`.

mod action;
mod call;
mod causes;
mod conflicts;
mod echo;
mod elision;
mod feed;
mod finalizing;
mod findings;
mod informers;
mod inlet;
mod last_writes;
mod loops;
mod options;
mod outcome;
pub mod predicate;
mod recent;
mod reconciler;
#[cfg(test)]
mod retries;
mod run;
mod sharded;
mod sieve;
mod signs;
mod site;
mod stats;
mod stop;
#[cfg(test)]
mod tests;
mod verbs;
mod view;
mod warnings;
mod worker;
mod writes;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kinform_api::ObjectKey;
use kinform_core::queue::{Fairness, Limiter};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub use self::action::{Action, Ctx};
use self::call::{Caller, OnGone};
pub use self::causes::{Cause, CauseEvent, Causes, Origin, RecentRun, RunOutcome, WaitingKey};
use self::echo::Echoes;
use self::elision::{Elides, Elisions};
pub use self::feed::Enqueue;
use self::feed::{Feed, Mapped, Primary, Trigger, owner_key};
pub use self::finalizing::Cleanup;
use self::finalizing::Finalizing;
pub use self::last_writes::LastWrites;
use self::options::Argument;
use self::outcome::BoxError;
pub use self::outcome::{ByPolicy, with_error_policy};
pub use self::reconciler::Reconciler;
pub use self::run::Finish;
use self::run::{Ends, Runner};
use self::sharded::Sharded;
use self::sieve::Sieve;
use self::site::Naming;
use self::stats::Counters;
pub use self::stats::{ControllerMetrics, ControllerStats};
pub use self::stop::Signals;
use self::view::View;
pub use self::warnings::Warning;
use self::worker::Call;
use self::writes::{OwnWrites, Writes};
use crate::error::Error;
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
    naming: Naming,
    sieve: Arc<Sieve>,
    finalizing: Option<Finalizing<K, C>>,
    queue: WorkQueue<ObjectKey>,
    fairness: Fairness<ObjectKey>,
    counters: Arc<Counters>,
    workers: usize,
    timeout: Option<Duration>,
    grace: Duration,
    resync_period: Option<Duration>,
    stop: CancellationToken,
    signals: bool,
    /// A key waits until the caches have the controller's own writes.
    own_writes: OwnWrites,
    elides: Elides,
    view: View,
    echoes: Echoes,
    /// The part of the keys that is worked on; `None`: all.
    sharded: Option<Sharded>,
}

impl<K: Send + Sync + 'static> Controller<K> {
    fn over(primary: Arc<dyn Feed<K>>) -> Self {
        let sieve = Arc::<Sieve>::default();
        let fairness = Fairness::by_namespace();
        Self {
            triggers: vec![Box::new(Primary {
                feed: Arc::clone(&primary),
                sieve: Arc::clone(&sieve),
            })],
            primary,
            context: Arc::new(()),
            on_gone: None,
            naming: Naming::default(),
            sieve,
            finalizing: None,
            queue: WorkQueue::default().fair_by(fairness.clone()),
            fairness,
            counters: Arc::default(),
            workers: 1,
            timeout: None,
            grace: GRACE,
            resync_period: None,
            stop: CancellationToken::new(),
            signals: false,
            own_writes: OwnWrites::Awaited,
            elides: Elides::Applies,
            view: View::default(),
            echoes: Echoes::Heard,
            sharded: None,
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
            naming: self.naming,
            sieve: self.sieve,
            finalizing: self.finalizing.map(Finalizing::with_context),
            queue: self.queue,
            fairness: self.fairness,
            counters: self.counters,
            workers: self.workers,
            timeout: self.timeout,
            grace: self.grace,
            resync_period: self.resync_period,
            stop: self.stop,
            signals: self.signals,
            own_writes: self.own_writes,
            elides: self.elides,
            view: self.view,
            echoes: self.echoes,
            sharded: self.sharded,
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

    /// Reconciles keys without waiting for the caches to have their own writes. By default a key
    /// waits until this controller's caches have the writes of its last run ([`Ctx::client`] and the
    /// methods of [`Ctx`]), or for 30 s ([`Ctx::is_stale`]). No worker waits.
    ///
    /// Upstream: controller-runtime's consistent client, which is experimental and off.
    pub fn without_own_writes(mut self) -> Self {
        self.own_writes = OwnWrites::Ignored;
        self
    }

    /// Stops when `token` is cancelled.
    pub fn shutdown_on(mut self, token: CancellationToken) -> Self {
        self.stop = token;
        self
    }

    /// Stops on SIGTERM, SIGINT or ctrl-c; a second one, more than 100 ms after the first, does not
    /// wait for running reconciles.
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
        let sources = self.triggers.iter();
        let sources = sources.map(|trigger| trigger.resource().clone());
        ControllerMetrics {
            counters: Arc::clone(&self.counters),
            queue: self.queue.clone(),
            sources: sources.collect(),
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
    /// - The controller has a finalizer and no client ([`Error::is_config`]).
    /// - Its keys cannot be divided as asked ([`Controller::sharded`], [`Error::is_invalid`]).
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
    pub async fn run<F, R, E>(mut self, reconcile: F) -> Result<(), Error>
    where
        K: DeserializeOwned + Any,
        F: Fn(Arc<K>, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.may_run(Argument::Object)?;
        let call = self.caller().typed(reconcile);
        self.run_calls(call).await
    }

    /// Adds the reconcile function: the result has no type parameters, so that a program holds many
    /// of them in one list, and runs each as long as it leads.
    ///
    /// The function is as in [`Controller::run`].
    pub fn reconciling<F, R, E>(mut self, reconcile: F) -> Reconciler
    where
        K: DeserializeOwned + Any,
        F: Fn(Arc<K>, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let refused = self.may_run(Argument::Object).err();
        let call = self.caller().typed(reconcile);
        let (runner, ends) = self.runner(call);
        Reconciler::new(runner, ends, refused)
    }

    /// The same with the bare key: the function looks the object up itself, if it still exists.
    ///
    /// # Errors
    /// As [`Controller::run`]; a finalizer is [`Error::is_invalid`].
    ///
    /// # Cancel safety
    /// As [`Controller::run`].
    pub async fn run_keys<F, R, E>(mut self, reconcile: F) -> Result<(), Error>
    where
        F: Fn(ObjectKey, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.may_run(Argument::Key)?;
        let call = self.caller().keys(reconcile);
        self.run_calls(call).await
    }

    /// Fails if the controller cannot do what it was asked for.
    fn may_run(&self, argument: Argument) -> Result<(), Error> {
        self.is_divisible()?;
        self.keeps_finalizer(argument)
    }

    fn caller(&mut self) -> Caller<K, C> {
        Caller {
            feed: Arc::clone(&self.primary),
            on_gone: self.on_gone.clone(),
            finalizing: self.finalizing.take().map(Arc::new),
            sieve: Arc::clone(&self.sieve),
        }
    }

    async fn run_calls(self, call: Call<C>) -> Result<(), Error> {
        let (runner, ends) = self.runner(call);
        Reconciler::new(runner, ends, None).run().await
    }

    fn runner(self, call: Call<C>) -> (Runner<C>, Ends) {
        let ends = Ends {
            token: self.stop,
            signals: self.signals,
        };
        let sources = self
            .triggers
            .iter()
            .map(|trigger| trigger.resource().clone());
        let counters = Arc::clone(&self.counters);
        let writes = Arc::new(Writes::new(&self.triggers, self.own_writes, counters));
        // Without its own writes, a cache may show the object before them.
        let elides = self.elides == Elides::Applies && self.own_writes == OwnWrites::Awaited;
        let elisions = Elisions {
            applied: elides.then(Arc::default),
            writes: Arc::clone(&writes),
            counters: Arc::clone(&self.counters),
        };
        let site = self
            .naming
            .site(self.primary.resource(), self.primary.client(), self.view);
        // The causes of a key have the times of the queue's clock.
        let env = self.queue.env();
        let runner = Runner {
            site: Arc::new(site.eliding(elisions)),
            writes,
            echoes: self.echoes,
            sources: sources.collect(),
            resource: self.primary.resource().to_string(),
            triggers: self.triggers,
            queue: self.queue,
            context: self.context,
            conflicts: Arc::default(),
            env,
            call,
            workers: self.workers,
            timeout: self.timeout,
            grace: self.grace,
            resync_period: self.resync_period,
            counters: self.counters,
            sharded: self.sharded,
        };
        (runner, ends)
    }
}

impl<K, C> fmt::Debug for Controller<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
