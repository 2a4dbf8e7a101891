//! The order of an operator: the start, the terms, and the stop.
//!
//! ```text
//! ports bound → HTTP → informers synced → lease → controllers
//! stop → not ready → controllers drained → lease released → events flushed → informers → HTTP
//! ```
//!
//! A stop ends every wait of the start. A part that fails stops the operator in the same order.
//! INVARIANT: the lease is released only after all work of the term was joined; if that does not end
//! in time the lease expires.
//!
//! Upstream counterpart: `controller-runtime:pkg/manager/internal.go` (`Start`,
//! `engageStopProcedure`), which releases before the work has ended.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use kinform::InformerState;
use kinform::controller::{LastWrites, Signals};
use kinform_api::mutant;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::parts::{self, When};
use super::servers::Servers;
use super::team::Team;
use super::{Operator, readiness};
use crate::error::{Error, ErrorKind};
use crate::leader::{EndReason, Inherited, LeaderElection, Leadership, Term};
use crate::settings::OnLoss;
use crate::sharding::Stage;
use crate::signals;

/// Time that queued events have at the stop.
const FLUSH: Duration = Duration::from_secs(5);
/// Time that handlers of informers have at the stop.
const HANDLERS: Duration = Duration::from_secs(5);
/// The interval of the line that tells why the start waits.
const SAY: Duration = Duration::from_secs(30);

/// BOUND: the time that the caches have to show the last writes that a released lease tells.
const TOLD: Duration = Duration::from_secs(30);
/// BOUND: the same if they are not told, and the server is asked.
const ASKED: Duration = Duration::from_secs(2);

/// Waits until the caches of sharded controllers have these writes; `None`: what the server has now.
async fn caught_up(parts: Vec<Arc<parts::Inner>>, writes: Option<LastWrites>) {
    let controllers = parts.iter().filter_map(|part| part.controller());
    let sharded = controllers.filter(|controller| controller.share().is_some());
    for caught in join_all(sharded.map(|controller| controller.catch_up(writes.as_ref()))).await {
        if let Err(error) = caught {
            tracing::warn!("a cache may be behind: {error}");
        }
    }
}

impl Operator {
    /// Runs until SIGTERM, SIGINT, or a failure. A second signal, more than 100 ms after the first,
    /// ends the process at once, with exit code 1.
    ///
    /// # Errors
    /// - A port is in use, or its certificate cannot be used: nothing was started then.
    /// - A part failed, or ended before it was asked to.
    /// - Reconciles did not end in the grace period: the lease is not released then, it expires.
    /// - The lease was lost, and the settings say to exit.
    ///
    /// # Cancel safety
    /// Dropping it drops all work at its next await, without a release of the lease.
    ///
    /// Upstream: `Manager.Start`.
    pub async fn run(&self) -> Result<(), Error> {
        if let Some(stop) = signals::adopt() {
            return self.run_until(stop).await;
        }
        let (signals, stop) = (Signals::listen()?, CancellationToken::new());
        let mut following = JoinSet::new();
        following.spawn(signals::follow(signals, stop.clone()));
        self.run_until(stop).await
    }

    /// Runs until `stop` is cancelled, or a failure; signals are the program's affair.
    ///
    /// # Errors
    /// As [`run`](Self::run); and it ran before.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until(&self, stop: CancellationToken) -> Result<(), Error> {
        let inner = &self.0;
        let lock = &inner.delivery;
        let delivery = lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        let delivery =
            delivery.ok_or_else(|| Error::new(ErrorKind::Usage, "an operator runs only once"))?;
        let mut servers = Servers::default();
        let started = async {
            readiness::add(self)?;
            servers.start(self).await
        };
        if let Err(error) = started.await {
            inner.factory.shutdown_within(HANDLERS).await;
            return Err(error);
        }
        let (events_end, mut events) = (CancellationToken::new(), JoinSet::new());
        events.spawn(delivery.run(events_end.clone()));

        let outcome = match servers.certify(&stop).await {
            Ok(true) => self.work(&stop).await,
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };

        inner.leave();
        inner.parts.close();
        let left_at = inner.left_at.get().copied();
        let end = left_at.unwrap_or_else(Instant::now) + inner.settings.webhook_drain;
        servers.stop_webhooks(end).await;
        events_end.cancel();
        let flushed = tokio::time::timeout(FLUSH, events.join_next()).await;
        if flushed.is_err() {
            tracing::warn!("some events were not delivered");
        }
        events.shutdown().await;
        inner.factory.shutdown_within(HANDLERS).await;
        servers.stop().await;
        outcome
    }

    /// Everything between the start of HTTP and its end.
    async fn work(&self, stop: &CancellationToken) -> Result<(), Error> {
        self.0.factory.start()?;
        if !self.synced(stop).await? {
            return Ok(());
        }
        // A failure of either ends both; the leader's work ends first.
        let (stop, halt) = (stop.child_token(), CancellationToken::new());
        let mut always = Team::new(self, When::Always, halt.clone(), CancellationToken::new());
        let lease = &self.0.lease;
        let lease = lease.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (leading, always, shared) = futures::join!(
            async {
                let ended = match lease {
                    None => self.without_lease(&stop).await,
                    Some(lease) => self.terms(lease, &stop).await,
                };
                halt.cancel();
                ended
            },
            async {
                let ended = always.run(&halt).await;
                if ended.is_err() {
                    stop.cancel();
                }
                ended
            },
            self.shared(&stop)
        );
        leading.and(shared).and(always)
    }

    /// Takes part in the division of keys, and runs the controllers that share them.
    async fn shared(&self, stop: &CancellationToken) -> Result<(), Error> {
        let (Some(member), Some((gate, _))) = (&self.0.member, &self.0.sharded) else {
            return Ok(());
        };
        let leadership = self.0.connect.stand(member.election())?;
        gate.set(leadership.guard());
        let (parts, writers) = (self.0.parts.clone(), self.0.parts.clone());
        let stage = Stage {
            factory: &self.0.factory,
            client: self.unguarded(),
            leadership,
            grace: self.0.settings.grace_period,
            catch_up: Arc::new(move |writes| caught_up(parts.all(), writes).boxed()),
            last_writes: Arc::new(move || writers.last_writes()),
        };
        let (given_up, halt) = (CancellationToken::new(), CancellationToken::new());
        let mut team = Team::new(self, When::Sharded, halt, CancellationToken::new());
        let (member, team) = futures::join!(
            async {
                let ended = member.run(stage, stop).await;
                stop.cancel();
                given_up.cancel();
                ended
            },
            async {
                let ended = team.run(&given_up).await;
                stop.cancel();
                ended
            }
        );
        member.and(team)
    }

    async fn without_lease(&self, stop: &CancellationToken) -> Result<(), Error> {
        let (halt, lost) = (CancellationToken::new(), CancellationToken::new());
        self.0.elected.cancel();
        Team::new(self, When::Leading, halt, lost).run(stop).await
    }

    /// Waits until each informer is synced, or has no type to list. Returns false after a stop.
    async fn synced(&self, stop: &CancellationToken) -> Result<bool, Error> {
        let optional = self.0.parts.needed_by_optional_only();
        let informers = self.0.factory.informers();
        let is_needed = |name: String| !optional.contains(&name);
        for informer in informers
            .iter()
            .filter(|i| is_needed(i.resource().to_string()))
        {
            loop {
                let enough = |state: &InformerState| {
                    matches!(
                        state,
                        InformerState::Synced { .. } | InformerState::NoSuchKind(_)
                    ) || state.is_stopped()
                };
                let wait = informer.state_when(enough);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(false),
                    state = wait => {
                        if state.is_stopped() {
                            let message = format!("the informer of {} is stopped", informer.resource());
                            return Err(Error::new(ErrorKind::Part, message));
                        }
                        if !state.is_synced() {
                            tracing::warn!("{}: {state}", informer.resource());
                        }
                        break;
                    }
                    () = tokio::time::sleep(SAY) => {
                        tracing::warn!("still waiting for {}: {}", informer.resource(), informer.state());
                    }
                }
            }
        }
        Ok(true)
    }

    /// Stands for the lease again and again, and works in each term.
    async fn terms(&self, election: LeaderElection, stop: &CancellationToken) -> Result<(), Error> {
        let leadership = self.0.connect.stand(election)?;
        if let Some(gate) = &self.0.gate {
            gate.set(leadership.guard());
        }
        self.follow_leadership(&leadership)?;
        loop {
            let term = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                term = leadership.won() => term?,
            };
            match self.in_term(&leadership, &term, stop).await? {
                Over::Stopped => break,
                Over::Lost(reason) => {
                    tracing::warn!(lease = leadership.lease(), ?reason, "the term is over");
                    if self.exits_on_loss() || self.0.undrained.load(Ordering::Acquire) {
                        let message = format!("lease {} was lost: {reason:?}", leadership.lease());
                        return Err(Error::new(ErrorKind::LeaseLost, message));
                    }
                    leadership.idle();
                }
            }
        }
        self.release(&leadership).await;
        Ok(())
    }

    /// Releases the lease, unless a reconcile did not end in time: then it expires.
    async fn release(&self, leadership: &Leadership) {
        if !self.0.undrained.load(Ordering::Acquire) {
            leadership.stop_with(self.0.parts.last_writes()).await;
        }
    }

    /// Works in one term. Everything was joined when it returns without an error.
    async fn in_term(
        &self,
        leadership: &Leadership,
        term: &Term,
        stop: &CancellationToken,
    ) -> Result<Over, Error> {
        let lost = CancellationToken::new();
        let mut team = Team::new(self, When::Leading, CancellationToken::new(), lost.clone());
        let mut running = std::pin::pin!(async {
            self.catch_up(&leadership.inherited(), stop, &lost).await;
            if !lost.is_cancelled() && !stop.is_cancelled() {
                self.0.elected.cancel();
            }
            team.run(stop).await
        });
        tokio::select! {
            biased;
            reason = leadership.lost(term) => {
                lost.cancel();
                let ended = running.await;
                if stop.is_cancelled() {
                    return ended.map(|()| Over::Stopped);
                }
                // Reconciles that were dropped are no failure; others are.
                ended.map(|()| Over::Lost(reason))
            }
            ended = &mut running => match ended {
                Ok(()) => Ok(Over::Stopped),
                Err(error) => {
                    self.release(leadership).await;
                    Err(error)
                }
            },
        }
    }

    /// Waits until the caches have the writes of the term before.
    async fn catch_up(
        &self,
        inherited: &Inherited,
        stop: &CancellationToken,
        lost: &CancellationToken,
    ) {
        if mutant!("R6") {
            return;
        }
        let (writes, limit) = match inherited {
            Inherited::Told(writes) => (Some(writes), TOLD),
            Inherited::Unknown => (None, ASKED),
        };
        let began = tokio::time::Instant::now();
        let parts = self.0.parts.all();
        let controllers = parts.iter().filter_map(|part| part.controller());
        let caught_up = futures::future::try_join_all(controllers.map(|c| c.catch_up(writes)));
        let is_told = writes.is_some();
        let why = tokio::select! {
            biased;
            () = lost.cancelled() => return,
            () = stop.cancelled() => return,
            caught_up = caught_up => match caught_up {
                Ok(_) => {
                    // About a second where the lease does not tell which writes: the server is asked.
                    let waited = began.elapsed();
                    return tracing::info!(is_told, ?waited, "the caches have the writes of the last term");
                }
                Err(error) => error.to_string(),
            },
            () = tokio::time::sleep(limit) => format!("not within {limit:?}"),
        };
        tracing::warn!(is_told, why, "the caches may lack writes of the last term");
    }

    fn exits_on_loss(&self) -> bool {
        let election = self.0.settings.leader_election.as_ref();
        election.is_some_and(|lease| lease.on_loss == OnLoss::Exit)
    }

    /// Adds the election's check and metric.
    fn follow_leadership(&self, leadership: &Leadership) -> Result<(), Error> {
        let watched = leadership.view();
        self.live_check("leader-election", move || watched.check())?;
        #[cfg(feature = "metrics")]
        {
            use crate::telemetry::family::Family;
            let watched = leadership.view();
            self.0.telemetry.add(Arc::new(move || {
                let name = watched.lease().rsplit('/').next().unwrap_or_default();
                let labels = vec![("name", name.to_owned())];
                let mut status = Family::gauge(
                    "leader_election_master_status",
                    "1 while this replica leads.",
                );
                status.set(&labels, f64::from(u8::from(watched.is_leading())));
                let mut slow = Family::counter(
                    "leader_election_slowpath_total",
                    "Renewals that had to read the lease first.",
                );
                slow.count(&labels, watched.slow_paths());
                vec![status, slow]
            }));
        }
        Ok(())
    }
}

enum Over {
    Stopped,
    Lost(EndReason),
}
