//! Attempts: a candidate reads and takes, a leader renews, and what follows each answer.
//!
//! ```text
//! next_try → get → free? → create │ update     (candidate)
//! next_try → update → failed? → get → update   (leader)
//! ```
//!
//! A leader updates at the version of the last answer without a read, and reads only if that
//! failed. A failed attempt is followed by the next one a retry period after its begin (leader) or
//! after its end, with jitter (candidate).
//!
//! Upstream counterpart: `tryAcquireOrRenew`, `acquire` and `renew` in
//! `client-go:tools/leaderelection/leaderelection.go`.

use kinform_api::mutant;

use crate::time::Instant;

use super::input::{Answer, RefusalKind, RequestId};
use super::lease::{AcquireTime, Lease, NewRecord};
use super::options::JITTER;
use super::step::{Action, Report, Request, Step, Verb};
use super::view::{Age, Write};
use super::{Election, MAX_WRITES, Open, Phase};

impl Election {
    /// Does what is due.
    pub(super) fn advance(&mut self, now: Instant) {
        if let Some(open) = self.open
            && open.sent_at + self.options.request_timeout <= now
        {
            self.open = None;
            self.steps.push_back(Step::Close(open.id));
            self.on_unanswered(open, "request timed out".to_owned(), now);
        }
        if let Phase::Leaving { until } = self.phase
            && until <= now
        {
            self.finish();
        }
        if self.open.is_none() && self.next_try <= now && self.phase != Phase::Stopped {
            self.attempt(now);
        }
    }

    fn attempt(&mut self, now: Instant) {
        self.tried_at = now;
        self.has_reread = false;
        if let Phase::Leaving { .. } = self.phase {
            self.go_on_leaving(now);
        } else if self.term.is_some() && !self.is_in_doubt {
            self.write(now);
        } else {
            self.ask(Verb::Read, Action::Get, now);
        }
    }

    pub(super) fn on_answer(&mut self, id: RequestId, answer: Answer, now: Instant) {
        let Some(open) = self.open.take_if(|open| open.id == id) else {
            return self.on_late_answer(id, answer, now);
        };
        match (open.verb, answer) {
            (Verb::Read, Answer::Found(lease) | Answer::Stored(lease)) => {
                self.is_in_doubt = false;
                self.on_found(lease, now);
                self.after_read(now);
            }
            (Verb::Read, Answer::Absent) => {
                self.is_in_doubt = false;
                if !self.view.has_moved() {
                    self.gone(None, now);
                }
                self.after_read(now);
            }
            (_, Answer::Found(lease) | Answer::Stored(lease)) => {
                self.on_stored(open.id, lease, now);
                self.after_stored(now);
            }
            (_, Answer::Absent) => {
                self.forget(open.id);
                if !self.view.has_moved() {
                    self.gone(None, now);
                }
                self.after_refusal(now);
            }
            (verb, Answer::Conflict) => {
                self.forget(open.id);
                self.report(Report::Conflict { verb });
                self.after_conflict(now);
            }
            (verb, Answer::Refused(refusal)) => {
                self.forget(open.id);
                self.fail(verb, Some(refusal.kind), refusal.message);
                self.after_refusal(now);
            }
            (_, Answer::Unanswered { message }) => self.on_unanswered(open, message, now),
        }
    }

    /// An answer that came after its request was closed: only a stored write tells something.
    fn on_late_answer(&mut self, id: RequestId, answer: Answer, now: Instant) {
        match answer {
            Answer::Stored(lease) => self.on_stored(id, lease, now),
            Answer::Conflict | Answer::Absent | Answer::Refused(_) => self.forget(id),
            Answer::Found(_) | Answer::Unanswered { .. } => {}
        }
    }

    /// A read is consistent: an older version means that history went back, unless something newer
    /// was observed meanwhile.
    fn on_found(&mut self, lease: Lease, now: Instant) {
        match self.view.age(&lease.version) {
            Age::Same => {}
            Age::Older | Age::Unknown if self.view.has_moved() => {}
            Age::Newer | Age::Older | Age::Unknown => self.see(lease, None, now),
        }
    }

    fn on_stored(&mut self, id: RequestId, lease: Lease, now: Instant) {
        let Some(at) = self.writes.iter().position(|write| write.id == id) else {
            return;
        };
        let write = self.writes.swap_remove(at);
        match self.view.age(&lease.version) {
            Age::Newer | Age::Unknown => self.see(lease, Some(write), now),
            // The watch was faster, or the lease changed since.
            Age::Older | Age::Same => {}
        }
    }

    fn on_unanswered(&mut self, open: Open, message: String, now: Instant) {
        self.fail(open.verb, None, message);
        if open.verb == Verb::Read {
            return self.after_refusal(now);
        }
        if mutant!("L9") {
            self.forget(open.id);
        }
        self.is_in_doubt = true;
        self.reread(now);
    }

    fn after_read(&mut self, now: Instant) {
        if let Phase::Leaving { .. } = self.phase {
            self.go_on_leaving(now);
        } else if self.term.is_some() {
            let renewed_at = self.view.ours().unwrap_or(Instant::ZERO);
            if renewed_at + self.options.retry_period <= now {
                self.write(now);
            } else {
                self.next_try = renewed_at + self.options.retry_period;
            }
        } else if self.due_at() > now {
            self.retry_later(now);
        } else if self.is_to_be_given_back(now) {
            self.release(now);
        } else {
            self.write(now);
        }
    }

    fn after_stored(&mut self, now: Instant) {
        if let Phase::Leaving { .. } = self.phase {
            self.go_on_leaving(now);
        } else if self.term.is_some() {
            let renewed_at = self.view.ours().unwrap_or(now);
            self.next_try = renewed_at + self.options.retry_period;
        } else {
            self.retry_later(now);
        }
    }

    fn after_conflict(&mut self, now: Instant) {
        let is_leaving = matches!(self.phase, Phase::Leaving { .. });
        if is_leaving || self.term.is_some() {
            self.is_in_doubt = true;
            self.reread(now);
        } else {
            self.retry_later(now);
        }
    }

    fn after_refusal(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Leaving { .. })
            && self.view.ours().is_none()
            && !self.is_in_doubt
        {
            self.finish();
        } else {
            self.retry_later(now);
        }
    }

    /// Reads the lease after a write failed, once an attempt.
    fn reread(&mut self, now: Instant) {
        if self.has_reread {
            return self.retry_later(now);
        }
        self.has_reread = true;
        if self.term.is_some() {
            self.report(Report::SlowPath);
        }
        self.ask(Verb::Read, Action::Get, now);
    }

    /// Takes, creates or renews the lease.
    fn write(&mut self, now: Instant) {
        let verb = if self.term.is_some() {
            Verb::Renew
        } else {
            Verb::Take
        };
        let record = NewRecord {
            holder: self.identity.clone(),
            duration_seconds: self.options.duration_seconds(),
            transitions: 0,
            acquire_time: AcquireTime::Now,
        };
        let action = match self.view.lease() {
            None => Action::Create { record },
            Some(lease) => {
                let known = &lease.record;
                // Each term has a number of its own, also two of one process: a fence compares it.
                let is_kept = self.term.is_some() || (mutant!("L14") && self.view.ours().is_some());
                let (transitions, acquire_time) = if is_kept {
                    (
                        known.transitions,
                        AcquireTime::Kept(known.acquire_time.clone()),
                    )
                } else {
                    (known.transitions.saturating_add(1), AcquireTime::Now)
                };
                Action::Update {
                    uid: lease.uid.clone(),
                    version: lease.version.clone(),
                    record: NewRecord {
                        transitions,
                        acquire_time,
                        ..record
                    },
                }
            }
        };
        self.ask(verb, action, now);
    }

    /// Makes a request: none is open.
    pub(super) fn ask(&mut self, verb: Verb, action: Action, now: Instant) {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.view.mark();
        self.open = Some(Open {
            id,
            verb,
            sent_at: now,
        });
        if verb != Verb::Read {
            if self.writes.len() == MAX_WRITES {
                self.writes.remove(0);
            }
            let renew_time = String::new();
            self.writes.push(Write {
                id,
                verb,
                sent_at: now,
                renew_time,
            });
        }
        self.steps.push_back(Step::Request(Request { id, action }));
    }

    /// The time from which this process may take the lease, or gives it back to its coordinator.
    fn due_at(&self) -> Instant {
        if self.phase != Phase::Standing || self.is_busy {
            return Instant::FAR_FUTURE;
        }
        let due = match self.is_coordinated {
            true => self.assigned_at(),
            false => self.view.free_at(),
        };
        due.max(self.rests_until)
    }

    /// Brings the next attempt forward to the time at which the lease is due.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.term.is_none() {
            self.next_try = self.next_try.min(self.due_at().max(now));
        }
    }

    /// The attempt failed.
    pub(super) fn retry_later(&mut self, now: Instant) {
        let period = self.options.retry_period;
        if self.term.is_some() || matches!(self.phase, Phase::Leaving { .. }) {
            self.next_try = (self.tried_at + period).max(now);
            return;
        }
        self.next_try = now + period.mul_f64(1.0 + JITTER * self.dice.throw());
        let due = self.due_at();
        if due > now {
            self.next_try = self.next_try.min(due);
        }
    }

    fn forget(&mut self, id: RequestId) {
        self.writes.retain(|write| write.id != id);
    }

    fn fail(&mut self, verb: Verb, kind: Option<RefusalKind>, message: String) {
        self.report(Report::Failed {
            verb,
            kind,
            message,
        });
    }

    fn report(&mut self, report: Report) {
        self.steps.push_back(Step::Report(report));
    }
}
