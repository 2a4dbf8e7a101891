//! The order of what is ready: a first-in-first-out list for each priority.
//!
//! ```text
//! push(slot) → high | normal | low → pop
//! ```
//!
//! The highest lane that is not empty is served, but a lane passed over 15 times in a row is served then:
//! a hot high lane slows the others down and never stops them.
//!
//! Upstream counterpart: `client-go:util/workqueue/queue.go` (`queue`, one list);
//! `controller-runtime:pkg/controller/priorityqueue`, which lets the low ones starve.

use kinform_api::mutant;

use super::Priority;
use super::slots::{List, Slots};

const LANES: usize = 3;

/// BOUND: turns that a lane with waiting keys is passed over in a row.
const PASSED_OVER_MAX: u32 = 15;

#[derive(Debug)]
pub(super) struct Lanes {
    /// By priority, the highest first.
    lists: [List; LANES],
    passed_over: [u32; LANES],
    len: usize,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self {
            lists: [List::EMPTY; LANES],
            passed_over: [0; LANES],
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts a slot at the end of its priority's lane.
    pub(super) fn push<K>(&mut self, slots: &mut Slots<K>, at: u32) {
        let lane = lane(slots[at].priority);
        self.lists[lane].push_back(slots, at);
        self.len += 1;
    }

    /// Moves a slot to the end of a higher lane.
    pub(super) fn raise<K>(&mut self, slots: &mut Slots<K>, at: u32, priority: Priority) {
        let from = lane(slots[at].priority);
        self.lists[from].remove(slots, at);
        slots[at].priority = priority;
        self.lists[lane(priority)].push_back(slots, at);
    }

    /// Takes the next slot out.
    pub(super) fn pop<K>(&mut self, slots: &mut Slots<K>) -> Option<u32> {
        let mut first = self.lists.iter().position(|list| !list.is_empty())?;
        if mutant!("B29") {
            first = self.lists.iter().rposition(|list| !list.is_empty())?;
        }
        let starving = |&lane: &usize| {
            !self.lists[lane].is_empty() && self.passed_over[lane] >= PASSED_OVER_MAX
        };
        let chosen = (first + 1..LANES).find(starving).unwrap_or(first);
        for lane in first..LANES {
            if lane == chosen || self.lists[lane].is_empty() {
                self.passed_over[lane] = 0;
            } else {
                self.passed_over[lane] += 1;
            }
        }
        self.len -= 1;
        if mutant!("D14") {
            let last = self.lists[chosen].tail;
            self.lists[chosen].remove(slots, last);
            return Some(last);
        }
        self.lists[chosen].pop_front(slots)
    }
}

fn lane(priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}
