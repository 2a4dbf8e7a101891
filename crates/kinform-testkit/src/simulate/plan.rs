//! The faults of a run: drawn from a seed, or one at a time.
//!
//! ```text
//! seed + Counts of a run without faults ─▶ Plan { pace, accidents }      by seeds
//! each write, read, notification, ..    ─▶ Plan { one accident }         one at a time
//! ```
//!
//! An accident happens at a write, a read, a notification, before a deletion of the script, or at a
//! time after a step. Writes, reads and notifications are counted over all copies of the operator,
//! from the start of the run.
//! The same seed and counts give the same plan. Never: decides what is right.

use std::fmt;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The longest pause of a process, a lag, an outage.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);
/// The longest time after a step at which an accident may happen.
const AFTER_STEP: Duration = Duration::from_secs(20);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mishap {
    /// The process ends before the write is sent.
    CrashBefore,
    /// The process ends after the write was done, without its answer.
    CrashAfter,
    /// The write is done; its answer is lost.
    LoseReply,
    /// The write, or the read, is refused with this code.
    Refuse(u16),
    /// Another client has written to the object just before the write, or has taken its name.
    Overtake,
    /// Another client's finalizer holds for this time the object that the script deletes.
    Hold(Duration),
    /// A notification, and those after it on the same watch, are held back.
    Late(Duration),
    /// The watch breaks before a notification, and can only be resumed after this time, when the
    /// history is gone: the states between are never seen.
    Skip(Duration),
    /// The process restarts, and all watches and cached lists show for this time what it had seen,
    /// without what it has created since.
    StaleRestart(Duration),
    /// The same, but they show the state before the last change of the script.
    PastRestart(Duration),
    /// The process ends.
    Crash,
    /// All connections of the process break.
    Cut,
    /// The process cannot connect for this time.
    Refused(Duration),
    /// The connections of the process transfer nothing for this time.
    Silence(Duration),
    /// All watches and cached lists show nothing newer for this time.
    Lag(Duration),
    /// The process stands still for this time.
    Pause(Duration),
    /// The server restarts, with its history or without.
    Restart(History),
    /// The server forgets its history.
    Expire,
    /// The server restarts, and its clock is this number of minutes ahead.
    Clock(i64),
}

/// The history over a restart of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// Kept.
    Kept,
    /// Forgotten.
    Lost,
}

/// The moment of an accident.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// At a write of the operator, counted from 1.
    Write(usize),
    /// At a read of the operator, counted from 1.
    Read(usize),
    /// At a notification to the operator, counted from 1.
    Notification(usize),
    /// Before a deletion of the script, counted from 1.
    Deletion(usize),
    /// This time after a step, counted from 0.
    Step(usize, Duration),
}

/// A fault and its moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Accident {
    pub(crate) when: When,
    pub(crate) what: Mishap,
}

/// The time between two steps of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A step begins when the effects of the one before are complete.
    Settled,
    /// A step begins a random time after the one before.
    Rushed,
    /// As [`Settled`](Self::Settled), but one step begins as soon as the operator's write of this
    /// number, counted from 1, was answered.
    AfterWrite(usize),
}

/// The faults of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The name by which it is replayed: a number, or `after-write-3`.
    pub(crate) name: String,
    /// The seed of order, delays, names and jitter.
    pub(crate) seed: u64,
    pub(crate) pace: Pace,
    pub(crate) accidents: Vec<Accident>,
}

/// The size of a run without faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) steps: usize,
    pub(crate) writes: usize,
    pub(crate) reads: usize,
    pub(crate) notifications: usize,
    /// The deletions of the script.
    pub(crate) deletions: usize,
    /// The writes before the last step.
    pub(crate) hurried: usize,
    pub(crate) starts: Starts,
    /// States of the past are compared, too: each has to be seen, so that no step is rushed.
    pub(crate) keeps_history: bool,
}

/// The oldest state that a process may be shown when it starts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Starts {
    /// The one that was seen before.
    #[default]
    Seen,
    /// One that is older than that.
    Past,
}

impl Plan {
    /// A plan without accidents.
    pub(crate) fn clean() -> Self {
        Self {
            name: "clean".to_owned(),
            seed: 0,
            pace: Pace::Settled,
            accidents: Vec::new(),
        }
    }

    /// The plan of a seed: one to four accidents, the steps settled or rushed.
    pub(crate) fn of_seed(seed: u64, extent: Extent) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let pace = match random.random_ratio(1, 3) {
            true if !extent.keeps_history => Pace::Rushed,
            _ => Pace::Settled,
        };
        let count = random.random_range(1..=4);
        let accidents = (0..count).map(|_| accident(&mut random, extent)).collect();
        Self {
            name: seed.to_string(),
            seed,
            pace,
            accidents,
        }
    }

    /// One plan for a crash before and after each write, for each write refused and overtaken, and
    /// for a step that begins as soon as a write was answered; for each read refused; for each
    /// notification late, skipped and stale; for each deletion held.
    pub(crate) fn one_at_a_time(extent: Extent) -> Vec<Self> {
        let of = |name: String, when, what| Self {
            name,
            seed: 0,
            pace: Pace::Settled,
            accidents: vec![Accident { when, what }],
        };
        let mut plans = Vec::new();
        for n in 1..=extent.writes {
            let at = When::Write(n);
            plans.push(of(format!("before-write-{n}"), at, Mishap::CrashBefore));
            plans.push(of(format!("after-write-{n}"), at, Mishap::CrashAfter));
            plans.push(of(format!("refused-write-{n}"), at, Mishap::Refuse(500)));
            plans.push(of(format!("overtaken-write-{n}"), at, Mishap::Overtake));
            if n <= extent.hurried && !extent.keeps_history {
                plans.push(Self {
                    name: format!("step-after-write-{n}"),
                    seed: 0,
                    pace: Pace::AfterWrite(n),
                    accidents: Vec::new(),
                });
            }
        }
        for n in 1..=extent.deletions {
            let what = Mishap::Hold(Duration::from_secs(30));
            plans.push(of(format!("held-{n}"), When::Deletion(n), what));
        }
        for n in 1..=extent.reads {
            let name = format!("refused-read-{n}");
            plans.push(of(name, When::Read(n), Mishap::Refuse(500)));
        }
        for n in 1..=extent.notifications {
            let at = When::Notification(n);
            let while_ = Duration::from_secs(30);
            plans.push(of(format!("late-{n}"), at, Mishap::Late(while_)));
            plans.push(of(format!("skipped-{n}"), at, Mishap::Skip(while_)));
            plans.push(of(format!("stale-{n}"), at, Mishap::StaleRestart(while_)));
            if extent.starts == Starts::Past {
                plans.push(of(format!("past-{n}"), at, Mishap::PastRestart(while_)));
            }
        }
        plans
    }
}

impl Plan {
    /// The fault of this moment.
    pub(crate) fn at(&self, when: When) -> Option<Mishap> {
        let mut all = self.accidents.iter();
        all.find(|accident| accident.when == when)
            .map(|accident| accident.what)
    }

    /// Returns whether nothing but its seed tells it from the run without faults.
    pub(crate) fn is_clean(&self) -> bool {
        self.accidents.is_empty() && self.pace == Pace::Settled
    }

    /// Returns whether a process can be shown a state older than one that it has seen.
    pub(crate) fn goes_back(&self) -> bool {
        let goes_back = |one: &Accident| {
            let Accident { what, .. } = one;
            matches!(
                what,
                Mishap::StaleRestart(_) | Mishap::PastRestart(_) | Mishap::Lag(_)
            )
        };
        self.accidents.iter().any(goes_back)
    }
}

fn accident(random: &mut SmallRng, extent: Extent) -> Accident {
    let at_write = When::Write(random.random_range(1..=extent.writes.max(1)));
    let at_read = When::Read(random.random_range(1..=extent.reads.max(1)));
    let at_notification = When::Notification(random.random_range(1..=extent.notifications.max(1)));
    let at_deletion = When::Deletion(random.random_range(1..=extent.deletions.max(1)));
    let step = random.random_range(0..extent.steps.max(1));
    let at_time = When::Step(step, spread(random, AFTER_STEP));
    let lasts = spread(random, LONGEST);
    let refused = Mishap::Refuse([429, 500, 503, 504][random.random_range(0..4)]);
    let (when, what) = match random.random_range(0..45) {
        0..4 => (at_write, Mishap::CrashBefore),
        4..8 => (at_write, Mishap::CrashAfter),
        8..11 => (at_write, Mishap::LoseReply),
        11..13 => (at_write, refused),
        13..17 => (at_write, Mishap::Overtake),
        17..21 => (at_notification, Mishap::Late(lasts)),
        21..24 => (at_notification, Mishap::Skip(lasts)),
        24 | 25 if extent.starts == Starts::Past => (at_notification, Mishap::PastRestart(lasts)),
        24..27 => (at_notification, Mishap::StaleRestart(lasts)),
        27 => (at_time, Mishap::Crash),
        28 => (at_time, Mishap::Cut),
        29 => (at_time, Mishap::Refused(lasts)),
        30 => (at_time, Mishap::Silence(lasts)),
        31..34 => (at_time, Mishap::Lag(lasts)),
        34 => (at_time, Mishap::Pause(lasts)),
        35 => (at_time, Mishap::Restart(History::Kept)),
        36 => (at_time, Mishap::Restart(History::Lost)),
        37 => (at_time, Mishap::Expire),
        38 => (at_time, Mishap::Clock(-random.random_range(1..600))),
        39 => (at_time, Mishap::Clock(random.random_range(1..600))),
        40 | 41 if extent.deletions > 0 => (at_deletion, Mishap::Hold(lasts)),
        _ => (at_read, refused),
    };
    Accident { when, what }
}

/// A time below `most`, as likely between 1 and 10 ms as between 1 and 10 s.
pub(crate) fn spread(random: &mut SmallRng, most: Duration) -> Duration {
    let (least, most) = (0.001_f64.ln(), most.as_secs_f64().ln());
    Duration::from_secs_f64(random.random_range(least..most).exp())
}

impl fmt::Display for Accident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { when, what } = self;
        match when {
            When::Write(n) => write!(f, "at the operator's write {n}: {what}"),
            When::Read(n) => write!(f, "at the operator's read {n}: {what}"),
            When::Notification(n) => write!(f, "at notification {n}: {what}"),
            When::Deletion(n) => write!(f, "at the user's deletion {n}: {what}"),
            When::Step(step, after) => {
                let after = after.as_secs_f64();
                write!(f, "{after:.3} s after step {}: {what}", step + 1)
            }
        }
    }
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |lasts: &Duration| format!("{:.3} s", lasts.as_secs_f64());
        match self {
            Self::CrashBefore => f.write_str("the process ends before the write is sent"),
            Self::CrashAfter => {
                f.write_str("the write is done, and the process ends before it has the answer")
            }
            Self::LoseReply => f.write_str("the write is done, and its answer is lost"),
            Self::Refuse(code) => write!(f, "the request is refused with {code}"),
            Self::Overtake => f.write_str("another client is there just before"),
            Self::Hold(lasts) => write!(
                f,
                "a finalizer of another client holds the object for {}",
                seconds(lasts)
            ),
            Self::Late(lasts) => write!(f, "this watch is held back for {}", seconds(lasts)),
            Self::Skip(lasts) => write!(
                f,
                "the watches break, and nothing can be read for {}; then the history is gone",
                seconds(lasts)
            ),
            Self::StaleRestart(lasts) => write!(
                f,
                "the process restarts, and is shown nothing newer for {}",
                seconds(lasts)
            ),
            Self::PastRestart(lasts) => write!(
                f,
                "the process restarts, and is shown for {} the state before the last step",
                seconds(lasts)
            ),
            Self::Crash => f.write_str("the process ends"),
            Self::Cut => f.write_str("all connections break"),
            Self::Refused(lasts) => write!(f, "connections are refused for {}", seconds(lasts)),
            Self::Silence(lasts) => write!(f, "the network is silent for {}", seconds(lasts)),
            Self::Lag(lasts) => {
                write!(f, "caches of the server stand still for {}", seconds(lasts))
            }
            Self::Pause(lasts) => write!(f, "the process stands still for {}", seconds(lasts)),
            Self::Restart(History::Kept) => f.write_str("the server restarts"),
            Self::Restart(History::Lost) => f.write_str("the server restarts without its history"),
            Self::Expire => f.write_str("the server forgets its history"),
            Self::Clock(minutes) => write!(
                f,
                "the server restarts, and its clock jumps by {minutes} minutes"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent {
        steps: 3,
        writes: 5,
        reads: 4,
        notifications: 7,
        deletions: 2,
        hurried: 3,
        starts: Starts::Past,
        keeps_history: false,
    };

    #[test]
    fn a_seed_gives_one_plan_and_many_seeds_give_every_fault() {
        let plan = |seed| Plan::of_seed(seed, EXTENT).accidents;
        assert_eq!(plan(3), plan(3));
        let all: Vec<Accident> = (0..2_000).flat_map(plan).collect();
        let kinds: std::collections::BTreeSet<String> = all
            .iter()
            .map(|one| format!("{:?}", one.what))
            .map(|name| name.split(['(', ' ']).next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(kinds.len(), 19, "{kinds:?}");
        assert!(all.iter().all(|one| match one.when {
            When::Write(n) => (1..=5).contains(&n),
            When::Read(n) => (1..=4).contains(&n),
            When::Notification(n) => (1..=7).contains(&n),
            When::Deletion(n) => (1..=2).contains(&n),
            When::Step(step, after) => step < 3 && after <= AFTER_STEP,
        }));
    }

    #[test]
    fn no_plan_shows_the_past_unless_that_is_asked_for() {
        let extent = Extent {
            starts: Starts::Seen,
            ..EXTENT
        };
        let one_each = Plan::one_at_a_time(extent);
        assert_eq!(one_each.len(), 5 * 4 + 3 + 4 + 7 * 3 + 2);
        let seeds = (0..2_000).map(|seed| Plan::of_seed(seed, extent));
        let mut all = seeds.chain(one_each).flat_map(|plan| plan.accidents);
        assert!(!all.any(|one| matches!(one.what, Mishap::PastRestart(_))));
    }

    #[test]
    fn a_third_of_the_seeds_rush_unless_past_states_are_compared() {
        let rushed = |keeps_history| {
            let extent = Extent {
                keeps_history,
                ..EXTENT
            };
            let plans = (0..300).map(|seed| Plan::of_seed(seed, extent));
            plans.filter(|plan| plan.pace == Pace::Rushed).count()
        };
        assert!((70..130).contains(&rushed(false)), "{}", rushed(false));
        assert_eq!(rushed(true), 0);
    }

    #[test]
    fn one_at_a_time_is_one_thing_for_each_write_read_notification_and_deletion() {
        let plans = Plan::one_at_a_time(EXTENT);
        assert_eq!(plans.len(), 5 * 4 + 3 + 4 + 7 * 4 + 2);
        let things = |plan: &Plan| plan.accidents.len() + usize::from(plan.pace != Pace::Settled);
        assert!(plans.iter().all(|plan| things(plan) == 1));
        let keeps_history = Extent {
            keeps_history: true,
            ..EXTENT
        };
        let plans_of_history = Plan::one_at_a_time(keeps_history);
        assert_eq!(plans_of_history.len(), plans.len() - 3);
        let names: std::collections::BTreeSet<_> = plans.iter().map(|plan| &plan.name).collect();
        assert_eq!(names.len(), plans.len());
    }
}
