//! A model of a server: objects, the log of their changes, and the part of it that is remembered.
//!
//! ```text
//! Op ──commit──▶ objects + log (one version a change) ──▶ frames of a watch, items of a list
//! ```
//!
//! A model of its own, small and literal, so that it shares no mistake with the embedded server.
//! The whole log is kept: the oldest version that a client may resume from is only a number,
//! `oldest`. Versions are those of the whole server: changes of other resources use some up.
//!
//! Upstream counterpart: `apiserver:pkg/storage/cacher`, seen from outside.

use std::collections::BTreeMap;
use std::fmt;

/// The object that every barrier writes: a handler that heard it has heard everything before it.
pub(crate) const MARK: &str = "m/mark";

/// A script's change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Creates it, or updates it if it is there.
    Write,
    /// Deletes it, if it is there.
    Delete,
    /// Deletes it, if it is there, and creates it under another uid.
    Recreate,
}

/// A change of the object of this key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) change: Change,
    pub(crate) key: String,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.change {
            Change::Write => '+',
            Change::Delete => '-',
            Change::Recreate => '!',
        };
        write!(f, "{sign}{}", self.key)
    }
}

/// A state of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    pub(crate) uid: String,
    pub(crate) version: u64,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

/// One event of the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The server's version once it happened.
    pub(crate) at: u64,
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) state: State,
    /// Sent without having happened; not sent again to a client that resumes.
    pub(crate) is_stray: bool,
}

/// The server's past and present.
#[derive(Debug, Default)]
pub(crate) struct History {
    objects: BTreeMap<String, State>,
    log: Vec<Entry>,
    version: u64,
    uids: u64,
    /// Watches from below this version are expired.
    oldest: u64,
}

impl History {
    /// Applies a change.
    pub(crate) fn commit(&mut self, op: &Op) {
        let there = self.objects.get(&op.key).cloned();
        if let (Change::Delete | Change::Recreate, Some(mut state)) = (op.change, there.clone()) {
            self.version += 1;
            state.version = self.version;
            self.objects.remove(&op.key);
            self.append(Kind::Deleted, &op.key, state);
        }
        match (op.change, there) {
            (Change::Delete, _) => {}
            (Change::Write, Some(state)) => self.store(Kind::Modified, &op.key, state.uid),
            (Change::Write, None) | (Change::Recreate, _) => {
                self.uids += 1;
                let uid = format!("uid-{}", self.uids);
                self.store(Kind::Added, &op.key, uid);
            }
        }
    }

    fn store(&mut self, kind: Kind, key: &str, uid: String) {
        self.version += 1;
        let version = self.version;
        let state = State { uid, version };
        self.objects.insert(key.to_owned(), state.clone());
        self.append(kind, key, state);
    }

    fn append(&mut self, kind: Kind, key: &str, state: State) {
        self.log.push(Entry {
            at: self.version,
            kind,
            key: key.to_owned(),
            state,
            is_stray: false,
        });
    }

    /// Counts changes of other resources: only versions pass.
    pub(crate) fn elsewhere(&mut self, versions: u64) {
        self.version += versions;
    }

    /// Logs a bookmark with the server's version.
    pub(crate) fn bookmark(&mut self) {
        let version = self.version;
        let uid = String::new();
        self.append(Kind::Bookmark, "", State { uid, version });
    }

    /// Sends the last event again; returns whether there is one.
    pub(crate) fn repeat(&mut self) -> bool {
        let Some(last) = self.log.last().filter(|last| last.at == self.version) else {
            return false;
        };
        let is_stray = true;
        let again = Entry {
            is_stray,
            ..last.clone()
        };
        self.log.push(again);
        true
    }

    /// Sends a deletion of an object that never existed.
    pub(crate) fn delete_unknown(&mut self, key: &str) {
        self.version += 1;
        let uid = "uid-unknown".to_owned();
        let version = self.version;
        self.append(Kind::Deleted, key, State { uid, version });
        if let Some(last) = self.log.last_mut() {
            last.is_stray = true;
        }
    }

    /// Forgets everything that happened until now.
    pub(crate) fn expire(&mut self) {
        self.oldest = self.version;
    }

    /// Returns whether events after `version` are no longer remembered.
    pub(crate) fn is_expired(&self, version: u64) -> bool {
        version < self.oldest
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn objects(&self) -> &BTreeMap<String, State> {
        &self.objects
    }

    pub(crate) fn log(&self) -> &[Entry] {
        &self.log
    }

    /// The objects as they were at a version.
    pub(crate) fn objects_at(&self, version: u64) -> BTreeMap<String, State> {
        let mut objects = BTreeMap::new();
        let past = self.log.iter().filter(|e| e.at <= version && !e.is_stray);
        for entry in past {
            match entry.kind {
                Kind::Added | Kind::Modified => {
                    objects.insert(entry.key.clone(), entry.state.clone());
                }
                Kind::Deleted => {
                    objects.remove(&entry.key);
                }
                Kind::Bookmark => {}
            }
        }
        objects
    }

    /// The index in the log at which a watch from `version` begins.
    pub(crate) fn index_after(&self, version: u64) -> usize {
        self.log.partition_point(|entry| entry.at <= version)
    }
}

impl Entry {
    /// The event as a line of a watch.
    pub(crate) fn frame(&self) -> String {
        match self.kind {
            Kind::Added => frame("ADDED", &object(&self.key, &self.state)),
            Kind::Modified => frame("MODIFIED", &object(&self.key, &self.state)),
            Kind::Deleted => frame("DELETED", &object(&self.key, &self.state)),
            Kind::Bookmark => bookmark_frame(self.state.version, ""),
        }
    }
}

/// The bookmark after the initial events of a streaming list.
pub(crate) fn end_frame(version: u64) -> String {
    bookmark_frame(
        version,
        r#","annotations":{"k8s.io/initial-events-end":"true"}"#,
    )
}

fn bookmark_frame(version: u64, annotations: &str) -> String {
    let metadata = format!(r#"{{"resourceVersion":"{version}"{annotations}}}"#);
    frame(
        "BOOKMARK",
        &format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata}}}"#),
    )
}

/// An event of this type.
pub(crate) fn frame(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// The object of a key in a state, as in a watch.
pub(crate) fn object(key: &str, state: &State) -> String {
    let item = item(key, state);
    format!(r#"{{"kind":"ConfigMap","apiVersion":"v1",{}"#, &item[1..])
}

/// The same as in a list: without kind and version.
pub(crate) fn item(key: &str, state: &State) -> String {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let State { uid, version } = state;
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{version}"}},"data":{{"at":"{version}"}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(change: Change, key: &str) -> Op {
        let key = key.to_owned();
        Op { change, key }
    }

    #[test]
    fn the_log_tells_each_state_there_ever_was() {
        let mut history = History::default();
        for change in [
            Change::Write,
            Change::Write,
            Change::Recreate,
            Change::Delete,
        ] {
            history.commit(&op(change, "a/x"));
        }
        history.commit(&op(Change::Delete, "a/x"));
        history.delete_unknown("a/y");
        let kinds: Vec<_> = history.log().iter().map(|e| (e.at, e.kind)).collect();
        let expected = [
            (1, Kind::Added),
            (2, Kind::Modified),
            (3, Kind::Deleted),
            (4, Kind::Added),
            (5, Kind::Deleted),
            (6, Kind::Deleted),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(history.objects_at(2)["a/x"].uid, "uid-1");
        assert_eq!(history.objects_at(4)["a/x"].uid, "uid-2");
        assert!(history.objects_at(5).is_empty() && history.objects().is_empty());
    }
}
