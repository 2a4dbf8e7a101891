//! The way out: a stop, the end of the work, the release of the lease.
//!
//! ```text
//! Stop → (leader: goes on renewing) → Idle → term over → update to an empty holder → Stopped
//! ```
//!
//! A write that is under way, or that had no answer, may have taken the lease: its outcome is found
//! out before the end. A release carries uid and version, so it never clears a successor's record;
//! it is tried until the term would have ended.
//!
//! Upstream counterpart: `release` in `client-go:tools/leaderelection/leaderelection.go`, which comes
//! before the work is stopped, and takes a record that it read for its own.

use kinform_api::mutant;

use crate::time::Instant;

use super::lease::{AcquireTime, NewRecord};
use super::options::OnStop;
use super::step::{Action, EndReason, Step, Verb};
use super::{Election, Phase};

impl Election {
    pub(super) fn on_stop(&mut self, now: Instant) {
        if self.phase != Phase::Standing {
            return;
        }
        self.phase = Phase::Stopping;
        if !self.is_busy || mutant!("L8") {
            self.leave(now);
        }
    }

    pub(super) fn on_idle(&mut self, now: Instant) {
        match self.phase {
            Phase::Stopping => self.leave(now),
            Phase::Standing if self.term.is_none() => {
                self.is_busy = false;
                self.hurry(now);
            }
            Phase::Standing | Phase::Leaving { .. } | Phase::Stopped => {}
        }
    }

    /// No work runs, and none will.
    fn leave(&mut self, now: Instant) {
        let reason = match self.options.on_stop {
            OnStop::Release => EndReason::Released,
            OnStop::Expire => EndReason::Stopped,
        };
        if let Some(term) = self.term.take() {
            self.steps.push_back(Step::TermEnded { term, reason });
        }
        if self.options.on_stop == OnStop::Expire || self.has_lost {
            return self.finish();
        }
        let writes = self.writes.iter().map(|write| write.sent_at);
        let last = writes.chain(self.view.ours()).max();
        let until = last.map_or(now, |sent_at| sent_at + self.options.term_length());
        if until <= now {
            return self.finish();
        }
        self.phase = Phase::Leaving { until };
        match self.open {
            // Its answer comes within the request timeout, and tells what to release.
            Some(open) if open.verb != Verb::Read => {}
            Some(open) => {
                self.open = None;
                self.steps.push_back(Step::Close(open.id));
                self.next_try = now;
            }
            None => self.next_try = now,
        }
    }

    /// Reads what is in doubt, releases what is ours.
    pub(super) fn go_on_leaving(&mut self, now: Instant) {
        if self.is_in_doubt {
            return self.ask(Verb::Read, Action::Get, now);
        }
        if self.view.ours().is_none() {
            return self.finish();
        }
        self.release(now);
    }

    /// Replaces the record by one without a holder.
    pub(super) fn release(&mut self, now: Instant) {
        let Some(lease) = self.view.lease() else {
            return;
        };
        let action = Action::Release {
            uid: lease.uid.clone(),
            version: lease.version.clone(),
            record: NewRecord {
                holder: String::new(),
                duration_seconds: RELEASED_SECONDS,
                transitions: lease.record.transitions,
                acquire_time: AcquireTime::Now,
            },
        };
        self.ask(Verb::Release, action, now);
    }

    /// The end.
    pub(super) fn finish(&mut self) {
        if let Some(open) = self.open.take() {
            self.steps.push_back(Step::Close(open.id));
        }
        self.phase = Phase::Stopped;
        self.next_try = Instant::FAR_FUTURE;
        self.steps.push_back(Step::Stopped);
    }
}

/// The lease duration in a released record, since zero is not valid.
const RELEASED_SECONDS: i32 = 1;
