//! Everything that was committed, and the state at each revision.
//!
//! ```text
//! Store ──changes──▶ History { shelf ─▶ key ─▶ versions } ─▶ was it ever? what came next? S(r)
//! restore ─▶ another epoch, which begins with the backup's objects
//! ```
//!
//! The truth that notifications and caches are compared with. It is read from the storage itself,
//! with no code of kinform between.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinform_apiserver::{ShelfEvent, Store, Stored};

use crate::settings::{COPIED, FINALIZER, is_poison};

/// A version of an object, with what is asked about it.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) revision: u64,
    /// `None` for a removal.
    pub(crate) object: Option<Arc<Fact>>,
}

/// An object as it was committed.
#[derive(Debug)]
pub(crate) struct Fact {
    pub(crate) stored: Arc<Stored>,
    pub(crate) uid: String,
    pub(crate) tier: Option<String>,
    pub(crate) number: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) term: Option<String>,
    pub(crate) has_finalizer: bool,
    pub(crate) is_terminating: bool,
}

impl Fact {
    fn of(stored: &Arc<Stored>) -> Arc<Self> {
        let value = stored.value();
        let metadata = &value["metadata"];
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let annotation = |name: &str| text(&metadata["annotations"][name]);
        Arc::new(Self {
            stored: Arc::clone(stored),
            uid: stored.uid().to_owned(),
            tier: text(&metadata["labels"]["tier"]),
            number: text(&value["data"]["number"]).or_else(|| annotation(COPIED)),
            owner: text(&metadata["ownerReferences"][0]["uid"]),
            term: annotation(kinform_operator::leader::TERM_ANNOTATION),
            has_finalizer: metadata["finalizers"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == FINALIZER)),
            is_terminating: !metadata["deletionTimestamp"].is_null(),
        })
    }
}

type Keys = BTreeMap<String, Vec<Version>>;

/// The shelves that are looked at.
pub(crate) const MAPS: &str = "configmaps";
pub(crate) const SECRETS: &str = "secrets";

/// The time from one restore of the storage to the next.
#[derive(Debug)]
struct Epoch {
    shelves: [(&'static str, Keys); 2],
    /// The last revision that was read.
    read: u64,
    /// The revision up to which old versions are forgotten.
    forgotten: u64,
}

/// A committed change.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) shelf: &'static str,
    pub(crate) key: String,
    pub(crate) before: Option<Arc<Fact>>,
    pub(crate) after: Option<Arc<Fact>>,
}

/// Everything that was committed.
#[derive(Debug)]
pub(crate) struct History {
    epochs: Vec<Epoch>,
    store: Arc<Store>,
    /// Changes that nobody has looked at yet.
    fresh: Vec<Commit>,
    /// Changes were forgotten before they were read.
    is_torn: bool,
}

impl History {
    /// The history from now on.
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        let mut history = Self {
            epochs: Vec::new(),
            store: Arc::clone(store),
            fresh: Vec::new(),
            is_torn: false,
        };
        history.begin(store);
        history
    }

    /// Another epoch: the storage is this one from now on.
    pub(crate) fn begin(&mut self, store: &Arc<Store>) {
        self.store = Arc::clone(store);
        let shelf = |name: &'static str| {
            let view = store.view(store.shelf(name));
            let version = |stored: &Arc<Stored>| {
                let first = Version {
                    revision: stored.revision(),
                    object: Some(Fact::of(stored)),
                };
                (stored.key().to_owned(), vec![first])
            };
            (name, view.snapshot.iter().map(version).collect())
        };
        self.epochs.push(Epoch {
            shelves: [shelf(MAPS), shelf(SECRETS)],
            read: store.revision(),
            forgotten: 0,
        });
    }

    /// Reads what was committed since.
    pub(crate) fn refresh(&mut self) {
        let Some(epoch) = self.epochs.last_mut() else {
            return;
        };
        if self.store.revision() == epoch.read {
            return;
        }
        let Some((changes, upto)) = self.store.changes_after(epoch.read) else {
            self.is_torn = true;
            return;
        };
        epoch.read = upto;
        for ShelfEvent { shelf, event } in changes {
            let Some((name, keys)) = epoch.shelves.iter_mut().find(|(name, _)| *shelf == **name)
            else {
                continue;
            };
            let Some(shown) = event.current.as_ref().or(event.previous.as_ref()) else {
                continue;
            };
            let key = shown.key().to_owned();
            let versions = keys.entry(key.clone()).or_default();
            let before = versions.last().and_then(|last| last.object.clone());
            let after = event.current.as_ref().map(Fact::of);
            versions.push(Version {
                revision: event.revision,
                object: after.clone(),
            });
            self.fresh.push(Commit {
                shelf: name,
                key,
                before,
                after,
            });
        }
    }

    /// The changes since the last call, and whether some were lost.
    pub(crate) fn take_fresh(&mut self) -> (Vec<Commit>, bool) {
        self.refresh();
        (std::mem::take(&mut self.fresh), self.is_torn)
    }

    /// Forgets the versions that were replaced or removed up to a revision, which every cache and handler
    /// has reached.
    pub(crate) fn forget(&mut self, revision: u64) {
        self.refresh();
        let Some(epoch) = self.epochs.last_mut() else {
            return;
        };
        epoch.forgotten = revision;
        for (shelf, keys) in &mut epoch.shelves {
            for versions in keys.values_mut() {
                let last = versions.last().and_then(|last| last.object.as_ref());
                // A cache that cannot read a config map shows an earlier version of it.
                let is_unread = last.is_some_and(|last| is_poison(last.number.as_deref()));
                if *shelf == MAPS && is_unread {
                    continue;
                }
                let after = versions.partition_point(|one| one.revision <= revision);
                versions.drain(..after.saturating_sub(1));
            }
            let is_there = |one: &Version| one.object.is_some() || one.revision > revision;
            keys.retain(|_, versions| versions.last().is_some_and(is_there));
        }
    }

    /// The number of restores.
    pub(crate) fn epoch(&self) -> usize {
        self.epochs.len()
    }

    fn keys(&self, epoch: usize, shelf: &str) -> Option<&Keys> {
        let shelves = &self.epochs.get(epoch)?.shelves;
        shelves
            .iter()
            .find(|(name, _)| *name == shelf)
            .map(|(_, keys)| keys)
    }

    /// The version of an object, if it was ever committed.
    pub(crate) fn version(
        &self,
        shelf: &str,
        key: &str,
        uid: &str,
        revision: u64,
    ) -> Option<&Arc<Fact>> {
        (0..self.epochs.len()).rev().find_map(|epoch| {
            let versions = self.keys(epoch, shelf)?.get(key)?;
            let same = |one: &&Version| one.revision == revision;
            let found = versions.iter().find(same)?.object.as_ref()?;
            (found.uid == uid).then_some(found)
        })
    }

    /// Returns whether the object of a key was removed after a revision.
    pub(crate) fn is_removed_after(&self, shelf: &str, key: &str, revision: u64) -> bool {
        (0..self.epochs.len()).any(|epoch| {
            let versions = self.keys(epoch, shelf).and_then(|keys| keys.get(key));
            let removed = |one: &Version| one.object.is_none() && one.revision > revision;
            // Every cache has reached what is forgotten: one that lacks the object was told so.
            let is_forgotten = revision <= self.epochs[epoch].forgotten;
            is_forgotten || versions.is_some_and(|versions| versions.iter().any(removed))
        })
    }

    /// The version of this key that follows a revision, in the present epoch.
    pub(crate) fn next_after(&self, shelf: &str, key: &str, revision: u64) -> Option<&Version> {
        let versions = self.keys(self.epochs.len() - 1, shelf)?.get(key)?;
        let at = versions.partition_point(|one| one.revision <= revision);
        versions.get(at)
    }

    /// The objects at a revision of an epoch, by key.
    pub(crate) fn state<'a>(
        &'a self,
        epoch: usize,
        shelf: &str,
        revision: u64,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Fact>)> {
        let keys = self.keys(epoch, shelf).into_iter().flatten();
        keys.filter_map(move |(key, versions)| {
            let after = versions.partition_point(|one| one.revision <= revision);
            let last = versions.get(after.checked_sub(1)?)?;
            Some((key.as_str(), last.object.as_ref()?))
        })
    }

    /// The objects now, by key.
    pub(crate) fn now<'a>(&'a self, shelf: &str) -> impl Iterator<Item = (&'a str, &'a Arc<Fact>)> {
        self.state(self.epochs.len() - 1, shelf, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::generate::script;
    use crate::script::{Change, Verb};
    use crate::settings::Fence;

    #[tokio::test(start_paused = true)]
    async fn what_is_forgotten_leaves_the_last_version_of_each_object() {
        let mut settings = script(0).settings;
        settings.fencing = Fence::Guard;
        let mut cluster = Cluster::start(&settings).await.unwrap();
        let mut history = History::new(cluster.store());
        let change = |name, verb, value| Change {
            namespace: 0,
            name,
            verb,
            value,
        };
        for (name, verb) in [
            (0, Verb::Create),
            (0, Verb::Change),
            (1, Verb::Create),
            (1, Verb::Delete),
        ] {
            assert!(cluster.write(&change(name, verb, 4)).await);
        }
        let now = |history: &History| -> Vec<String> {
            history.now(MAPS).map(|(key, _)| key.to_owned()).collect()
        };
        let revision = cluster.store().revision();
        history.forget(revision);
        let kept = history.keys(0, MAPS).unwrap();
        let kept: Vec<_> = kept.iter().map(|(key, all)| (&**key, all.len())).collect();
        assert_eq!(kept, [("apple/map-0", 1)]);
        assert_eq!(now(&history), ["apple/map-0"]);
        assert!(history.is_removed_after(MAPS, "apple/map-1", 1));
        assert!(!history.is_removed_after(MAPS, "apple/map-0", revision + 1));

        assert!(cluster.write(&change(0, Verb::Delete, 0)).await);
        history.refresh();
        assert!(now(&history).is_empty());
        assert!(history.is_removed_after(MAPS, "apple/map-0", revision));
        let before = history.state(0, MAPS, revision).map(|(key, _)| key);
        assert_eq!(before.collect::<Vec<_>>(), ["apple/map-0"]);
    }
}
