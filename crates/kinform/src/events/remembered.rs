//! A bounded memory: what was used last is kept.
//!
//! ```text
//! put(key, value, now) → at most 4,096 entries → get(key, now, within)
//! ```
//!
//! Upstream counterpart: `k8s.io/utils/lru`.
//!
//! Complexity: O(1), a put amortised.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use kinform_core::time::Instant;

/// BOUND: objects and events remembered. Upstream: `maxLruCacheEntries`.
pub(super) const REMEMBERED_MAX: usize = 4096;

/// A bounded map: the least recently used entries are evicted first.
#[derive(Debug)]
pub(super) struct Remembered<K, V>(HashMap<K, (V, Instant)>);

impl<K: Eq + Hash, V> Remembered<K, V> {
    /// The value, if it was put not longer than `within` ago.
    pub(super) fn get<Q>(&self, key: &Q, now: Instant, within: Duration) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (value, used) = self.0.get(key)?;
        (now.since(*used) <= within).then_some(value)
    }

    pub(super) fn put(&mut self, key: K, value: V, now: Instant) {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&key) {
            // Half of them together: O(1) a put in the long run.
            let mut used: Vec<Instant> = self.0.values().map(|(_, used)| *used).collect();
            let (_, &mut median, _) = used.select_nth_unstable(REMEMBERED_MAX / 2);
            self.0.retain(|_, (_, used)| *used > median);
        }
        self.0.insert(key, (value, now));
    }

    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.remove(key).map(|(value, _)| value)
    }

    /// Every value that is remembered, with the time of its last put.
    pub(super) fn entries(&mut self) -> impl Iterator<Item = (&mut V, Instant)> {
        self.0.values_mut().map(|(value, used)| (value, *used))
    }

    pub(super) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut (V, Instant)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.get_mut(key)
    }

    /// Forgets what was put longer than `within` ago.
    pub(super) fn expire(&mut self, now: Instant, within: Duration) {
        self.0.retain(|_, (_, used)| now.since(*used) <= within);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_the_last_ones_and_no_more_than_its_bound() {
        let mut remembered = Remembered::default();
        let at = |number: usize| Instant::from_millis(number as u64);
        for number in 0..3 * REMEMBERED_MAX {
            remembered.put(number, number, at(number));
            assert!(remembered.entries().count() <= REMEMBERED_MAX);
        }
        let last = 3 * REMEMBERED_MAX - 1;
        let within = Duration::from_millis(5);
        assert_eq!(remembered.get(&last, at(last + 5), within), Some(&last));
        assert_eq!(remembered.get(&last, at(last + 6), within), None);
        assert_eq!(remembered.get(&0, at(last), Duration::MAX), None);
    }
}
