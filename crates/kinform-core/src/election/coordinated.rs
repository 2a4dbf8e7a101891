//! The coordinated election: another process chooses the holder, this one takes what it is given.
//!
//! ```text
//! lease names us ──rest, others waited out──▶ take, renew ..
//! preferredHolder is set ──▶ term ends ──work joined, last request over──▶ release
//! lease names us, and expired before it was taken ──▶ release: the coordinator chooses again
//! ```
//!
//! The lease is never created here. Guard, fence and terms are those of every election: a take-over is
//! an update at the version that was read, with a number of its own.
//!
//! INVARIANT: no term begins before the last record of another holder has expired by our clock,
//! unless that holder released it: the coordinator compares times of day, which may differ.
//!
//! Upstream counterpart: `tryCoordinatedRenew` in
//! `client-go:tools/leaderelection/leaderelection.go`, whose process ends after a loss. Its
//! coordinator names the holder of an expired lease a second time without a write, so a process
//! that stays alive has to give that lease back.

use kinform_api::mutant;

use crate::time::Instant;

use super::Election;
use super::options::OnStop;
use super::step::EndReason;

impl Election {
    /// The time from which the lease is to be taken or given back; never while it names another.
    pub(super) fn assigned_at(&self) -> Instant {
        if self.view.holder() != Some(&*self.identity) {
            return Instant::FAR_FUTURE;
        }
        let expires_at = self.view.expires_at();
        match (self.view.preferred_holder(), self.options.on_stop) {
            (Some(_), OnStop::Release) => Instant::ZERO,
            (Some(_), OnStop::Expire) => expires_at,
            (None, _) if mutant!("L18") => Instant::ZERO,
            (None, _) => self.view.others_until().min(expires_at),
        }
    }

    /// Returns whether a lease that is due is not ours to take: the term of its holder is over.
    pub(super) fn is_to_be_given_back(&self, now: Instant) -> bool {
        let is_over = self.view.preferred_holder().is_some() || self.view.expires_at() <= now;
        self.is_coordinated && is_over
    }

    /// Ends the term if the coordinator prefers another holder.
    pub(super) fn yield_to_preferred(&mut self, now: Instant) {
        if !self.is_coordinated || self.term.is_none() {
            return;
        }
        if let Some(holder) = self.view.preferred_holder() {
            let holder = holder.to_owned();
            self.lose(EndReason::Preferred { holder }, now);
        }
    }
}
