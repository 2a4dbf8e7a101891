//! Storage of keys: one slot a key, found by hash, linked into at most one list.
//!
//! ```text
//! key → hash table → slot number → state, links, failures
//! ```
//!
//! A slot lives from the first mention of a key until nothing is known of it: not waiting, not
//! delayed, not handed out, no failures. Then the slot is reused, so memory follows the keys in
//! flight, not the keys ever seen. Lists are links inside the slots; nothing is allocated for them.
//!
//! Upstream counterpart: `client-go:util/workqueue/queue.go` (`dirty`, `processing`: two sets of
//! keys), `default_rate_limiters.go` (`failures`: a map in each limiter).

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::Priority;
use crate::causes::{Cause, Causes, Reasons};
use crate::time::Instant;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// No tick of the wheel: not delayed, no wake-up time.
pub(super) const NO_TICK: u64 = u64::MAX;

/// Slots whose memory an empty queue keeps in any case.
const KEPT_SLOTS: usize = 512;
/// BOUND: slots whose memory an empty queue keeps if it needed them, or a quarter of them, since it
/// was empty before: a burst that comes again and again is not paid for each time. A megabyte, with
/// keys of two words.
const KEPT_BURST: usize = 16_384;

/// The state of one key. The names of client-go's sets are in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Only its failures are remembered.
    Idle,
    /// In a lane [dirty].
    Ready,
    /// In the wheel [waiting].
    Delayed,
    /// Handed out [processing].
    Running,
    /// Handed out, and to be handed out again [processing and dirty].
    RunningAgain,
    /// Handed out, and in the wheel [processing and waiting].
    RunningDelayed,
}

impl State {
    /// The state of a key that has left the wheel.
    pub(super) fn out_of_wheel(self) -> Self {
        match self {
            Self::RunningDelayed => Self::Running,
            _ => Self::Idle,
        }
    }
}

#[derive(Debug)]
pub(super) struct Slot<K> {
    /// `None` while the slot is free.
    pub(super) key: Option<K>,
    /// One key is never in the wheel and ready at once, so one word is enough: when it was last added,
    /// while `Ready` or `RunningAgain`; the tick until which it is delayed, while `Delayed` or
    /// `RunningDelayed`, [`NO_TICK`] if it is in the wheel for its wake-up time alone.
    time: u64,
    /// The tick of its wake-up time, or [`NO_TICK`]. It stays while the key is ready or handed out.
    // INVARIANT: an idle slot has none.
    pub(super) wake: u64,
    hash: u32,
    pub(super) prev: u32,
    pub(super) next: u32,
    /// Its place among the running, while handed out; the place of its group, while it is in a lane.
    pub(super) place: u32,
    /// The hand-out that a ticket belongs to.
    pub(super) generation: u32,
    /// BOUND: more failures than its maximum are not counted.
    pub(super) failures: u16,
    pub(super) state: State,
    /// The lane of its next hand-out, [`Priority::Low`] until one is asked for, and the reasons of the
    /// queue for it: those of the delay while it is in the wheel, else those of the hand-out.
    lane_and_reasons: u8,
}

/// The place of the lane in that byte; below it are the reasons.
const LANE: u8 = Reasons::BITS.count_ones() as u8;

#[derive(Debug)]
pub(super) struct Slots<K> {
    slots: Vec<Slot<K>>,
    // INVARIANT: holds exactly the slots whose key is set.
    table: HashTable<u32>,
    hasher: RandomState,
    free: u32,
    /// The causes by the number of the slot; empty in a queue whose callers state none.
    // INVARIANT: only a key that is ready, or handed out and wanted again, has some.
    // BOUND: one record a slot.
    causes: Vec<Option<Box<Causes>>>,
}

/// A doubly linked list through the slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl<K: Eq + Hash> Slots<K> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::default(),
            free: NONE,
            causes: Vec::new(),
        }
    }

    /// Adds a cause to those of a slot.
    pub(super) fn add_cause(&mut self, at: u32, cause: Cause) {
        match self.causes_mut(at) {
            Some(causes) => causes.add(cause),
            causes => *causes = Some(Box::new(Causes::of(cause))),
        }
    }

    /// Adds causes that were taken before; they are older than those that the slot has.
    pub(super) fn add_earlier(&mut self, at: u32, mut earlier: Box<Causes>) {
        let causes = self.causes_mut(at);
        if let Some(later) = causes.take() {
            earlier.extend(*later);
        }
        *causes = Some(earlier);
    }

    fn causes_mut(&mut self, at: u32) -> &mut Option<Box<Causes>> {
        let at = at as usize;
        if self.causes.len() <= at {
            self.causes
                .resize_with(self.slots.len().max(at + 1), || None);
        }
        &mut self.causes[at]
    }

    /// The causes of a slot.
    pub(super) fn causes(&self, at: u32) -> Option<&Causes> {
        self.causes.get(at as usize)?.as_deref()
    }

    /// Takes the causes of a slot.
    #[inline]
    pub(super) fn take_causes(&mut self, at: u32) -> Option<Box<Causes>> {
        self.causes.get_mut(at as usize)?.take()
    }

    /// The slot of a key that is known.
    pub(super) fn find(&self, key: &K) -> Option<u32> {
        let hash = self.hash(key);
        let is_it = |&at: &u32| self.has(at, hash, key);
        self.table.find(spread(hash), is_it).copied()
    }

    /// The slot of a key, an idle one if it was not known.
    pub(super) fn intern(&mut self, key: K) -> u32 {
        let hash = self.hash(&key);
        let is_it = |&at: &u32| self.has(at, hash, &key);
        if let Some(&known) = self.table.find(spread(hash), is_it) {
            return known;
        }
        let at = self.free;
        let at = match self.slots.get_mut(at as usize) {
            Some(slot) => {
                self.free = slot.next;
                slot.key = Some(key);
                slot.hash = hash;
                slot.state = State::Idle;
                slot.failures = 0;
                slot.lane_and_reasons = lane_bits(Priority::Low);
                debug_assert_eq!(
                    slot.wake, NO_TICK,
                    "a slot that is released has no wake-up time"
                );
                at
            }
            None => {
                let at = u32::try_from(self.slots.len()).ok();
                let at = at.filter(|&at| at != NONE);
                let at = at.expect("fewer than 2^32 keys are in flight");
                self.slots.push(Slot::of(key, hash));
                at
            }
        };
        let slots = &self.slots;
        let hash_of = |&at: &u32| spread(slots[at as usize].hash);
        self.table.insert_unique(spread(hash), at, hash_of);
        at
    }

    /// Forgets a slot that is idle and has no failures. Its links must be in no list.
    pub(super) fn release_if_unused(&mut self, at: u32) {
        drop(self.take_if_unused(at));
    }

    /// The same; its key, if so.
    pub(super) fn take_if_unused(&mut self, at: u32) -> Option<K> {
        let slot = &mut self.slots[at as usize];
        if slot.state != State::Idle || slot.failures != 0 {
            return None;
        }
        debug_assert_eq!(slot.wake, NO_TICK, "an idle slot has no wake-up time");
        let causes = self.causes.get(at as usize);
        debug_assert!(
            causes.is_none_or(Option::is_none),
            "an idle slot has no causes"
        );
        let hash = slot.hash;
        let key = slot.key.take();
        slot.next = self.free;
        self.free = at;
        match self.table.find_entry(spread(hash), |&other| other == at) {
            Ok(entry) => _ = entry.remove(),
            Err(_) => debug_assert!(false, "a slot with a key is in the table"),
        }
        if self.table.is_empty() && self.slots.capacity() > KEPT_SLOTS {
            self.start_afresh();
        }
        key
    }

    /// Of an empty queue.
    fn start_afresh(&mut self) {
        let needed = self.slots.len();
        self.slots.clear();
        self.causes = Vec::new();
        self.free = NONE;
        let capacity = self.slots.capacity();
        if capacity > KEPT_BURST || needed < capacity / 4 {
            let kept = (2 * needed).clamp(KEPT_SLOTS, KEPT_BURST);
            self.slots.shrink_to(kept);
            // Empty: no hash is asked for.
            self.table.shrink_to(kept, |_| 0);
        }
    }

    fn hash(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        (hash >> 32) as u32 ^ hash as u32
    }

    fn has(&self, at: u32, hash: u32, key: &K) -> bool {
        let slot = &self.slots[at as usize];
        slot.hash == hash && slot.key.as_ref() == Some(key)
    }
}

#[inline(always)]
const fn lane_bits(priority: Priority) -> u8 {
    let lane = match priority {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
    };
    lane << LANE
}

/// All bits of a hash, for a table that looks at the first and the last ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<K> Slot<K> {
    fn of(key: K, hash: u32) -> Self {
        Self {
            key: Some(key),
            time: 0,
            wake: NO_TICK,
            hash,
            prev: NONE,
            next: NONE,
            place: NONE,
            generation: 0,
            failures: 0,
            state: State::Idle,
            lane_and_reasons: lane_bits(Priority::Low),
        }
    }

    /// The lane of its next hand-out.
    #[inline(always)]
    pub(super) fn priority(&self) -> Priority {
        match self.lane_and_reasons >> LANE {
            0 => Priority::Low,
            1 => Priority::Normal,
            _ => Priority::High,
        }
    }

    #[inline(always)]
    pub(super) fn set_priority(&mut self, priority: Priority) {
        let reasons = self.lane_and_reasons & Reasons::BITS;
        self.lane_and_reasons = lane_bits(priority) | reasons;
    }

    /// The reasons of the queue for its next hand-out, or for its delay.
    #[inline(always)]
    pub(super) fn reasons(&self) -> Reasons {
        Reasons::from_bits(self.lane_and_reasons)
    }

    #[inline(always)]
    pub(super) fn set_reasons(&mut self, reasons: Reasons) {
        let lane = self.lane_and_reasons & !Reasons::BITS;
        self.lane_and_reasons = lane | reasons.bits();
    }

    #[inline(always)]
    pub(super) fn add_reasons(&mut self, reasons: Reasons) {
        self.lane_and_reasons |= reasons.bits();
    }

    /// When it was last added, while `Ready` or `RunningAgain`.
    pub(super) fn added(&self) -> Instant {
        debug_assert!(matches!(self.state, State::Ready | State::RunningAgain));
        Instant::from_nanos(self.time)
    }

    pub(super) fn set_added(&mut self, now: Instant) {
        self.time = now.nanos();
    }

    /// The tick at which it is due, while it is in the wheel.
    pub(super) fn due_tick(&self) -> u64 {
        self.time.min(self.wake)
    }

    /// The tick until which it is delayed, while it is in the wheel.
    pub(super) fn delay_tick(&self) -> u64 {
        self.time
    }

    pub(super) fn set_delay_tick(&mut self, tick: u64) {
        self.time = tick;
    }

    /// Moves times that are past to `tick`, before it enters the wheel.
    pub(super) fn not_due_before(&mut self, tick: u64) {
        self.time = self.time.max(tick);
        self.wake = self.wake.max(tick);
    }
}

impl<K> Slots<K> {
    /// Keys known: waiting, delayed, handed out or failed.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Slot<K>> {
        self.slots.get(at as usize)
    }

    /// All slots with their numbers, free ones too.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u32, &Slot<K>)> {
        (0..).zip(&self.slots)
    }
}

impl<K> std::ops::Index<u32> for Slots<K> {
    type Output = Slot<K>;

    fn index(&self, at: u32) -> &Slot<K> {
        &self.slots[at as usize]
    }
}

impl<K> std::ops::IndexMut<u32> for Slots<K> {
    fn index_mut(&mut self, at: u32) -> &mut Slot<K> {
        &mut self.slots[at as usize]
    }
}

impl List {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn push_back<K>(&mut self, slots: &mut Slots<K>, at: u32) {
        let tail = self.tail;
        let slot = &mut slots[at];
        slot.prev = tail;
        slot.next = NONE;
        if tail == NONE {
            self.head = at;
        } else {
            slots[tail].next = at;
        }
        self.tail = at;
    }

    pub(super) fn remove<K>(&mut self, slots: &mut Slots<K>, at: u32) {
        let (prev, next) = (slots[at].prev, slots[at].next);
        if prev == NONE {
            debug_assert_eq!(self.head, at, "a slot without a predecessor is the head");
            self.head = next;
        } else {
            slots[prev].next = next;
        }
        if next == NONE {
            debug_assert_eq!(self.tail, at, "a slot without a successor is the tail");
            self.tail = prev;
        } else {
            slots[next].prev = prev;
        }
    }

    pub(super) fn pop_front<K>(&mut self, slots: &mut Slots<K>) -> Option<u32> {
        let at = self.head;
        if at == NONE {
            return None;
        }
        self.remove(slots, at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_of_an_objects_key_is_64_bytes() {
        assert_eq!(size_of::<Slot<kinform_api::ObjectKey>>(), 64);
    }

    #[test]
    fn empty_again_it_keeps_memory_for_as_many_keys_as_it_needed_last_and_knows_none() {
        let mut slots: Slots<usize> = Slots::new();
        let mut keys = |count: usize| {
            let at: Vec<u32> = (0..count).map(|key| slots.intern(key)).collect();
            assert_eq!(slots.len(), count);
            assert!((0..count).all(|key| slots.find(&key) == Some(at[key])));
            at.into_iter().for_each(|at| slots.release_if_unused(at));
            assert_eq!((slots.len(), slots.find(&3)), (0, None));
            (slots.slots.capacity(), slots.table.num_buckets())
        };
        for few in [100, KEPT_SLOTS] {
            let (capacity, places) = keys(few);
            assert!(capacity <= KEPT_SLOTS && places <= 2 * KEPT_SLOTS);
        }
        let much = keys(5_000);
        assert!(much.0 >= 5_000);
        for again in [5_000, much.0 / 4] {
            assert_eq!(keys(again), much);
        }
        let (capacity, places) = keys(1_000);
        assert!((1_000..=2_000).contains(&capacity) && places <= 4_096);
        // What is more than a burst is given back at once.
        let (capacity, places) = keys(50_000);
        assert!(capacity <= KEPT_BURST && places <= 2 * KEPT_BURST);
        let (capacity, places) = keys(7);
        assert!(capacity <= KEPT_SLOTS && places <= 2 * KEPT_SLOTS);
    }
}
