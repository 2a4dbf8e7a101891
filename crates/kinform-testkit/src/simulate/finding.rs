//! A fault of an operator, and the story of how it came about.
//!
//! ```text
//! Finding + Trace + Plan ─▶ Story: what is wrong, the faults, the write to blame and what it had not
//!                           seen, the last events, the line that replays it
//! ```

use std::fmt::{self, Write as _};
use std::ops::Range;

use super::census::Miscount;
use super::plan::{Pace, Plan};
use super::trace::{Entry, Who, Write};

/// BOUND: the events of operators that a story shows up to the write to blame, and a few after it.
const EVENTS: usize = 60;
/// BOUND: those that it shows after the last fault, and at the end.
const LAST: usize = 10;

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
        /// The numbers of the earlier and of the later step.
        steps: (usize, usize),
        differences: Vec<String>,
    },
    /// A reconcile fails at the end of a step of the run without faults.
    Stuck {
        step: String,
        of: String,
        times: u64,
        error: String,
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
            Self::NotPutBack { step, earlier, differences, .. } => {
                write!(f, "after {step} the objects of the script are as after {earlier}, ")?;
                f.write_str("but the others are not as they were then")?;
                differences.iter().try_for_each(|one| write!(f, "\n  {one}"))
            }
            Self::Stuck { step, of, times, error } => write!(
                f,
                "the reconcile of {of} failed {times} times in a row at the end of {step}: {error}"
            ),
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

/// The advice where a write is refused again and again.
const REFUSED: &str = "a write that the server refuses as invalid is refused again, however often: an object whose field \
cannot be changed is deleted and made anew, and an error that only another spec can mend is a `kinform::Permanent`";

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
    /// The events that the finding is about: the steps after the earlier of two that are compared, or
    /// all.
    fn scope(&self) -> Range<usize> {
        let end = self.entries.len();
        let Finding::NotPutBack { steps, .. } = self.finding else {
            return 0..end;
        };
        let begins = |step: usize| {
            let mut all = (0..end).filter(|at| self.entries[*at].who == Who::User);
            all.nth(step).unwrap_or(end)
        };
        begins(steps.0 + 1)..begins(steps.1 + 1)
    }

    /// The number of the write to blame: the last one of the object that is wrong, also if it was
    /// refused; the last one that was invalid; or the last of all.
    fn blamed(&self) -> Option<usize> {
        let about = self.finding.about();
        let of_object = |write: &Write| about.is_some_and(|about| is_of(about, &write.about));
        let last = |is_it: &dyn Fn(&Write) -> bool| {
            let scope = self.scope();
            let entries = &self.entries[scope.clone()];
            let found = entries
                .iter()
                .rposition(|entry| entry.write.as_ref().is_some_and(is_it));
            found.map(|at| scope.start + at)
        };
        match self.finding {
            Finding::Stuck { .. } => last(&Write::is_invalid),
            finding if finding.is_of_last_write() => last(&|_| true),
            _ => last(&of_object),
        }
    }

    /// The events, without those of operators that are far from the write to blame, from the last
    /// fault and from the end.
    fn events(&self, blamed: Option<usize>) -> String {
        let until = self.scope().end;
        let end = blamed.map_or(until, |at| (at + EVENTS / 3).min(until));
        let is_fault = |entry: &Entry| entry.who == Who::Fault;
        let fault = self.entries[..until].iter().rposition(is_fault);
        let shown = |at: usize, entry: &Entry| {
            // Steps and faults are the chapters: they are never left out.
            !matches!(entry.who, Who::Operator(_))
                || (end.saturating_sub(EVENTS)..end).contains(&at)
                || fault.is_some_and(|fault| (fault..fault + LAST).contains(&at))
                || at + LAST >= until
        };
        let mut events = String::new();
        let mut is_gap = false;
        for (at, entry) in self.entries[..until].iter().enumerate() {
            if !shown(at, entry) {
                is_gap = true;
                continue;
            }
            let gap = if is_gap { "           ..\n" } else { "" };
            let mark = match blamed == Some(at) {
                true => "   <── this write",
                false => "",
            };
            is_gap = false;
            // A text takes all that is written to it.
            let _ = writeln!(events, "{gap}{entry}{mark}");
        }
        events
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
            Finding::Stuck { .. } => Some(REFUSED),
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
        let events = self.events(blamed);
        write!(f, "\nwhat happened (seconds, who, what):\n{events}")?;
        write!(f, "\nreplay: KINFORM_SEED={} cargo test {test}", plan.name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(who: Who, text: &str) -> Entry {
        Entry {
            at: Duration::ZERO,
            who,
            text: text.to_owned(),
            write: None,
        }
    }

    fn write(about: &str, text: &str) -> Entry {
        let write = Write {
            about: about.to_owned(),
            unseen: Vec::new(),
            code: Some(200),
        };
        Entry {
            write: Some(write),
            ..entry(Who::Operator(0), text)
        }
    }

    fn hears(times: usize) -> impl Iterator<Item = Entry> {
        (0..times).map(|at| entry(Who::Operator(0), &format!("hears {at}.")))
    }

    fn story(finding: &Finding, entries: &[Entry]) -> String {
        let plan = Plan::clean();
        let story = Story {
            finding,
            plan: &plan,
            entries,
            test: "",
        };
        story.to_string()
    }

    #[test]
    fn a_story_goes_on_to_the_last_fault_and_to_the_end() {
        let mut entries = vec![write("foos d/a", "PATCH foos d/a")];
        entries.extend(hears(100));
        entries.push(entry(Who::Fault, "the process ends"));
        entries.push(entry(Who::Operator(0), "starts again"));
        entries.extend(hears(200));
        entries.push(entry(Who::Operator(0), "the last event"));
        let finding = Finding::Differs {
            step: "step 1".to_owned(),
            differences: vec!["foos d/a is not there; without faults it is".to_owned()],
        };
        let story = story(&finding, &entries);
        for words in [
            "PATCH foos d/a   <── this write",
            "hears 18.",
            "..\n    0.000  fault       the process ends",
            "starts again",
            "the last event",
        ] {
            assert!(story.contains(words), "{words}: {story}");
        }
        assert!(!story.contains("hears 60."), "{story}");
    }

    #[test]
    fn two_steps_that_are_compared_are_a_story_without_later_steps() {
        let mut entries = Vec::new();
        for step in 1..=4 {
            entries.push(entry(Who::User, &format!("step {step}")));
            entries.push(write("foos d/a", &format!("write {step}")));
        }
        let finding = Finding::NotPutBack {
            step: "step 3".to_owned(),
            earlier: "step 1".to_owned(),
            steps: (0, 2),
            differences: vec!["foos d/a: x is 2; after step 1 1".to_owned()],
        };
        let story = story(&finding, &entries);
        assert!(story.contains("write 3   <── this write"), "{story}");
        assert!(!story.contains("step 4"), "{story}");
    }
}
