//! The acts that play without a key: those of the command line, and cut and expire at their times.
//!
//! ```text
//! time passed, --act numbers, acts that are shown → the next act
//! ```
//!
//! Each run causes cut and expire once, whether it lasts long enough or not, and waits a while for
//! their effect before it ends. Acts of the command line play in turn: the next one after the
//! effect of the one before is there.
//! INVARIANT: an act leaves the plan once it was played, not before.

use std::collections::VecDeque;
use std::time::Duration;

use super::Act;

/// The times of the acts without a limit.
const CUT_AFTER: Duration = Duration::from_secs(8);
const EXPIRE_AFTER: Duration = Duration::from_secs(16);
/// BOUND: the time for the effect of an act of the command line; the next one plays then.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);
/// BOUND: the time by which a run waits for the effect of cut and expire. Expire has none where
/// nothing was written.
const GONE_ON_WITHIN: Duration = Duration::from_secs(5);

/// The acts still to come.
#[derive(Debug)]
pub(crate) struct Plan {
    cut_at: Option<Duration>,
    expire_at: Option<Duration>,
    in_turn: VecDeque<Act>,
    /// The act of the command line whose effect is waited for, and when it was played.
    last: Option<(Act, Duration)>,
    /// The later one of cut and expire that was played, and when.
    timed: Option<(Act, Duration)>,
}

impl Plan {
    /// The acts of a run: with a limit, cut and expire are at a third and two thirds of it.
    pub(crate) fn new(limit: Option<Duration>, numbers: &[u8]) -> Self {
        let (cut_at, expire_at) = match limit {
            Some(limit) => (limit / 3, limit / 3 * 2),
            None => (CUT_AFTER, EXPIRE_AFTER),
        };
        let acts = numbers.iter().copied();
        Self {
            cut_at: Some(cut_at),
            expire_at: Some(expire_at),
            in_turn: acts.filter_map(Act::of_number).collect(),
            last: None,
            timed: None,
        }
    }

    /// The act that is due, if there is one. `is_shown` says whether the effect of an act is there.
    pub(crate) fn due(&self, passed: Duration, is_shown: impl Fn(Act) -> bool) -> Option<Act> {
        if self.cut_at.is_some_and(|at| passed >= at) {
            return Some(Act::Cut);
        }
        if self.expire_at.is_some_and(|at| passed >= at) {
            return Some(Act::Expire);
        }
        match self.waits(passed, is_shown) {
            true => None,
            false => self.in_turn.front().copied(),
        }
    }

    /// An act was played, as planned or by hand.
    pub(crate) fn played(&mut self, act: Act, passed: Duration) {
        match act {
            Act::Cut => (self.cut_at, self.timed) = (None, Some((act, passed))),
            Act::Expire => (self.expire_at, self.timed) = (None, Some((act, passed))),
            _ => {}
        }
        if self.in_turn.front() == Some(&act) {
            self.in_turn.pop_front();
            self.last = Some((act, passed));
        }
    }

    /// An act that was played has failed: it has no effect to wait for.
    pub(crate) fn failed(&mut self, act: Act) {
        self.last = self.last.filter(|(last, _)| *last != act);
        self.timed = self.timed.filter(|(timed, _)| *timed != act);
    }

    /// Returns whether acts of the command line are to come, or the effect of the last one, or that of
    /// cut or expire.
    pub(crate) fn is_open(&self, passed: Duration, is_shown: impl Fn(Act) -> bool) -> bool {
        let is_to_go_on = is_awaited(self.timed, GONE_ON_WITHIN, passed, &is_shown);
        !self.in_turn.is_empty() || is_to_go_on || self.waits(passed, is_shown)
    }

    /// The acts with a time of their own that have not been played.
    pub(crate) fn rest(&self) -> impl Iterator<Item = Act> + use<> {
        let cut = self.cut_at.map(|_| Act::Cut);
        let expire = self.expire_at.map(|_| Act::Expire);
        cut.into_iter().chain(expire)
    }

    fn waits(&self, passed: Duration, is_shown: impl Fn(Act) -> bool) -> bool {
        is_awaited(self.last, SHOWN_WITHIN, passed, is_shown)
    }
}

/// Returns whether the effect of an act that was played is still to come, and not too late.
fn is_awaited(
    played: Option<(Act, Duration)>,
    within: Duration,
    passed: Duration,
    is_shown: impl Fn(Act) -> bool,
) -> bool {
    played.is_some_and(|(act, at)| !is_shown(act) && passed.saturating_sub(at) < within)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The act that is due, as played at once.
    fn next(plan: &mut Plan, seconds: u32, is_shown: impl Fn(Act) -> bool) -> Option<Act> {
        let due = plan.due(seconds * SECOND, is_shown);
        due.inspect(|act| plan.played(*act, seconds * SECOND))
    }

    #[test]
    fn cut_and_expire_play_once_at_their_times_or_at_the_end() {
        let mut plan = Plan::new(Some(3 * SECOND), &[]);
        let mut next = |seconds| next(&mut plan, seconds, |_| true);
        assert_eq!(
            [next(0), next(1), next(1), next(3), next(9)],
            [None, Some(Act::Cut), None, Some(Act::Expire), None]
        );
        assert_eq!(plan.rest().count(), 0);
        let mut short = Plan::new(None, &[]);
        short.played(Act::Cut, SECOND);
        assert_eq!(short.rest().collect::<Vec<_>>(), [Act::Expire]);
    }

    #[test]
    fn a_run_ends_once_its_watches_have_gone_on() {
        let mut plan = Plan::new(Some(3 * SECOND), &[]);
        let is_cut = |act| act == Act::Cut;
        assert_eq!(next(&mut plan, 1, |_| true), Some(Act::Cut));
        assert!(!plan.is_open(2 * SECOND, is_cut));
        assert_eq!(next(&mut plan, 2, |_| true), Some(Act::Expire));
        assert!(plan.is_open(3 * SECOND, is_cut));
        assert!(!plan.is_open(4 * SECOND, |_| true));
        assert!(!plan.is_open(7 * SECOND, is_cut), "there is no effect");
        plan.failed(Act::Expire);
        assert!(!plan.is_open(3 * SECOND, is_cut));
    }

    #[test]
    fn an_act_that_is_interrupted_before_it_was_played_is_still_to_come() {
        let plan = Plan::new(Some(3 * SECOND), &[3]);
        assert_eq!(plan.due(SECOND, |_| true), Some(Act::Cut));
        assert_eq!(plan.rest().collect::<Vec<_>>(), [Act::Cut, Act::Expire]);
        assert_eq!(plan.due(Duration::ZERO, |_| true), Some(Act::SlowHandler));
        assert!(plan.is_open(4 * SECOND, |_| true));
    }

    #[test]
    fn acts_of_the_command_line_play_in_turn_once_the_one_before_is_shown() {
        let mut plan = Plan::new(Some(600 * SECOND), &[3, 5, 8]);
        assert_eq!(next(&mut plan, 1, |_| false), Some(Act::SlowHandler));
        assert_eq!(next(&mut plan, 2, |_| false), None);
        let is_slow = |act| act == Act::SlowHandler;
        assert_eq!(next(&mut plan, 3, is_slow), Some(Act::HotLoop));
        assert!(plan.is_open(4 * SECOND, |_| true));
        assert_eq!(
            next(&mut plan, 34, |_| false),
            Some(Act::Leader),
            "it is late"
        );
        assert!(plan.is_open(35 * SECOND, |_| false));
        assert!(!plan.is_open(36 * SECOND, |act| act == Act::Leader));
    }

    #[test]
    fn the_effect_of_an_act_that_failed_is_not_waited_for() {
        let mut plan = Plan::new(Some(600 * SECOND), &[8, 3]);
        assert_eq!(next(&mut plan, 1, |_| false), Some(Act::Leader));
        plan.failed(Act::Leader);
        assert_eq!(next(&mut plan, 2, |_| false), Some(Act::SlowHandler));
        // The failure of an act of a key has no effect on the wait for another.
        plan.failed(Act::Webhook);
        assert!(plan.is_open(3 * SECOND, |_| false));
        plan.failed(Act::SlowHandler);
        assert!(!plan.is_open(3 * SECOND, |_| false));
    }
}
