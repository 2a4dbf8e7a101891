//! The state of an election, between its driver and everybody who asks.
//!
//! ```text
//! driver ──begin, extend, end, finish──▶ Shared ──▶ Leadership (waits), Guard (looks)
//! ```
//!
//! INVARIANT: a term is running only as long as its end lies ahead by the clock, whether or not the
//! driver has said so: a reader never trusts the last message alone.
//!
//! Upstream counterpart: `LeaderElector.IsLeader`, which trusts the last record.

use std::sync::atomic::Ordering;

use kinform::controller::LastWrites;
use kinform_api::mutant;
use kinform_core::election::{EndReason, Term};
use kinform_core::time::Instant;

use super::clock::Clock;
use super::last_writes::Inherited;
use crate::sync::{AtomicU64, watch};

/// The state of an election. Only its driver changes it.
#[derive(Debug)]
pub(super) struct Shared {
    /// `namespace/name` of the lease.
    pub(super) lease: String,
    pub(super) identity: String,
    clock: Clock,
    state: watch::Sender<State>,
    slow_paths: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Term>,
    /// Terms that began: the number of the running one, or of the last.
    begun: u64,
    last: Option<(Term, EndReason)>,
    leader: Option<String>,
    ended: Option<Ended>,
    /// Left by the term before.
    inherited: Inherited,
    /// To be told by a release.
    last_writes: Option<LastWrites>,
}

/// The end of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As its owner wanted.
    Stopped,
    /// Its driver panicked, or its runtime ended.
    Broken,
}

/// A running term, as a guard remembers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    number: u64,
    pub(super) now: Instant,
    pub(super) ends_at: Instant,
}

impl Shared {
    pub(super) fn new(lease: String, identity: String, clock: Clock) -> Self {
        Self {
            lease,
            identity,
            clock,
            state: watch::Sender::default(),
            slow_paths: AtomicU64::new(0),
        }
    }

    pub(super) fn begin(&self, term: Term) {
        self.state.send_modify(|state| {
            state.running = Some(term);
            state.begun += 1;
        });
    }

    /// The last writes of the term before the one that begins next.
    pub(super) fn inherit(&self, inherited: Inherited) {
        self.state.send_modify(|state| state.inherited = inherited);
    }

    pub(super) fn inherited(&self) -> Inherited {
        self.state.borrow().inherited.clone()
    }

    /// Sets the writes that the release tells.
    pub(super) fn leave(&self, last_writes: LastWrites) {
        self.state
            .send_modify(|state| state.last_writes = Some(last_writes));
    }

    pub(super) fn last_writes(&self) -> Option<LastWrites> {
        self.state.borrow().last_writes.clone()
    }

    pub(super) fn extend(&self, ends_at: Instant) {
        self.state.send_modify(|state| {
            if let Some(term) = &mut state.running {
                term.ends_at = ends_at;
            }
        });
    }

    pub(super) fn end(&self, term: Term, reason: EndReason) {
        self.state.send_modify(|state| {
            state.running = None;
            state.last = Some((term, reason));
        });
    }

    pub(super) fn lead_by(&self, identity: Option<String>) {
        self.state.send_modify(|state| state.leader = identity);
    }

    pub(super) fn count_slow_path(&self) {
        self.slow_paths.fetch_add(1, Ordering::Relaxed);
    }

    /// The election is over; a term that still runs is, too. The first end counts.
    pub(super) fn finish(&self, ended: Ended) {
        self.state.send_modify(|state| {
            if let Some(term) = state.running.take() {
                state.last = Some((term, EndReason::Stopped));
            }
            state.ended.get_or_insert(ended);
        });
    }

    pub(super) fn slow_paths(&self) -> u64 {
        self.slow_paths.load(Ordering::Relaxed)
    }

    pub(super) fn leader(&self) -> Option<String> {
        self.state.borrow().leader.clone()
    }

    /// The time since a term should have ended that still counts as running; `Err` if the election
    /// is broken.
    pub(super) fn overdue(&self) -> Result<std::time::Duration, String> {
        let state = self.state.borrow();
        if state.ended == Some(Ended::Broken) {
            return Err(format!("the election for lease {} is broken", self.lease));
        }
        let ends_at = state.running.as_ref().map(|term| term.ends_at);
        Ok(ends_at.map_or_else(Default::default, |at| self.clock.now().since(at)))
    }

    /// The term that runs.
    pub(super) fn term(&self) -> Option<Term> {
        let state = self.state.borrow();
        let term = state.running.as_ref();
        term.filter(|term| self.clock.now() < term.ends_at).cloned()
    }

    /// The text of the term that runs, as the policy of a hard fence computes it from the lease.
    pub(super) fn stamp(&self) -> Option<String> {
        let term = self.term()?;
        let (lease, holder) = (&self.lease, &self.identity);
        Some(format!(
            "{lease} {} {} {holder}",
            term.uid, term.transitions
        ))
    }

    /// A look at the term that runs.
    pub(super) fn look(&self) -> Option<Look> {
        let state = self.state.borrow();
        let now = self.clock.now();
        let ends_at = state.running.as_ref()?.ends_at;
        (now < ends_at || mutant!("L13")).then_some(Look {
            number: state.begun,
            now,
            ends_at,
        })
    }

    /// Returns whether the term that was looked at still runs.
    pub(super) fn is_running(&self, seen: &Look) -> bool {
        self.look().is_some_and(|look| look.number == seen.number)
    }

    /// Waits for the end of the term that was looked at, by a message or by the clock.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn over(&self, seen: &Look) {
        let mut changes = self.state.subscribe();
        loop {
            changes.mark_unchanged();
            let Some(look) = self.look().filter(|look| look.number == seen.number) else {
                return;
            };
            if mutant!("C6") {
                changes.mark_unchanged();
            }
            tokio::select! {
                biased;
                // Its sender is here.
                _ = changes.changed() => {}
                () = self.clock.sleep_until(look.ends_at), if !mutant!("L13") => {}
            }
        }
    }

    /// Waits for a term, or for the end of the election.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn won(&self) -> Result<Term, Ended> {
        let mut changes = self.state.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(term) = self.term() {
                return Ok(term);
            }
            if let Some(ended) = &self.state.borrow().ended {
                return Err(ended.clone());
            }
            let _ = changes.changed().await;
        }
    }

    /// Waits until the running term is another one than `known`, has another end, or is over.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn other_than(&self, known: Option<&Term>) -> Result<Option<Term>, Ended> {
        let mut changes = self.state.subscribe();
        loop {
            changes.mark_unchanged();
            let term = self.term();
            if term.as_ref() != known {
                return Ok(term);
            }
            if let Some(ended) = &self.state.borrow().ended
                && term.is_none()
            {
                return Err(ended.clone());
            }
            let ends_at = term.as_ref().map(|term| term.ends_at);
            tokio::select! {
                biased;
                // Its sender is here.
                _ = changes.changed() => {}
                () = self.clock.sleep_until(ends_at.unwrap_or(Instant::ZERO)), if ends_at.is_some() => {}
            }
        }
    }

    /// The clock that terms are counted by.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits for the end of the election.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn ended(&self) {
        let mut changes = self.state.subscribe();
        let _ = changes.wait_for(|state| state.ended.is_some()).await;
    }

    /// Waits for the end of `term`, and returns its reason.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn lost(&self, term: &Term) -> EndReason {
        if let Some(look) = self.look_at(term) {
            self.over(&look).await;
        }
        let state = self.state.borrow();
        match &state.last {
            Some((last, reason)) if is_same(last, term) => reason.clone(),
            // By the clock alone, or long ago.
            _ => EndReason::Expired,
        }
    }

    /// A look, if this is the term that runs.
    fn look_at(&self, term: &Term) -> Option<Look> {
        let look = self.look()?;
        let state = self.state.borrow();
        let running = state.running.as_ref();
        let running = running.filter(|_| state.begun == look.number)?;
        is_same(running, term).then_some(look)
    }
}

/// Their ends may differ.
fn is_same(a: &Term, b: &Term) -> bool {
    (&a.uid, a.transitions, &a.version) == (&b.uid, b.transitions, &b.version)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shared() -> Shared {
        Shared::new("a/b".to_owned(), "me".to_owned(), Clock::runtime())
    }

    fn term(version: u64, ends_at: u64) -> Term {
        Term {
            uid: "u".to_owned(),
            transitions: 1,
            version: version.into(),
            ends_at: Instant::from_millis(ends_at),
        }
    }

    // A driver that is late, or stuck: nobody says that the term is over.
    // fault: F28
    #[tokio::test(start_paused = true)]
    async fn l13_a_term_ends_by_the_clock_without_a_message() {
        let shared = shared();
        shared.begin(term(7, 3000));
        let seen = shared.look().expect("it runs");
        let running = term(7, 0);
        let lost = tokio::time::timeout(Duration::from_secs(60), shared.lost(&running));
        assert_eq!(lost.await, Ok(EndReason::Expired));
        assert_eq!(shared.clock.now(), Instant::from_millis(3000));
        assert!(shared.term().is_none() && shared.look().is_none());
        assert!(!shared.is_running(&seen));
        shared.over(&seen).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(shared.overdue(), Ok(Duration::from_secs(5)));
        // The driver was only late: it is the same term, and runs again.
        shared.extend(Instant::from_millis(20_000));
        assert_eq!(shared.won().await, Ok(term(7, 20_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_at_one_term_is_over_in_the_next() {
        let shared = shared();
        shared.begin(term(7, 3000));
        let seen = shared.look().expect("it runs");
        shared.end(term(7, 3000), EndReason::Deleted);
        shared.begin(term(9, 3000));
        assert!(!shared.is_running(&seen));
        shared.over(&seen).await;
        assert_eq!(shared.lost(&term(7, 0)).await, EndReason::Deleted);
        assert_eq!(shared.clock.now(), Instant::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_election_ends_its_term_and_is_not_healthy() {
        let shared = shared();
        shared.begin(term(7, 3000));
        shared.finish(Ended::Broken);
        shared.finish(Ended::Stopped);
        assert_eq!(shared.won().await, Err(Ended::Broken));
        assert_eq!(shared.lost(&term(7, 0)).await, EndReason::Stopped);
        assert!(shared.overdue().is_err());
    }
}
