//! The served resources: the built-in ones and those of custom resource definitions.
//!
//! ```text
//! kinform-schema + definitions -> Registry -> find(group, version, plural) -> Resource + Rules
//! ```
//!
//! Routes, reads, writes and discovery look resources up here. An entry is immutable: a changed
//! definition becomes a new entry, and requests under way keep the old one. A resource is one
//! version of a type. All versions share a shelf of the store, except for
//! `horizontalpodautoscalers`, whose versions differ in shape and are stored separately.
//!
//! * `events.rs`: the two views of an event; `conversion.rs`: the versions of a definition between
//!   which a webhook converts.
//! * `rules.rs`: the differences between built-in types in writes and deletes, as data.
//! * `optional.rs`: built-in resources that a server serves only when asked to.
//! * `fields.rs`: the fields that `fieldSelector` supports.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/installer.go`, the strategies under
//! `kubernetes/kubernetes:pkg/registry`, `kubernetes/apiextensions-apiserver:pkg/apiserver`.
//!
//! Complexity: `find` hashes; a change is linear in the resources.

mod conversion;
mod events;
pub(crate) mod fields;
mod optional;
pub(crate) mod rules;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use kinform_api::{GroupKind, GroupResource, Scope};
use serde_json::Value;

use crate::columns::Columns;
use crate::schema::compiled::Compiled;
use crate::schema::convert::Versions;
use crate::shelf_name;
use crate::storage::{SelectableField, Shelf, Store};

pub(crate) use self::conversion::{Conversion, StoredVersions};
pub(crate) use self::rules::{Generation, NameRule, PrefixRule, Propagation, Rules};

/// The origin of a resource. Built-in and custom resources are encoded differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled in.
    BuiltIn,
    /// Defined by a CustomResourceDefinition.
    Custom,
}

/// A served version of a resource.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    /// The group, `""` for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name in paths.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// The scope of its objects: namespaced or cluster-wide.
    pub scope: Scope,
    /// The supported verbs.
    pub verbs: Vec<&'static str>,
    /// Its short names, such as `po`.
    pub short_names: Vec<String>,
    /// The groups of resources that it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Subresources, which have paths of their own.
    pub subresources: Vec<Subresource>,
    /// The origin: built-in or custom.
    pub origin: Origin,
    /// The fields that field selectors support, in addition to name and namespace.
    pub fields: Vec<SelectableField>,
    /// The shelf of the store that holds its objects.
    pub shelf: Shelf,
    /// The hash of the storage version; empty if it is not known.
    pub(crate) storage_version_hash: String,
    pub(crate) rules: Rules,
    pub(crate) shape: Shape,
}

/// A subresource: a part of a resource with a path of its own.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name, such as `status`.
    pub name: &'static str,
    /// The group and version of its kind, if they differ from its parent's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// The kind of its requests and replies.
    pub kind: String,
    /// The supported verbs.
    pub verbs: Vec<&'static str>,
}

/// The type of a resource's objects.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A type of the table.
    Builtin(&'static kinform_schema::Type),
    /// A definition's schema.
    Custom(Arc<CustomShape>),
}

/// The properties of the objects of one version of a definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomShape {
    /// The structural schema, as written in the definition.
    pub(crate) schema: Value,
    /// Set if the schema may have patterns or rules.
    pub(crate) is_costly: bool,
    /// The paths of the scale subresource, if there is one.
    pub(crate) scale: Option<ScalePaths>,
    /// Set while the definition is being deleted: no object may be created.
    pub(crate) terminating: bool,
    /// The columns of its tables.
    pub(crate) columns: Columns,
    /// The warning for clients if the version is deprecated.
    pub(crate) deprecation: Option<String>,
    /// The schema that objects are stored by, if it may differ from this one.
    pub(crate) storage: Option<Arc<Value>>,
    /// The versions in which objects are stored.
    pub(crate) stored: StoredVersions,
    /// The webhook that converts objects between versions; `None` if they differ by schema alone.
    pub(crate) conversion: Option<Arc<Conversion>>,
    /// The compiled schema, built when the first object is checked.
    pub(crate) compiled: Arc<OnceLock<Compiled>>,
}

impl CustomShape {
    /// Returns the schemas between which objects are converted without a webhook.
    pub(crate) fn versions(&self) -> Versions<'_> {
        let stored = self.storage.as_deref();
        Versions {
            shown: &self.schema,
            stored: stored.filter(|_| self.conversion.is_none()),
        }
    }

    /// Returns the patterns and rules of the schema.
    pub(crate) fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| Compiled::of(&self.schema))
    }
}

/// The paths of the scale subresource's values: members joined by dots.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

impl ResourceInfo {
    /// Returns `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns group and plural, as messages name the resource.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.as_str(), self.plural.as_str())
    }

    /// Returns group and kind, as messages name the kind.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.as_str(), self.kind.as_str())
    }

    /// Returns whether its objects live in namespaces.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Returns whether a verb (`list`, `deletecollection`) is served.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Returns the subresource of this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }

    /// Returns whether a subresource is served.
    #[must_use]
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresource(name).is_some()
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.origin == Origin::Custom
    }

    /// Returns the warning for clients of a deprecated version.
    pub(crate) fn deprecation(&self) -> Option<&str> {
        match &self.shape {
            Shape::Custom(custom) => custom.deprecation.as_deref(),
            Shape::Builtin(_) => self.rules.deprecation,
        }
    }

    /// Returns whether objects look the same in both resources and are found by the same selectors.
    /// A definition that is being deleted does not differ by that alone.
    pub(crate) fn serves_as(&self, other: &Self) -> bool {
        let same_shape = match (&self.shape, &other.shape) {
            (Shape::Custom(ours), Shape::Custom(others)) => {
                Arc::ptr_eq(ours, others)
                    || (ours.schema == others.schema
                        && ours.storage == others.storage
                        && ours.stored == others.stored
                        && ours.conversion == others.conversion)
            }
            _ => true,
        };
        same_shape && self.fields == other.fields && self.kind == other.kind
    }

    /// Returns whether its objects are stored. Reviews and bindings are only answered.
    pub(crate) fn is_stored(&self) -> bool {
        self.has_verb("list")
    }

    /// Returns whether `status` is a separate subresource.
    pub(crate) fn has_status(&self) -> bool {
        self.has_subresource("status")
    }

    /// Returns whether it is the resource of the core group with this name.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    /// Returns whether its objects are custom resource definitions.
    pub(crate) fn is_definition(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }
}

/// The result of looking up a group, a version and a plural.
#[derive(Clone, Debug)]
pub enum Found {
    /// A resource.
    Resource(Arc<ResourceInfo>),
    /// The group and version are served, but not this resource.
    UnknownResource,
    /// The group and version are not served.
    UnknownGroupVersion,
}

/// All resources of a server.
#[derive(Debug)]
pub struct Registry {
    table: RwLock<Arc<Table>>,
    /// Held while definitions are turned into resources.
    changing: Mutex<()>,
}

/// An immutable state of the registry.
#[derive(Debug, Default)]
struct Table {
    /// The entries in the order of discovery: built-in ones first, groups together, best versions
    /// first.
    entries: Arc<[Arc<ResourceInfo>]>,
    by_path: HashMap<String, usize>,
}

impl Registry {
    /// Returns a registry of the built-in resources, whose objects `store` holds.
    #[must_use]
    pub fn built_in(store: &Store) -> Self {
        let entries = kinform_schema::resources().iter();
        let entries = entries
            .filter_map(|facts| builtin(store, facts))
            .map(Arc::new);
        let table = Table::new(entries.collect());
        Self {
            table: RwLock::new(Arc::new(table)),
            changing: Mutex::new(()),
        }
    }

    /// Returns all entries, in the order of discovery.
    #[must_use]
    pub fn entries(&self) -> Arc<[Arc<ResourceInfo>]> {
        self.table().entries.clone()
    }

    /// Looks up a resource.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Found {
        let table = self.table();
        if let Some(at) = table.by_path.get(&path(group, version, plural)) {
            return Found::Resource(table.entries[*at].clone());
        }
        let served = kinform_schema::group_versions();
        if served
            .iter()
            .any(|of| of.group == group && of.version == version)
        {
            Found::UnknownResource
        } else {
            Found::UnknownGroupVersion
        }
    }

    /// Looks up a resource by what objects say of themselves: `apps/v1` and `Deployment`.
    #[must_use]
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<ResourceInfo>> {
        let entries = self.entries();
        let mut entries = entries.iter();
        let found = entries.find(|one| *one.kind == *kind && one.api_version() == api_version);
        found.cloned()
    }

    /// Replaces all custom resources. Returns the shelves of those that were served differently
    /// before, whose watches have to end.
    pub(crate) fn set_custom(&self, custom: Vec<ResourceInfo>) -> Vec<Shelf> {
        let keep = |info| Arc::new(self.keep_compiled(info));
        let mut custom: Vec<Arc<ResourceInfo>> = custom.into_iter().map(keep).collect();
        sort_custom(&mut custom);
        let entries = self.entries();
        let differs =
            |new: &Arc<ResourceInfo>| match self.find(&new.group, &new.version, &new.plural) {
                Found::Resource(old) => !old.serves_as(new),
                _ => false,
            };
        let changed = custom
            .iter()
            .filter(|new| differs(new))
            .map(|new| new.shelf)
            .collect();
        let kept = entries.iter().filter(|entry| !entry.is_custom()).cloned();
        let table = Table::new(kept.chain(custom).collect());
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        changed
    }

    /// Keeps the compiled form of a schema that did not change.
    fn keep_compiled(&self, mut info: ResourceInfo) -> ResourceInfo {
        if let Found::Resource(old) = self.find(&info.group, &info.version, &info.plural)
            && let (Shape::Custom(old), Shape::Custom(new)) = (&old.shape, &mut info.shape)
            && old.schema == new.schema
            && let Some(new) = Arc::get_mut(new)
        {
            new.compiled = old.compiled.clone();
        }
        info
    }

    /// Locks the custom resources for a change.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> Arc<Table> {
        self.table
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Table {
    fn new(entries: Vec<Arc<ResourceInfo>>) -> Self {
        let key = |entry: &ResourceInfo| path(&entry.group, &entry.version, &entry.plural);
        let by_path = entries
            .iter()
            .enumerate()
            .map(|(at, entry)| (key(entry), at))
            .collect();
        Self {
            entries: entries.into(),
            by_path,
        }
    }
}

fn path(group: &str, version: &str, plural: &str) -> String {
    format!("{group}/{version}/{plural}")
}

fn builtin(store: &Store, facts: &'static kinform_schema::Resource) -> Option<ResourceInfo> {
    let (group, version) = (facts.group_version.group, facts.group_version.version);
    let subresources = facts.subresources.iter().map(|subresource| Subresource {
        name: subresource.name,
        group_version: subresource.group_version.map(|of| (of.group, of.version)),
        kind: subresource.kind.to_owned(),
        verbs: subresource.verbs.clone(),
    });
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Some(ResourceInfo {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: facts.plural.to_owned(),
        singular: facts.singular.to_owned(),
        kind: facts.kind.to_owned(),
        list_kind: format!("{}List", facts.kind),
        scope: if facts.is_namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        verbs: facts.verbs.clone(),
        short_names: owned(&facts.short_names),
        categories: owned(&facts.categories),
        subresources: subresources.collect(),
        origin: Origin::BuiltIn,
        fields: fields::of_builtin(group, facts.plural),
        shelf: store.shelf(&match (group, version) {
            ("autoscaling", "v1") => format!("{}.v1.{group}", facts.plural),
            ("events.k8s.io", _) => shelf_name("", facts.plural),
            _ => shelf_name(group, facts.plural),
        }),
        storage_version_hash: facts.storage_version_hash.to_owned(),
        rules: Rules::of_builtin(group, facts.plural),
        shape: Shape::Builtin(kinform_schema::builtin(group, version, facts.kind)?),
    })
}

/// Sorts groups by the name of their best version's API service, and versions best first.
fn sort_custom(custom: &mut [Arc<ResourceInfo>]) {
    let mut service: HashMap<String, String> = HashMap::new();
    custom.sort_by(|a, b| version_order(&a.version, &b.version));
    for resource in custom.iter() {
        let name = || format!("{}.{}", resource.version, resource.group);
        service.entry(resource.group.clone()).or_insert_with(name);
    }
    custom.sort_by(|a, b| {
        let by_group = service.get(&a.group).cmp(&service.get(&b.group));
        let by_version = || version_order(&a.version, &b.version);
        by_group
            .then_with(by_version)
            .then_with(|| a.plural.cmp(&b.plural))
    });
}

/// Compares versions, best first: stable, beta, alpha, each with the highest number first; then any
/// other version by name.
///
/// Upstream: `apimachinery:pkg/version/helpers.go`, `CompareKubeAwareVersionStrings`.
pub(crate) fn version_order(a: &str, b: &str) -> std::cmp::Ordering {
    let (left, right) = (parse_version(a), parse_version(b));
    right.cmp(&left).then_with(|| {
        if left.is_none() {
            a.cmp(b)
        } else {
            std::cmp::Ordering::Equal
        }
    })
}

/// Returns stability (alpha 0, beta 1, stable 2), major and minor, or `None` for other names.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, suffix) = rest.split_at(end);
    let major = major.parse().ok()?;
    match suffix.strip_prefix("beta").map(|minor| (1, minor)) {
        Some((stability, minor)) => Some((stability, major, minor.parse().ok()?)),
        None if suffix.is_empty() => Some((2, major, 0)),
        None => Some((0, major, suffix.strip_prefix("alpha")?.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_best_first() {
        let mut versions = [
            "foo1", "v1alpha1", "v2beta1", "v1", "v10", "v1beta2", "v2", "v11beta2",
        ];
        versions.sort_by(|a, b| version_order(a, b));
        let best_first = [
            "v10", "v2", "v1", "v11beta2", "v2beta1", "v1beta2", "v1alpha1", "foo1",
        ];
        assert_eq!(versions, best_first);
    }

    #[test]
    fn built_ins_are_found_by_path() {
        let store = Store::new(crate::storage::HistoryLimits::default());
        let registry = Registry::built_in(&store);
        let Found::Resource(pods) = registry.find("", "v1", "pods") else {
            panic!("no pods")
        };
        assert_eq!(
            (pods.kind.as_str(), pods.list_kind.as_str()),
            ("Pod", "PodList")
        );
        assert!(matches!(
            registry.find("", "v1", "nopes"),
            Found::UnknownResource
        ));
        assert!(matches!(
            registry.find("", "v2", "pods"),
            Found::UnknownGroupVersion
        ));
        assert_eq!(registry.entries().len(), kinform_schema::resources().len());
    }
}
