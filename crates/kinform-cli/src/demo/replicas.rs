//! Two replicas of the sample controller: one leads, the other stands by.
//!
//! ```text
//! Lease ⇄ election of each replica → term → reconciler of the leader → writes, under a guard
//! kill: the leader's line is cut and its work dropped ─▶ the lease expires ─▶ the other one leads
//! ```
//!
//! Each replica has connections of its own; they share the caches, as one process has them once. A
//! killed replica releases nothing, as a process on a dead node. It comes back as the standby.
//! INVARIANT: reconciles of a replica run only in its term, and are joined before the next.
//!
//! Upstream counterpart: `client-go:tools/leaderelection`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kinform::controller::{ControllerMetrics, ControllerStats, Reconciler};
use kinform::events::{EventDelivery, EventRecorder};
use kinform::{InformerFactory, ObjectKey, Timestamp};
use kinform_operator::leader::{LeaderElection, Leadership, LeaseOptions};
use kube_client::Client;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::line::Line;
use crate::exit::Failure;

/// The lease, in this namespace.
const NAMESPACE: &str = "default";
const LEASE: &str = "sample-controller";
/// BOUND: the time that the caches have to show the last writes of the term before.
const CATCH_UP: Duration = Duration::from_secs(2);

/// The replicas, and their tasks.
#[derive(Debug)]
pub(crate) struct Replicas {
    list: Vec<Arc<Replica>>,
    running: AsyncMutex<JoinSet<Result<(), Failure>>>,
    stop: CancellationToken,
}

/// One replica.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The name, which is its identity in the lease.
    pub(crate) name: &'static str,
    /// The numbers of its controller.
    pub(crate) metrics: ControllerMetrics,
    /// The workers of its controller.
    pub(crate) workers: usize,
    leadership: Leadership,
    line: Line,
    /// True while it may campaign for the lease: false from its kill to its return.
    may_campaign: watch::Sender<bool>,
    span: Mutex<Span>,
}

/// The time of the last term's work.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    began: Option<Instant>,
    ended: Option<Instant>,
    /// Reconciles that had ended before it began.
    runs_before: u64,
}

/// The numbers of both controllers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkNumbers {
    /// Keys that wait for a worker.
    pub(crate) depth: usize,
    /// Keys added to the queues.
    pub(crate) adds: u64,
    /// Additions of a key that was waiting already.
    pub(crate) merged: u64,
    /// Reconciles that ended.
    pub(crate) reconciles: u64,
    /// Reconciles that failed.
    pub(crate) failed: u64,
}

impl Replicas {
    /// Starts a replica for each client, and returns at once.
    pub(crate) fn start(factory: &InformerFactory, clients: [Client; 2]) -> Result<Self, Failure> {
        let (stop, mut running, mut list) = (CancellationToken::new(), JoinSet::new(), Vec::new());
        let is_first = Arc::new(AtomicBool::new(true));
        for (name, client) in ["replica-a", "replica-b"].into_iter().zip(clients) {
            let line = Line::default();
            let client = line.over(&client);
            let election = LeaderElection::new(NAMESPACE, LEASE)
                .identity(name)
                .options(LeaseOptions::quick());
            let leadership = election.start_here(client.clone()).map_err(failed)?;
            let guarded = leadership.guard().over(&client);
            let (events, delivery) = EventRecorder::new(client, sample_controller::COMPONENT);
            let mut reconciler = sample_controller::reconciler(factory, guarded, events);
            reconciler.follow().map_err(failed)?;
            let replica = Arc::new(Replica {
                name,
                metrics: reconciler.metrics(),
                workers: reconciler.workers(),
                leadership,
                line,
                may_campaign: watch::Sender::new(true),
                span: Mutex::default(),
            });
            let life = Life {
                replica: Arc::clone(&replica),
                reconciler,
                is_first: Arc::clone(&is_first),
                stop: stop.clone(),
            };
            running.spawn(life.live(delivery));
            list.push(replica);
        }
        Ok(Self {
            list,
            running: AsyncMutex::new(running),
            stop,
        })
    }

    /// Both replicas.
    pub(crate) fn all(&self) -> &[Arc<Replica>] {
        &self.list
    }

    /// The replica whose term runs.
    pub(crate) fn leader(&self) -> Option<&Arc<Replica>> {
        self.list.iter().find(|replica| replica.leads())
    }

    /// The numbers of both controllers.
    pub(crate) fn numbers(&self) -> WorkNumbers {
        let all = self.list.iter().map(|replica| replica.metrics.snapshot());
        all.fold(WorkNumbers::default(), |sum, stats: ControllerStats| {
            WorkNumbers {
                depth: sum.depth + stats.queue.depth,
                adds: sum.adds + stats.queue.adds,
                merged: sum.merged + stats.queue.merged,
                reconciles: sum.reconciles + stats.reconciles(),
                failed: sum.failed + stats.failed,
            }
        })
    }

    /// Ends both; running reconciles end first, then the lease is released.
    pub(crate) async fn stop(&self) -> Result<(), Failure> {
        self.stop.cancel();
        let mut running = self.running.lock().await;
        let mut outcome = Ok(());
        while let Some(ended) = running.join_next().await {
            let ended = ended.unwrap_or_else(|error| Err(failed(error)));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Replica {
    /// Returns whether its term runs and its line is whole.
    pub(crate) fn leads(&self) -> bool {
        self.leadership.term().is_some() && !self.is_dead()
    }

    /// Cuts it off from the server, and drops its work.
    pub(crate) fn kill(&self) {
        self.may_campaign.send_replace(false);
        self.line.cut();
    }

    /// Lets it campaign again; it does so once the term in which it was killed is over.
    pub(crate) fn revive(&self) {
        self.may_campaign.send_replace(true);
    }

    /// Returns whether it is cut off.
    pub(crate) fn is_dead(&self) -> bool {
        self.line.is_cut()
    }

    /// Waits until it may campaign.
    async fn revived(&self) {
        let mut may_campaign = self.may_campaign.subscribe();
        // The sender is in `self`.
        let _ = may_campaign.wait_for(|may| *may).await.map(drop);
    }

    /// The start of the work of its term, once a reconcile of that term has ended.
    pub(crate) fn began(&self) -> Option<Instant> {
        let span = self.span();
        let runs = self.metrics.snapshot().reconciles();
        span.began.filter(|_| runs > span.runs_before)
    }

    /// The end of the work of its last term; `None` while it works, and before its first term.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.span().ended
    }

    /// A key that both replicas reconciled at the same time.
    pub(crate) fn overlap(&self, other: &Self) -> Option<ObjectKey> {
        let spans = |replica: &Self| {
            let runs = replica.metrics.recent_runs();
            runs.into_iter().map(|run| {
                let end = run.started.checked_add(run.took).unwrap_or(run.started);
                (run.key().clone(), run.started, end)
            })
        };
        let others: Vec<(ObjectKey, Timestamp, Timestamp)> = spans(other).collect();
        let mut own = spans(self);
        own.find(|(key, start, end)| {
            let is_twice =
                |(k, s, e): &(ObjectKey, Timestamp, Timestamp)| k == key && s < end && start < e;
            others.iter().any(is_twice)
        })
        .map(|(key, ..)| key)
    }

    fn span(&self) -> Span {
        *self.span.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Span)) {
        change(&mut self.span.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The task of a replica.
struct Life {
    replica: Arc<Replica>,
    reconciler: Reconciler,
    /// No replica has led yet.
    is_first: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Life {
    async fn live(self, delivery: EventDelivery) -> Result<(), Failure> {
        let events_end = CancellationToken::new();
        let (ended, ()) = futures::join!(
            async {
                let ended = self.terms().await;
                events_end.cancel();
                ended
            },
            delivery.run(events_end.clone())
        );
        ended
    }

    /// Campaigns for the lease again and again, and works in each term.
    async fn terms(&self) -> Result<(), Failure> {
        let leadership = &self.replica.leadership;
        loop {
            let term = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                won = leadership.won() => won.map_err(failed)?,
            };
            let lost = CancellationToken::new();
            let mut work = std::pin::pin!(self.work(&lost));
            let ended = tokio::select! {
                biased;
                _ = leadership.lost(&term) => None,
                () = self.replica.line.when_cut() => None,
                ended = &mut work => Some(ended),
            };
            let ended = match ended {
                Some(ended) => ended,
                None => {
                    lost.cancel();
                    work.await
                }
            };
            self.replica.note(|span| span.ended = Some(Instant::now()));
            ended?;
            let over = async {
                leadership.lost(&term).await;
                self.replica.revived().await;
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = over => {}
            }
            // Before the next term can begin: its leader is never seen with the times of this one.
            self.replica.note(|span| *span = Span::default());
            self.replica.line.mend();
            leadership.idle();
        }
        self.replica.line.mend();
        leadership.stop().await;
        Ok(())
    }

    /// Works in one term; all reconciles were joined when it returns.
    async fn work(&self, lost: &CancellationToken) -> Result<(), Failure> {
        if !self.is_first.swap(false, Ordering::AcqRel) {
            tokio::select! {
                biased;
                () = lost.cancelled() => return Ok(()),
                () = self.stop.cancelled() => return Ok(()),
                // A cache that is late shows itself as a conflict, which is tried again.
                _ = tokio::time::timeout(CATCH_UP, self.reconciler.catch_up(None)) => {}
            }
        }
        let runs_before = self.replica.metrics.snapshot().reconciles();
        self.replica.note(|span| {
            *span = Span {
                began: Some(Instant::now()),
                ended: None,
                runs_before,
            };
        });
        let ended = self.reconciler.lead(&self.stop, lost).await;
        ended.map(drop).map_err(failed)
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("sample controller: {error}"))
}
