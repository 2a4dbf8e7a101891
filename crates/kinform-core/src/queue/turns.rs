//! One lane: groups take turns, and within a group the first in is the first out.
//!
//! ```text
//! push(slot, group) → ring of groups, each a list of slots → pop: one slot of the group in front,
//!                                                            which goes to the back of the ring
//! ```
//!
//! With G groups and W workers a key that is alone in its group waits for at most ⌈(G-1)/W⌉ hand-outs of
//! others and the one under way, whatever the others have queued. A queue without groups has one.
//! Only a group with waiting keys has a place, so memory follows the queued keys. A group is known by a hash:
//! two groups of one hash (of 64 bits) share a turn.
//!
//! INVARIANT: the ring has every group with waiting keys; of an empty lane, the last that had some. The table
//! has every group of the ring, but for one that was never there together with others. So a queue with one
//! group links its slots, and no more.
//!
//! Upstream counterpart: `apiserver:pkg/util/flowcontrol/fairqueuing`, for requests; no work queue has it.
//!
//! Complexity: every operation O(1).

use hashbrown::HashTable;
use kinform_api::mutant;

use super::slots::{List, NONE, Slots};

/// BOUND: groups whose memory an empty lane keeps.
const KEPT_GROUPS: usize = 512;

/// One lane.
#[derive(Debug)]
pub(super) struct Turns {
    groups: Vec<Group>,
    table: HashTable<u32>,
    /// The group whose turn it is, and the one whose turn is last.
    front: u32,
    back: u32,
    /// The first group that is free.
    free: u32,
}

#[derive(Debug)]
struct Group {
    hash: u64,
    keys: List,
    prev: u32,
    next: u32,
    in_table: bool,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            groups: Vec::new(),
            table: HashTable::new(),
            front: NONE,
            back: NONE,
            free: NONE,
        }
    }

    /// Puts a slot at the end of its group.
    #[inline]
    pub(super) fn push<K>(&mut self, slots: &mut Slots<K>, at: u32, hash: u64) {
        let group = match self.groups.get(self.front as usize) {
            Some(front) if front.hash == hash => self.front,
            _ => self.find_or_create(hash),
        };
        self.groups[group as usize].keys.push_back(slots, at);
        slots[at].place = group;
    }

    /// Takes a slot out, wherever it is. Returns its group's hash.
    pub(super) fn remove<K>(&mut self, slots: &mut Slots<K>, at: u32) -> u64 {
        let group = slots[at].place;
        let Group { hash, keys, .. } = &mut self.groups[group as usize];
        let hash = *hash;
        keys.remove(slots, at);
        if keys.is_empty() || mutant!("Q4") {
            self.drop_group(group);
        }
        hash
    }

    /// Takes the first slot of the group whose turn it is.
    #[inline]
    pub(super) fn pop<K>(&mut self, slots: &mut Slots<K>) -> Option<u32> {
        let group = self.front;
        let keys = &mut self.groups.get_mut(group as usize)?.keys;
        let at = if mutant!("D14") {
            let last = keys.tail;
            keys.remove(slots, last);
            last
        } else {
            keys.pop_front(slots)?
        };
        let is_done = keys.is_empty();
        if self.back != group || self.groups.len() > KEPT_GROUPS {
            self.end_turn(group, is_done);
        }
        Some(at)
    }

    /// The group of a hash that is not the one in front.
    #[inline(never)]
    fn find_or_create(&mut self, hash: u64) -> u32 {
        let front = self.groups.get(self.front as usize);
        if front.is_some_and(|front| front.keys.is_empty()) {
            // No key is left in it: another takes its place.
            self.leave_table(self.front);
            self.groups[self.front as usize].hash = hash;
            return self.front;
        }
        let has_hash = |&group: &u32| self.groups[group as usize].hash == hash;
        let known = self.table.find(hash, has_hash).copied();
        known.unwrap_or_else(|| self.create(hash))
    }

    fn create(&mut self, hash: u64) -> u32 {
        let fresh = Group {
            hash,
            keys: List::EMPTY,
            prev: NONE,
            next: NONE,
            in_table: false,
        };
        let group = self.free;
        let group = match self.groups.get_mut(group as usize) {
            Some(free) => {
                self.free = free.next;
                *free = fresh;
                group
            }
            None => {
                // There are no more groups than slots, whose numbers have room for `NONE`.
                self.groups.push(fresh);
                self.groups.len() as u32 - 1
            }
        };
        if self.front != NONE {
            self.enter_table(self.front);
            self.enter_table(group);
        }
        self.link_last(group);
        group
    }

    fn enter_table(&mut self, group: u32) {
        let Group { hash, in_table, .. } = &mut self.groups[group as usize];
        if !std::mem::replace(in_table, true) {
            let hash = *hash;
            let groups = &self.groups;
            let hash_of = |&group: &u32| groups[group as usize].hash;
            self.table.insert_unique(hash, group, hash_of);
        }
    }

    fn leave_table(&mut self, group: u32) {
        let Group { hash, in_table, .. } = &mut self.groups[group as usize];
        if std::mem::take(in_table) {
            match self.table.find_entry(*hash, |&other| other == group) {
                Ok(entry) => _ = entry.remove(),
                Err(_) => debug_assert!(false, "the group is in the table"),
            }
        }
    }

    /// Lets the next group be in front.
    #[inline(never)]
    fn end_turn(&mut self, group: u32, is_done: bool) {
        if is_done {
            self.drop_group(group);
        } else if !mutant!("Q3") {
            self.unlink(group);
            self.link_last(group);
        }
    }

    /// Drops a group without keys. The last one stays, for it is likely to come again.
    fn drop_group(&mut self, group: u32) {
        if self.front != self.back {
            self.unlink(group);
            self.leave_table(group);
            self.groups[group as usize].next = self.free;
            self.free = group;
        } else if self.groups.len() > KEPT_GROUPS {
            *self = Self::new();
        }
    }

    fn link_last(&mut self, group: u32) {
        let back = self.back;
        let this = &mut self.groups[group as usize];
        (this.prev, this.next) = (back, NONE);
        match self.groups.get_mut(back as usize) {
            Some(back) => back.next = group,
            None => self.front = group,
        }
        self.back = group;
    }

    fn unlink(&mut self, group: u32) {
        let Group { prev, next, .. } = self.groups[group as usize];
        match self.groups.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => self.front = next,
        }
        match self.groups.get_mut(next as usize) {
            Some(next) => next.prev = prev,
            None => self.back = prev,
        }
    }

    /// Groups with waiting keys, and those that there is memory for.
    #[cfg(test)]
    pub(super) fn groups(&self) -> (usize, usize) {
        let mut linked = 0;
        let mut group = self.front;
        while let Some(this) = self.groups.get(group as usize) {
            linked += usize::from(!this.keys.is_empty());
            group = this.next;
        }
        (linked, self.groups.capacity())
    }
}
