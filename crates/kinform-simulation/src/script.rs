//! The script of a run: steps at their times, as a file has them.
//!
//! ```text
//! generate(seed) | file ─▶ Script { version, seed, settings, steps } ─▶ Run, shrink, file
//! ```
//!
//! A script is the whole input of a run: one build plays it the same each time. The seed is that of
//! delays, splits of bodies, uids and jitter. A file of another version is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// The version of the format.
pub const VERSION: u32 = 6;

/// In place of a process: the one that leads when a fault begins; if none does, the first.
pub const LEADER: usize = 100;

/// The script of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// The version of the format.
    pub version: u32,
    /// The seed of everything that a step does not say.
    pub seed: u64,
    /// The settings of the processes.
    pub settings: Settings,
    /// The steps, in the order of their times.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Milliseconds from the start of the run.
    pub at: u64,
    /// The event.
    pub act: Act,
}

/// The event of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// A user writes.
    Write(Change),
    /// A process starts, if it does not run.
    Start(usize),
    /// A process is killed.
    Crash(usize),
    /// A process is asked to stop.
    Stop(usize),
    /// A process stands still for some milliseconds.
    Pause(usize, u64),
    /// Something happens at the next write of a process.
    Trap(usize, On, Trap),
    /// The network of a process misbehaves, for some milliseconds.
    Network(usize, Net, u64),
    /// The reads of a process go to the other server, which is this many revisions behind, for some
    /// milliseconds.
    Switch(usize, u64, u64),
    /// A server, or the storage, misbehaves.
    Server(usize, Trouble),
    /// Somebody else writes the lease.
    Lease(Hand),
    /// A handler comes or goes.
    Handler(usize, Handling),
    /// A namespace is watched or left by an informer of named ones.
    Namespace(usize, u8, Follow),
    /// A process lists again.
    Relist(usize),
}

/// A user's write to a config map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Change {
    /// The namespace, by its number.
    pub namespace: u8,
    /// The name, by its number.
    pub name: u8,
    /// The kind of write.
    pub verb: Verb,
    /// A value that it writes.
    pub value: u32,
}

/// The kind of a user's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Creates the object.
    Create,
    /// Changes its data.
    Change,
    /// Changes the label that selects it.
    Label,
    /// Deletes it.
    Delete,
    /// Deletes it, and creates another one of its name.
    Recreate,
    /// Changes its copy, which is the controller's.
    Spoil,
    /// Deletes its copy.
    DeleteCopy,
    /// Takes the owner of its copy away.
    Orphan,
}

/// The write at which a trap springs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum On {
    /// A write of the controller.
    Write,
    /// A write to the lease.
    Lease,
}

/// The event at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trap {
    /// The process is killed before it is sent.
    CrashBefore,
    /// The process is killed when it is done, before the answer.
    CrashAfter,
    /// It is done, and the answer is lost.
    LoseReply,
    /// It reaches the server after these milliseconds, whatever the process does meanwhile.
    SendLate(u64),
    /// It is refused with this status.
    Refuse(u16),
}

/// A write of somebody else to the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hand {
    /// It is deleted.
    Delete,
    /// It gets a label.
    Label,
}

/// The misbehaviour of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Net {
    /// All connections break now.
    Cut,
    /// They break when this many bytes more have come.
    CutAfter(u64),
    /// They break, and new ones are refused.
    Refuse,
    /// Nothing comes or goes.
    BlackHole,
    /// Open connections are dead without a sign; new ones work.
    HalfOpen,
    /// Requests arrive, answers do not.
    OneWay,
    /// Answers come byte by byte.
    Trickle,
    /// Each request and answer takes up to this many milliseconds, so that they overtake each other.
    Slow(u64),
    /// The next piece of a watch comes twice.
    Duplicate,
    /// The last pieces of a watch come again before its next one.
    Again,
    /// The next piece of a watch is lost.
    Drop,
    /// The watches of one type bring nothing; those of the other go on.
    Deaf(Watched),
    /// The controller's writes are refused with the status 500, as by a webhook that is down; those of
    /// leases and events are not.
    NoWrites,
}

/// The types that the processes watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Watched {
    /// Config maps, which are reconciled.
    Maps,
    /// Secrets, their copies.
    Secrets,
}

impl Watched {
    /// The type of a collection, by its path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path.rsplit('/').next() {
            Some("configmaps") => Some(Self::Maps),
            Some("secrets") => Some(Self::Secrets),
            _ => None,
        }
    }
}

/// The misbehaviour of a server. Times are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trouble {
    /// It is down for this long; its history is kept.
    Restart(u64),
    /// The same, and the history is lost.
    RestartWithoutHistory(u64),
    /// The storage is that of the last backup; the revisions go on where they were.
    Restore(u64),
    /// The storage is that of the last backup, revisions included.
    GoBack(u64),
    /// A backup is taken.
    Backup,
    /// It restarts, and its clock has jumped by this many minutes.
    Clock(i64),
    /// All watches end.
    CutWatches,
    /// Watches send nothing for this long.
    StallWatches(u64),
    /// Watches are late by up to the first number, for as long as the second says.
    LateWatches(u64, u64),
    /// Watches have no bookmarks for this long.
    NoBookmarks(u64),
    /// Streaming lists have no end for this long.
    NoInitialEventsEnd(u64),
    /// Streaming lists that begin within this time are their end alone.
    NoInitialEvents(u64),
    /// The end of initial events comes after the next events, or with the next bookmark, for this long.
    LateInitialEventsEnd(u64),
    /// It lags behind the storage for this long.
    Lag(u64),
    /// The history is forgotten.
    Expire,
    /// The next requests of a verb have this status: code, and how many.
    Reply(Asks, u16, usize),
    /// The next requests of a verb have a proxy's page.
    Foreign(Asks, usize),
    /// The next watches have an error event: 410.
    ExpiredEvent(usize),
    /// The next watches end without an event.
    EmptyStream(usize),
    /// The next replies break off after some bytes.
    Truncate(Asks, usize),
    /// The next watches break off after some bytes: bytes, and how many.
    ShortWatches(usize, usize),
    /// The next replies stop after some bytes.
    StallBody(Asks, usize),
    /// The next replies are late.
    Delay(Asks, u64),
}

/// The verb of requests that meet trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Asks {
    /// A list.
    List,
    /// A watch.
    Watch,
    /// An update.
    Update,
    /// A patch.
    Patch,
    /// A creation.
    Create,
}

impl Asks {
    /// The verb.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Create => "create",
        }
    }
}

/// A change of handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Handling {
    /// One is added.
    Add,
    /// One that needs this many milliseconds for each notification.
    AddSlow(u64),
    /// The oldest of those that were added is removed.
    Remove,
}

/// A change of watched namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Follow {
    /// It is watched.
    Watch,
    /// It is watched no more.
    Leave,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// It is no script, or one of another version: in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("no script: {error}"))?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(VERSION.into()) {
            let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(format!(
                "the script has version {found}, this program plays version {VERSION}"
            ));
        }
        let script: Self =
            serde_json::from_value(value).map_err(|error| format!("no script: {error}"))?;
        script.check()?;
        Ok(script)
    }

    /// Numbers of processes and steps that a run can have.
    fn check(&self) -> Result<(), String> {
        let replicas = self.settings.replicas.len();
        if !(1..=MOST_REPLICAS).contains(&replicas) {
            return Err(format!("a script has 1 to {MOST_REPLICAS} replicas"));
        }
        if self.steps.len() > MOST_STEPS {
            return Err(format!("a script has at most {MOST_STEPS} steps"));
        }
        let late = |step: &&Step| step.at > LAST;
        if let Some(step) = self.steps.iter().find(late) {
            return Err(format!(
                "a step at {} ms is too late: {LAST} at most",
                step.at
            ));
        }
        let process = |act: &Act| match act {
            Act::Crash(LEADER)
            | Act::Stop(LEADER)
            | Act::Pause(LEADER, _)
            | Act::Trap(LEADER, ..)
            | Act::Network(LEADER, ..)
            | Act::Switch(LEADER, ..) => None,
            Act::Start(process)
            | Act::Crash(process)
            | Act::Stop(process)
            | Act::Pause(process, _)
            | Act::Trap(process, ..)
            | Act::Network(process, ..)
            | Act::Switch(process, ..)
            | Act::Handler(process, _)
            | Act::Namespace(process, ..)
            | Act::Relist(process) => Some(*process),
            Act::Write(_) | Act::Lease(_) | Act::Server(..) => None,
        };
        let unknown = |step: &&Step| process(&step.act).is_some_and(|one| one >= replicas);
        match self.steps.iter().find(unknown) {
            Some(step) => Err(format!("no such process: {step}")),
            None => Ok(()),
        }
    }

    /// The text of a script, a line for each step.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |value: &dyn Fn() -> serde_json::Result<String>| value().unwrap_or_default();
        let settings = line(&|| serde_json::to_string(&self.settings));
        let steps: Vec<String> = self
            .steps
            .iter()
            .map(|step| line(&|| serde_json::to_string(step)))
            .collect();
        format!(
            "{{\"version\": {}, \"seed\": {},\n \"settings\": {settings},\n \"steps\": [\n  {}\n ]}}\n",
            self.version,
            self.seed,
            steps.join(",\n  ")
        )
    }
}

/// BOUND: the processes of a run.
const MOST_REPLICAS: usize = 8;
/// BOUND: the steps of a run.
const MOST_STEPS: usize = 10_000;
/// BOUND: the time of the last step, an hour.
const LAST: u64 = 3_600_000;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = std::time::Duration::from_millis(self.at).as_secs_f64();
        write!(f, "{seconds:>9.3}  {:?}", self.act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::script;

    #[test]
    fn a_script_is_read_as_it_was_written() {
        for seed in 0..50 {
            let made = script(seed);
            assert_eq!(Script::parse(&made.text()).as_ref(), Ok(&made));
        }
    }

    #[test]
    fn what_is_no_script_of_this_version_is_refused_in_one_line() {
        let mut later = script(1);
        later.version = VERSION + 1;
        let mut stranger = script(1);
        stranger.steps.push(Step {
            at: 5,
            act: Act::Crash(7),
        });
        let mut late = script(1);
        late.steps[0].at = LAST + 1;
        for text in [
            "".to_owned(),
            "{}".to_owned(),
            later.text(),
            stranger.text(),
            late.text(),
            script(1)
                .text()
                .replace("camel", "")
                .replace("\"lease\"", "\"lace\""),
        ] {
            let refused = Script::parse(&text).unwrap_err();
            assert!(!refused.contains('\n'), "{refused}");
        }
    }
}
