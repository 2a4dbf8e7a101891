//! Delays: a hierarchical timing wheel of slots.
//!
//! ```text
//! insert(slot, due) → 7 levels of 64 lists, a bit for each that is not empty → expire(now) → slots that are due
//! ```
//!
//! A tick is a millisecond. Level 0 holds what is due within 64 ticks, each further level 64 times as
//! much; an entry moves down a level at most six times before it is due. Empty stretches are skipped by
//! the bits, so the passing of time costs nothing by itself. Nothing is due early (a due time is rounded
//! up to a tick, the present down); entries of one tick leave in the order in which they came.
//! What is due more than 2^42 ms (139 years) after the start is due then.
//!
//! Upstream counterpart: `client-go:util/workqueue/delaying_queue.go` (`waitForPriorityQueue`: a heap,
//! O(log n) an entry, no removal).
//!
//! Complexity: insert, remove O(1); expire O(1) an entry, amortised.

use super::slots::{List, Slots};
use crate::time::Instant;

const LEVELS: usize = 7;
const BITS: u32 = 6;
const WIDTH: usize = 1 << BITS;
const LAST_TICK: u64 = (1 << (BITS * LEVELS as u32)) - 1;
const TICK_NANOS: u64 = 1_000_000;

/// Slots that wait for their time, and nothing about what they wait for.
#[derive(Debug)]
pub(super) struct Wheel {
    lists: Vec<List>,
    occupied: [u64; LEVELS],
    // INVARIANT: nothing in the wheel is due before this tick.
    elapsed: u64,
    len: usize,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self {
            lists: vec![List::EMPTY; LEVELS * WIDTH],
            occupied: [0; LEVELS],
            elapsed: 0,
            len: 0,
        }
    }

    /// Slots in the wheel.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts a slot in, to be handed out at the tick at which it is due.
    pub(super) fn insert<K>(&mut self, slots: &mut Slots<K>, at: u32) {
        slots[at].not_due_before(self.elapsed);
        self.len += 1;
        self.link(slots, at);
    }

    /// Takes a slot out that is in the wheel.
    pub(super) fn remove<K>(&mut self, slots: &mut Slots<K>, at: u32) {
        let (level, index) = self.place(slots[at].due_tick());
        let list = &mut self.lists[level * WIDTH + index];
        list.remove(slots, at);
        if list.is_empty() {
            self.occupied[level] &= !(1 << index);
        }
        self.len -= 1;
    }

    /// Takes one slot out that is due by `now`, the earliest first.
    #[inline]
    pub(super) fn expire<K>(&mut self, slots: &mut Slots<K>, now: Instant) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.expire_one(slots, now)
    }

    fn expire_one<K>(&mut self, slots: &mut Slots<K>, now: Instant) -> Option<u32> {
        let now = tick_reached(now);
        while let Some(block) = self.next_block().filter(|block| block.starts <= now) {
            self.elapsed = block.starts;
            let list = &mut self.lists[block.level * WIDTH + block.index];
            if block.level == 0 {
                let at = list.pop_front(slots)?;
                if list.is_empty() {
                    self.occupied[0] &= !(1 << block.index);
                }
                self.len -= 1;
                return Some(at);
            }
            let mut moving = std::mem::replace(list, List::EMPTY);
            self.occupied[block.level] &= !(1 << block.index);
            while let Some(at) = moving.pop_front(slots) {
                self.link(slots, at);
            }
        }
        self.elapsed = self.elapsed.max(now);
        None
    }

    /// When to look again: never later than the earliest entry is due.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        Some(instant_of(self.next_block()?.starts))
    }

    fn link<K>(&mut self, slots: &mut Slots<K>, at: u32) {
        let (level, index) = self.place(slots[at].due_tick());
        self.occupied[level] |= 1 << index;
        self.lists[level * WIDTH + index].push_back(slots, at);
    }

    /// The level and list of a due tick: the highest digit in which it differs from the present.
    /// It stays the same until the list is reached, for the present shares all higher digits.
    fn place(&self, due_tick: u64) -> (usize, usize) {
        debug_assert!(due_tick >= self.elapsed, "what is in the wheel lies ahead");
        let differing = (due_tick ^ self.elapsed) | 1;
        let level = ((u64::BITS - 1 - differing.leading_zeros()) / BITS) as usize;
        let index = (due_tick >> (BITS as usize * level)) as usize % WIDTH;
        (level, index)
    }

    /// The first list that is not empty. All of a lower level comes before all of a higher one.
    fn next_block(&self) -> Option<Block> {
        let level = self.occupied.iter().position(|&lists| lists != 0)?;
        let shift = BITS as usize * level;
        // Lists behind the present are empty: the present stops at each list on its way.
        let index = self.occupied[level].trailing_zeros() as usize;
        let above = (self.elapsed >> shift) & !(WIDTH as u64 - 1);
        Some(Block {
            level,
            index,
            starts: (above | index as u64) << shift,
        })
    }
}

/// One list of the wheel.
struct Block {
    level: usize,
    index: usize,
    /// The first tick that belongs into it.
    starts: u64,
}

/// A tick, as an instant.
pub(super) fn instant_of(tick: u64) -> Instant {
    Instant::from_millis(tick)
}

/// The first tick that does not begin before `due`.
pub(super) fn tick_not_before(due: Instant) -> u64 {
    due.nanos().div_ceil(TICK_NANOS).min(LAST_TICK)
}

/// The last tick that has begun.
pub(super) fn tick_reached(now: Instant) -> u64 {
    (now.nanos() / TICK_NANOS).min(LAST_TICK)
}
