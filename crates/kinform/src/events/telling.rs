//! Requests to make, as `correlator.rs` and `series.rs` decide, and the budgets of noisy objects.
//!
//! ```text
//! Occurrence → correlator │ series → Heard: Telling (a request), merged, dropped
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kinform_core::time::Instant;

use super::occurrence::Occurrence;
use super::remembered::Remembered;

/// An object may have 25 events of a type at once, then one in five minutes. Upstream:
/// `defaultSpamBurst`, `-QPS`.
const SPAM_BURST: u32 = 25;
const SPAM_INTERVAL: Duration = Duration::from_secs(300);

/// One request to make.
#[derive(Clone, Debug)]
pub(super) struct Telling {
    /// The key under which the machine knows it.
    pub(super) key: String,
    pub(super) verb: Verb,
    pub(super) name: String,
    /// The first of the events that it stands for.
    pub(super) event: Arc<Occurrence>,
    pub(super) note: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The events that are counted as sent if it succeeds.
    pub(super) accounts_for: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Patch,
}

/// The decision about an event.
#[derive(Debug)]
pub(super) enum Heard {
    /// It leads to these requests, in order.
    Tell(Vec<Telling>),
    /// It is counted, and goes into a later request together with others.
    Merged,
    /// Its object is noisy.
    Dropped,
}

/// The budgets of objects that are noisy.
#[derive(Debug, Default)]
pub(super) struct Budgets(Remembered<String, Instant>);

impl Budgets {
    /// Takes one event out of the budget of its object and type. False if that is used up.
    pub(super) fn take(&mut self, occurrence: &Occurrence, now: Instant) -> bool {
        let all = SPAM_INTERVAL * SPAM_BURST;
        let key = occurrence.source_key();
        let full_at = self.0.get(&key, now, all).copied().unwrap_or_default();
        let full_at = full_at.max(now) + SPAM_INTERVAL;
        let has_one = full_at.since(now) <= all;
        if has_one {
            self.0.put(key, full_at, now);
        }
        has_one
    }
}
