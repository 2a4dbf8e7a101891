//! The faults of a world: pauses, partitions, kills, lost watches, stops, and hands on the lease.
//!
//! ```text
//! dice → one fault, then the next after 0.5 to 8 s, until the faults are over
//! ```

use super::network::{Elector, Event, FAULTS_UNTIL, Hands, Happening, REPLICAS, World};
use super::*;

impl<E: Elector> World<E> {
    pub(super) fn chaos(&mut self) {
        if !self.has_faults() {
            return;
        }
        let at = (self.dice.throw() * REPLICAS as f64) as usize;
        let until = |now: u64, span: u64| (now + span).min(FAULTS_UNTIL);
        let now = self.now;
        match (self.dice.throw() * 20.0) as u32 {
            0..4 => {
                let awake = until(now, self.between(100, 40_000));
                let replica = &mut self.replicas[at];
                replica.asleep_until = replica.asleep_until.max(awake);
            }
            4..8 => self.replicas[at].cut_until = until(now, self.between(500, 25_000)),
            8..10 if self.hands == Hands::Off => {
                let span = self.between(1_000, 30_000);
                self.replicas[at].unwatched_until = now + span;
                self.push(span, Happening::Rewatch(at));
            }
            10 => {
                let span = self.between(1_000, 30_000);
                for replica in &mut self.replicas {
                    replica.cut_until = until(now, span);
                }
            }
            11..13 => self.annotate(),
            13..15 => self.push_for(0, at, Event::Stop),
            15..17 if !self.replicas[at].is_dead => self.strike(at),
            17..20 if self.hands == Hands::On => self.touch(),
            _ => {}
        }
        let next = self.between(500, 8_000);
        self.push(next, Happening::Chaos);
    }

    /// `kill -9`: requests that were sent may still take effect.
    fn strike(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let now = replica.clock(self.now);
        if replica.elector.leads(now) {
            self.leave_tail(at, now);
        }
        self.kill(at);
    }

    /// Changes metadata alone.
    fn annotate(&mut self) {
        if let Some(lease) = self.lease.clone() {
            self.store(lease.uid, lease.record, lease.preferred_holder);
        }
    }

    /// A person deletes or edits the lease.
    fn touch(&mut self) {
        let Some(mut lease) = self.lease.clone() else {
            return;
        };
        self.touched_at = Some(self.now);
        match (self.dice.throw() * 5.0) as u32 {
            0 | 1 => {
                self.version += 1;
                lease.version = self.version.into();
                self.lease = None;
                return self.tell(&Sighting::Deleted(lease));
            }
            2 => lease.record.holder.clear(),
            3 => "a person".clone_into(&mut lease.record.holder),
            _ => lease.record.duration_seconds = 1,
        }
        self.store(lease.uid, lease.record, lease.preferred_holder);
    }
}
