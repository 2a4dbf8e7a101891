//! A store whose entries end: what was not written again for longer than a lifetime is not there.
//!
//! ```text
//! insert(key, value) → entry with its time → get, list: what is not older than the lifetime
//! ```
//!
//! Time passes by reading: no task runs. What nobody reads goes when the store grows, so it holds at
//! most about twice what is alive. The clock is that of an [`Env`].
//!
//! Upstream counterpart: `client-go:tools/cache/expiration_cache.go` (`NewTTLStore`, `TTLPolicy`), which
//! keeps what nobody reads for ever.
//! Complexity: O(1), growing amortised; listing is O(entries).

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use kinform_core::time::Instant;

use crate::env::Env;
use crate::informer::lock;

/// Entries below which nobody looks for old ones.
const FEW: usize = 64;

/// A map whose entries end.
///
/// An entry is there as long as its age does not exceed the lifetime; a lifetime of zero never ends.
#[doc(alias = "NewTTLStore")]
#[doc(alias = "ExpirationCache")]
pub struct ExpiringStore<K, V> {
    entries: Mutex<Entries<K, V>>,
    lifetime: Duration,
    env: Env,
}

struct Entries<K, V> {
    map: HashMap<K, (Instant, V)>,
    // BOUND: entries at which those that ended are removed: twice what was alive the last time.
    sweep_at: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> ExpiringStore<K, V> {
    /// An empty store whose entries end after `lifetime`.
    #[must_use]
    pub fn new(lifetime: Duration) -> Self {
        Self::with_env(lifetime, Env::system())
    }

    /// The same, with the clock of `env`.
    #[must_use]
    pub fn with_env(lifetime: Duration, env: Env) -> Self {
        let entries = Entries {
            map: HashMap::new(),
            sweep_at: FEW,
        };
        Self {
            entries: Mutex::new(entries),
            lifetime,
            env,
        }
    }

    /// Writes an entry, whose life begins anew; returns what was there and had not ended.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let now = self.env.now();
        let mut entries = lock(&self.entries);
        if entries.map.len() >= entries.sweep_at {
            self.sweep(&mut entries, now);
        }
        let (written, old) = entries.map.insert(key, (now, value))?;
        self.is_alive(written, now).then_some(old)
    }

    /// The value of a key that has not ended; one that has is removed.
    pub fn get(&self, key: &K) -> Option<V> {
        let now = self.env.now();
        let mut entries = lock(&self.entries);
        let (written, value) = entries.map.get(key)?;
        if self.is_alive(*written, now) {
            return Some(value.clone());
        }
        entries.map.remove(key);
        None
    }

    /// All entries that have not ended, in no order; the others are removed.
    pub fn list(&self) -> Vec<(K, V)> {
        let now = self.env.now();
        let mut entries = lock(&self.entries);
        self.sweep(&mut entries, now);
        let alive = entries.map.iter();
        alive
            .map(|(key, (_, value))| (key.clone(), value.clone()))
            .collect()
    }

    /// Takes an entry away; returns it if it had not ended.
    pub fn remove(&self, key: &K) -> Option<V> {
        let now = self.env.now();
        let (written, value) = lock(&self.entries).map.remove(key)?;
        self.is_alive(written, now).then_some(value)
    }

    /// Writes these entries, and takes all others away.
    pub fn replace(&self, entries: impl IntoIterator<Item = (K, V)>) {
        let now = self.env.now();
        let new = entries.into_iter();
        let new: HashMap<_, _> = new.map(|(key, value)| (key, (now, value))).collect();
        lock(&self.entries).map = new;
    }

    /// Entries held, ended or not: a gauge.
    pub fn held(&self) -> usize {
        lock(&self.entries).map.len()
    }

    fn is_alive(&self, written: Instant, now: Instant) -> bool {
        self.lifetime.is_zero() || now.since(written) <= self.lifetime
    }

    fn sweep(&self, entries: &mut Entries<K, V>, now: Instant) {
        entries
            .map
            .retain(|_, (written, _)| self.is_alive(*written, now));
        entries.sweep_at = FEW.max(entries.map.len() * 2);
        if entries.map.capacity() > entries.sweep_at * 4 {
            entries.map.shrink_to(entries.sweep_at);
        }
    }
}

impl<K, V> fmt::Debug for ExpiringStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiringStore")
            .field("held", &lock(&self.entries).map.len())
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn store(lifetime: Duration) -> ExpiringStore<&'static str, u32> {
        ExpiringStore::with_env(lifetime, Env::seeded(1))
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_there_as_long_as_its_age_does_not_exceed_its_lifetime() {
        // client-go: TestTTLExpirationBasic, TestTTLPolicy
        let store = store(10 * SECOND);
        store.insert("a", 1);
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(store.get(&"a"), Some(1), "not at the very end");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((store.get(&"a"), store.held()), (None, 0));
        assert_eq!(store.remove(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_lifetime_nothing_ends() {
        // client-go: TestTTLPolicy
        let store = store(Duration::ZERO);
        store.insert("a", 1);
        tokio::time::advance(SECOND * 1_000_000).await;
        assert_eq!(store.get(&"a"), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn writing_begins_a_life_anew_also_of_what_had_ended() {
        // client-go: TestReAddExpiredItem
        let store = store(10 * SECOND);
        assert_eq!(store.insert("a", 1), None);
        tokio::time::advance(8 * SECOND).await;
        assert_eq!(store.insert("a", 2), Some(1));
        tokio::time::advance(8 * SECOND).await;
        assert_eq!(store.get(&"a"), Some(2));
        tokio::time::advance(8 * SECOND).await;
        assert_eq!(store.insert("a", 3), None, "it had ended");
        assert_eq!(store.get(&"a"), Some(3));
        assert_eq!((store.remove(&"a"), store.held()), (Some(3), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_leaves_out_and_removes_what_has_ended() {
        // client-go: TestTTLList
        let store = store(10 * SECOND);
        store.insert("a", 1);
        tokio::time::advance(6 * SECOND).await;
        store.insert("b", 2);
        store.insert("c", 3);
        tokio::time::advance(6 * SECOND).await;
        let mut list = store.list();
        list.sort_unstable();
        assert_eq!((list, store.held()), (vec![("b", 2), ("c", 3)], 2));
        store.replace([("d", 4)]);
        assert_eq!(store.list(), [("d", 4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_does_not_pile_up() {
        let store: ExpiringStore<u32, u32> = ExpiringStore::with_env(SECOND, Env::seeded(1));
        for key in 0..100_000 {
            if key % 100 == 0 {
                tokio::time::advance(SECOND).await;
            }
            store.insert(key, key);
        }
        // Two hundred are alive at any time.
        assert!(store.held() <= 2 * 201, "{}", store.held());
    }
}
