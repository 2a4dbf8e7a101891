//! One cache of a process: its informer, its handlers, and what must hold of them at any time.
//!
//! ```text
//! Informer ─▶ Snapshot { versions, objects, index } ═ history at these versions? labels as the index has them?
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use kinform::{IndexReader, Informer, Snapshot};
use kinform_testkit::checks::event_model::Truth;
use kube_core::DynamicObject;
use serde_json::Value;
use tokio::time::Instant;

use crate::finding::Invariant;
use crate::history::{Fact, History};
use crate::listener::{Listener, Manner};
use crate::network::Wire;
use crate::settings::is_poison;
use crate::shared::{Shared, lock};

/// The objects of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All.
    All,
    /// Those with the label `tier=hot`.
    Hot,
    /// Those of the namespaces that it watches now.
    Named,
}

/// One cache of a process.
pub(crate) struct Cache {
    pub(crate) name: String,
    pub(crate) shelf: &'static str,
    pub(crate) scope: Scope,
    pub(crate) informer: Informer<DynamicObject>,
    pub(crate) index: Option<IndexReader<DynamicObject>>,
    pub(crate) listeners: Vec<Listener>,
    /// Each event is heard.
    pub(crate) is_in_order: bool,
    /// It may have begun with what was on disk.
    pub(crate) is_on_disk: bool,
    /// The last version of each part, and the last epoch in which it went back.
    pub(crate) last: BTreeMap<String, (usize, u64)>,
    pub(crate) added: u32,
}

/// An object of a cache: key, uid, version.
type Shown = (String, String, String);

impl Cache {
    /// Adds a handler.
    pub(crate) fn listen(&mut self, shared: &Arc<Shared>, wire: &Wire, manner: Manner) {
        self.added += 1;
        let name = format!("{} handler {} ({manner:?})", self.name, self.added);
        let (mut listener, handlers) = Listener::new(shared, wire, (name, self.shelf), manner);
        if self.scope == Scope::Named {
            listener.checker.may_grow();
        }
        match self.informer.add_handler(handlers) {
            Ok(registration) => {
                listener.registration = Some(registration);
                self.listeners.push(listener);
            }
            // The process is on its way down.
            Err(_) if self.informer.state().is_stopped() => {}
            Err(error) => shared.find(Invariant::Harness, format!("{}: {error}", self.name)),
        }
    }

    fn holds(&self, namespaces: &[String], (key, fact): (&str, &Fact)) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Hot => fact.tier.as_deref() == Some("hot"),
            Scope::Named => {
                let namespace = key.split('/').next().unwrap_or_default();
                namespaces.iter().any(|one| one == namespace)
            }
        }
    }

    /// Returns whether an object cannot be read: its cache keeps the version before, or no object.
    fn is_unreadable(&self, fact: &Fact) -> bool {
        self.scope == Scope::Hot && is_poison(fact.number.as_deref())
    }

    /// Checks what must hold at any time.
    pub(crate) fn look(&mut self, shared: &Shared) {
        let snapshot = self.informer.snapshot();
        let history = shared.history();
        let broken = self
            .honest(&snapshot, &history)
            .or_else(|| self.indexed(&snapshot))
            .or_else(|| self.gapless());
        drop(history);
        if let Some((invariant, what)) = broken {
            shared.find(invariant, format!("{}: {what}", self.name));
        }
    }

    /// A snapshot is the state at its versions, and they do not go back.
    fn honest(
        &mut self,
        snapshot: &Snapshot<DynamicObject>,
        history: &History,
    ) -> Option<(Invariant, String)> {
        if !snapshot.has_synced() {
            return None;
        }
        let namespaces = self.informer.namespaces();
        let parts: Vec<String> = match self.scope {
            Scope::Named => namespaces,
            _ => vec![String::new()],
        };
        for (part, version) in parts.iter().zip(snapshot.versions()) {
            let Ok(version) = version.parse::<u64>() else {
                return Some((
                    Invariant::I7,
                    format!("it has synced at version {version:?}"),
                ));
            };
            let epoch = history.epoch();
            let (went_back_in, seen) = self.last.get(part).copied().unwrap_or((1, 0));
            let goes_back = version < seen;
            // Once for each restore of the storage.
            if goes_back && went_back_in == epoch {
                return Some((
                    Invariant::I3,
                    format!("its version went from {seen} back to {version}"),
                ));
            }
            let went_back_in = if goes_back { epoch } else { went_back_in };
            self.last.insert(part.clone(), (went_back_in, version));
            let listing = match self.scope {
                Scope::Named => snapshot.in_namespace(part),
                _ => snapshot.list(),
            };
            let mut shown: Vec<Shown> = listing.iter().map(|one| shown(&one)).collect();
            shown.sort_unstable();
            let only = std::slice::from_ref(part);
            let is_state = |epoch: usize| {
                let there = history.state(epoch, self.shelf, version);
                let there = there.filter(|(key, fact)| self.holds(only, (key, fact)));
                let (apart, there): (Vec<_>, Vec<_>) =
                    there.partition(|(_, fact)| self.is_unreadable(fact));
                let mut there: Vec<Shown> = there.into_iter().map(committed).collect();
                there.sort_unstable();
                let is_apart = |key: &str| apart.iter().any(|(one, _)| *one == key);
                let is_same = shown.iter().filter(|one| !is_apart(&one.0)).eq(&there);
                (is_same, there)
            };
            let (is_now, there) = is_state(epoch - 1);
            if !is_now && !(0..epoch - 1).any(|epoch| is_state(epoch).0) {
                let what = format!(
                    "it is at version {version}{}: {}",
                    if part.is_empty() {
                        String::new()
                    } else {
                        format!(" of {part}")
                    },
                    differences(&shown, &there)
                );
                return Some((Invariant::I7, what));
            }
        }
        None
    }

    /// The index is a function of the objects.
    fn indexed(&self, snapshot: &Snapshot<DynamicObject>) -> Option<(Invariant, String)> {
        let index = self.index.as_ref()?;
        let mut by_label: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in snapshot.list().iter() {
            if let Some(tier) = object.label("tier") {
                by_label
                    .entry(tier.into_owned())
                    .or_default()
                    .push(object.key().to_string());
            }
        }
        for tier in ["hot", "cold", "none"] {
            let mut wanted = by_label.remove(tier).unwrap_or_default();
            let found = snapshot.by_index(index.name(), tier);
            let found = found.map(|all| all.iter().map(|one| one.key().to_string()).collect());
            let mut found: Vec<String> = found.unwrap_or_default();
            wanted.sort_unstable();
            found.sort_unstable();
            if wanted != found {
                let what = format!("its index has {found:?} under {tier}, its objects {wanted:?}");
                return Some((Invariant::I16, what));
            }
        }
        None
    }

    /// A queue in order leaves no version out, unless it listed again.
    fn gapless(&self) -> Option<(Invariant, String)> {
        let stats = self.informer.stats();
        // A first list may have replaced what was on disk.
        let has_listed = stats.relists > 0 || self.is_on_disk && stats.resumed == 0;
        if !self.is_in_order || self.scope != Scope::All || has_listed {
            return None;
        }
        let quick = self.listeners.iter().filter(|one| {
            let registration = one.registration.as_ref();
            // Whether it fell behind is counted when it has caught up.
            registration.is_some_and(|one| one.lag() == 0 && one.times_behind() == 0)
        });
        let gap = quick.filter_map(|one| lock(&one.gap).clone()).next()?;
        Some((Invariant::I12, gap))
    }

    /// An object of which a quick handler has heard nothing since this time.
    pub(crate) fn untold(&self, since: Instant) -> Option<String> {
        let all = self.informer.snapshot().list();
        self.listeners
            .iter()
            .filter(|one| one.is_quick)
            .find_map(|listener| {
                let told = lock(&listener.told);
                let is_old = |key: &String| told.get(key).is_none_or(|at| *at < since);
                let old = all.iter().map(|one| one.key().to_string()).find(is_old)?;
                Some(format!("{} has not heard of {old}", listener.name))
            })
    }

    /// The differences from the server, by bytes; `None` if there are none.
    pub(crate) fn behind(&self, history: &History) -> Option<String> {
        let namespaces = self.informer.namespaces();
        let snapshot = self.informer.snapshot();
        if !snapshot.has_synced() {
            return Some(format!(
                "{} has not synced: {}",
                self.name,
                self.informer.state()
            ));
        }
        let there = history.now(self.shelf);
        let there = there.filter(|(key, fact)| self.holds(&namespaces, (key, fact)));
        let (apart, there): (BTreeMap<&str, &Arc<Fact>>, BTreeMap<_, _>) =
            there.partition(|(_, fact)| self.is_unreadable(fact));
        if let Some(what) = self.unmarked(&apart) {
            return Some(what);
        }
        let all = snapshot.list();
        // Of those that cannot be read it may have the version before.
        let (kept, listing): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|one| apart.contains_key(one.key().to_string().as_str()));
        if listing.len() != there.len() {
            let mut shown: Vec<Shown> = listing.iter().map(shown).collect();
            shown.sort_unstable();
            let there: Vec<Shown> = there
                .iter()
                .map(|(key, fact)| committed((key, fact)))
                .collect();
            return Some(format!(
                "{} ({}): {}",
                self.name,
                self.informer.state(),
                differences(&shown, &there)
            ));
        }
        for object in &listing {
            let key = object.key().to_string();
            let Some(fact) = there.get(key.as_str()) else {
                return Some(format!("{}: {key} is gone from the server", self.name));
            };
            let revision = fact.stored.revision().to_string();
            if object.resource_version() != revision || object.uid() != fact.uid {
                let version = object.resource_version();
                return Some(format!(
                    "{} ({}): {key} is at {version}, the server's at {revision}",
                    self.name,
                    self.informer.state()
                ));
            }
            if let Some(what) = self.unlike(object, fact) {
                return Some(what);
            }
        }
        let there = there.iter().map(|(key, fact)| committed((key, fact)));
        self.unheard(there.chain(kept.iter().map(shown)))
    }

    /// Objects that cannot be read and are not quarantined, or the other way round.
    fn unmarked(&self, apart: &BTreeMap<&str, &Arc<Fact>>) -> Option<String> {
        let quarantined = self.informer.quarantined(usize::MAX);
        let quarantined = quarantined.iter().filter_map(|one| one.key.as_ref());
        let quarantined: Vec<String> = quarantined.map(ToString::to_string).collect();
        let apart: Vec<&str> = apart.keys().copied().collect();
        (quarantined != apart).then(|| {
            format!(
                "{}: {quarantined:?} are quarantined, {apart:?} cannot be read",
                self.name
            )
        })
    }

    /// An object whose bytes are not the server's.
    fn unlike(&self, object: &kinform::ObjRef<'_, DynamicObject>, fact: &Fact) -> Option<String> {
        // Those are transformed.
        if self.scope == Scope::Hot {
            return None;
        }
        let mine = serde_json::from_slice(&object.to_json()).map(plain);
        let theirs = plain(fact.stored.value());
        (mine.as_ref().ok() != Some(&theirs)).then(|| {
            let (key, revision) = (object.key(), fact.stored.revision());
            format!(
                "{}: {key} at {revision} is {mine:?}, the server's {theirs}",
                self.name
            )
        })
    }

    /// A handler whose picture is not the cache's.
    fn unheard(&self, there: impl Iterator<Item = Shown>) -> Option<String> {
        let truth = Truth::of_objects(there);
        self.listeners.iter().find_map(|listener| {
            if !listener.checker.has_synced() {
                return Some(format!(
                    "{} has not heard the end of the first list",
                    listener.name
                ));
            }
            let difference = listener.checker.compare(&truth).err()?;
            Some(format!("{}: {difference}", listener.name))
        })
    }
}

fn shown(object: &kinform::ObjRef<'_, DynamicObject>) -> Shown {
    (
        object.key().to_string(),
        object.uid().to_owned(),
        object.resource_version().to_owned(),
    )
}

fn committed((key, fact): (&str, &Arc<Fact>)) -> Shown {
    (
        key.to_owned(),
        fact.uid.clone(),
        fact.stored.revision().to_string(),
    )
}

/// The first differences of two lists in words.
fn differences(shown: &[Shown], there: &[Shown]) -> String {
    let line =
        |(key, uid, version): &Shown| format!("{key} {} at {version}", uid.get(..4).unwrap_or(uid));
    let only = |these: &[Shown], those: &[Shown]| -> Vec<String> {
        these
            .iter()
            .filter(|one| !those.contains(one))
            .take(4)
            .map(line)
            .collect()
    };
    format!(
        "only in the cache {:?}, only on the server {:?}",
        only(shown, there),
        only(there, shown)
    )
}

/// An object without what caches leave out, and without empty parts.
fn plain(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.remove("kind");
        object.remove("apiVersion");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    if let Value::Object(object) = value {
        object.values_mut().for_each(strip);
        object.retain(|_, value| match value {
            Value::Null => false,
            Value::Object(object) => !object.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        });
    }
}
