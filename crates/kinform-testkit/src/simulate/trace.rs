//! The events of a run, in order: the user's changes, requests, notifications, faults.
//!
//! ```text
//! script, wires, faults ──note──▶ Trace ─▶ hash (is a replay the same run?), lines of a story
//! ```
//!
//! A write carries what the process had not seen yet when it sent it: that is where most mistakes
//! of controllers begin.
//! Never: bodies of objects, so a trace shows no Secret's value.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

/// BOUND: the entries of a trace; a run that makes more is ended by its own bounds before.
const MOST: usize = 200_000;

/// The actor of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// The script.
    User,
    /// A copy of the operator, by its number.
    Operator(usize),
    /// The plan of faults.
    Fault,
    /// Another client, in a fault.
    Other,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.pad("user"),
            Self::Operator(0) => f.pad("operator"),
            Self::Operator(number) => f.pad(&format!("operator {}", number + 1)),
            Self::Fault => f.pad("fault"),
            Self::Other => f.pad("another"),
        }
    }
}

/// A write of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The object, as pictures name it.
    pub(crate) about: String,
    /// The objects of which the process had not seen the newest version when it wrote.
    pub(crate) unseen: Vec<String>,
    /// The code of the answer.
    pub(crate) code: Option<u16>,
}

impl Write {
    /// Returns whether the server does not accept it as it is, however often it is sent.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(self.code, Some(400 | 422))
    }
}

/// An event of a run.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) who: Who,
    pub(crate) text: String,
    pub(crate) write: Option<Write>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, who, text, .. } = self;
        write!(f, "{:>9.3}  {who:<10}  {text}", at.as_secs_f64())
    }
}

/// The events of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    start: Instant,
    entries: Vec<Entry>,
}

impl Trace {
    /// An empty trace that starts now.
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            entries: Vec::new(),
        }
    }

    /// Adds an entry; returns its number.
    pub(crate) fn note(&mut self, who: Who, text: impl Into<String>) -> usize {
        if self.entries.len() < MOST {
            self.entries.push(Entry {
                at: self.start.elapsed(),
                who,
                text: text.into(),
                write: None,
            });
        }
        self.entries.len().saturating_sub(1)
    }

    /// Marks an entry as a write, and completes its text.
    pub(crate) fn wrote(&mut self, number: usize, outcome: &str, write: Write) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.text.push_str(outcome);
            entry.write = Some(write);
        }
    }

    /// The entries, in order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The most frequent write from this entry on, without its outcome, and how often it is there.
    pub(crate) fn most_frequent(&self, from: usize) -> Option<(String, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let late = self.entries.iter().skip(from);
        for entry in late.filter(|entry| entry.write.is_some()) {
            let words = entry.text.split(" ─▶").next().unwrap_or_default();
            *counts.entry(words).or_default() += 1;
        }
        let (words, times) = counts.into_iter().max_by_key(|(_, times)| *times)?;
        Some((words.to_owned(), times))
    }

    /// The last write that was refused as invalid, if that was not longer ago.
    pub(crate) fn invalid_within(&self, period: Duration) -> Option<&Entry> {
        let since = self.start.elapsed().saturating_sub(period);
        let late = self.entries.iter().rev();
        let mut late = late.take_while(|entry| entry.at >= since);
        late.find(|entry| entry.write.as_ref().is_some_and(Write::is_invalid))
    }

    /// A number that is the same for the same events at the same times.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for Entry { at, who, text, .. } in &self.entries {
            (at, who, text).hash(&mut hasher);
        }
        hasher.finish()
    }
}
