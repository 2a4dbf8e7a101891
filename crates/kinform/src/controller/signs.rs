//! Signs of trouble that runs of a key show: reported in log and events, one of each sign a minute.
//!
//! ```text
//! run ended, or slow → sign → Streaks: enough in a row? one lately? → reported by `findings`
//! ```
//!
//! A permanent error is reported for each object: its owner has to change it. Of the others one object
//! stands for all, since a view that lags or a release that panics concerns every key. Counters tell
//! their number.
//!
//! BOUND: 4,096 keys whose last run showed a sign that needs several runs; others are not counted.
//!
//! Upstream counterpart: none.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kinform_api::ObjectKey;
use kinform_core::time::Instant;

use crate::sync::lock;

/// BOUND: keys whose runs are counted.
const KEYS: usize = 4096;
/// The time in which a sign is reported once.
const PAUSE: Duration = Duration::from_secs(60);
/// A run that asks for the next one sooner than this is hot.
pub(super) const HOT: Duration = Duration::from_millis(100);

/// A sign of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The run asked for the next one at once, and wrote nothing.
    Hot,
    /// The run wrote, and nothing changed.
    Noop,
    /// The view was not shown to be fresh.
    Stale,
    Permanent,
    Panic,
    Timeout,
    Slow,
}

impl Sign {
    /// Runs in a row that show the sign before it is reported.
    pub(super) fn runs(self) -> u8 {
        match self {
            Self::Hot => 10,
            Self::Noop | Self::Stale => 5,
            Self::Permanent | Self::Panic | Self::Timeout | Self::Slow => 1,
        }
    }

    /// The reason of the event.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Hot => "HotLoop",
            Self::Noop => "NoopWrites",
            Self::Stale => "StaleView",
            Self::Permanent => "PermanentError",
            Self::Panic => "ReconcilePanic",
            Self::Timeout => "ReconcileTimeout",
            Self::Slow => "SlowReconcile",
        }
    }

    /// The note of the event; `said` is the error, if there is one.
    pub(super) fn note(self, said: &str) -> String {
        let runs = self.runs();
        match self {
            Self::Hot => format!(
                "{runs} reconciles in a row asked for the next one within {HOT:?} and wrote nothing"
            ),
            Self::Noop => {
                format!("{runs} reconciles in a row sent writes, and none of them changed anything")
            }
            Self::Stale => format!("{runs} reconciles in a row needed a fresher view: {said}"),
            _ => said.to_owned(),
        }
    }
}

/// The effects of the writes of one run.
#[derive(Debug, Default)]
pub(super) struct Effects {
    changed: AtomicBool,
    unchanged: AtomicBool,
}

impl Effects {
    /// A write changed something, or may have.
    pub(super) fn change(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// A write changed nothing.
    pub(super) fn keep(&self) {
        self.unchanged.store(true, Ordering::Release);
    }

    pub(super) fn have_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Returns whether there were writes, and all of them changed nothing.
    pub(super) fn are_noop(&self) -> bool {
        self.unchanged.load(Ordering::Acquire) && !self.have_changed()
    }
}

/// The signs of keys in a row, and when each sign was reported.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    // BOUND: `KEYS`.
    of: Mutex<HashMap<ObjectKey, (Sign, u8)>>,
    // The number of keys: most controllers never have one, and then never take the lock.
    number: AtomicUsize,
    reported: Mutex<Vec<(Sign, Instant)>>,
}

impl Streaks {
    /// A run of `key` showed this sign. Returns whether it is to be reported.
    pub(super) fn shown(&self, key: &ObjectKey, sign: Sign, now: Instant) -> bool {
        let runs = match sign.runs() {
            1 => 1,
            runs => self.count(key, sign).min(runs),
        };
        runs == sign.runs() && self.is_due(sign, now)
    }

    /// A run of `key` ended without a sign.
    pub(super) fn end(&self, key: &ObjectKey) {
        // A key's runs are counted by the one worker that has it.
        if self.number.load(Ordering::Acquire) > 0 {
            let mut of = lock(&self.of);
            of.remove(key);
            self.number.store(of.len(), Ordering::Release);
        }
    }

    /// Forgets all keys.
    pub(super) fn clear(&self) {
        lock(&self.of).clear();
        self.number.store(0, Ordering::Release);
    }

    /// The runs in a row, this one included, that showed the sign.
    fn count(&self, key: &ObjectKey, sign: Sign) -> u8 {
        let mut of = lock(&self.of);
        if of.len() >= KEYS && !of.contains_key(key) {
            return 0;
        }
        let streak = of.entry(key.clone()).or_insert((sign, 0));
        if streak.0 != sign {
            *streak = (sign, 0);
        }
        streak.1 = streak.1.saturating_add(1);
        let runs = streak.1;
        self.number.store(of.len(), Ordering::Release);
        runs
    }

    fn is_due(&self, sign: Sign, now: Instant) -> bool {
        if sign == Sign::Permanent {
            return true;
        }
        let mut reported = lock(&self.reported);
        reported.retain(|(_, at)| now.since(*at) < PAUSE);
        let is_due = reported.iter().all(|(known, _)| *known != sign);
        if is_due {
            reported.push((sign, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_sign_is_reported_after_enough_runs_in_a_row_and_once_a_minute() {
        let (streaks, key) = (Streaks::default(), ObjectKey::new(None, "x"));
        let shown = |sign, second| streaks.shown(&key, sign, at(second));
        for _ in 0..9 {
            assert!(!shown(Sign::Hot, 0));
        }
        streaks.end(&key);
        assert_eq!(streaks.number.load(Ordering::Acquire), 0);
        let told: Vec<bool> = (0..20).map(|_| shown(Sign::Hot, 0)).collect();
        assert_eq!(told.iter().position(|told| *told), Some(9));
        assert_eq!(told.iter().filter(|told| **told).count(), 1);
        assert!(!shown(Sign::Stale, 1), "another sign begins anew");
        assert!(shown(Sign::Panic, 1) && !shown(Sign::Panic, 60));
        assert!(shown(Sign::Panic, 61));
        assert!(shown(Sign::Permanent, 1) && shown(Sign::Permanent, 1));
    }

    #[test]
    fn keys_beyond_the_bound_are_not_counted() {
        let streaks = Streaks::default();
        for number in 0..KEYS + 10 {
            let key = ObjectKey::new(None, &format!("x{number}"));
            streaks.shown(&key, Sign::Noop, at(0));
        }
        assert_eq!(lock(&streaks.of).len(), KEYS);
        streaks.clear();
        assert_eq!(streaks.number.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_run_is_without_effect_if_it_wrote_and_nothing_changed() {
        let effects = Effects::default();
        assert!(!effects.are_noop() && !effects.have_changed());
        effects.keep();
        assert!(effects.are_noop());
        effects.change();
        assert!(!effects.are_noop() && effects.have_changed());
    }
}
