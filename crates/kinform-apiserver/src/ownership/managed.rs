//! The owners of an object's fields: its `metadata.managedFields`.
//!
//! ```text
//! [entry] <──▶ Managed { manager, operation, version, part -> Set, time }
//! ```
//!
//! An applier is one manager in all versions of the kind. An updater is a separate manager in each
//! version. Both are separate managers for each subresource. Entries are sorted by operation, time
//! and name.
//!
//! BOUND: ten updaters an object; older ones are merged into one (`ancient-changes`).
//!
//! Upstream: `apimachinery:pkg/util/managedfields/internal/{managedfields,capmanagers}.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::Set;
use crate::budget::{OBJECT, encoded_size};
use crate::object::text;

/// BOUND: the number of updaters that an object has entries of.
const MAX_UPDATERS: usize = 10;
/// Paths whose entries are small next to an object's bound.
const MEASURED: usize = 1000;
const OLD_UPDATERS: &str = "ancient-changes";

/// The identity of a manager that owns fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// The version, for updaters only: an applier may change it.
    pub(super) version: String,
    /// The subresource that it writes, or `""` for the object itself.
    pub(super) part: String,
}

/// The operation by which a manager became an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The fields that a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) set: Set,
    /// The version of the kind that the paths refer to.
    pub(super) version: String,
}

/// The managers of an object and the fields that each owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managed {
    pub(super) owners: BTreeMap<Manager, Owned>,
    pub(super) times: BTreeMap<Manager, String>,
}

impl Managed {
    /// Parses entries.
    ///
    /// # Errors
    /// Names the entry that is invalid.
    pub(super) fn read(entries: &Value) -> Result<Self, String> {
        let mut managed = Self::default();
        for (place, entry) in entries.as_array().into_iter().flatten().enumerate() {
            let operation = match text(entry, &["operation"]) {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let version = text(entry, &["apiVersion"]);
            if version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text(entry, &["fieldsType"]) {
                "FieldsV1" => {}
                "" => {
                    return Err(format!(
                        "missing fieldsType in managed fields entry {place}"
                    ));
                }
                other => {
                    let what = format!("invalid fieldsType {other:?} in managed fields entry");
                    return Err(format!("{what} {place}"));
                }
            }
            let manager = Manager {
                name: text(entry, &["manager"]).to_owned(),
                operation,
                version: match operation {
                    Operation::Apply => String::new(),
                    Operation::Update => version.to_owned(),
                },
                part: text(entry, &["subresource"]).to_owned(),
            };
            let set = match entry.get("fieldsV1") {
                None | Some(Value::Null) => Set::default(),
                Some(fields) => Set::read(fields)?,
            };
            match text(entry, &["time"]) {
                "" => _ = managed.times.remove(&manager),
                time => _ = managed.times.insert(manager.clone(), time.to_owned()),
            }
            let version = version.to_owned();
            managed.owners.insert(manager, Owned { set, version });
        }
        Ok(managed)
    }

    /// Returns whether the entries can be stored together with an object. Few paths are not
    /// measured: an object that is too large with them is refused when it is stored.
    pub(super) fn fits_beside(&self, object: &Value) -> bool {
        let owned = || self.owners.values().map(|owned| &owned.set);
        if owned().map(Set::count).sum::<usize>() < MEASURED {
            return true;
        }
        owned().map(encoded_size).sum::<usize>() + encoded_size(object) <= OBJECT
    }

    /// Returns the entries, or `None` if no field has an owner.
    pub(super) fn entries(&self) -> Option<Value> {
        let mut order: Vec<(&Manager, &Owned, &str)> = self
            .owners
            .iter()
            .map(|(manager, owned)| (manager, owned, self.time(manager)))
            .collect();
        order.sort_by(|(a, owned_a, time_a), (b, owned_b, time_b)| {
            let key = |manager: &Manager| manager.operation;
            key(a)
                .cmp(&key(b))
                .then_with(|| time_a.cmp(time_b))
                .then_with(|| a.name.cmp(&b.name))
                .then_with(|| owned_a.version.cmp(&owned_b.version))
                .then_with(|| a.part.cmp(&b.part))
        });
        let entry = |(manager, owned, time): (&Manager, &Owned, &str)| {
            let mut entry = Map::new();
            let mut put = |name: &str, value: &str| {
                if !value.is_empty() {
                    entry.insert(name.to_owned(), Value::from(value));
                }
            };
            put("manager", &manager.name);
            put("operation", manager.operation.text());
            put("apiVersion", &owned.version);
            put("time", time);
            put("fieldsType", "FieldsV1");
            put("subresource", &manager.part);
            entry.insert("fieldsV1".to_owned(), owned.set.value());
            Value::Object(entry)
        };
        let entries: Vec<Value> = order.into_iter().map(entry).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    fn time(&self, manager: &Manager) -> &str {
        self.times.get(manager).map_or("", String::as_str)
    }

    /// Takes paths away from a manager. A manager without fields is removed.
    pub(super) fn take(&mut self, manager: &Manager, paths: &Set) {
        if let Some(owned) = self.owners.get_mut(manager)
            && owned.set.meets(paths)
        {
            owned.set = std::mem::take(&mut owned.set).difference(paths);
            if owned.set.is_empty() {
                self.owners.remove(manager);
            }
        }
    }

    /// Merges the oldest updaters until their number is within the bound.
    pub(super) fn cap(&mut self) {
        let is_update = |manager: &&Manager| manager.operation == Operation::Update;
        let mut updaters: Vec<Manager> = self.owners.keys().filter(is_update).cloned().collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATERS {
            return;
        }
        updaters.sort_by(|a, b| self.time(a).cmp(self.time(b)).then_with(|| a.cmp(b)));
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let version = manager.version.clone();
            let Some(oldest) = first.get(&version) else {
                first.insert(version, manager);
                continue;
            };
            let bucket = Manager {
                name: OLD_UPDATERS.to_owned(),
                operation: Operation::Update,
                version,
                part: String::new(),
            };
            if !self.owners.contains_key(&bucket)
                && let Some(owned) = self.owners.remove(oldest)
            {
                self.owners.insert(bucket.clone(), owned);
            }
            let time = self.times.get(&manager).cloned();
            if let (Some(owned), true) = (self.owners.get(&manager).cloned(), manager != bucket) {
                if let Some(old) = self.owners.get_mut(&bucket) {
                    old.set = std::mem::take(&mut old.set).union(owned.set);
                }
                self.owners.remove(&manager);
            }
            count -= 1;
            self.times.extend(time.map(|time| (bucket, time)));
        }
    }
}

/// The name of a manager in messages about conflicts.
impl std::fmt::Display for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.part.is_empty() {
            write!(f, " with subresource {:?}", self.part)?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.version),
        }
    }
}

/// Returns whether entries ask to remove all ownership.
pub(super) fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => *entry == json!({}),
        _ => false,
    }
}

/// Restores the times of entries if nothing else changed. The resource versions of both objects are
/// equal.
pub(crate) fn keep_times(new: &mut Value, old: &Value) {
    fn entries(object: &Value) -> Option<&Vec<Value>> {
        object.get("metadata")?.get("managedFields")?.as_array()
    }
    let (Some(after), Some(before)) = (entries(new), entries(old)) else {
        return;
    };
    let untimed = |entry: &Value| {
        let mut entry = entry.clone();
        entry.as_object_mut().map(|entry| entry.remove("time"));
        entry
    };
    let is_same = after.len() == before.len()
        && after != before
        && after
            .iter()
            .zip(before)
            .all(|(a, b)| untimed(a) == untimed(b));
    if !is_same {
        return;
    }
    let kept = Value::from(before.clone());
    let changed = std::mem::replace(&mut new["metadata"]["managedFields"], kept);
    if new != old {
        new["metadata"]["managedFields"] = changed;
    }
}
