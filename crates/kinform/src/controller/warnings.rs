//! The last warnings of a controller: loops, fights and signs of trouble that it reported.
//!
//! ```text
//! findings (log, event, counter) ─▶ Warnings (the last 64) ─▶ ControllerMetrics::warnings()
//! ```
//!
//! Never: the text of an error of the user's, which may hold anything. The log has it.
//!
//! Upstream counterpart: none.

use std::collections::VecDeque;
use std::sync::Mutex;

use jiff::Timestamp;
use kinform_api::ObjectKey;

use crate::source::ResourceInfo;
use crate::sync::lock;

/// BOUND: warnings that a controller keeps, a few hundred bytes each.
const KEPT: usize = 64;

/// A loop, a fight, or a sign of trouble.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Warning {
    /// The time of the report.
    pub time: Timestamp,
    /// One word for machines, as the event has it: `ReconcileLoop`, `FieldFight`, `HotLoop`, ...
    pub reason: &'static str,
    /// The key that was reconciled.
    pub key: ObjectKey,
    /// The resource of the field, and the key of its object, of a loop or a fight.
    pub object: Option<(ResourceInfo, ObjectKey)>,
    /// The path of the field, of a loop or a fight.
    pub path: Option<String>,
    /// The managers of the field, of a loop or a fight.
    pub managers: Vec<String>,
    /// The number of times that it was seen until the report.
    pub times: u64,
}

/// The last warnings.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    // BOUND: `KEPT`.
    kept: Mutex<VecDeque<Warning>>,
}

impl Warnings {
    pub(super) fn add(&self, warning: Warning) {
        let mut kept = lock(&self.kept);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(warning);
    }

    pub(super) fn read(&self) -> Vec<Warning> {
        lock(&self.kept).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_warnings_are_kept() {
        let warnings = Warnings::default();
        for times in 0..200 {
            warnings.add(Warning {
                time: Timestamp::UNIX_EPOCH,
                reason: "HotLoop",
                key: ObjectKey::new(Some("a"), "b"),
                object: None,
                path: None,
                managers: Vec::new(),
                times,
            });
        }
        let kept = warnings.read();
        assert_eq!((kept.len(), kept[0].times), (KEPT, 200 - KEPT as u64));
    }
}
