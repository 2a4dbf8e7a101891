//! A fault of an operator, and the story of how it came about.
//!
//! ```text
//! Finding + Trace + Plan ─▶ Story: what is wrong, the faults, the write to blame and what it had not
//!                           seen, the last events, the line that replays it
//! ```

use std::fmt::{self, Write as _};

use super::census::Miscount;
use super::plan::{Pace, Plan};
use super::trace::{Entry, Who};

/// BOUND: the events that a story shows.
const EVENTS: usize = 60;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The state is not that of a run without faults.
    Differs {
        step: String,
        differences: Vec<String>,
    },
    /// Objects were created or deleted more or less often.
    Miscounted { step: String, counts: Vec<Miscount> },
    /// A write of the operator took away what another client had written.
    Lost { about: String, mark: String },
    /// A value that must stay as it is in the life of its object was changed.
    Redrawn { about: String, path: String },
    /// The objects are as they were after an earlier step, the rest is not.
    NotPutBack {
        step: String,
        earlier: String,
        differences: Vec<String>,
    },
    /// The operator does not stop to write, to ask or to reconcile.
    Restless(String),
    /// User code panicked.
    Panicked(String),
    /// The operator ended by itself.
    Ended(String),
    /// Tasks are always ready: time does not pass.
    AlwaysBusy,
    /// An invariant of the user does not hold.
    Invariant { name: String, why: String },
    /// An expectation of the user does not hold in the end.
    End { name: String, why: String },
    /// A step of the script failed.
    Step { step: String, why: String },
    /// A bound of the run was exceeded.
    Unbounded(String),
}

impl Finding {
    /// A word for the kind: two plans that fail with the same kind fail alike.
    pub(crate) fn kind(&self) -> std::mem::Discriminant<Self> {
        std::mem::discriminant(self)
    }

    /// The object that the finding is about, as a write names it.
    fn about(&self) -> Option<&str> {
        match self {
            Self::Lost { about, .. } | Self::Redrawn { about, .. } => Some(about),
            Self::Differs { differences, .. } | Self::NotPutBack { differences, .. } => {
                let first = differences.first()?;
                let end = first
                    .match_indices(' ')
                    .nth(1)
                    .map_or(first.len(), |(at, _)| at);
                Some(first[..end].trim_end_matches(':'))
            }
            Self::Miscounted { counts, .. } => Some(&counts.first()?.about),
            _ => None,
        }
    }

    /// Returns whether the last write of the run is the one to blame.
    fn is_of_last_write(&self) -> bool {
        matches!(
            self,
            Self::Invariant { .. } | Self::End { .. } | Self::Restless(_)
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { step, differences } => {
                write!(f, "after {step} the state is not that of a run without faults")?;
                differences.iter().try_for_each(|one| write!(f, "\n  {one}"))
            }
            Self::Miscounted { step, counts } => {
                write!(f, "after {step} objects were written otherwise than without faults")?;
                counts.iter().try_for_each(|one| {
                    let Miscount { about, verb, found, expected } = one;
                    write!(f, "\n  {about} was {verb} {found} times, without faults {expected}")
                })
            }
            Self::Lost { about, mark } => write!(
                f,
                "a change of another client was lost: it had set {mark} of {about}, which a write of \
                 the operator took away"
            ),
            Self::Redrawn { about, path } => write!(
                f,
                "{path} of {about} was changed: it is drawn once in the life of its object"
            ),
            Self::NotPutBack { step, earlier, differences } => {
                write!(f, "after {step} the objects of the script are as after {earlier}, ")?;
                f.write_str("but the others are not as they were then")?;
                differences.iter().try_for_each(|one| write!(f, "\n  {one}"))
            }
            Self::Restless(how) => write!(f, "the operator does not come to rest: {how}"),
            Self::Panicked(message) => write!(f, "the operator panicked: {message}"),
            Self::Ended(how) => write!(f, "the operator ended: {how}"),
            Self::AlwaysBusy => f.write_str(
                "the operator is always busy: it has tasks to run without end, so time stands still",
            ),
            Self::Invariant { name, why } => write!(f, "the invariant {name:?} does not hold: {why}"),
            Self::End { name, why } => write!(f, "in the end {name:?} does not hold: {why}"),
            Self::Step { step, why } => write!(f, "{step} failed: {why}"),
            Self::Unbounded(what) => write!(f, "the run has no end: {what}"),
        }
    }
}

/// The advice where two equal runs differ.
const OWN_VALUES: &str = "two equal runs differ: a value that the operator draws once in the life of an object is named \
by `sim.drawn_once(\"path.of.it\")`; one that it takes from a clock is left out by `sim.ignore(\"path.of.it\")`, a \
whole kind by `sim.leave_out::<K>()`";

/// The advice where a change of another client was lost.
const OVERWRITTEN: &str = "a write that replaces an object or a list names the version that it was made from, and is \
made anew from the newer object after a conflict; a patch or an apply has the operator's own fields only";

/// The advice for a write that was made of old caches.
const BEHIND: &str =
    "before a write that must not be made of an old view, `Ctx::require_fresh` asks the server";

/// The advice where a state depends on an earlier one.
const HISTORY: &str =
    "what an operator keeps of earlier states on purpose is allowed by `sim.keeps_history()`";

/// The advice where states are compared.
const BASELINE: &str = "the run without faults, in which each step begins when the one before is complete, is \
taken for right: if it is not, the mistake is there";

/// The advice where states are compared, and steps did not wait for each other.
const RUSHED: &str = "the operator need not have seen each step: what it keeps of an earlier one on purpose is allowed \
by `sim.keeps_history()`, with which each step waits for the one before; the run without faults, in which each does, \
is taken for right: if it is not, the mistake is there";

/// The story of a finding.
#[derive(Debug)]
pub(crate) struct Story<'a> {
    pub(crate) finding: &'a Finding,
    pub(crate) plan: &'a Plan,
    pub(crate) entries: &'a [Entry],
    /// The test, for the line that replays.
    pub(crate) test: &'a str,
}

impl Story<'_> {
    /// The number of the write to blame: the last one of the object that is wrong, or the last of
    /// all.
    fn blamed(&self) -> Option<usize> {
        let about = self.finding.about();
        let of_object = |entry: &Entry| {
            let write = entry.write.as_ref();
            write.is_some_and(|write| about.is_some_and(|about| is_of(about, &write.about)))
        };
        let found = self.entries.iter().rposition(of_object);
        let last = || self.entries.iter().rposition(|entry| entry.write.is_some());
        found.or_else(|| self.finding.is_of_last_write().then(last).flatten())
    }

    /// The faults that it takes, and the pace of the script.
    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            seed,
            pace,
            accidents,
            ..
        } = self.plan;
        let how = match pace {
            Pace::Settled => "each step begins when the one before is complete",
            Pace::Rushed => "steps follow each other at random",
            Pace::AfterWrite(n) => {
                return writeln!(
                    f,
                    "without any fault, but a step begins as soon as the operator's write {n} is answered"
                );
            }
        };
        if accidents.is_empty() {
            return writeln!(f, "without any fault, in the run of seed {seed} ({how})");
        }
        writeln!(f, "the faults ({how}):")?;
        accidents.iter().try_for_each(|one| writeln!(f, "  {one}"))
    }

    fn advice(&self) -> Option<&'static str> {
        let is_usual = self.plan.is_clean();
        match self.finding {
            Finding::Differs { .. } if is_usual => Some(OWN_VALUES),
            Finding::Differs { .. } if self.plan.pace != Pace::Settled => Some(RUSHED),
            Finding::Differs { .. } => Some(BASELINE),
            Finding::NotPutBack { .. } => Some(HISTORY),
            Finding::Lost { .. } => Some(OVERWRITTEN),
            _ => None,
        }
    }
}

/// Returns whether a write of an object is of this name, in which `*` stands for a generated part.
fn is_of(name: &str, written: &str) -> bool {
    match name.strip_suffix('*') {
        Some(base) => written.starts_with(base),
        None => name == written,
    }
}

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            finding,
            plan,
            entries,
            test,
        } = self;
        writeln!(f, "{finding}\n")?;
        self.faults(f)?;
        if let Some(advice) = self.advice() {
            writeln!(f, "{advice}")?;
        }
        let blamed = self.blamed();
        if let Some(entry) = blamed.and_then(|at| entries.get(at)) {
            writeln!(f, "\nthe write to look at:\n{entry}")?;
            match entry.write.as_ref().map(|write| &write.unseen[..]) {
                None | Some([]) => {
                    writeln!(f, "           it had seen everything of what it watches")?
                }
                Some(unseen) => {
                    let mut lines = unseen.iter();
                    lines.try_for_each(|one| writeln!(f, "           {one}"))?;
                    if plan.goes_back() {
                        writeln!(f, "{BEHIND}")?;
                    }
                }
            }
        }
        let mut events = String::new();
        let end = blamed.map_or(entries.len(), |at| (at + EVENTS / 3).min(entries.len()));
        let from = end.saturating_sub(EVENTS);
        for (at, entry) in entries[..end].iter().enumerate() {
            // Steps and faults are the chapters: they are never left out.
            if at >= from || !matches!(entry.who, Who::Operator(_)) {
                let mark = if Some(at) == blamed {
                    "   <── this write"
                } else {
                    ""
                };
                writeln!(events, "{entry}{mark}")?;
            }
        }
        write!(f, "\nwhat happened (seconds, who, what):\n{events}")?;
        write!(f, "\nreplay: KINFORM_SEED={} cargo test {test}", plan.name)
    }
}
