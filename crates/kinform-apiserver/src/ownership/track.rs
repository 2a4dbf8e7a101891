//! Updates the ownership of fields after a write.
//!
//! ```text
//! update: stored + new + managers -> managers: the manager owns the fields that it changed, alone
//! apply:  stored + configuration + managers -> object + managers | conflicts
//! ```
//!
//! An applier owns exactly the fields of its last configuration. A field that it no longer contains
//! is removed unless another manager owns it. Changing another manager's field is a conflict,
//! unless forced.
//!
//! A path means the same in all versions of a kind, unless a webhook converts between them
//! (`versions.rs`).
//!
//! Upstream: `structured-merge-diff:merge/update.go`, and the chain of managers in
//! `apimachinery:pkg/util/managedfields/internal`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use kinform_api::mutant;
use serde_json::Value;

use super::check::{is_outdated, reconcile};
use super::compare::{Comparison, compare, outline, paths};
use super::conflict::{self, Conflict};
use super::element::same;
use super::form::{Form, with_named_fields};
use super::managed::{Managed, Manager, Operation, Owned};
use super::merge::{merge, remove};
use super::set::Set;
use super::versions::Others;

/// Fields that have no owners.
const UNTRACKED: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

/// The manager that owns the fields set while an object was not tracked.
const BEFORE: &str = "before-first-apply";

/// A write by a manager.
#[derive(Clone, Debug)]
pub(super) struct Track<'a> {
    pub(super) form: Form<'a>,
    /// The `apiVersion` of the manager's request.
    pub(super) version: &'a str,
    /// The subresource that is written, or `""` for the object itself.
    pub(super) part: &'a str,
    pub(super) serves: Serves<'a>,
    pub(super) manager: &'a str,
    /// The paths that this request cannot write.
    pub(super) resets: Set,
    pub(super) others: Others<'a>,
    pub(super) time: &'a str,
}

/// The served versions of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Serves<'a> {
    /// Versions of a built-in kind of this name.
    Builtin(&'a str),
    /// Any of this group.
    Group(&'a str),
}

impl Serves<'_> {
    fn version(self, version: &str) -> bool {
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        match self {
            Self::Group(of) => group == of,
            Self::Builtin(kind) => {
                kinform_schema::builtin(group, short, kind).is_some()
                    && kinform_schema::group_versions()
                        .iter()
                        .any(|served| served.group == group && served.version == short)
            }
        }
    }
}

/// The reason why a configuration was not applied.
#[derive(Debug)]
pub(super) enum Refusal {
    Conflicts(Vec<Conflict>),
    /// The configuration cannot be merged.
    Broken(String),
}

impl From<String> for Refusal {
    fn from(what: String) -> Self {
        Self::Broken(what)
    }
}

/// An object after an apply, and its managers.
#[derive(Debug)]
pub(super) struct Applied {
    /// The object, or `None` if the configuration changes nothing.
    pub(super) object: Option<Value>,
    pub(super) managed: Managed,
}

impl Track<'_> {
    /// Returns the managers after an update.
    pub(super) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
    ) -> Result<Managed, String> {
        let manager = self.manager(self.manager, Operation::Update);
        let mut managed = self.updated(live, new, managed, manager)?;
        managed.cap();
        Ok(managed)
    }

    fn updated(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        manager: Manager,
    ) -> Result<Managed, String> {
        let mut managed = self.reconciled(managed);
        let difference = compare(self.form, live, new)?.outside(&self.resets);
        let owners = managed.owners.iter();
        let others: Vec<(Manager, String)> = owners
            .map(|(other, owned)| (other.clone(), owned.version.clone()))
            .collect();
        let changed = difference.added.union(difference.modified);
        for (other, version) in &others {
            match self.seen_in(version, (live, new))? {
                Some(seen) => {
                    managed.take(other, &seen.added.union(seen.modified));
                    managed.take(other, &seen.removed);
                }
                None => {
                    managed.take(other, &changed);
                    managed.take(other, &difference.removed);
                }
            }
        }
        let mine = tracked(changed);
        if mine.is_empty() {
            return Ok(managed);
        }
        let version = self.version.to_owned();
        managed.times.insert(manager.clone(), self.time.to_owned());
        let owned = managed.owners.entry(manager).or_insert_with(|| Owned {
            set: Set::default(),
            version: version.clone(),
        });
        owned.set = std::mem::take(&mut owned.set).union(mine);
        owned.version = version;
        Ok(managed)
    }

    /// Applies a configuration. `empty` is an object without any field set.
    pub(super) fn apply(
        &self,
        (empty, live): (&Value, &Value),
        configuration: Cow<'_, Value>,
        managed: Managed,
        force: bool,
    ) -> Result<Applied, Refusal> {
        let managed = if managed.owners.is_empty() {
            let before = self.manager(BEFORE, Operation::Update);
            self.updated(empty, live, managed, before)?
        } else {
            managed
        };
        let mut managed = self.reconciled(managed);
        let manager = self.manager(self.manager, Operation::Apply);
        let said = paths(self.form, &configuration).outside(&self.resets);
        let merged = merge(self.form, Some(live), Some(configuration))?.unwrap_or_default();
        let owned = Owned {
            set: said,
            version: self.version.to_owned(),
        };
        let last = managed.owners.insert(manager.clone(), owned);
        let object = match last {
            Some(last) if !last.set.is_empty() => self.pruned(merged, &managed, &last.set),
            _ => merged,
        };
        let difference = compare(self.form, live, &object)?.outside(&self.resets);
        self.settle((&mut managed, &manager), difference, (live, &object), force)?;
        if let Some(owned) = managed.owners.get_mut(&manager) {
            owned.set = tracked(std::mem::take(&mut owned.set));
            if owned.set.is_empty() {
                managed.owners.remove(&manager);
            }
        }
        let object = (!same(live, &object)).then_some(object);
        if object.is_some() {
            managed.times.insert(manager, self.time.to_owned());
        }
        Ok(Applied { object, managed })
    }

    /// Gives the applier the fields that it changed.
    fn settle(
        &self,
        (managed, manager): (&mut Managed, &Manager),
        difference: Comparison,
        objects: (&Value, &Value),
        force: bool,
    ) -> Result<(), Refusal> {
        let changed = difference.added.union(difference.modified);
        let mut elsewhere = BTreeMap::new();
        for owned in managed.owners.values() {
            if let Some(seen) = self.seen_in(&owned.version, objects)? {
                let changed = seen.added.union(seen.modified);
                elsewhere.insert(owned.version.clone(), changed);
            }
        }
        let changed_in = |version: &str| elsewhere.get(version).unwrap_or(&changed);
        let (conflicts, taken) = conflict::find(managed, manager, changed_in);
        if !force && !conflicts.is_empty() && !mutant!("S8") {
            return Err(Refusal::Conflicts(conflicts));
        }
        for (other, both) in &taken {
            managed.take(other, both);
            managed.take(other, &difference.removed);
        }
        managed.owners.retain(|_, owned| !owned.set.is_empty());
        Ok(())
    }

    /// Returns what a write changes as a manager of another version sees it.
    fn seen_in(
        &self,
        version: &str,
        objects: (&Value, &Value),
    ) -> Result<Option<Comparison>, String> {
        let seen = self.others.compare(version, objects)?;
        Ok(seen.map(|seen| seen.outside(&self.resets)))
    }

    /// Removes the fields that the applier alone owned and that its configuration no longer
    /// contains.
    fn pruned(&self, merged: Value, managed: &Managed, last: &Set) -> Value {
        let named = |set: &Set| with_named_fields(set, Some(self.form));
        let last = named(last);
        // The object itself may be large: its paths are all that decides.
        let outline = outline(self.form, &merged);
        let without =
            |set: &Set| named(&paths(self.form, &remove(self.form, outline.clone(), set)));
        let all = named(&paths(self.form, &merged));
        let owned = managed
            .owners
            .values()
            .fold(Set::default(), |set, owned| set.union(owned.set.clone()));
        let kept = without(&last).union(named(&owned));
        // Fields without an owner stay, even below a removed one.
        let left = without(&all.clone().difference(&kept));
        let removed = all.difference(&left).intersection(&last);
        remove(self.form, merged, &removed)
    }

    /// Returns the paths of `last` that the live object still has unchanged. Conflicts about them
    /// are with kubectl's own client-side applies.
    pub(super) fn as_last_applied(&self, live: &Value, last: &Value) -> Option<Set> {
        let difference = compare(self.form, last, live).ok()?;
        let differs = difference.added.union(difference.modified);
        let said = paths(self.form, last);
        Some(said.difference(&differs).difference(&difference.removed))
    }

    /// Drops the managers of versions that are no longer served, and paths that can no longer be
    /// owned.
    fn reconciled(&self, mut managed: Managed) -> Managed {
        let Self { form, serves, .. } = self;
        managed
            .owners
            .retain(|_, owned| serves.version(&owned.version));
        for owned in managed.owners.values_mut() {
            if is_outdated(*form, &owned.set) {
                owned.set = reconcile(*form, &owned.set);
            }
        }
        managed
    }

    fn manager(&self, name: &str, operation: Operation) -> Manager {
        let name = if name.is_empty() { "unknown" } else { name };
        Manager {
            name: name.to_owned(),
            operation,
            version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => self.version.to_owned(),
            },
            part: self.part.to_owned(),
        }
    }
}

fn tracked(set: Set) -> Set {
    static PATHS: LazyLock<Set> = LazyLock::new(|| Set::of_paths(&UNTRACKED));
    set.difference(&PATHS)
}
