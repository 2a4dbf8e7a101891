//! Replicas of a sharded operator in trouble, and a judgement of every write that they made.
//!
//! ```text
//! dice ─▶ Fleet: kill, pause, add, remove ─▶ replicas ─writes with terms─▶ server ─watch─▶ Journal ─▶ judge
//! World: changes, deletes, new objects ────────────────────────────────────▲               └─ answers
//! ```
//!
//! `journal` is what the server stored, in the order of its versions; `judge` compares each write with
//! the lease of its shard at that version; `fleet` are the processes; `world` the objects and what
//! becomes of their changes; `story` the loop; `told` its figures; `fork` two servers at one address.
//!
//! BOUND: a run keeps an entry for each write, some 100 a second.

mod fleet;
mod fork;
mod journal;
mod judge;
mod story;
mod told;
mod world;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use self::fork::Fork;
pub use self::story::{Plan, run};
pub use self::told::Told;

/// The label of the objects that replicas work on.
pub const LABEL: &str = "app=sharing";
/// The number of shards.
pub const SHARDS: u32 = 16;

/// The replicas' program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `sharer`: each write tells its term, and each key is written again and again.
    Sharer,
    /// The same without a guard: a write is on its way for a while, whatever happens to the term. The
    /// judge must notice it.
    Careless,
    /// The sample controller, as it is.
    Sample,
}

impl Work {
    /// The name of the operator, and so of the group of its leases.
    fn group(self) -> &'static str {
        match self {
            Self::Sharer | Self::Careless => "sharer",
            Self::Sample => "sample-controller",
        }
    }

    /// The resource that it works on.
    fn resource(self) -> &'static str {
        match self {
            Self::Sharer | Self::Careless => "configmaps",
            Self::Sample => "foos",
        }
    }
}

/// A term of a member: uid and transitions of its lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    pub(crate) uid: String,
    pub(crate) transitions: String,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.uid, self.transitions)
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_millis()
}

const GONE: &str = "SHARER GONE ";

/// A line in a replica's log: its function for objects that are gone was called.
pub fn gone_line(key: &str) -> String {
    format!("{GONE}{} {key}", now_ms())
}

/// Reads such a line: the time and the key.
fn gone_of(line: &str) -> Option<(u128, &str)> {
    let (at, key) = line.strip_prefix(GONE)?.split_once(' ')?;
    Some((at.parse().ok()?, key))
}
