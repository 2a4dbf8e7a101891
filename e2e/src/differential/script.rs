//! Makes a script from a seed: the server's actions, and the times when handlers are added and
//! removed.
//!
//! ```text
//! seed ──▶ Script { how the server is, steps } ──performed──▶ the same decisions for each subject
//! ```
//!
//! A script names moments by the events heard, never by a clock: before a trouble, a new handler or
//! a resync there is a barrier, at which every handler has heard everything. So each subject meets
//! the same events, which depend only on the seed.
//! BOUND: troubles in a script after which client-go waits: its delays double from 0.8 s.

use std::fmt;

use super::history::{Change, Op};
use crate::dice::Dice;

/// The way in which a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As a timeout does it.
    Clean,
    /// In the middle of an event.
    MidFrame,
    /// The connection breaks.
    Cut,
    /// With an ERROR event of this code.
    Error(u16),
}

/// The way in which a server reports that it does not remember a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// The request is refused.
    Refusal,
    /// The request is accepted, its first event is an error.
    Event,
}

/// A fault of one request, the first that it can apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Any: it is answered with this code.
    Code(u16),
    /// Any: the connection is closed without an answer.
    HangUp,
    /// A watch that resumes: it is accepted, and ends immediately.
    EndsAtOnce(Ending),
    /// A streaming list: it ends cleanly before its end bookmark.
    NoEndBookmark,
    /// A streaming list: an object changes, and one is deleted, before its end bookmark.
    ChangesInside,
    /// A list: its body is cut in the middle.
    CutList,
    /// A page after the first: the version of the first is expired.
    ExpiredPage,
}

/// Everything that happens between two moments at which all events have been heard.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) ending: Ending,
    /// Connections are refused for a moment.
    pub(crate) is_refused: bool,
    /// The changes while no watch is open.
    pub(crate) ops: Vec<Op>,
    /// Set if none of these changes is remembered.
    pub(crate) expires: bool,
    /// The faults of the next requests.
    pub(crate) faults: Vec<Fault>,
    /// Set if a handler is added while the server is away.
    pub(crate) joins: bool,
}

/// One thing after the other.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Changes, sent together.
    Commit(Vec<Op>),
    /// Waits until every handler has heard everything.
    Barrier,
    Bookmark,
    /// Versions used by other resources.
    Elsewhere(u64),
    /// A change that is sent twice.
    Twice(Op),
    /// Sends a deletion of an object that never existed.
    DeleteUnknown(String),
    /// Adds a handler.
    Join,
    /// Removes the oldest remaining handler, if another one stays.
    Leave,
    /// Resyncs the handler that wants resyncs: it hears every stored object again.
    Resync,
    Trouble(Trouble),
}

/// A script, and the server that it is played on.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    /// Set if the server supports streaming lists.
    pub(crate) streams: bool,
    /// Items a page, where the client allows pages.
    pub(crate) page: Option<usize>,
    pub(crate) expired: Expired,
    /// Objects at the beginning.
    pub(crate) before: Vec<Op>,
    /// The faults of the first requests.
    pub(crate) first: Vec<Fault>,
    /// Handlers at the beginning.
    pub(crate) handlers: usize,
    /// Set if the first handler resyncs each second.
    pub(crate) resyncs: bool,
    pub(crate) steps: Vec<Step>,
}

/// BOUND: see above.
const MAX_DELAYS: usize = 4;

impl Script {
    /// The script of this seed: the same each time.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Author::new(seed).write()
    }
}

struct Author {
    dice: Dice,
    seed: u64,
    keys: Vec<String>,
    delays: usize,
}

impl Author {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let names = ["a/x", "a/y", "b/x", "b/z", "n/k", "z/z"];
        let count = 2 + dice.below(5) as usize;
        let keys = names[..count].iter().map(ToString::to_string).collect();
        Self {
            dice,
            seed,
            keys,
            delays: 0,
        }
    }

    fn write(mut self) -> Script {
        let streams = !self.dice.one_in(3);
        let pages = self.dice.one_in(2);
        let resyncs = self.dice.one_in(5);
        let count = 20 + self.dice.below(61);
        let mut script = Script {
            seed: self.seed,
            streams,
            page: pages.then(|| 1 + self.dice.below(3) as usize),
            expired: self.dice.pick(&[Expired::Refusal, Expired::Event]),
            before: self.ops(6),
            first: if self.dice.one_in(4) {
                self.faults(1)
            } else {
                Vec::new()
            },
            handlers: 1 + self.dice.below(2) as usize,
            resyncs,
            steps: Vec::new(),
        };
        for _ in 0..count {
            let step = self.step(resyncs);
            script.steps.push(step);
        }
        script
    }

    fn step(&mut self, resyncs: bool) -> Step {
        match self.dice.below(100) {
            0..42 => Step::Commit(self.ops(5)),
            42..50 => Step::Barrier,
            50..55 => Step::Bookmark,
            55..58 => Step::Elsewhere(1 + self.dice.below(5)),
            58..61 => Step::Twice(self.op()),
            61..63 => Step::DeleteUnknown("q/unknown".to_owned()),
            63..68 => Step::Join,
            68..71 => Step::Leave,
            71..72 if resyncs => Step::Resync,
            72..82 => Step::Trouble(self.blip()),
            82..100 if self.delays < MAX_DELAYS => Step::Trouble(self.outage()),
            _ => Step::Commit(self.ops(12)),
        }
    }

    /// A watch ends and is resumed: no delay.
    fn blip(&mut self) -> Trouble {
        Trouble {
            ending: self
                .dice
                .pick(&[Ending::Clean, Ending::MidFrame, Ending::Cut]),
            is_refused: false,
            ops: self.ops(8),
            expires: false,
            faults: Vec::new(),
            joins: self.dice.one_in(4),
        }
    }

    /// A trouble after which a client waits, or may.
    fn outage(&mut self) -> Trouble {
        let is_refused = self.dice.one_in(6);
        self.delays += 1 + usize::from(is_refused);
        let trouble = Trouble {
            ending: Ending::Clean,
            is_refused,
            ops: self.ops(10),
            expires: false,
            faults: Vec::new(),
            joins: self.dice.one_in(4),
        };
        match self.dice.below(6) {
            // The server does not remember: every subject lists again.
            0..3 => {
                let gone = Ending::Error(410);
                let endings = [Ending::Clean, Ending::Cut, gone, gone, Ending::Error(500)];
                let faults = self.dice.pick(&[0, 0, 0, 1, 1, 2]);
                Trouble {
                    ending: self.dice.pick(&endings),
                    expires: true,
                    faults: self.faults(faults),
                    ..trouble
                }
            }
            // It reports an expired version, or fails, and remembers.
            3..5 => {
                let endings = [410, 429, 500].map(Ending::Error);
                let faults = self.dice.pick(&[0, 0, 1]);
                Trouble {
                    ending: self.dice.pick(&endings),
                    faults: self.faults(faults),
                    ..trouble
                }
            }
            // The watch cannot be opened again immediately.
            _ => {
                let ends = [Ending::Clean, Ending::Cut].map(Fault::EndsAtOnce);
                let codes = [429, 500, 503, 503].map(Fault::Code);
                let fault = self.dice.pick(&[&ends[..], &codes[..]].concat());
                Trouble {
                    faults: vec![fault],
                    ..trouble
                }
            }
        }
    }

    fn faults(&mut self, count: usize) -> Vec<Fault> {
        let kinds = [
            Fault::Code(500),
            Fault::Code(503),
            Fault::Code(429),
            Fault::HangUp,
            Fault::EndsAtOnce(Ending::Clean),
            Fault::EndsAtOnce(Ending::Cut),
            Fault::EndsAtOnce(Ending::Error(410)),
            Fault::NoEndBookmark,
            Fault::ChangesInside,
            Fault::ChangesInside,
            Fault::CutList,
            Fault::ExpiredPage,
        ];
        let count = count.min(MAX_DELAYS.saturating_sub(self.delays));
        self.delays += count;
        (0..count).map(|_| self.dice.pick(&kinds)).collect()
    }

    fn ops(&mut self, max: u64) -> Vec<Op> {
        let count = self.dice.below(max + 1);
        (0..count).map(|_| self.op()).collect()
    }

    fn op(&mut self) -> Op {
        use Change::{Delete, Recreate, Write};
        let at = self.dice.below(self.keys.len() as u64) as usize;
        Op {
            change: self
                .dice
                .pick(&[Write, Write, Write, Write, Delete, Delete, Recreate]),
            key: self.keys[at].clone(),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: streaming lists {}, page {:?}, expired as {:?}, {} handlers, resyncs {}",
            self.seed, self.streams, self.page, self.expired, self.handlers, self.resyncs
        )?;
        writeln!(
            f,
            "  before: {}, first {:?}",
            List(&self.before),
            self.first
        )?;
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {at:2} {step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(ops) => write!(f, "commit {}", List(ops)),
            Self::Twice(op) => write!(f, "twice {op}"),
            Self::DeleteUnknown(key) => write!(f, "delete unknown {key}"),
            Self::Trouble(trouble) => {
                let Trouble { ending, ops, .. } = trouble;
                write!(f, "trouble {ending:?}, meanwhile {}", List(ops))?;
                let expires = if trouble.expires { ", expires" } else { "" };
                let refused = if trouble.is_refused { ", refused" } else { "" };
                let joins = if trouble.joins {
                    ", a handler joins"
                } else {
                    ""
                };
                write!(f, "{expires}{refused}{joins}, then {:?}", trouble.faults)
            }
            plain => write!(f, "{plain:?}"),
        }
    }
}

struct List<'a>(&'a [Op]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops: Vec<_> = self.0.iter().map(Op::to_string).collect();
        f.write_str(&ops.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_script_each_time_and_another_seed_another() {
        let text = |seed| Script::from_seed(seed).to_string();
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn scripts_hold_what_histories_are_to_have() {
        let scripts: Vec<_> = (0..50).map(Script::from_seed).collect();
        let with = |wanted: fn(&Trouble) -> bool| {
            let has = |step: &Step| matches!(step, Step::Trouble(trouble) if wanted(trouble));
            scripts.iter().filter(|s| s.steps.iter().any(has)).count()
        };
        assert!(with(|t| t.expires) >= 25, "expiries");
        assert!(with(|t| t.joins) >= 10, "late handlers in an outage");
        assert!(with(|t| t.ending == Ending::Error(410)) >= 10, "relists");
        let recreates = |op: &Op| op.change == Change::Recreate;
        let recreated = scripts.iter().filter(|script| {
            let mut outages = script.steps.iter().filter_map(|step| match step {
                Step::Trouble(trouble) if trouble.expires => Some(&trouble.ops),
                _ => None,
            });
            outages.any(|ops| ops.iter().any(recreates))
        });
        assert!(recreated.count() >= 10, "recreations in a gap");
        assert!(scripts.iter().all(|s| (20..=80).contains(&s.steps.len())));
    }
}
