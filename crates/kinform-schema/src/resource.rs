//! The built-in resources that a server serves, as its discovery lists them.
//!
//! ```text
//! (group, version, plural) -> Resource: kind, scope, verbs, short names, subresources
//! ```
//!
//! Order is that of a real server's discovery: core first, then groups as `/apis` lists them,
//! preferred version first. Kinds of versions that are no longer served (`extensions/v1beta1`) have
//! types but no resources.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/installer.go`.

/// A served group and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupVersion {
    /// The group, `""` for the core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
}

/// A resource that a server serves.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its group and version.
    pub group_version: GroupVersion,
    /// Its name in paths: the plural, in small letters.
    pub plural: &'static str,
    /// Its singular name.
    pub singular: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// True if its objects live in namespaces.
    pub is_namespaced: bool,
    /// The verbs that it supports, in the order of discovery.
    pub verbs: Vec<&'static str>,
    /// Its short names, as `po`.
    pub short_names: Vec<&'static str>,
    /// The groups of resources that it is in, as `all`.
    pub categories: Vec<&'static str>,
    /// The hash by which a client sees that the stored version changed; empty if it has no storage.
    pub storage_version_hash: &'static str,
    /// Its subresources, in the order of discovery.
    pub subresources: Vec<Subresource>,
}

/// A part of a resource with a path of its own.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name, as `status`.
    pub name: &'static str,
    /// The group and version of its kind, if they differ from its parent's.
    pub group_version: Option<GroupVersion>,
    /// The kind of its requests and replies.
    pub kind: &'static str,
    /// The verbs that it supports.
    pub verbs: Vec<&'static str>,
}

impl Resource {
    /// Returns whether it supports the verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Its subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }
}
