//! The order of what is ready: a lane for each priority.
//!
//! ```text
//! push(slot) → high | normal | low → pop
//! ```
//!
//! The highest lane that is not empty is served, but a lane passed over 15 times in a row is served then:
//! a hot high lane slows the others down and never stops them. Within a lane groups take turns (`turns.rs`).
//!
//! Upstream counterpart: `client-go:util/workqueue/queue.go` (`queue`, one list);
//! `controller-runtime:pkg/controller/priorityqueue`, which lets the low ones starve.

use kinform_api::mutant;

use super::slots::Slots;
use super::turns::Turns;
use super::{Fairness, Priority};

const LANES: usize = 3;

/// BOUND: turns that a lane with waiting keys is passed over in a row.
const PASSED_OVER_MAX: u32 = 15;

#[derive(Debug)]
pub(super) struct Lanes<K> {
    /// By priority, the highest first.
    lanes: [Turns; LANES],
    lens: [usize; LANES],
    len: usize,
    passed_over: [u32; LANES],
    pub(super) fairness: Fairness<K>,
}

impl<K> Lanes<K> {
    pub(super) fn new() -> Self {
        Self {
            lanes: [(); LANES].map(|()| Turns::new()),
            lens: [0; LANES],
            len: 0,
            passed_over: [0; LANES],
            fairness: Fairness::none(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Keys that wait in one lane.
    pub(super) fn len_of(&self, priority: Priority) -> usize {
        self.lens[lane(priority)]
    }

    /// Puts a slot at the end of its group in its priority's lane.
    #[inline(always)]
    pub(super) fn push(&mut self, slots: &mut Slots<K>, at: u32) {
        let slot = &slots[at];
        let (lane, group) = (
            lane(slot.priority()),
            self.fairness.group_of(slot.key.as_ref()),
        );
        self.lanes[lane].push(slots, at, group);
        self.lens[lane] += 1;
        self.len += 1;
    }

    /// Moves a slot to the end of its group in a higher lane.
    pub(super) fn raise(&mut self, slots: &mut Slots<K>, at: u32, priority: Priority) {
        let from = lane(slots[at].priority());
        let group = self.lanes[from].remove(slots, at);
        slots[at].set_priority(priority);
        let to = lane(priority);
        self.lanes[to].push(slots, at, group);
        self.lens[from] -= 1;
        self.lens[to] += 1;
    }

    /// Takes the next slot out.
    pub(super) fn pop(&mut self, slots: &mut Slots<K>) -> Option<u32> {
        let waits = |lane: &usize| self.lens[*lane] > 0;
        let mut first = (0..LANES).find(waits)?;
        if mutant!("B29") {
            first = (0..LANES).rfind(waits)?;
        }
        let chosen = if self.lens[first] == self.len {
            self.passed_over = [0; LANES];
            first
        } else {
            self.choose(first)
        };
        self.lens[chosen] -= 1;
        self.len -= 1;
        self.lanes[chosen].pop(slots)
    }

    /// The first lane, unless one below it was passed over too often.
    #[inline(never)]
    fn choose(&mut self, first: usize) -> usize {
        let starving = |&lane: &usize| {
            let is_passed_over = self.passed_over[lane] >= PASSED_OVER_MAX && !mutant!("Q2");
            self.lens[lane] > 0 && is_passed_over
        };
        let chosen = (first + 1..LANES).find(starving).unwrap_or(first);
        for lane in first..LANES {
            if lane == chosen || self.lens[lane] == 0 {
                self.passed_over[lane] = 0;
            } else {
                self.passed_over[lane] += 1;
            }
        }
        chosen
    }

    /// Groups with waiting keys, and those that there is memory for, over all lanes.
    #[cfg(test)]
    pub(super) fn groups(&self) -> (usize, usize) {
        let groups = self.lanes.iter().map(Turns::groups);
        groups.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

fn lane(priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}
