//! The handle on an election.
//!
//! ```text
//! won() ─▶ work, under guard() ─▶ lost() ─▶ work joined ─▶ idle() ─▶ won() ..   stop()
//! ```
//!
//! Upstream counterpart: `LeaderElector` (`IsLeader`, `GetLeader`, `Check`) and
//! `LeaderCallbacks` in `client-go:tools/leaderelection/leaderelection.go`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinform::controller::LastWrites;
use kinform_core::election::{EndReason, Term};
use kinform_core::time::Instant;
use tokio::sync::watch;

use super::guard::Guard;
use super::last_writes::Inherited;
use super::orders::Orders;
use super::shared::{Ended, Shared};
use crate::error::{Error, ErrorKind};
use crate::settings::Fencing;

/// A handle on an election that runs; clones are the same election.
///
/// When the last handle is dropped, the election ends without a release: a running term is over at
/// once, and its lease expires. A release needs [`stop`](Self::stop).
#[derive(Clone)]
pub struct Leadership(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    orders: watch::Sender<Orders>,
    /// The limit of a request that a term covers.
    request_timeout: Duration,
    fencing: Fencing,
}

/// BOUND: the time after which a term that should have ended is a failure of health.
///
/// Upstream: the tolerance of controller-runtime's `NewLeaderHealthzAdaptor`.
const TOLERANCE: Duration = Duration::from_secs(20);

impl Leadership {
    pub(super) fn new(
        shared: Arc<Shared>,
        orders: watch::Sender<Orders>,
        request_timeout: Duration,
        fencing: Fencing,
    ) -> Self {
        Self(Arc::new(Handle {
            shared,
            orders,
            request_timeout,
            fencing,
        }))
    }

    /// The term that runs now, by the clock.
    ///
    /// Upstream: `IsLeader`, by the last record that was observed.
    pub fn term(&self) -> Option<Term> {
        self.0.shared.term()
    }

    /// Waits for a term, and returns it; at once if one runs.
    ///
    /// # Errors
    /// The election has ended: [`stop`](Self::stop) was called, or its thread is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call returns the same term, if it still runs.
    ///
    /// Upstream: `OnStartedLeading`.
    pub async fn won(&self) -> Result<Term, Error> {
        self.0.shared.won().await.map_err(|ended| self.over(&ended))
    }

    fn over(&self, ended: &Ended) -> Error {
        let lease = &self.0.shared.lease;
        match ended {
            Ended::Stopped => Error::new(
                ErrorKind::Stopped,
                format!("the election for lease {lease} was stopped"),
            ),
            Ended::Broken => Error::new(
                ErrorKind::LeaseLost,
                format!("the election for lease {lease} broke: its thread or runtime ended"),
            ),
        }
    }

    /// Waits until the running term is another one than `known`, has another end, or is over.
    ///
    /// # Errors
    /// As of [`won`](Self::won).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn changed(&self, known: Option<&Term>) -> Result<Option<Term>, Error> {
        let changed = self.0.shared.other_than(known).await;
        changed.map_err(|ended| self.over(&ended))
    }

    /// Now, by the clock that terms are counted by.
    pub(crate) fn now(&self) -> Instant {
        self.0.shared.clock().now()
    }

    /// Waits until `at`, by that clock.
    ///
    /// Cancel safety: dropping it only cancels the wake-up.
    pub(crate) async fn sleep_until(&self, at: Instant) {
        self.0.shared.clock().sleep_until(at).await;
    }

    /// Waits for the end of `term`, and returns its reason; at once if it is over. The end comes by
    /// a message of the election, or by the clock if the election's thread is late.
    ///
    /// The work must end then; call [`idle`](Self::idle) after it. Only the reason of the last term is
    /// kept; an earlier one has [`EndReason::Expired`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    ///
    /// Upstream: `OnStoppedLeading`.
    pub async fn lost(&self, term: &Term) -> EndReason {
        self.0.shared.lost(term).await
    }

    /// Says that all work of the lost term was joined: this process may stand again. During a term
    /// it has no effect.
    ///
    /// Upstream has no counterpart: an elector is used up by a loss.
    pub fn idle(&self) {
        self.0.orders.send_modify(|orders| orders.idles += 1);
    }

    /// Stops the election, and waits for its end. A running term is over, and its lease is released,
    /// unless the options say otherwise.
    ///
    /// It must be called when no work of a term runs: another replica may lead before it returns.
    /// If work does not end in time, drop the handle instead; the lease expires then. A server
    /// that does not answer is waited for no longer than the term would have lasted.
    ///
    /// # Cancel safety
    /// The stop goes on.
    ///
    /// Upstream: the end of the context, with `ReleaseOnCancel`.
    pub async fn stop(&self) {
        self.0.orders.send_modify(|orders| {
            orders.is_stop = true;
            orders.idles += 1;
        });
        self.0.shared.ended().await;
    }

    /// As [`stop`](Self::stop); the release tells these writes of the term.
    pub(crate) async fn stop_with(&self, last_writes: LastWrites) {
        self.0.shared.leave(last_writes);
        self.stop().await;
    }

    /// The last writes of the term before the one that runs.
    pub(crate) fn inherited(&self) -> Inherited {
        self.0.shared.inherited()
    }

    /// The holder of the lease, as it was last seen; `None` if it has none.
    ///
    /// Upstream: `GetLeader`.
    pub fn leader(&self) -> Option<String> {
        self.0.shared.leader()
    }

    /// The identity of this process in the lease.
    pub fn identity(&self) -> &str {
        &self.0.shared.identity
    }

    /// The lease, as `namespace/name`.
    pub fn lease(&self) -> &str {
        &self.0.shared.lease
    }

    /// The number of times that a leader had to read the lease since a renewal failed.
    ///
    /// Upstream: `leader_election_slowpath_total`.
    pub fn slow_paths(&self) -> u64 {
        self.0.shared.slow_paths()
    }

    /// Checks that the election is alive, and that no term is running that should have ended more
    /// than 20 s ago.
    ///
    /// # Errors
    /// One line for a probe.
    ///
    /// Upstream: `LeaderElector.Check`.
    pub fn check(&self) -> Result<(), String> {
        self.view().check()
    }

    /// A view that does not keep the election alive.
    pub(crate) fn view(&self) -> View {
        View(Arc::clone(&self.0.shared))
    }

    /// A layer for a client whose requests need a running term. It does not keep the election
    /// alive.
    pub fn guard(&self) -> Guard {
        let handle = &self.0;
        Guard::new(
            Arc::clone(&handle.shared),
            handle.request_timeout,
            handle.fencing,
        )
    }
}

/// A look at an election, for probes and metrics. It does not keep the election alive.
#[derive(Clone)]
pub(crate) struct View(Arc<Shared>);

impl View {
    /// As [`Leadership::check`].
    pub(crate) fn check(&self) -> Result<(), String> {
        let overdue = self.0.overdue()?;
        if overdue > TOLERANCE {
            let lease = &self.0.lease;
            return Err(format!(
                "the term of lease {lease} should have ended {overdue:.0?} ago"
            ));
        }
        Ok(())
    }

    pub(crate) fn is_leading(&self) -> bool {
        self.0.term().is_some()
    }

    /// The lease, as `namespace/name`.
    pub(crate) fn lease(&self) -> &str {
        &self.0.lease
    }

    pub(crate) fn slow_paths(&self) -> u64 {
        self.0.slow_paths()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("lease", &self.lease())
            .field("identity", &self.identity())
            .field("term", &self.term())
            .finish_non_exhaustive()
    }
}
