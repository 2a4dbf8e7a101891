//! The resources that the server serves, as data.
//!
//! ```text
//! kinform-schema's table, custom definitions ──▶ Registry ──find(group, version, plural)──▶ ResourceInfo
//! ```
//!
//! Routes, reads, writes and discovery ask here what a resource is; none of them knows a kind by name.
//! Built-in resources stand from the start, custom ones come and go with their definitions. An entry
//! never changes: a changed definition is another entry, and requests under way keep theirs.
//!
//! Upstream: `apiserver:pkg/endpoints/installer.go`, `apiextensions-apiserver:pkg/apiserver`.

use std::sync::{Arc, PoisonError, RwLock};

use kinform_api::{GroupKind, GroupResource, Scope};

use crate::storage::{SelectableField, Shelf, Store};

/// Where a resource comes from; built-in and custom ones are encoded differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled in.
    BuiltIn,
    /// Made by a CustomResourceDefinition.
    Custom,
}

/// A resource that is served in one version.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    /// The group, `""` for the core.
    pub group: Box<str>,
    /// The version.
    pub version: Box<str>,
    /// The name in paths.
    pub plural: Box<str>,
    /// The name of one.
    pub singular: Box<str>,
    /// The kind of its objects.
    pub kind: Box<str>,
    /// The kind of its lists.
    pub list_kind: Box<str>,
    /// Whether its objects have a namespace.
    pub scope: Scope,
    /// What can be done with it.
    pub verbs: Vec<Box<str>>,
    /// Subresources that are served.
    pub subresources: Vec<Box<str>>,
    /// Where it comes from.
    pub origin: Origin,
    /// What field selectors may ask, besides name and namespace.
    pub fields: Vec<SelectableField>,
    /// Where its objects are kept; shared by all versions.
    pub shelf: Shelf,
}

impl ResourceInfo {
    /// `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Group and plural.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.plural)
    }

    /// Group and kind.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&*self.group, &*self.kind)
    }

    /// Whether a verb (`list`, `deletecollection`) is served.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| &**known == verb)
    }

    /// Whether a subresource is served.
    #[must_use]
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|known| &**known == name)
    }
}

/// What a group, a version and a plural lead to.
#[derive(Clone, Debug)]
pub enum Found {
    /// A resource.
    Resource(Arc<ResourceInfo>),
    /// A served group and version without this resource.
    UnknownResource,
    /// Nothing that is served.
    UnknownGroupVersion,
}

/// All resources of a server.
#[derive(Debug)]
pub struct Registry {
    entries: RwLock<Arc<[Arc<ResourceInfo>]>>,
}

impl Registry {
    /// The built-in resources, whose objects `store` keeps.
    #[must_use]
    pub fn built_in(store: &Store) -> Self {
        let entries = kinform_schema::resources()
            .iter()
            .filter(|resource| resource.has_verb("list"))
            .map(|resource| Arc::new(from_schema(store, resource)));
        Self {
            entries: RwLock::new(entries.collect()),
        }
    }

    /// All entries, in the order of discovery.
    #[must_use]
    pub fn entries(&self) -> Arc<[Arc<ResourceInfo>]> {
        self.entries
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Looks a resource up.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Found {
        let mut known = false;
        for entry in self.entries().iter() {
            if &*entry.group == group && &*entry.version == version {
                known |= entry.origin == Origin::BuiltIn;
                if &*entry.plural == plural {
                    return Found::Resource(entry.clone());
                }
            }
        }
        if known {
            Found::UnknownResource
        } else {
            Found::UnknownGroupVersion
        }
    }

    /// Adds resources, replacing those with the same group, version and plural.
    pub fn install(&self, added: Vec<Arc<ResourceInfo>>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let same = |a: &ResourceInfo, b: &ResourceInfo| {
            a.group == b.group && a.version == b.version && a.plural == b.plural
        };
        let kept = entries
            .iter()
            .filter(|old| !added.iter().any(|new| same(old, new)))
            .cloned();
        *entries = kept.chain(added.iter().cloned()).collect();
    }

    /// Takes all versions of a resource away.
    pub fn remove(&self, group: &str, plural: &str) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let kept = entries
            .iter()
            .filter(|old| &*old.group != group || &*old.plural != plural);
        *entries = kept.cloned().collect();
    }
}

fn from_schema(store: &Store, resource: &'static kinform_schema::Resource) -> ResourceInfo {
    let group = resource.group_version.group;
    ResourceInfo {
        group: group.into(),
        version: resource.group_version.version.into(),
        plural: resource.plural.into(),
        singular: resource.singular.into(),
        kind: resource.kind.into(),
        list_kind: format!("{}List", resource.kind).into(),
        scope: if resource.is_namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        verbs: resource.verbs.iter().map(|verb| Box::from(*verb)).collect(),
        subresources: resource
            .subresources
            .iter()
            .map(|sub| Box::from(sub.name))
            .collect(),
        origin: Origin::BuiltIn,
        fields: selectable_fields(group, resource.plural),
        shelf: store.shelf(&shelf_name(group, resource.plural)),
    }
}

/// The name of the shelf of a resource. Events have one storage in two groups.
#[must_use]
pub fn shelf_name(group: &str, plural: &str) -> String {
    match group {
        "" => plural.to_owned(),
        "events.k8s.io" => plural.to_owned(),
        _ => format!("{plural}.{group}"),
    }
}

/// Upstream: the `AddFieldLabelConversionFunc` calls of `kubernetes/pkg/apis/*/v1/conversion.go`.
fn selectable_fields(group: &str, plural: &str) -> Vec<SelectableField> {
    let names: &[&str] = match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source.component",
            "type",
        ],
        _ => &[],
    };
    names
        .iter()
        .map(|name| SelectableField::new(name))
        .collect()
}
