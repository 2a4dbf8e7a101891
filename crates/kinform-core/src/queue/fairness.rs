//! Fairness: which keys take turns with which others.
//!
//! ```text
//! key → Fairness (a function of the user's) → hash of its group → lanes, turns
//! ```
//!
//! The function is foreign code: a panic in it gives the key to a group that all such keys share.
//!
//! Upstream counterpart: none; a work queue there is one line for all tenants.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use foldhash::fast::RandomState;
use kinform_api::ObjectKey;

type GroupOf<K> = Arc<dyn Fn(&K) -> u64 + Send + Sync>;

/// The groups that take turns while their keys wait for a worker.
///
/// A key waits in its lane for at most ⌈(G-1)/W⌉+1 service times before the first key of its group
/// is handed out, where G groups wait for W workers, no matter how many keys the others have.
pub struct Fairness<K>(Option<GroupOf<K>>);

/// The group of keys whose function panics, and of all keys if there are no groups.
const SHARED: u64 = 0;

impl<K> Fairness<K> {
    /// No groups: keys are first in, first out within their lane.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Keys of equal groups belong together. `group_of` is called each time that a key becomes ready.
    #[must_use]
    pub fn by<G: Hash>(group_of: impl Fn(&K) -> G + Send + Sync + 'static) -> Self {
        let hasher = RandomState::default();
        Self(Some(Arc::new(move |key| hasher.hash_one(group_of(key)))))
    }

    /// The hash of a key's group.
    #[inline]
    pub(super) fn group_of(&self, key: Option<&K>) -> u64 {
        match (&self.0, key) {
            (Some(group_of), Some(key)) => Self::call(group_of, key),
            _ => SHARED,
        }
    }

    #[inline(never)]
    fn call(group_of: &GroupOf<K>, key: &K) -> u64 {
        catch_unwind(AssertUnwindSafe(|| group_of(key))).unwrap_or(SHARED)
    }
}

impl Fairness<ObjectKey> {
    /// Each namespace is a group; objects of the cluster are another.
    #[must_use]
    pub fn by_namespace() -> Self {
        let hasher = RandomState::default();
        Self(Some(Arc::new(move |key: &ObjectKey| {
            hasher.hash_one(key.key_ref().namespace)
        })))
    }
}

impl<K> Clone for Fairness<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Fairness<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_groups = self.0.is_some();
        f.debug_tuple("Fairness").field(&has_groups).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::{Limiter, Priority, Queue, Taken, Verdict};
    use super::*;
    use crate::time::Instant;

    /// A tenant and a number.
    type Key = (u32, u32);

    const NOW: Instant = Instant::ZERO;

    fn queue() -> Queue<Key> {
        Queue::new(Limiter::default()).with_fairness(Fairness::by(|key: &Key| key.0))
    }

    fn fill(queue: &mut Queue<Key>, tenant: u32, keys: u32) {
        (0..keys).for_each(|key| {
            queue.add((tenant, key), Priority::Normal, NOW);
        });
    }

    fn serve(queue: &mut Queue<Key>, turns: usize) -> Vec<Key> {
        let served = (0..turns).map_while(|_| {
            let Taken { key, ticket, .. } = queue.take(NOW)?;
            queue.settle(ticket, Verdict::Forget, NOW);
            Some(key)
        });
        served.collect()
    }

    #[test]
    fn q3_one_key_of_a_small_tenant_behind_100_000_of_another_waits_for_two_service_times_at_most()
    {
        let mut queue = queue();
        fill(&mut queue, 1, 100_000);
        // The worker is busy with one when the small tenant's key comes.
        let running = queue.take(NOW).expect("keys are ready");
        fill(&mut queue, 2, 1);
        queue.settle(running.ticket, Verdict::Forget, NOW);
        let served = serve(&mut queue, 2);
        assert!(served.contains(&(2, 0)), "{served:?}");
        // It is not one of the many's turns that it took: the order of theirs is as before.
        assert_eq!(serve(&mut queue, 2), [(1, 2), (1, 3)]);
    }

    #[test]
    fn q3_a_tenant_that_never_rests_takes_no_other_ones_turn() {
        let mut queue = queue();
        fill(&mut queue, 2, 3);
        let mut served = Vec::new();
        for turn in 0..6 {
            queue.add((1, turn), Priority::Normal, NOW);
            served.extend(serve(&mut queue, 1));
        }
        let expected = [(2, 0), (1, 0), (2, 1), (1, 1), (2, 2), (1, 2)];
        assert_eq!(served, expected);
    }

    #[test]
    fn q4_a_key_that_moves_up_leaves_the_others_of_its_group_where_they_are() {
        let mut queue = queue();
        fill(&mut queue, 1, 3);
        fill(&mut queue, 2, 1);
        queue.add((1, 1), Priority::High, NOW);
        let served = serve(&mut queue, 9);
        assert_eq!(served, [(1, 1), (1, 0), (2, 0), (1, 2)]);
    }

    #[test]
    fn a_key_whose_group_panics_shares_one_with_all_such_keys() {
        let group_of = |key: &Key| {
            if key.0 == 0 {
                panic!("no group")
            } else {
                key.0
            }
        };
        let fairness = Fairness::by(group_of);
        let mut queue = Queue::new(Limiter::default()).with_fairness(fairness);
        fill(&mut queue, 0, 2);
        fill(&mut queue, 7, 2);
        assert_eq!(serve(&mut queue, 9), [(0, 0), (7, 0), (0, 1), (7, 1)]);
    }

    #[test]
    fn namespaces_are_groups_and_the_cluster_is_one() {
        let fairness = Fairness::by_namespace();
        let group_of = |namespace, name| {
            let key = ObjectKey::new(namespace, name);
            fairness.group_of(Some(&key))
        };
        assert_eq!(group_of(Some("a"), "x"), group_of(Some("a"), "y"));
        assert_ne!(group_of(Some("a"), "x"), group_of(Some("b"), "x"));
        assert_eq!(group_of(None, "x"), group_of(None, "y"));
        assert_ne!(group_of(None, "x"), group_of(Some("a"), "x"));
        assert_eq!(format!("{fairness:?}"), "Fairness(true)");
    }

    #[test]
    fn a_burst_of_groups_gives_its_memory_back() {
        let mut queue = queue();
        (0..5_000).for_each(|tenant| fill(&mut queue, tenant, 2));
        assert_eq!(queue.lanes.groups().0, 5_000);
        assert_eq!(serve(&mut queue, 20_000).len(), 10_000);
        let (groups, capacity) = queue.lanes.groups();
        assert_eq!((groups, capacity < 5_000), (0, true));
    }

    /// Workers that each need one service time for a key, tenants 1 to `busy` with a backlog that grows, and
    /// three quiet ones with a key now and then. Returns the longest wait of a quiet one's key, in service
    /// times.
    fn longest_wait(busy: u32, workers: usize, backlog: u32, arrivals: &[u32]) -> u32 {
        let mut queue = queue();
        (1..=busy).for_each(|tenant| fill(&mut queue, tenant, backlog));
        let (mut came, mut longest) = (BTreeMap::new(), 0);
        for (time, &arrival) in (0u32..).zip(arrivals) {
            let running: Vec<_> = (0..workers).map_while(|_| queue.take(NOW)).collect();
            for Taken { key, .. } in &running {
                let waited = came.remove(key).map_or(0, |came| time - came);
                longest = longest.max(waited);
            }
            // While they work.
            let quiet = (1_000 + arrival % 3, 0);
            if running.iter().all(|taken| taken.key != quiet) {
                queue.add(quiet, Priority::Normal, NOW);
                came.entry(quiet).or_insert(time);
            }
            fill(&mut queue, 1 + arrival % busy, backlog + time);
            for Taken { ticket, .. } in running {
                queue.settle(ticket, Verdict::Forget, NOW);
            }
        }
        longest
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

        #[test]
        fn q3_a_key_waits_for_one_key_of_each_other_group_at_most(
            busy in 1u32..12,
            workers in 1usize..5,
            backlog in 1u32..20,
            arrivals in prop::collection::vec(0u32..100, 1..60),
        ) {
            let longest = longest_wait(busy, workers, backlog, &arrivals);
            let others = busy as usize + 2;
            let bound = others.div_ceil(workers) + 1;
            prop_assert!(longest as usize <= bound, "{longest} > {bound}");
        }
    }
}
