//! The faults and the states that they met: a fault that only ever meets an idle process proves little.
//!
//! ```text
//! fault begins ─▶ (fault, state of the process) ─▶ counters of all runs ─▶ pairs never reached
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// The state of a process as a fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Its first list is under way.
    Listing,
    /// Its caches follow.
    Synced,
    /// Its caches have lost the server.
    Stale,
    /// It leads.
    Leading,
    /// Another one leads, or nobody.
    Standing,
    /// A reconcile is under way.
    Working,
}

/// All states.
pub const STATES: [State; 6] = [
    State::Listing,
    State::Synced,
    State::Stale,
    State::Leading,
    State::Standing,
    State::Working,
];

/// All kinds of faults, as scripts name them.
pub const FAULTS: [&str; 52] = [
    "crash",
    "stop",
    "pause",
    "crashBefore",
    "crashAfter",
    "loseReply",
    "sendLate",
    "refuseWrite",
    "loseLeaseReply",
    "sendLeaseLate",
    "refuseLease",
    "crashAtLease",
    "deleteLease",
    "labelLease",
    "cut",
    "cutAfter",
    "refuse",
    "blackHole",
    "halfOpen",
    "oneWay",
    "trickle",
    "slow",
    "duplicate",
    "again",
    "drop",
    "deaf",
    "noWrites",
    "switch",
    "restart",
    "restartWithoutHistory",
    "restore",
    "goBack",
    "clock",
    "cutWatches",
    "stallWatches",
    "lateWatches",
    "noBookmarks",
    "noInitialEventsEnd",
    "noInitialEvents",
    "lateInitialEventsEnd",
    "lag",
    "expire",
    "reply410",
    "reply429",
    "reply5xx",
    "foreign",
    "expiredEvent",
    "emptyStream",
    "truncate",
    "shortWatches",
    "stallBody",
    "delay",
];

/// The counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach(BTreeMap<(&'static str, State), u64>);

impl Reach {
    /// A fault met a state.
    pub(crate) fn count(&mut self, fault: &'static str, state: State) {
        *self.0.entry((fault, state)).or_default() += 1;
    }

    /// Adds the counters of another run.
    pub fn add(&mut self, other: &Self) {
        for (pair, count) in &other.0 {
            *self.0.entry(*pair).or_default() += count;
        }
    }

    /// The pairs that were never reached.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let pairs = FAULTS
            .iter()
            .flat_map(|fault| STATES.map(|state| (*fault, state)));
        let missing = pairs.filter(|pair| !self.0.contains_key(pair));
        missing
            .map(|(fault, state)| format!("{fault} × {state:?}"))
            .collect()
    }

    /// The number of pairs that were reached, and of all.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.0.len(), FAULTS.len() * STATES.len())
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", "")?;
        for state in STATES {
            write!(f, "{:>10}", format!("{state:?}"))?;
        }
        for fault in FAULTS {
            write!(f, "\n{fault:<24}")?;
            for state in STATES {
                let count = self.0.get(&(fault, state)).copied().unwrap_or_default();
                write!(f, "{count:>10}")?;
            }
        }
        Ok(())
    }
}
