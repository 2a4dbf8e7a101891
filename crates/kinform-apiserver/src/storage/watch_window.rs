//! The watch window: the log of recent changes in the order of revisions, within the bounds.
//!
//! ```text
//! commit ──push──▶ Log of the shelf (events)      ──poll(after)──▶ watches, undoing
//!             └──▶ Order of the store (which shelf) ──over a limit──▶ evict the oldest
//! ```
//!
//! Each shelf has its own events, so that a watch never walks another resource's events. The order
//! over all shelves only decides whose oldest event is evicted next. The byte bound counts the
//! events' previous versions, because only the log (and old snapshots) holds them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{EndWatches, HistoryLimits, PollLimits, Shelf, Stored};

/// A change of one object. Without a previous version it is a creation, without a current one a removal.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: u64,
    /// The version stored before the change.
    pub previous: Option<Arc<Stored>>,
    /// The version stored by the change.
    pub current: Option<Arc<Stored>>,
}

impl Event {
    /// The length of the object that a watch shows.
    fn length(&self) -> usize {
        let shown = self.current.as_ref().or(self.previous.as_ref());
        shown.map_or(0, |object| object.bytes().len())
    }
}

/// The result of polling a log.
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) events: Vec<Event>,
    /// The revision up to which all changes are in `events` or came before the cursor.
    pub(crate) upto: u64,
    /// The number of events of the shelf that follow these.
    pub(crate) remaining: usize,
    /// Events after the cursor were evicted: the watch fell behind.
    pub(crate) lost: bool,
    pub(crate) ends: Ends,
}

/// The number of times that the watches of a shelf were ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) at_once: u64,
    pub(crate) after_events: u64,
}

/// The events of one shelf.
#[derive(Debug, Default)]
pub(super) struct Log {
    // INVARIANT: revisions ascend.
    events: VecDeque<Event>,
    evicted: u64,
    ends: Ends,
}

impl Log {
    /// A log without the events up to this revision.
    pub(super) fn after(revision: u64) -> Self {
        Self {
            evicted: revision,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        debug_assert!(
            self.events
                .back()
                .is_none_or(|last| last.revision < event.revision)
        );
        self.events.push_back(event);
    }

    pub(super) fn evict(&mut self, revision: u64) {
        while self
            .events
            .front()
            .is_some_and(|event| event.revision <= revision)
        {
            self.events.pop_front();
        }
        self.evicted = revision;
    }

    /// Makes events up to a revision count as evicted.
    pub(super) fn begin(&mut self, floor: u64) {
        self.evicted = floor;
    }

    /// Drops the events after a revision.
    pub(super) fn undo(&mut self, revision: u64) {
        let left = self
            .events
            .partition_point(|event| event.revision <= revision);
        self.events.truncate(left);
    }

    /// Returns the event of a revision.
    pub(super) fn find(&self, revision: u64) -> Option<&Event> {
        let at = self
            .events
            .binary_search_by(|event| event.revision.cmp(&revision));
        self.events.get(at.ok()?)
    }

    /// Returns the revision of the last event.
    pub(super) fn last(&self) -> Option<u64> {
        self.events.back().map(|event| event.revision)
    }

    /// Returns the events after a revision, up to another one.
    pub(super) fn between(&self, after: u64, upto: u64) -> Vec<Event> {
        let place = |of: u64| self.events.partition_point(|event| event.revision <= of);
        let from = place(after);
        self.events
            .range(from..place(upto).max(from))
            .cloned()
            .collect()
    }

    pub(super) fn poll(&self, after: u64, ceiling: u64, limits: PollLimits) -> Polled {
        let from = self.events.partition_point(|event| event.revision <= after);
        let to = self
            .events
            .partition_point(|event| event.revision <= ceiling)
            .max(from);
        let mut bytes = 0;
        let events: Vec<_> = self
            .events
            .range(from..to.min(from.saturating_add(limits.events)))
            .take_while(|event| {
                let is_room = bytes < limits.bytes;
                bytes += event.length();
                is_room
            })
            .cloned()
            .collect();
        let taken = from + events.len();
        let last = events.last().map_or(after, |event| event.revision);
        Polled {
            upto: if taken == to {
                ceiling.max(after)
            } else {
                last
            },
            remaining: to - taken,
            lost: self.evicted > after,
            ends: self.ends,
            events,
        }
    }

    pub(super) fn ends(&self) -> Ends {
        self.ends
    }

    pub(super) fn end(&mut self, end: EndWatches) {
        match end {
            EndWatches::AtOnce => self.ends.at_once += 1,
            EndWatches::AfterEvents => self.ends.after_events += 1,
        }
    }
}

/// The order of the events of all shelves, oldest first.
#[derive(Debug)]
pub(super) struct Order {
    slots: VecDeque<Slot>,
    bytes: usize,
    limits: HistoryLimits,
}

#[derive(Debug)]
struct Slot {
    revision: u64,
    shelf: Shelf,
    weight: usize,
}

impl Order {
    pub(super) fn new(limits: HistoryLimits) -> Self {
        Self {
            slots: VecDeque::new(),
            bytes: 0,
            limits,
        }
    }

    pub(super) fn limits(&self) -> HistoryLimits {
        self.limits
    }

    pub(super) fn push(&mut self, revision: u64, shelf: Shelf, weight: usize) {
        self.slots.push_back(Slot {
            revision,
            shelf,
            weight,
        });
        self.bytes += weight;
    }

    /// Returns the revision of the last event that is too much.
    pub(super) fn excess(&self) -> Option<u64> {
        let (mut events, mut bytes) = (self.slots.len(), self.bytes);
        let mut last = None;
        for slot in &self.slots {
            if events <= self.limits.events && bytes <= self.limits.bytes {
                break;
            }
            events -= 1;
            bytes -= slot.weight;
            last = Some(slot.revision);
        }
        last
    }

    /// Returns the events up to a revision, oldest first.
    pub(super) fn upto(&self, revision: u64) -> impl Iterator<Item = (u64, Shelf)> {
        let slots = self.slots.iter();
        let slots = slots.take_while(move |slot| slot.revision <= revision);
        slots.map(|slot| (slot.revision, slot.shelf))
    }

    /// Removes the oldest event if its revision is not above `upto`.
    pub(super) fn pop(&mut self, upto: u64) -> Option<(u64, Shelf)> {
        self.slots.front().filter(|slot| slot.revision <= upto)?;
        let slot = self.slots.pop_front()?;
        self.bytes -= slot.weight;
        Some((slot.revision, slot.shelf))
    }

    /// Removes the events after a revision.
    pub(super) fn undo(&mut self, revision: u64) {
        while self
            .slots
            .back()
            .is_some_and(|slot| slot.revision > revision)
        {
            self.bytes -= self.slots.pop_back().map_or(0, |slot| slot.weight);
        }
    }

    pub(super) fn set_limits(&mut self, limits: HistoryLimits) {
        self.limits = limits;
    }
}
