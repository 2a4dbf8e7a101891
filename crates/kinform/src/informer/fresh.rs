//! The freshness of one cache: the last time at which it had everything that the server had.
//!
//! ```text
//! fresh_since(t) ─proof of t or later─▶ done
//!        └─▶ one question for all who ask ──version V──▶ cache at V? ─▶ proof, as of the question
//!                                                 idle: a short watch ─┘
//! ```
//!
//! Bytes on a watch prove nothing, since a watch can lag: only a version proves that the server told
//! in answer to a question. The proof dates from the moment before the question was sent.
//! INVARIANT: of one cache, at most one question is under way, and it belongs to those who wait.
//!
//! Upstream counterpart: none; `apiserver:pkg/storage/cacher` (consistent reads) does the same
//! between a watch cache and etcd.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use kinform_api::{ResourceVersion, mutant};
use kinform_core::store::root::Root;
use kinform_core::time::Instant;
use tokio::sync::{Semaphore, watch};

use super::Core;
use super::own_writes::{has_reached, when};
use super::question;
use crate::error::{Error, ErrorKind};
use crate::sync::lock;

/// BOUND: the time that one question and the wait for its version take.
const LIMIT: Duration = Duration::from_secs(5);
/// BOUND: waiters of one cache. Further ones are refused.
const MAX_WAITERS: usize = 1024;
/// The time after a question that failed, during which its failure answers further ones.
const PAUSE: Duration = Duration::from_secs(1);
/// The time that the cache's own watch has to bring a version, before a short watch is opened.
const OWN_WATCH: Duration = Duration::from_millis(100);

/// The proof that a cache was fresh.
#[derive(Clone, Copy, Debug)]
struct Proof {
    as_of: Instant,
    /// Of the cache; versions of another epoch prove nothing.
    epoch: u64,
}

type Question = Shared<BoxFuture<'static, Result<(), Failure>>>;

/// The freshness of one cache.
pub(crate) struct Freshness {
    state: Mutex<State>,
    /// A permit for each further waiter.
    seats: Semaphore,
}

#[derive(Default)]
struct State {
    proof: Option<Proof>,
    /// The question under way. It ends when nobody waits for it.
    question: Option<WeakShared<BoxFuture<'static, Result<(), Failure>>>>,
    failed: Option<(Instant, Failure)>,
    /// The epoch of the cache when it was asked to list again, since the server went back.
    relisted: Option<u64>,
}

/// The reason why a cache was not shown to be fresh.
#[derive(Clone, Debug)]
struct Failure {
    kind: ErrorKind,
    reason: Arc<str>,
}

impl Failure {
    fn stale(reason: impl Into<Arc<str>>) -> Self {
        Self {
            kind: ErrorKind::Stale,
            reason: reason.into(),
        }
    }
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            seats: Semaphore::new(MAX_WAITERS),
        }
    }
}

impl Core {
    /// The clock of this cache.
    pub(crate) fn now(&self) -> Instant {
        self.env.now()
    }

    /// Shows that the cache has everything that the server had at `since`, a time that is not in
    /// the future. Asks the server if that is not known.
    ///
    /// Takes twice [`LIMIT`] at most.
    ///
    /// # Errors
    /// It was not shown in time ([`Error::is_stale`]), the cache has ended, or its versions have no
    /// order ([`Error::is_invalid`]).
    ///
    /// Cancel safety: the question ends with its last waiter.
    pub(crate) async fn fresh_since(self: &Arc<Self>, since: Instant) -> Result<(), Error> {
        let Ok(_seat) = self.freshness.seats.try_acquire() else {
            return Err(self.not_fresh(&Failure::stale("too many ask at the same time")));
        };
        loop {
            if self.is_stopped() {
                return Err(Error::stopped(&self.info));
            }
            let question = {
                let mut state = lock(&self.freshness.state);
                if self.proves(&state, since) {
                    return Ok(());
                }
                if let Some((at, failure)) = &state.failed
                    && self.env.now().since(*at) < PAUSE
                {
                    return Err(self.not_fresh(failure));
                }
                self.question(&mut state)
            };
            question.await.map_err(|failure| self.not_fresh(&failure))?;
        }
    }

    fn proves(&self, state: &State, since: Instant) -> bool {
        let epoch = self.root().epoch();
        let is_good = |proof: Proof| proof.as_of >= since && proof.epoch == epoch;
        state.proof.is_some_and(is_good)
    }

    /// The question under way, or a new one.
    fn question(self: &Arc<Self>, state: &mut State) -> Question {
        let known = state.question.as_ref().and_then(WeakShared::upgrade);
        if let Some(known) = known.filter(|known| known.peek().is_none() && !mutant!("R1")) {
            return known;
        }
        let question = Arc::clone(self).ask().boxed().shared();
        state.question = question.downgrade();
        question
    }

    /// Asks, and keeps the result.
    async fn ask(self: Arc<Self>) -> Result<(), Failure> {
        let asked_at = self.env.now();
        let shown = tokio::select! {
            biased;
            shown = self.show(asked_at) => shown,
            () = self.env.sleep_until(asked_at + LIMIT) => {
                let reason = format!("it did not get to the server's version within {LIMIT:?}");
                Err(Failure::stale(reason))
            }
        };
        let mut state = lock(&self.freshness.state);
        match shown {
            Ok(proof) => {
                state.proof = Some(proof);
                state.failed = None;
                Ok(())
            }
            Err(failure) => {
                state.failed = Some((self.env.now(), failure.clone()));
                Err(failure)
            }
        }
    }

    async fn show(self: &Arc<Self>, asked_at: Instant) -> Result<Proof, Failure> {
        let root = self.root();
        if !root.has_synced() {
            return Err(Failure::stale("it has no list yet"));
        }
        let told = question::version(&*self.source).await;
        let told = told.map_err(|error| Failure::stale(format!("no answer: {error}")))?;
        let before = ResourceVersion::from(&**root.version());
        match told.compare(&before) {
            Ok(Ordering::Less) => {
                // A consistent answer is not older than what this cache had before the question.
                // A second list would interrupt the first.
                let epoch = Some(root.epoch());
                if std::mem::replace(&mut lock(&self.freshness.state).relisted, epoch) != epoch {
                    self.relist();
                }
                return Err(Failure::stale("the server went back in time"));
            }
            Ok(Ordering::Equal | Ordering::Greater) => {}
            Err(_) => {
                let kind = ErrorKind::Invalid;
                let reason = format!("version {told:?} cannot be compared").into();
                return Err(Failure { kind, reason });
            }
        }
        let reached = self.caught_up(&told).await;
        reached.map_err(|error| Failure::stale(error.to_string()))?;
        if self.root().epoch() != root.epoch() {
            return Err(Failure::stale("the server went back in time"));
        }
        Ok(Proof {
            as_of: asked_at,
            epoch: root.epoch(),
        })
    }

    /// Waits until the cache lacks no change up to `version`, as long as it takes.
    ///
    /// # Errors
    /// The cache has ended.
    ///
    /// Cancel safety: nothing is lost.
    pub(crate) async fn caught_up(
        self: &Arc<Self>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        if mutant!("R2") {
            return Ok(());
        }
        let own_watch = self.env.now() + OWN_WATCH;
        tokio::select! {
            biased;
            reached = self.reached(version) => return reached,
            () = self.env.sleep_until(own_watch) => {}
        }
        tokio::select! {
            biased;
            reached = self.reached(version) => reached,
            reached = self.last_change_reached(version) => reached,
        }
    }

    /// Waits until the cache has the last change before `version`, by short watches.
    async fn last_change_reached(self: &Arc<Self>, version: &ResourceVersion) -> Result<(), Error> {
        loop {
            let begun = self.env.now();
            let root = self.root();
            if !root.has_synced() {
                // There is nothing to go on from.
                return self.reached(version).await;
            }
            let from = ResourceVersion::from(&**root.version());
            let cached = (&self.info, root.scope().map(|scope| &**scope));
            let last = question::last_change(&*self.source, cached, (&from, version)).await;
            match last {
                Ok(last) => return self.reached(&last).await,
                Err(error) => {
                    tracing::debug!(%error, resource = %self.info, "a short watch proved nothing");
                    self.env.sleep_until(begun + PAUSE).await;
                }
            }
        }
    }

    async fn reached(self: &Arc<Self>, version: &ResourceVersion) -> Result<(), Error> {
        // The set of caches is this one.
        let (_same, changed) = watch::channel(0);
        let is_there = |root: &Root| root.has_synced() && has_reached(root, version);
        let watched = || vec![Arc::clone(self)];
        when(changed, watched, |cores| Ok(is_there(&cores[0].root()))).await
    }

    fn not_fresh(&self, failure: &Failure) -> Error {
        let Failure { kind, reason } = failure;
        let message = format!("the cache of {} may be stale: {reason}", self.info);
        Error::new(*kind, message)
    }
}

impl fmt::Debug for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Freshness")
            .field("proof", &lock(&self.state).proof)
            .finish_non_exhaustive()
    }
}
