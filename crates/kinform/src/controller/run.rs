//! One run of a controller: from its first key to the last of its workers.
//!
//! ```text
//! listen → synced → heard → workers ──stop──▶ no new keys → drained (grace) → joined
//!                              └────lost────▶ reconciles dropped at their next await → joined → queue empty
//! ```
//!
//! A run that was lost leaves the queue open and empty: the next one begins with all objects again.
//! INVARIANT: no worker, and no handler but that of `recent.rs`, outlives the future of a run.
//!
//! Upstream counterpart: `controller-runtime:pkg/internal/controller` (`Start`), which runs once.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all, select_all, try_join_all};
use kinform_api::{ObjectKey, mutant};
use kinform_core::causes::{Cause, Event};
use kinform_core::object::Object;
use kinform_core::queue::Priority;
use kinform_core::shards::ShardId;
use kube_client::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::conflicts::Conflicts;
use super::echo::Echoes;
use super::feed::{Listening, Sink, Trigger};
use super::inlet::Inlet;
use super::last_writes::LastWrites;
use super::recent::Recent;
use super::sharded::{Sharded, opened};
use super::site::Site;
use super::stats::{ControllerMetrics, Counters};
use super::stop::{Signals, Stop};
use super::view::View;
use super::worker::{Call, Work};
use super::writes::Writes;
use super::writes::park::{Parked, look_again, park};
use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::events::EventRecorder;
use crate::share::Share;
use crate::source::ResourceInfo;
use crate::workqueue::WorkQueue;

/// BOUND: the longest time that a change waits for the handlers to hear all stored objects.
const HURRIED: Duration = Duration::from_millis(100);
/// BOUND: the longest time that workers wait for it. A handler may never hear all, as when a namespace
/// was added meanwhile that may not be listed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The way in which a run of a [`Reconciler`](super::Reconciler) ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// It was asked to stop, and its reconciles ended.
    Stopped,
    /// Its term was lost: its reconciles were dropped, and it can run again.
    Lost,
    /// One of its informers was stopped, or its queue was closed.
    Ended,
}

/// The ends that the builder of a controller was given.
pub(super) struct Ends {
    pub(super) token: CancellationToken,
    pub(super) signals: bool,
}

impl Ends {
    /// Begins to listen for them.
    pub(super) fn listen(self) -> Result<Stop, Error> {
        let signals = self.signals.then(Signals::listen).transpose()?;
        let token = self.token;
        Ok(Stop { token, signals })
    }
}

/// A controller with the type of its objects erased.
pub(super) struct Runner<C> {
    pub(super) resource: String,
    pub(super) triggers: Vec<Box<dyn Trigger>>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) context: Arc<C>,
    pub(super) site: Arc<Site>,
    pub(super) conflicts: Arc<Conflicts>,
    pub(super) writes: Arc<Writes>,
    pub(super) echoes: Echoes,
    pub(super) sources: Arc<[ResourceInfo]>,
    pub(super) env: Env,
    pub(super) call: Call<C>,
    pub(super) workers: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) resync_period: Option<Duration>,
    pub(super) counters: Arc<Counters>,
    pub(super) sharded: Option<Sharded>,
}

/// A [`Runner`] with the type of its context erased.
pub(super) trait Run: Send + Sync {
    fn resource(&self) -> &str;
    fn metrics(&self) -> ControllerMetrics;
    fn workers(&self) -> usize;
    fn triggers(&self) -> &[Box<dyn Trigger>];
    fn set_grace(&mut self, grace: Duration);
    fn view(&self) -> &View;
    fn last_writes(&self) -> LastWrites;
    fn name(&self) -> &str;
    fn share(&self) -> Option<&Share>;
    fn adopt(&mut self, operator: &str, client: Client);
    /// Takes a recorder, if it has none.
    fn record(&mut self, events: EventRecorder);
    /// Runs until `stop` or `lost`; keys of `recent` are the first.
    fn run<'a>(
        &'a self,
        stop: Stop,
        lost: &'a CancellationToken,
        recent: Option<&'a Recent>,
    ) -> BoxFuture<'a, Result<Finish, Error>>;
}

impl<C: Send + Sync + 'static> Runner<C> {
    /// Forgets what concerns keys of a lost term; the next one begins with all objects.
    fn forget(&self) {
        self.conflicts.clear();
        self.writes.end_term();
        let elisions = self.site.elisions.as_ref();
        if let Some(applied) = elisions.and_then(|elisions| elisions.applied.as_ref()) {
            applied.clear();
        }
    }

    /// Queues all objects of shards that were opened.
    fn enqueue(&self, shards: &[ShardId]) {
        if let Some(sharded) = &self.sharded {
            let wanted = |object: &Object| sharded.is_in(shards, object);
            let keys = self
                .triggers
                .iter()
                .flat_map(|trigger| trigger.keys(&wanted));
            self.queue.add_caused(keys.collect(), Priority::Low);
        }
    }

    /// Waits until the caches have their first lists, without a limit, and then, within limits, until
    /// the queue has the keys of all stored objects. A worker that began before would run a key for its
    /// object, and once more for each thing that it owns.
    async fn filled(&self, intake: &Intake, urgent: &Notify) -> Result<(), Error> {
        try_join_all(self.triggers.iter().map(|trigger| trigger.synced())).await?;
        // With one cache an object has nothing that is heard later.
        if self.triggers.len() == 1 || mutant!("K25") {
            return Ok(());
        }
        let heard = join_all(intake.listening.iter().map(|one| one.heard_first()));
        let hurried = async {
            urgent.notified().await;
            tokio::time::sleep(HURRIED).await;
        };
        tokio::select! {
            biased;
            _ = heard => {}
            () = hurried => {}
            () = tokio::time::sleep(PATIENCE) => tracing::warn!(
                resource = self.resource,
                "the handlers of the controller have not heard all objects within {PATIENCE:?}: it begins"
            ),
        }
        Ok(())
    }

    async fn work(
        &self,
        mut stop: Stop,
        lost: &CancellationToken,
        recent: Option<&Recent>,
    ) -> Result<Finish, Error> {
        let stopping = CancellationToken::new();
        let mut intake = Intake::new(self.queue.clone());
        let inlet = Arc::new(Inlet {
            queue: self.queue.clone(),
            writes: Arc::clone(&self.writes),
            echoes: self.echoes,
            sharded: self.sharded.clone(),
            urgent: Notify::new(),
        });
        for (source, trigger) in self.triggers.iter().enumerate() {
            let sink = Arc::clone(&inlet) as Arc<dyn Sink>;
            let listening = trigger.listen(sink, source as u16, self.resync_period)?;
            intake.listening.push(listening);
        }
        let _stopping_on_drop = stopping.clone().drop_guard();
        if recent.is_some_and(|recent| !recent.keys().is_empty()) {
            inlet.urgent.notify_one();
        }
        tokio::select! {
            biased;
            // First: a loss comes with a stop of the term, and leaves the queue open.
            () = lost.cancelled() => return Ok(intake.lose()),
            () = stop.asked() => return Ok(Finish::Stopped),
            filled = self.filled(&intake, &inlet.urgent) => { filled?; }
        }
        if let Some(recent) = recent {
            self.queue
                .add_caused(of_term(recent.keys()), Priority::Normal);
        }
        // Also those whose object is gone meanwhile: nobody else asks about their writes.
        let keys = of_term(self.writes.unanswered());
        self.queue.add_caused(keys, Priority::Low);
        let informers: Vec<_> = self
            .triggers
            .iter()
            .map(|t| t.resource().to_string())
            .collect();
        tracing::info!(
            resource = self.resource,
            ?informers,
            workers = self.workers,
            "controller starts to work"
        );
        let mut parking = JoinSet::new();
        let (parked, keys) = Parked::new();
        let parked = Arc::new(parked);
        let about = (Arc::clone(&self.writes), self.site.client.clone());
        parking.spawn(park(Arc::clone(&parked), keys, about, self.queue.clone()));
        parking.spawn(look_again(Arc::clone(&self.writes), self.queue.clone()));
        let work = Arc::new(Work {
            resource: self.resource.clone(),
            queue: self.queue.clone(),
            context: Arc::clone(&self.context),
            site: Arc::clone(&self.site),
            conflicts: Arc::clone(&self.conflicts),
            writes: (Arc::clone(&self.writes), parked),
            echoes: self.echoes,
            sources: Arc::clone(&self.sources),
            env: self.env.clone(),
            call: Arc::clone(&self.call),
            timeout: self.timeout,
            stopping: stopping.clone(),
            counters: Arc::clone(&self.counters),
            sharded: self.sharded.clone(),
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            workers.spawn(Arc::clone(&work).run());
        }
        let mut an_end = select_all(self.triggers.iter().map(|trigger| trigger.stopped()));
        let mut sharded = self.sharded.clone();
        let finish = loop {
            tokio::select! {
                biased;
                () = lost.cancelled() => {
                    stopping.cancel();
                    workers.shutdown().await;
                    // It would add keys to a queue that is to be empty.
                    parking.shutdown().await;
                    self.forget();
                    tracing::info!(resource = self.resource, "controller lost its term");
                    return Ok(intake.lose());
                }
                () = stop.asked() => break Finish::Stopped,
                shards = opened(&mut sharded) => self.enqueue(&shards),
                _ = &mut an_end => {
                    tracing::info!(resource = self.resource, "an informer of the controller stopped");
                    break Finish::Ended;
                }
                Some(ended) = workers.join_next() => match ended {
                    // Another caller closed the queue: there is no more work.
                    Ok(()) => break Finish::Ended,
                    Err(panic) if mutant!("D15") => panic!("{panic}"),
                    Err(panic) => {
                        tracing::error!(%panic, "a worker died while it dropped a reconcile");
                        workers.spawn(Arc::clone(&work).run());
                    }
                },
            }
        };
        stopping.cancel();
        let given_up = intake.close();
        tracing::info!(resource = self.resource, given_up, "controller stops");
        tokio::select! {
            biased;
            () = lost.cancelled() => {}
            drained = self.queue.drain(self.grace) => drained.map(drop).map_err(|left| {
                Error::new(ErrorKind::TimedOut, left.to_string()).with_cause(left)
            })?,
            () = stop.forced() => {
                return Err(Error::new(ErrorKind::Stopped, "stopped without waiting for reconciles"));
            }
        }
        if lost.is_cancelled() {
            workers.shutdown().await;
        }
        while workers.join_next().await.is_some() {}
        Ok(finish)
    }
}

impl<C: Send + Sync + 'static> Run for Runner<C> {
    fn resource(&self) -> &str {
        &self.resource
    }

    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            counters: Arc::clone(&self.counters),
            queue: self.queue.clone(),
            sources: Arc::clone(&self.sources),
        }
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn triggers(&self) -> &[Box<dyn Trigger>] {
        &self.triggers
    }

    fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    fn view(&self) -> &View {
        &self.site.view
    }

    fn last_writes(&self) -> LastWrites {
        self.writes.last()
    }

    fn name(&self) -> &str {
        &self.site.name
    }

    fn share(&self) -> Option<&Share> {
        self.sharded.as_ref().map(Sharded::share)
    }

    fn adopt(&mut self, operator: &str, client: Client) {
        // Shared only while it runs, and it does not yet.
        if let Some(site) = Arc::get_mut(&mut self.site) {
            site.adopt(operator, client);
        }
    }

    fn record(&mut self, events: EventRecorder) {
        if let Some(site) = Arc::get_mut(&mut self.site) {
            site.events.get_or_insert(events);
        }
    }

    fn run<'a>(
        &'a self,
        stop: Stop,
        lost: &'a CancellationToken,
        recent: Option<&'a Recent>,
    ) -> BoxFuture<'a, Result<Finish, Error>> {
        Box::pin(self.work(stop, lost, recent))
    }
}

/// Keys that a term begins with.
fn of_term(keys: Vec<ObjectKey>) -> Vec<(ObjectKey, Cause)> {
    let began = |key| (key, Cause::of(Event::Term));
    keys.into_iter().map(began).collect()
}

/// The source of keys. Closed when it is dropped.
struct Intake {
    queue: WorkQueue<ObjectKey>,
    listening: Vec<Box<dyn Listening>>,
    is_lost: bool,
}

impl Intake {
    fn new(queue: WorkQueue<ObjectKey>) -> Self {
        Self {
            queue,
            listening: Vec::new(),
            is_lost: false,
        }
    }

    /// Stops listening and drops the waiting keys; the queue stays open for the next term.
    fn lose(mut self) -> Finish {
        self.is_lost = true;
        self.stop_listening();
        self.queue.clear();
        Finish::Lost
    }

    /// Stops listening and drops the waiting keys. Returns their number.
    fn close(&mut self) -> usize {
        self.stop_listening();
        self.queue.close().len()
    }

    fn stop_listening(&mut self) {
        self.listening
            .drain(..)
            .for_each(|handler| handler.remove());
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        if !self.is_lost {
            self.close();
        }
    }
}
