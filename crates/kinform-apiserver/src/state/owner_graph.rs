//! Graph of owner references, derived from the log of the store.
//!
//! ```text
//! events since the cursor ──▶ owner's uid ──▶ { dependents }, and objects to look at
//! ```
//!
//! The graph keeps references and no objects: the store has each object's current state. When the
//! log has discarded events that the graph needs, the graph is rebuilt from the stored objects.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector/graph_builder.go`.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::object::metadata::{FOREGROUND, ORPHAN};
use crate::storage::{Event, LogPlace, Shelf, Since, Store, Stored};

/// Location of a stored object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    /// By its shelf and key.
    Object(Shelf, Box<str>),
    /// The owner to which a reference points, seen from a namespace.
    Owner(Box<Owner>, Option<Box<str>>),
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) block_owner_deletion: Option<bool>,
}

/// Metadata of an object that garbage collection uses.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    owner_references: Option<Vec<Owner>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

impl Ties {
    /// Parses the ties of an object. Most objects have none; of others, the rest of the metadata is
    /// only skimmed.
    pub(crate) fn of(object: &Stored) -> Self {
        let mut ties = Self::default();
        if !object.has_ties() {
            return ties;
        }
        object.each_of_metadata(|name, value| match name {
            b"ownerReferences" => ties.owner_references = parse(value),
            b"finalizers" => ties.finalizers = parse(value),
            b"deletionTimestamp" => ties.deletion_timestamp = parse(value),
            _ => {}
        });
        ties
    }

    pub(crate) fn owners(&self) -> &[Owner] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    pub(crate) fn has_finalizer(&self, wanted: &str) -> bool {
        let all = self.finalizers.as_deref().unwrap_or_default();
        all.iter().any(|name| name == wanted)
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns whether the object waits for the collector.
    fn waits(&self) -> bool {
        self.is_terminating() && (self.has_finalizer(FOREGROUND) || self.has_finalizer(ORPHAN))
    }
}

fn parse<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).unwrap_or_default()
}

/// The graph of a server, and whose turn it is to collect garbage.
#[derive(Debug, Default)]
pub(crate) struct OwnerGraph {
    graph: Mutex<Graph>,
    turn: Mutex<()>,
}

impl OwnerGraph {
    /// Locks the graph: to follow the log and to decide, not to write.
    pub(crate) fn graph(&self) -> MutexGuard<'_, Graph> {
        // A panic under this lock cannot leave the graph invalid: it can be rebuilt.
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other request collects garbage.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The references of all stored objects.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// The place in the log up to which writes are included.
    seen: LogPlace,
    dependents: HashMap<Box<str>, BTreeSet<(Shelf, Box<str>)>>,
}

impl Graph {
    /// Adds the writes since the last call, and queues the objects to look at.
    pub(crate) fn follow(&mut self, store: &Store, queue: &mut VecDeque<Node>) {
        match store.since(self.seen) {
            Since::Events(events, upto) => {
                for (shelf, event) in events {
                    self.take(shelf, &event, queue);
                }
                self.seen = upto;
            }
            Since::Lost(shelves, upto) => {
                self.dependents.clear();
                for (shelf, snapshot) in shelves {
                    for object in snapshot.iter() {
                        let event = Event {
                            revision: object.revision(),
                            previous: None,
                            current: Some(object.clone()),
                        };
                        self.take(shelf, &event, queue);
                    }
                }
                self.seen = upto;
            }
        }
    }

    /// The dependents of a uid, in storage order.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &(Shelf, Box<str>)> {
        self.dependents.get(uid).into_iter().flatten()
    }

    fn take(&mut self, shelf: Shelf, event: &Event, queue: &mut VecDeque<Node>) {
        let ties = |object: &Option<_>| object.as_deref().map(Ties::of).unwrap_or_default();
        let (before, after) = (ties(&event.previous), ties(&event.current));
        let Some(object) = event.current.as_ref().or(event.previous.as_ref()) else {
            return;
        };
        let place = || (shelf, Box::<str>::from(object.key()));
        let namespace = object.namespace().map(Box::from);
        for owner in before.owners() {
            if after.owners().contains(owner) {
                continue;
            }
            if !after.owners().iter().any(|of| of.uid == owner.uid)
                && let Some(known) = self.dependents.get_mut(owner.uid.as_str())
            {
                known.remove(&place());
                if known.is_empty() {
                    self.dependents.remove(owner.uid.as_str());
                }
            }
            // The owner may have waited for this object.
            queue.push_back(Node::Owner(Box::new(owner.clone()), namespace.clone()));
        }
        for owner in after.owners() {
            let known = self.dependents.entry(owner.uid.as_str().into());
            known.or_default().insert(place());
        }
        let is_gone = event.current.is_none();
        if is_gone {
            let left = self.dependents(object.uid());
            queue.extend(left.map(|(shelf, key)| Node::Object(*shelf, key.clone())));
        } else if before.owners() != after.owners() || after.waits() {
            queue.push_back(Node::Object(shelf, object.key().into()));
        }
    }
}
