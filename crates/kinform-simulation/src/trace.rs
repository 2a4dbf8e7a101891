//! The events of a run: their hash always, their lines if somebody reads them.
//!
//! ```text
//! note(who, what) ─▶ hash of (time, who, what) ─▶ is it the same run?      lines ─▶ a story
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

/// BOUND: the lines that are kept.
const MOST: usize = 100_000;
/// BOUND: the lines that are kept of a long run.
const LAST: usize = 20_000;

/// The events of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    hasher: DefaultHasher,
    keep: Keep,
    lines: VecDeque<String>,
    text: String,
    events: u64,
}

/// The part of a trace that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Only their hash.
    Hash,
    /// The lines, too, from the first on.
    Lines,
    /// The last lines, too.
    Last,
}

impl Trace {
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            hasher: DefaultHasher::new(),
            keep,
            lines: VecDeque::new(),
            text: String::new(),
            events: 0,
        }
    }

    /// Notes an event.
    pub(crate) fn note(&mut self, at: Duration, what: fmt::Arguments<'_>) {
        use fmt::Write as _;
        self.text.clear();
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(what);
        self.events += 1;
        self.hasher.write_u128(at.as_nanos());
        self.hasher.write(self.text.as_bytes());
        match self.keep {
            Keep::Lines if self.lines.len() < MOST => {}
            Keep::Last => {
                if self.lines.len() == LAST {
                    self.lines.pop_front();
                }
            }
            Keep::Hash | Keep::Lines => return,
        }
        let line = format!("{:>9.3}  {}", at.as_secs_f64(), self.text);
        self.lines.push_back(line);
    }

    /// A number that is the same for the same events at the same times.
    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// The events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The lines.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines).into()
    }
}
