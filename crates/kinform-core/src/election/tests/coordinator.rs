//! The coordinator of a coordinated election: it chooses among live replicas, and writes the lease.
//!
//! ```text
//! live replicas + lease, by its own time of day → create │ hand over │ preferredHolder
//! ```
//!
//! It changes its mind now and then, is away for a while, and its clock is wrong: under a guard it is
//! late, or ahead by less than the margin covers; under a fence anything up to 20 s.
//!
//! Upstream counterpart: `kubernetes:pkg/controlplane/controller/leaderelection` (`reconcileElectionStep`).

use std::collections::BTreeMap;

use super::network::{Elector, Happening, REPLICAS, Safety, World};
use super::*;

/// Its state.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    /// The true time at which a `renewTime` was written.
    written: BTreeMap<String, u64>,
    favourite: usize,
    /// The lead of its clock, in microseconds.
    ahead: i64,
    hand_overs: u64,
}

/// The lease duration that it writes.
const ITS_SECONDS: i32 = 5;

impl Coordinator {
    /// A record with this text is being written.
    pub(super) fn note(&mut self, text: &str, now: u64) {
        self.written.insert(text.to_owned(), now);
    }

    /// Returns whether a record has expired, by its clock.
    fn has_expired(&self, record: &Record, now: u64) -> bool {
        let written = self.written.get(&record.renew_time).copied();
        let seconds = i64::from(record.duration_seconds);
        let end = written.unwrap_or(0) as i64 + seconds * 1_000_000;
        end < now as i64 + self.ahead
    }
}

impl<E: Elector> World<E> {
    /// One look at the lease.
    pub(super) fn coordinate(&mut self) {
        let is_away = self.has_faults() && self.is_likely(3.0);
        let next = match is_away {
            true => self.between(5_000, 30_000),
            false => self.between(200, 5_000),
        };
        self.push(next, Happening::Coordinate);
        if self.has_faults() && self.is_likely(5.0) {
            self.coordinator.favourite = (self.dice.throw() * REPLICAS as f64) as usize;
            let (early, late) = match self.safety {
                Safety::Guard => (400, 10_000),
                Safety::Fence => (20_000, 20_000),
            };
            let span = self.between(0, early + late) as i64;
            self.coordinator.ahead = early as i64 * 1_000 - span;
        }
        let Some(chosen) = self.choose() else {
            return;
        };
        self.hand_over(chosen);
    }

    /// The favourite, or another replica that answers.
    fn choose(&self) -> Option<String> {
        let answers = |at: &usize| {
            let replica = &self.replicas[*at];
            let is_up = !replica.is_dead && replica.asleep_until <= self.now;
            is_up && replica.cut_until <= self.now
        };
        let first = self.coordinator.favourite;
        let mut order = (0..REPLICAS).map(|step| (first + step) % REPLICAS);
        let at = order.find(answers)?;
        Some(self.replicas[at].identity.clone())
    }

    fn hand_over(&mut self, chosen: String) {
        let now = self.now;
        let (uid, mut record) = match self.lease.clone() {
            None => (format!("u{}", self.version), Record::default()),
            Some(lease) => {
                let holder = &lease.record.holder;
                let is_free = holder.is_empty() || self.coordinator.has_expired(&lease.record, now);
                if *holder == chosen {
                    // Upstream's writes nothing, though the lease may have expired.
                    return;
                }
                if !is_free {
                    self.store(lease.uid, lease.record, chosen);
                    return;
                }
                (lease.uid, lease.record)
            }
        };
        self.coordinator.hand_overs += 1;
        record.holder = chosen;
        record.duration_seconds = ITS_SECONDS;
        record.acquire_time = String::new();
        record.renew_time = format!("coordinator {}", self.coordinator.hand_overs);
        self.coordinator.note(&record.renew_time, now);
        self.store(uid, record, String::new());
    }
}
