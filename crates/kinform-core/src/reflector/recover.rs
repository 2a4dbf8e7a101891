//! Recovery from a failure: wait, list again, or ask differently.
//!
//! ```text
//! Failure | ERROR event → verdict → request now | wait (backoff, Retry-After) → request
//! ```
//!
//! Everything that fails waits, with two exceptions that cannot become a loop: the next rung of the
//! ladder of versions or of ways to list, and the first relist in half a minute.
//! Waits honour `Retry-After`, up to five minutes, and are never shorter than the backoff.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`ListAndWatchWithContext`,
//! `startWatchWithRetries`) and `client-go:tools/cache/retry_with_deadline.go`.

use std::time::Duration;

use kinform_api::mutant;

use crate::time::Instant;

use super::input::{Ending, Failure};
use super::report::{Problem, ProblemKind, ReflectorEvent, RelistReason, State};
use super::verdict::{Ask, Verdict, of_failure};
use super::{Phase, Reflector};

/// BOUND: a server may ask to wait, but not for longer than this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
/// BOUND: relists that do not wait, one in so long.
const RELIST_SPACING: Duration = Duration::from_secs(30);
/// BOUND: watches that could not be opened in a row, before everything is listed again.
const MAX_FAILED_OPENS: u8 = 3;

/// The action that follows a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A new cycle: list, then watch.
    Cycle,
    /// The list of this cycle once more.
    List,
    /// The watch, where it stopped.
    Reopen,
}

/// The window in which internal errors reopen the watch.
#[derive(Clone, Debug, Default)]
pub(super) struct InternalErrors {
    window_began: Option<Instant>,
    last: Option<Instant>,
}

impl InternalErrors {
    /// One more; whether it is within the window. A minute without starts a new one.
    fn is_tolerated(&mut self, now: Instant, window: Duration) -> bool {
        // client-go: TestRetryInternalError, TestRetryWithDeadline
        const QUIET: Duration = Duration::from_secs(60);
        if window.is_zero() {
            return false;
        }
        if self.last.is_none_or(|last| now.since(last) >= QUIET) {
            self.window_began = Some(now);
        }
        self.last = Some(now);
        self.window_began
            .is_some_and(|began| now.since(began) < window)
    }
}

impl Reflector {
    /// A request came to nothing; once its body began, it was cut.
    pub(super) fn on_failed(&mut self, failure: Failure, now: Instant) {
        match self.phase {
            Phase::Opening(ask) => self.on_failed_ask(ask, failure, now),
            Phase::Reading(ask) => {
                let message = failure.problem(ask.verb()).message;
                self.on_ended(Ending::Cut { message }, now);
            }
            Phase::Idle | Phase::Waiting { .. } | Phase::Stopped => {}
        }
    }

    pub(super) fn on_failed_ask(&mut self, ask: Ask, failure: Failure, now: Instant) {
        let wait = failure.retry_after();
        let problem = failure.problem(ask.verb());
        if matches!(failure, Failure::Status { .. }) {
            self.heard_at = Some(now);
        }
        self.act(of_failure(ask, problem.kind), ask, problem, wait, now);
    }

    /// Does what the table says. Nothing is open.
    pub(super) fn act(
        &mut self,
        verdict: Verdict,
        ask: Ask,
        problem: Problem,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        let verdict = self.verified_first(verdict, ask, problem.kind);
        if verdict != Verdict::Believe {
            self.leave_stream();
        }
        match verdict {
            Verdict::RelistSoon(_) if mutant!("B22") => self.phase = Phase::Stopped,
            Verdict::Relist(_) if mutant!("K8") && problem.kind == ProblemKind::NotFound => {
                self.phase = Phase::Stopped;
            }
            Verdict::AskConsistent => self.ask_consistent(ask, problem, retry_after, now),
            Verdict::AskPages(reason) => self.ask_pages_instead(reason, now),
            Verdict::AskUnpaged => {
                self.abort_list();
                self.ask_unpaged(now);
            }
            Verdict::Skip if self.is_rejoining() => {
                self.on_rejoin_refused(problem.kind, now);
            }
            Verdict::Skip => {
                self.habits.verify = false;
                self.ask_watch(now);
            }
            Verdict::Believe => self.believe_empty(now),
            Verdict::Relist(reason) => self.relist_later(reason, problem, retry_after, now),
            Verdict::RelistSoon(reason) => {
                self.position.ask_consistent |= reason == RelistReason::TooLarge;
                self.relist_soon(reason, retry_after, now);
            }
            Verdict::InternalError => {
                let window = self.config.internal_error_window;
                if self.internal_errors.is_tolerated(now, window) {
                    self.wait(Next::Reopen, problem, retry_after, now);
                } else {
                    self.relist_later(RelistReason::WatchError, problem, retry_after, now);
                }
            }
            Verdict::RetryFew if self.habits.failed_opens + 1 >= MAX_FAILED_OPENS => {
                self.relist_later(RelistReason::WatchUnavailable, problem, retry_after, now);
            }
            Verdict::RetryFew => {
                self.habits.failed_opens += 1;
                self.wait(Next::Reopen, problem, retry_after, now);
            }
            Verdict::Retry => {
                self.abort_list();
                let next = match ask {
                    Ask::Watch | Ask::Probe => Next::Reopen,
                    Ask::StreamingList | Ask::Confirm => Next::List,
                    Ask::Page | Ask::NextPage => Next::Cycle,
                };
                self.wait(next, problem, retry_after, now);
            }
        }
    }

    /// Has the server's version asked for before the next watch, where that may tell something. Lists
    /// that pass while watches do not are followed by lists soon.
    fn verified_first(&mut self, verdict: Verdict, ask: Ask, kind: ProblemKind) -> Verdict {
        let is_watching = matches!(ask, Ask::Watch | Ask::Probe);
        if !is_watching || !is_worth_a_probe(kind) {
            return verdict;
        }
        self.habits.verify = true;
        match verdict {
            Verdict::Retry if ask == Ask::Watch && self.silence.is_behind() => Verdict::RetryFew,
            verdict => verdict,
        }
    }

    /// Lists again: at once, unless that was done a moment ago.
    pub(super) fn relist_soon(
        &mut self,
        reason: RelistReason,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        let is_rare = self
            .cycle
            .began_at
            .is_none_or(|t| now.since(t) >= RELIST_SPACING);
        if is_rare && retry_after.is_none() {
            self.cycle.reason = Some(reason);
            self.habits.failed_opens = 0;
            return self.begin_cycle(now);
        }
        let kind = match reason {
            RelistReason::Expired => ProblemKind::Expired,
            RelistReason::TooLarge => ProblemKind::TooLarge,
            RelistReason::OutOfOrder => ProblemKind::OutOfOrder,
            _ => ProblemKind::Other,
        };
        let message = reason.as_str().to_owned();
        let problem = Problem {
            verb: Ask::Watch.verb(),
            kind,
            code: None,
            message,
        };
        self.relist_later(reason, problem, retry_after, now);
    }

    /// Waits, then lists again.
    pub(super) fn relist_later(
        &mut self,
        reason: RelistReason,
        problem: Problem,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        self.cycle.reason = Some(reason);
        self.habits.failed_opens = 0;
        self.wait(Next::Cycle, problem, retry_after, now);
    }

    /// Waits for as long as failures in a row and the server demand.
    pub(super) fn wait(
        &mut self,
        next: Next,
        problem: Problem,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        let delay = self.backoff.failed(now, self.dice.throw());
        if mutant!("B23") {
            return self.wait_for(next, problem, Duration::ZERO, now);
        }
        let after = delay.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
        self.wait_for(next, problem, after, now);
    }

    /// The same for so long, whatever failed before.
    pub(super) fn wait_for(&mut self, next: Next, problem: Problem, after: Duration, now: Instant) {
        self.count_missing(problem.kind);
        self.silence.forget_version();
        if self.is_rejoin_hopeless(problem.kind) {
            return self.give_up_rejoin(RelistReason::Unproven, now);
        }
        self.phase = Phase::Waiting {
            until: now + after,
            next,
        };
        self.stats.retries += 1;
        let state = self.state_after(&problem);
        self.report(ReflectorEvent::Retrying { after, problem });
        self.enter(state);
    }

    /// The wait is over.
    pub(super) fn go_on(&mut self, next: Next, now: Instant) {
        match next {
            Next::Cycle => self.begin_cycle(now),
            Next::List => self.begin_list(now),
            Next::Reopen => self.reopen(now),
        }
    }

    fn state_after(&self, problem: &Problem) -> State {
        match problem.kind {
            ProblemKind::Forbidden => State::Forbidden { verb: problem.verb },
            ProblemKind::Unauthorized => State::Unauthorized,
            ProblemKind::NotFound => State::NoSuchKind,
            _ if !self.has_synced => State::Pending,
            _ => match (&self.state, self.heard_at) {
                (State::Stale { since }, _) => State::Stale { since: *since },
                (_, Some(since)) => State::Stale { since },
                (_, None) => State::Pending,
            },
        }
    }
}

/// Returns whether the next answer may come from another server, or one with another history; or
/// whether what refuses the watch may let a list pass.
fn is_worth_a_probe(kind: ProblemKind) -> bool {
    matches!(
        kind,
        ProblemKind::Refused
            | ProblemKind::Certificate
            | ProblemKind::Transport
            | ProblemKind::Deadline
            | ProblemKind::Unavailable
            | ProblemKind::Unauthorized
            | ProblemKind::NotKubernetes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_errors_are_tolerated_for_a_window() {
        // client-go: TestRetryWithDeadline, TestRetryInternalError
        let at = |s: u64| Instant::from_millis(s * 1_000);
        let window = Duration::from_secs(30);
        let mut errors = InternalErrors::default();
        let table = [
            (0, true),
            (10, true),
            (29, true),
            (30, false),
            (80, false),
            (140, true),
            (169, true),
        ];
        for (second, expected) in table {
            assert_eq!(
                errors.is_tolerated(at(second), window),
                expected,
                "{second}"
            );
        }
        assert!(!InternalErrors::default().is_tolerated(at(0), Duration::ZERO));
    }
}
