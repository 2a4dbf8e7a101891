//! The keys of the last minute's changes, kept while a controller stands by.
//!
//! ```text
//! triggers → Recent (keys and times, a minute of them) → keys(), when a term begins → queue
//! ```
//!
//! A standby has the caches but no workers. Its predecessor may not have reconciled the latest
//! changes, so these keys go first. No cache has the keys of deleted objects any more; only this
//! list has them. Everything else follows at the lowest priority.
//! INVARIANT: a key is kept once, with the time of its last change.
//!
//! Upstream counterpart: the queue of `controller-runtime:pkg/internal/controller` (`Warmup`), which
//! keeps every key since the process started.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use kinform_api::ObjectKey;
use kinform_core::causes::Cause;
use kinform_core::object::Object;
use kinform_core::queue::Priority;
use kinform_core::time::Instant;

use super::feed::{Sink, WrittenBy};
use crate::env::Env;
use crate::sync::lock;

/// The time for which a change is recent: longer than a leader that died keeps its lease.
const RECENT: Duration = Duration::from_secs(60);
/// BOUND: keys, some 100 bytes each. Beyond it the oldest changes are forgotten; objects that still
/// exist are reconciled all the same, later.
const MAX_KEYS: usize = 65_536;

#[derive(Default)]
pub(super) struct Recent {
    kept: Mutex<Kept>,
    env: Env,
}

#[derive(Default)]
struct Kept {
    last: HashMap<ObjectKey, Instant>,
    /// Changes in their order; those that `last` dates later are out of date.
    // BOUND: twice the keys.
    order: VecDeque<(Instant, ObjectKey)>,
}

impl Recent {
    /// The keys of recent changes, the oldest first. They stay until they are old: the term that
    /// begins may end before it comes to them.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        let now = self.env.now();
        let kept = lock(&self.kept);
        let Kept { last, order } = &*kept;
        let recent = order
            .iter()
            .filter(|(at, key)| last.get(key) == Some(at) && now.since(*at) <= RECENT);
        recent.map(|(_, key)| key.clone()).collect()
    }
}

impl Kept {
    fn add(&mut self, key: ObjectKey, now: Instant) {
        if self.last.insert(key.clone(), now) != Some(now) {
            self.order.push_back((now, key));
        }
        while let Some((at, key)) = self.order.front() {
            let is_last = self.last.get(key) == Some(at);
            let is_old = now.since(*at) > RECENT || self.last.len() > MAX_KEYS;
            if is_last && !is_old {
                break;
            }
            if is_last {
                self.last.remove(key);
            }
            self.order.pop_front();
        }
        if self.order.len() > 2 * MAX_KEYS.min(self.last.len().max(32)) {
            let last = &self.last;
            self.order.retain(|(at, key)| last.get(key) == Some(at));
        }
    }
}

impl Sink for Recent {
    fn written_by(&self, _: &Cause, _: &Object) -> WrittenBy {
        WrittenBy::Unknown
    }

    fn add_all(&self, keys: Vec<(ObjectKey, Cause)>, priority: Priority) {
        if priority == Priority::Low {
            return;
        }
        let now = self.env.now();
        let mut kept = lock(&self.kept);
        keys.into_iter().for_each(|(key, _)| kept.add(key, now));
    }
}

#[cfg(test)]
mod tests {
    use kinform_core::causes::Event;

    use super::*;

    fn add(recent: &Recent, number: usize, priority: Priority) {
        recent.add_all(vec![(key(number), Cause::of(Event::Updated))], priority);
    }

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new(Some("default"), &format!("object-{number}"))
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_minute_is_kept_in_the_order_of_each_keys_last_change() {
        let recent = Recent::default();
        for (seconds, number) in [(0, 1), (30, 2), (0, 3), (10, 2), (25, 4)] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            add(&recent, number, Priority::Normal);
            add(&recent, 9, Priority::Low);
        }
        assert_eq!(recent.keys(), [key(3), key(2), key(4)]);
        tokio::time::advance(Duration::from_secs(26)).await;
        assert_eq!(recent.keys(), [key(2), key(4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn many_changes_of_few_keys_and_few_changes_of_many_keys_are_bounded() {
        let recent = Recent::default();
        for turn in 0..10_000 {
            tokio::time::advance(Duration::from_millis(1)).await;
            add(&recent, turn % 3, Priority::Normal);
            assert!(lock(&recent.kept).order.len() <= 65, "turn {turn}");
        }
        for number in 0..MAX_KEYS + 10 {
            add(&recent, number, Priority::Normal);
        }
        assert_eq!(lock(&recent.kept).last.len(), MAX_KEYS);
        assert_eq!(recent.keys().len(), MAX_KEYS);
    }
}
