//! The acts that play without a key: those of the command line, and cut and expire at their times.
//!
//! ```text
//! time passed, --act numbers, acts that are shown → the number of the next act
//! ```
//!
//! Each run causes cut and expire once, whether it lasts long enough or not. Acts of the command line
//! play in turn: the next one after the effect of the one before is there.

use std::collections::VecDeque;
use std::time::Duration;

use super::{CUT, EXPIRE};

/// The times of the acts without a limit.
const CUT_AFTER: Duration = Duration::from_secs(8);
const EXPIRE_AFTER: Duration = Duration::from_secs(16);
/// BOUND: the time for the effect of an act of the command line; the next one plays then.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// The acts still to come.
#[derive(Debug)]
pub(crate) struct Plan {
    cut_at: Option<Duration>,
    expire_at: Option<Duration>,
    in_turn: VecDeque<u8>,
    /// The act of the command line that was played last, and when.
    last: Option<(u8, Duration)>,
}

impl Plan {
    /// The acts of a run: with a limit, cut and expire are at a third and two thirds of it.
    pub(crate) fn new(limit: Option<Duration>, acts: &[u8]) -> Self {
        let (cut_at, expire_at) = match limit {
            Some(limit) => (limit / 3, limit / 3 * 2),
            None => (CUT_AFTER, EXPIRE_AFTER),
        };
        Self {
            cut_at: Some(cut_at),
            expire_at: Some(expire_at),
            in_turn: acts.iter().copied().collect(),
            last: None,
        }
    }

    /// The act that is due, if there is one. `is_shown` says whether the effect of an act is there.
    pub(crate) fn due(&mut self, passed: Duration, is_shown: impl Fn(u8) -> bool) -> Option<u8> {
        if self.cut_at.is_some_and(|at| passed >= at) {
            self.played(CUT);
            return Some(CUT);
        }
        if self.expire_at.is_some_and(|at| passed >= at) {
            self.played(EXPIRE);
            return Some(EXPIRE);
        }
        if self.waits(passed, is_shown) {
            return None;
        }
        let next = self.in_turn.pop_front();
        self.last = next.map(|number| (number, passed));
        next
    }

    /// An act was played by hand, or is about to be: it needs no time of its own.
    pub(crate) fn played(&mut self, number: u8) {
        match number {
            CUT => self.cut_at = None,
            EXPIRE => self.expire_at = None,
            _ => {}
        }
    }

    /// Returns whether acts of the command line are to come, or the effect of the last one.
    pub(crate) fn is_open(&self, passed: Duration, is_shown: impl Fn(u8) -> bool) -> bool {
        !self.in_turn.is_empty() || self.waits(passed, is_shown)
    }

    /// The acts with a time of their own that have not been played.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = u8> + use<> {
        let cut = self.cut_at.take().map(|_| CUT);
        let expire = self.expire_at.take().map(|_| EXPIRE);
        cut.into_iter().chain(expire)
    }

    fn waits(&self, passed: Duration, is_shown: impl Fn(u8) -> bool) -> bool {
        self.last.is_some_and(|(number, at)| {
            !is_shown(number) && passed.saturating_sub(at) < SHOWN_WITHIN
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn cut_and_expire_play_once_at_their_times_or_at_the_end() {
        let mut plan = Plan::new(Some(3 * SECOND), &[]);
        let mut due = |seconds: u32| plan.due(seconds * SECOND, |_| true);
        assert_eq!(
            [due(0), due(1), due(1), due(3), due(9)],
            [None, Some(CUT), None, Some(EXPIRE), None]
        );
        assert_eq!(plan.rest().count(), 0);
        let mut short = Plan::new(None, &[]);
        short.played(CUT);
        assert_eq!(short.rest().collect::<Vec<_>>(), [EXPIRE]);
    }

    #[test]
    fn acts_of_the_command_line_play_in_turn_once_the_one_before_is_shown() {
        let mut plan = Plan::new(Some(600 * SECOND), &[3, 5, 8]);
        assert_eq!(plan.due(SECOND, |_| false), Some(3));
        assert_eq!(plan.due(2 * SECOND, |_| false), None);
        assert_eq!(plan.due(3 * SECOND, |number| number == 3), Some(5));
        assert!(plan.is_open(4 * SECOND, |_| true));
        assert_eq!(plan.due(34 * SECOND, |_| false), Some(8), "it is late");
        assert!(plan.is_open(35 * SECOND, |_| false));
        assert!(!plan.is_open(36 * SECOND, |number| number == 8));
    }
}
