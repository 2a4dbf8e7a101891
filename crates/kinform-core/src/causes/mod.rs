//! The causes of a key: the events, writes and times that queued it.
//!
//! ```text
//! change → Cause ──add──▶ Causes of the queued key (the last 8, equal ones merged) ──take──▶ its run
//! ```
//!
//! A record exists from the first cause of a key until its run begins; the run frees it. The first
//! cause lies in the record, the other seven in one allocation that is made for the second.
//! INVARIANT: a record has at least one cause.
//! Never: a clock; the queue states the time.
//!
//! Upstream counterpart: none; a queue there has keys only (`controller-runtime#1997`).
//!
//! Complexity: each operation compares at most eight causes.

mod cause;
mod reasons;

use std::fmt;

pub use cause::{Cause, Event, Origin, uid_hash};
pub use reasons::Reasons;

/// BOUND: causes that a key keeps; of more, the oldest is counted and dropped.
const KEPT: usize = 8;

/// The last causes of a key, the oldest first.
#[derive(Clone)]
pub struct Causes {
    first: Cause,
    // BOUND: `KEPT` - 1. Boxed, so that a record of one cause is small.
    #[expect(
        clippy::box_collection,
        reason = "a word instead of three in each record"
    )]
    more: Option<Box<Vec<Cause>>>,
    left_out: u32,
    /// A cause that was left out was not known as an own write.
    foreign_left_out: bool,
}

impl Causes {
    /// The record of one cause.
    #[must_use]
    pub const fn of(cause: Cause) -> Self {
        Self {
            first: cause,
            more: None,
            left_out: 0,
            foreign_left_out: false,
        }
    }

    /// Adds a cause. One of the same event is merged into it.
    pub fn add(&mut self, cause: Cause) {
        let merged = u64::from(cause.merged) + 1;
        if let Some(known) = self.iter_mut().find(|known| known.is_same(&cause)) {
            let merged = u64::from(known.merged) + merged;
            known.merged = u32::try_from(merged).unwrap_or(u32::MAX);
            known.changed = known.changed | cause.changed;
            return;
        }
        let more = self
            .more
            .get_or_insert_with(|| Box::new(Vec::with_capacity(KEPT - 1)));
        if more.len() == KEPT - 1 {
            let second = more.remove(0);
            let oldest = std::mem::replace(&mut self.first, second);
            self.left_out = self
                .left_out
                .saturating_add(oldest.merged)
                .saturating_add(1);
            self.foreign_left_out |= oldest.origin != Origin::Own;
        }
        more.push(cause);
    }

    /// Adds causes that came later.
    pub fn extend(&mut self, later: Self) {
        self.left_out = self.left_out.saturating_add(later.left_out);
        self.foreign_left_out |= later.foreign_left_out;
        let more = later.more.map(|more| *more).unwrap_or_default();
        std::iter::once(later.first)
            .chain(more)
            .for_each(|cause| self.add(cause));
    }

    /// The causes, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Cause> {
        std::iter::once(&self.first).chain(self.more.iter().flat_map(|more| more.iter()))
    }

    /// The causes, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Cause> {
        let more = self.more.iter_mut().flat_map(|more| more.iter_mut());
        std::iter::once(&mut self.first).chain(more)
    }

    /// The number of older causes that were dropped.
    #[must_use]
    pub fn left_out(&self) -> u32 {
        self.left_out
    }

    /// The number of all causes: those kept, merged and dropped.
    #[must_use]
    pub fn total(&self) -> u64 {
        let kept = self.iter().map(|cause| u64::from(cause.merged) + 1);
        kept.sum::<u64>() + u64::from(self.left_out)
    }

    /// Returns whether all causes are own writes, as far as known.
    #[must_use]
    pub fn are_own(&self) -> bool {
        let is_own = |cause: &Cause| cause.origin == Origin::Own;
        // A key is parked for own writes.
        let all = |cause: &Cause| is_own(cause) || cause.event == Event::Unparked;
        !self.foreign_left_out && self.iter().any(is_own) && self.iter().all(all)
    }

    /// Returns whether each cause holds to `is_moot`; false if one was dropped.
    pub fn are_all(&self, is_moot: impl FnMut(&Cause) -> bool) -> bool {
        self.left_out == 0 && self.iter().all(is_moot)
    }

    /// The bytes of the record, those on the heap included; keys are shared and do not count.
    #[must_use]
    pub fn size(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| {
            size_of::<Vec<Cause>>() + more.capacity() * size_of::<Cause>()
        });
        size_of::<Self>() + more
    }
}

impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use kinform_api::ObjectKey;
    use proptest::prelude::*;

    use super::*;
    use crate::object::changed::Changed;
    use crate::time::Instant;

    fn cause(source: u16, version: u64) -> Cause {
        Cause {
            version: std::num::NonZeroU64::new(version),
            ..Cause::of_source(source, Event::Updated)
        }
    }

    fn versions(causes: &Causes) -> Vec<u64> {
        let versions = causes
            .iter()
            .map(|cause| cause.version.map_or(0, |v| v.get()));
        versions.collect()
    }

    #[test]
    fn a_key_costs_a_hundred_bytes_with_one_cause_and_six_hundred_with_eight() {
        assert!(size_of::<Cause>() <= 64, "{}", size_of::<Cause>());
        let mut causes = Causes::of(cause(0, 1));
        // With the word of the queue that leads to it.
        let word = size_of::<usize>();
        assert!(causes.size() + word <= 100, "{}", causes.size());
        for version in 2..100 {
            causes.add(cause(0, version));
            assert!(causes.size() + word <= 600, "{}", causes.size());
        }
        assert_eq!(causes.iter().count(), 8);
    }

    #[test]
    fn the_last_eight_causes_are_kept_and_the_others_counted() {
        let mut causes = Causes::of(cause(0, 1));
        (2..=10).for_each(|version| causes.add(cause(0, version)));
        assert_eq!(versions(&causes), [3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!((causes.left_out(), causes.total()), (2, 10));
        assert!(!causes.are_all(|_| true), "two are not known any more");
    }

    #[test]
    fn one_event_that_comes_twice_is_one_cause() {
        let mut causes = Causes::of(cause(0, 5));
        let mut again = cause(0, 5);
        again.changed = Changed::STATUS;
        again.enqueued = Instant::from_millis(7);
        causes.add(again);
        for other in [
            cause(1, 5),
            cause(0, 6),
            Cause::of_source(0, Event::Deleted),
        ] {
            causes.add(other);
        }
        let mut keyed = cause(0, 5);
        keyed.key = Some(ObjectKey::new(None, "x"));
        causes.add(keyed);
        assert_eq!((causes.iter().count(), causes.total()), (5, 6));
        let first = causes.iter().next().unwrap();
        assert_eq!((first.merged, first.changed), (1, Changed::STATUS));
        assert_eq!(first.enqueued, Instant::ZERO, "the first one counts");
    }

    #[test]
    fn an_own_cause_that_is_dropped_stays_own_and_another_does_not() {
        let origins = |first: Origin| {
            let mut causes = Causes::of(Cause {
                origin: first,
                ..cause(0, 1)
            });
            for version in 2..=20 {
                causes.add(Cause {
                    origin: Origin::Own,
                    ..cause(0, version)
                });
            }
            causes.are_own()
        };
        assert_eq!(
            [Origin::Own, Origin::Foreign, Origin::Unknown].map(origins),
            [true, false, false]
        );
    }

    proptest! {
        #[test]
        fn no_cause_is_lost_uncounted(
            lists in proptest::collection::vec(
                proptest::collection::vec((0u16..3, 0u64..6), 1..30), 1..4),
        ) {
            let total: usize = lists.iter().map(Vec::len).sum();
            let all: Vec<_> = lists.iter().flatten().collect();
            let last = all.last().copied().copied();
            let mut records = lists.iter().map(|list| {
                let mut list = list.iter().map(|&(source, version)| cause(source, version));
                let mut causes = Causes::of(list.next().unwrap());
                list.for_each(|cause| causes.add(cause));
                causes
            });
            let mut causes = records.next().unwrap();
            records.for_each(|later| causes.extend(later));
            prop_assert_eq!(causes.total(), total as u64);
            prop_assert!((1..=KEPT).contains(&causes.iter().count()));
            let is_last = |cause: &Cause| {
                Some((cause.source, cause.version.map_or(0, |v| v.get()))) == last
            };
            prop_assert!(lists.len() > 1 || causes.iter().any(is_last), "the last one is kept");
        }
    }
}
