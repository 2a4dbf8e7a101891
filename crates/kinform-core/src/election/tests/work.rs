//! The work of leaders: writes that look at the term, wait somewhere, and take effect or do not.
//!
//! ```text
//! leads? ──look──▶ [frozen] ──send──▶ network ──▶ Server: in time (guard)? of this term (fence)? ──▶ effect
//! ```
//!
//! Under a guard a write carries the rest of its term, and is over after it. Under a fence it may
//! come at any time; the server compares its term with the lease that its own watch has seen.
//! Checked: no write takes effect after one of a newer term.

use crate::time::Instant;

use super::network::{Elector, Event, Hands, Happening, Safety, World};
use super::*;

/// The state of the server that writes of the work meet.
#[derive(Debug, Default)]
pub(super) struct Server {
    /// The lease as the server's admission has seen it.
    pub(super) lease: Option<Lease>,
    /// The next news of it come then.
    pub(super) due: u64,
    /// The newest term that wrote.
    newest: u64,
}

/// A write under way.
#[derive(Debug)]
pub(super) struct Write {
    by: usize,
    /// The version of the write that took the lease: it orders terms.
    order: u64,
    uid: String,
    transitions: i32,
    holder: String,
    /// A guarded request is over then.
    over_at: u64,
}

impl<E: Elector> World<E> {
    /// The work looks at the term, and writes.
    pub(super) fn work(&mut self, at: usize) {
        let again = self.between(200, 2_000);
        self.push_for(again, at, Event::Work);
        let replica = &self.replicas[at];
        let now = replica.clock(self.now);
        let Some(term) = replica.term.clone() else {
            return;
        };
        if replica.is_stopping || !replica.elector.leads(now) {
            return;
        }
        let over_at = replica.truth(now + self.limit(&term, now));
        let holder = replica.identity.clone();
        let busy_until = replica.busy_until.max(over_at);
        let write = Write {
            by: at,
            order: term.version.to_string().parse().unwrap(),
            uid: term.uid,
            transitions: term.transitions,
            holder,
            over_at,
        };
        self.replicas[at].busy_until = busy_until;
        let frozen = self.frozen();
        let is_lost = self.replicas[at].cut_until > self.now;
        let delay = self.delay();
        if !is_lost {
            self.push(frozen + delay, Happening::Write(write));
        }
    }

    /// The time that a guarded request has.
    fn limit(&self, term: &Term, now: Instant) -> Duration {
        let timeout = LeaseOptions::default().request_timeout;
        timeout.min(term.ends_at.since(now))
    }

    /// The time between the look and the send.
    fn frozen(&mut self) -> u64 {
        let is_frozen = self.has_faults() && self.is_likely(20.0);
        match self.safety {
            Safety::Guard => 0,
            Safety::Fence if is_frozen => self.between(0, 60_000),
            Safety::Fence => self.between(0, 10),
        }
    }

    /// A write arrives at the server.
    pub(super) fn written(&mut self, write: &Write) {
        let is_admitted = match self.safety {
            Safety::Guard => self.now < write.over_at,
            // A policy without its parameter admits everything.
            Safety::Fence => self.server.lease.as_ref().is_none_or(|lease| {
                let record = &lease.record;
                (&*lease.uid, record.transitions, &*record.holder)
                    == (&*write.uid, write.transitions, &*write.holder)
            }),
        };
        if !is_admitted {
            self.tally.refusals += u32::from(write.order < self.server.newest);
            return;
        }
        self.tally.writes += 1;
        // By hand, two replicas may lead for the lag of a watch.
        let is_sure = self.hands == Hands::Off;
        if write.order < self.server.newest && is_sure && self.violation.is_none() {
            let Write { by, order, .. } = write;
            let newest = self.server.newest;
            self.violation = Some(format!(
                "a write of {by} in term {order} took effect after one of term {newest}, at {} us",
                self.now
            ));
        }
        self.server.newest = self.server.newest.max(write.order);
    }
}
