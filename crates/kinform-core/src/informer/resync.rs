//! The schedule by which handlers are resynced with every stored object.
//!
//! ```text
//! add(handler, period), remove, start, due(now) ──▶ who is due; next_wake ──▶ when to ask
//! ```
//!
//! The rules are upstream's. An informer checks at its own period; without one, nobody is resynced. A
//! handler's period is at least a second. Before the start, a shorter period than the informer's
//! shortens the informer's; after it, the handler's is raised to the informer's. Who is due at a check
//! is next due a period after it.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`AddEventHandlerWithOptions`,
//! `determineResyncPeriod`, `shouldResync`).
//! Complexity: O(handlers) a check.

use std::collections::BTreeMap;
use std::time::Duration;

use kinform_api::mutant;

use crate::delta::HandlerId;
use crate::time::Instant;

/// The shortest period that a handler can have.
pub const MINIMUM_PERIOD: Duration = Duration::from_secs(1);

/// When each handler is due.
#[derive(Debug)]
pub struct ResyncSchedule {
    check_period: Option<Duration>,
    next_check: Option<Instant>,
    handlers: BTreeMap<HandlerId, Wish>,
}

/// The outcome of a handler's request for a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// It is resynced at this period, the one that it asked for.
    AsAsked(Duration),
    /// It is resynced at this longer period.
    Raised(Duration),
    /// It is not resynced: it asked for nothing, or the informer does not resync.
    Never,
}

#[derive(Debug)]
struct Wish {
    asked: Duration,
    next: Instant,
}

impl ResyncSchedule {
    /// A schedule that checks at this period; without one, nobody is resynced.
    #[must_use]
    pub fn new(check_period: Option<Duration>) -> Self {
        let check_period = check_period.filter(|period| !period.is_zero());
        Self {
            check_period,
            next_check: None,
            handlers: BTreeMap::new(),
        }
    }

    /// Begins to check.
    pub fn start(&mut self, now: Instant) {
        self.next_check = self.check_period.map(|period| now + period);
    }

    /// Adds a handler that wants to be resynced at a period; nothing or zero for never.
    pub fn add(&mut self, handler: HandlerId, period: Option<Duration>, now: Instant) -> Granted {
        let (Some(check), Some(asked)) = (self.check_period, period.filter(|p| !p.is_zero()))
        else {
            return Granted::Never;
        };
        let mut granted = asked.max(MINIMUM_PERIOD);
        if granted < check {
            if self.next_check.is_some() {
                granted = check;
            } else {
                self.check_period = Some(granted);
            }
        }
        self.handlers.insert(
            handler,
            Wish {
                asked: granted,
                next: now + granted,
            },
        );
        if granted == asked {
            Granted::AsAsked(granted)
        } else {
            Granted::Raised(granted)
        }
    }

    /// Forgets a handler.
    pub fn remove(&mut self, handler: HandlerId) {
        self.handlers.remove(&handler);
    }

    /// The period of the checks.
    #[must_use]
    pub fn check_period(&self) -> Option<Duration> {
        self.check_period
    }

    /// When to ask again; never, before the start or without a period.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        self.next_check.filter(|_| !self.handlers.is_empty())
    }

    /// Returns the handlers that are due now; empty between checks.
    pub fn due(&mut self, now: Instant) -> Vec<HandlerId> {
        let (Some(check), Some(period)) = (self.next_check, self.check_period) else {
            return Vec::new();
        };
        if now < check {
            return Vec::new();
        }
        self.next_check = Some(now + period);
        let due = self
            .handlers
            .iter_mut()
            .filter(|(_, wish)| wish.next <= now);
        due.map(|(handler, wish)| {
            wish.next = match mutant!("K28") {
                true => Instant::FAR_FUTURE,
                false => now + wish.asked,
            };
            *handler
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HandlerId = HandlerId(1);
    const B: HandlerId = HandlerId(2);
    const C: HandlerId = HandlerId(3);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_start(secs(seconds))
    }

    #[test]
    fn k28_each_handler_is_due_at_its_own_period() {
        // client-go: TestListenerResyncPeriods
        let mut schedule = ResyncSchedule::new(Some(secs(1)));
        assert_eq!(
            schedule.add(A, Some(secs(2)), at(0)),
            Granted::AsAsked(secs(2))
        );
        assert_eq!(
            schedule.add(B, Some(secs(3)), at(0)),
            Granted::AsAsked(secs(3))
        );
        assert_eq!(schedule.add(C, None, at(0)), Granted::Never);
        assert_eq!(schedule.next_wake(), None);
        schedule.start(at(0));
        let mut heard = Vec::new();
        for second in 1..=6 {
            assert_eq!(schedule.next_wake(), Some(at(second)));
            heard.push(schedule.due(at(second)));
            assert_eq!(schedule.due(at(second)), []);
        }
        assert_eq!(
            heard,
            [vec![], vec![A], vec![B], vec![A], vec![], vec![A, B]]
        );
        schedule.remove(A);
        assert_eq!(schedule.due(at(8)), []);
        assert_eq!(schedule.due(at(9)), [B]);
    }

    #[test]
    fn a_shorter_period_counts_before_the_start_only() {
        // client-go: TestResyncCheckPeriod
        let mut schedule = ResyncSchedule::new(Some(secs(12 * 3600)));
        assert_eq!(
            schedule.add(A, Some(secs(60)), at(0)),
            Granted::AsAsked(secs(60))
        );
        assert_eq!(schedule.check_period(), Some(secs(60)));
        assert_eq!(
            schedule.add(B, Some(Duration::from_millis(1)), at(0)),
            Granted::Raised(secs(1))
        );
        assert_eq!(schedule.check_period(), Some(secs(1)));
        let mut schedule = ResyncSchedule::new(Some(secs(60)));
        schedule.start(at(0));
        assert_eq!(
            schedule.add(A, Some(secs(5)), at(0)),
            Granted::Raised(secs(60))
        );
        assert_eq!(
            schedule.add(B, Some(secs(90)), at(0)),
            Granted::AsAsked(secs(90))
        );
        assert_eq!(schedule.due(at(60)), [A]);
        assert_eq!(schedule.due(at(120)), [A, B]);
    }

    #[test]
    fn an_informer_without_resync_resyncs_nobody() {
        let mut schedule = ResyncSchedule::new(None);
        assert_eq!(schedule.add(A, Some(secs(5)), at(0)), Granted::Never);
        schedule.start(at(0));
        assert_eq!(schedule.next_wake(), None);
        assert_eq!(schedule.due(at(100)), []);
    }
}
