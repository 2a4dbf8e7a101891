//! One key: its own writes, its runs, and the last changes of the objects that concern it.
//!
//! ```text
//! writes, runs (times) ; changes (fields, values as digests) → loop? fight?
//! ```
//!
//! Upstream counterpart: none.

use std::collections::VecDeque;

use kinform_api::mutant;

use super::{Change, FLIPS, FOLLOWED_AT, Finding, Kind, RUNS, WINDOW};
use crate::causes::Origin;
use crate::time::Instant;

/// BOUND: changes of a key that are kept.
const CHANGES: usize = 12;
/// Own changes that must repeat values before a loop is reported.
const REPEATS: usize = 5;

/// The record of one key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) last_use: u64,
    pub(super) is_followed: bool,
    /// The current run has written.
    pub(super) has_written: bool,
    is_reported: [bool; 2],
    writes: Times<FOLLOWED_AT>,
    /// The runs that own writes alone caused and that wrote.
    pub(super) runs: Times<RUNS>,
    // BOUND: `CHANGES`.
    changes: VecDeque<Change>,
}

/// The last times of something.
#[derive(Debug)]
pub(super) struct Times<const N: usize> {
    // BOUND: `N`.
    last: VecDeque<Instant>,
}

impl<const N: usize> Default for Times<N> {
    fn default() -> Self {
        Self {
            last: VecDeque::new(),
        }
    }
}

impl<const N: usize> Times<N> {
    pub(super) fn add(&mut self, now: Instant) {
        if self.last.len() == N {
            self.last.pop_front();
        }
        self.last.push_back(now);
    }

    /// Returns whether there were as many as that within the window.
    fn are_many(&self, now: Instant) -> bool {
        let first = self.last.front().filter(|_| self.last.len() == N);
        first.is_some_and(|first| now.since(*first) <= WINDOW)
    }
}

impl Entry {
    pub(super) fn wrote(&mut self, now: Instant) {
        self.has_written = true;
        self.writes.add(now);
        let is_over = self.is_reported == [true; 2];
        self.is_followed = (self.is_followed || self.writes.are_many(now)) && !is_over;
        if is_over {
            self.changes = VecDeque::new();
        }
    }

    pub(super) fn changed(&mut self, change: Change) {
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// Names the writers that are not known yet.
    pub(super) fn name(&mut self, origin: impl Fn(&Change) -> Origin) {
        for change in &mut self.changes {
            if change.origin == Origin::Unknown {
                change.origin = origin(change);
            }
        }
    }

    /// Stops following a key without writes for as long as the window.
    pub(super) fn calm_down(&mut self, now: Instant) {
        let last = self.writes.last.back();
        if self.is_followed && last.is_none_or(|last| now.since(*last) > WINDOW) {
            self.is_followed = false;
            self.changes = VecDeque::new();
            self.runs = Times::default();
        }
    }

    /// A loop that was not reported: many runs that own writes caused, and whose writes repeat.
    pub(super) fn looping(&mut self, now: Instant) -> Option<Finding> {
        if self.is_reported[0] || !self.runs.are_many(now) {
            return None;
        }
        let own = self.changes.iter().filter(|c| c.origin == Origin::Own);
        let own: Vec<_> = own.collect();
        let last = own.last()?;
        let is_same = |a: &Change, b: &Change| {
            (a.source, &a.object, a.difference.digest())
                == (b.source, &b.object, b.difference.digest())
        };
        let mut distinct: Vec<&Change> = Vec::new();
        for &change in &own {
            if !distinct.iter().any(|known| is_same(known, change)) {
                distinct.push(change);
            }
        }
        // A way through states, however long, repeats none of them.
        let repeats = own.len() >= REPEATS && distinct.len() * 2 <= own.len();
        if !repeats && !mutant!("Q7") {
            return None;
        }
        let path = last.difference.fields().first()?.path.to_string();
        self.is_reported[0] = true;
        Some(Finding {
            kind: Kind::Loop,
            source: last.source,
            object: last.object.clone(),
            path,
            times: RUNS,
        })
    }

    /// A fight that was not reported, while the other writer's value stands.
    pub(super) fn fight(&mut self) -> Option<Finding> {
        if self.is_reported[1] {
            return None;
        }
        let last = self
            .changes
            .back()
            .filter(|last| last.origin == Origin::Foreign)?;
        let is_fought = |path: &str| {
            let of_path = self.changes.iter().rev().filter_map(|change| {
                let is_same = change.source == last.source && change.object == last.object;
                let field = change.difference.fields().iter().find(|f| &*f.path == path);
                field
                    .filter(|_| is_same)
                    .map(|field| (change.origin, field.to))
            });
            let turns: Vec<_> = of_path.take(FLIPS).collect();
            let by_turns = turns
                .windows(2)
                .all(|pair| pair[0].0 != pair[1].0 || mutant!("Q8"));
            let to_same = turns.windows(3).all(|three| three[0].1 == three[2].1);
            let differ = turns.windows(2).all(|pair| pair[0].1 != pair[1].1);
            turns.len() == FLIPS && by_turns && to_same && differ
        };
        let fields = last.difference.fields().iter();
        let path = fields
            .map(|field| &*field.path)
            .find(|path| is_fought(path))?;
        let finding = Finding {
            kind: Kind::Fight,
            source: last.source,
            object: last.object.clone(),
            path: path.to_owned(),
            times: FLIPS,
        };
        self.is_reported[1] = true;
        Some(finding)
    }
}
