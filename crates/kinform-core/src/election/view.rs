//! The lease as this process last observed it, and the time from which it may be taken.
//!
//! ```text
//! lease (get, answer, watch) + own writes → View → Change
//! ```
//!
//! INVARIANT: the wait for a held lease is counted from the observation of its last change, by our
//! clock; the times in the record are only compared for equality.
//! INVARIANT: an observation older than the latest one changes nothing.
//!
//! Upstream counterpart: `observedRecord`, `observedRawRecord` and `observedTime` in
//! `client-go:tools/leaderelection/leaderelection.go`.

use std::cmp::Ordering;
use std::time::Duration;

use kinform_api::{ResourceVersion, mutant};

use crate::time::Instant;

use super::input::RequestId;
use super::lease::Lease;
use super::step::Verb;

/// A write that may have been stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) id: RequestId,
    pub(super) verb: Verb,
    pub(super) sent_at: Instant,
    /// The text in its record; empty until it was sent.
    pub(super) renew_time: String,
}

/// The effect of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The record is the one that is known.
    Same,
    /// The record is a write of ours that was sent at this time.
    Ours(Instant),
    /// Our release was stored.
    Released,
    /// Another record.
    Foreign,
}

/// The order of an observation to the latest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Newer,
    Older,
    Same,
    /// Versions that have no order.
    Unknown,
}

#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// The lease, if it is there.
    lease: Option<Lease>,
    /// The latest version that was observed, of a lease that is gone, too.
    latest: ResourceVersion,
    /// The last change was observed at this time.
    seen_at: Instant,
    /// A held lease may be taken from this time on, and a deleted one may be created.
    free_at: Instant,
    /// The last record of another holder keeps its lease until then, though the lease was handed over
    /// since.
    others_until: Instant,
    /// The record is a write of ours that was sent at this time.
    ours: Option<Instant>,
    /// Something newer was observed since the last request began, so its answer may be older.
    has_moved: bool,
}

impl View {
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The holder; `None` without a lease, or without a holder.
    pub(super) fn holder(&self) -> Option<&str> {
        let lease = self.lease.as_ref();
        lease
            .map(|lease| lease.record.holder.as_str())
            .filter(|holder| !holder.is_empty())
    }

    pub(super) fn ours(&self) -> Option<Instant> {
        self.ours
    }

    pub(super) fn seen_at(&self) -> Instant {
        self.seen_at
    }

    /// The time from which the lease may be taken: at once if it is ours.
    pub(super) fn free_at(&self) -> Instant {
        if self.ours.is_some() {
            Instant::ZERO
        } else {
            self.free_at
        }
    }

    /// The time at which the record expires.
    pub(super) fn expires_at(&self) -> Instant {
        self.free_at
    }

    /// The time until which the holders before this one may still work.
    pub(super) fn others_until(&self) -> Instant {
        self.others_until
    }

    /// `spec.preferredHolder`; `None` if there is none.
    pub(super) fn preferred_holder(&self) -> Option<&str> {
        let lease = self.lease.as_ref();
        lease
            .map(|lease| lease.preferred_holder.as_str())
            .filter(|holder| !holder.is_empty())
    }

    /// A request begins.
    pub(super) fn mark(&mut self) {
        self.has_moved = false;
    }

    /// Returns whether something newer was observed since the request began.
    pub(super) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Compares a version with the latest one.
    pub(super) fn age(&self, version: &ResourceVersion) -> Age {
        if self.latest.is_unset() || mutant!("L10") {
            return Age::Newer;
        }
        match version.compare(&self.latest) {
            Ok(Ordering::Greater) => Age::Newer,
            Ok(Ordering::Less) => Age::Older,
            Ok(Ordering::Equal) => Age::Same,
            Err(_) if *version == self.latest => Age::Same,
            Err(_) => Age::Unknown,
        }
    }

    /// Takes a lease that is newer than what is known. `write` is the write of ours that it is.
    pub(super) fn observe(
        &mut self,
        lease: Lease,
        write: Option<&Write>,
        default: Duration,
        now: Instant,
    ) -> Change {
        self.latest = lease.version.clone();
        self.has_moved = true;
        let known = self.lease.as_ref();
        let is_same = known.is_some_and(|k| k.uid == lease.uid && k.record == lease.record);
        if is_same {
            self.lease = Some(lease);
            return Change::Same;
        }
        self.pass_on(&lease.record.holder);
        let was_held = self.holder().is_some();
        if !(mutant!("L6") && was_held) {
            self.free_at = now + wait(&lease, default);
        }
        self.seen_at = now;
        self.lease = Some(lease);
        self.ours = write
            .filter(|write| write.verb != Verb::Release)
            .map(|write| write.sent_at);
        match (write, self.ours) {
            (_, Some(sent_at)) => Change::Ours(sent_at),
            (Some(_), None) => Change::Released,
            (None, None) => Change::Foreign,
        }
    }

    /// The lease gets this holder: the one before it has time left, unless it released.
    fn pass_on(&mut self, to: &str) {
        if !to.is_empty() && self.holder().is_some_and(|from| from != to) {
            self.others_until = self.others_until.max(self.free_at);
        }
    }

    /// The lease is gone: its last record is waited out.
    pub(super) fn remove(&mut self, version: Option<ResourceVersion>) {
        if self.holder().is_some() {
            self.others_until = self.others_until.max(self.free_at);
        }
        self.lease = None;
        self.ours = None;
        if let Some(version) = version {
            self.latest = version;
            self.has_moved = true;
        }
        if mutant!("L7") {
            self.free_at = Instant::ZERO;
        }
    }
}

/// The time for which a record keeps others away.
fn wait(lease: &Lease, default: Duration) -> Duration {
    let record = &lease.record;
    match u64::try_from(record.duration_seconds) {
        _ if record.holder.is_empty() => Duration::ZERO,
        // Upstream takes such a lease at once; it writes one if it is configured below 1 s.
        Ok(0) | Err(_) => default,
        Ok(seconds) => Duration::from_secs(seconds),
    }
}
