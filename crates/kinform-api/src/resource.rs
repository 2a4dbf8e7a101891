//! Names of types: group, version, kind and resource, and the URL paths made of them.
//!
//! ```text
//! ("apps", "v1", "deployments") + namespace ──▶ /apis/apps/v1/namespaces/shop/deployments
//! ```
//!
//! A *kind* is the type that an object states (`Deployment`), a *resource* the collection in which
//! a server keeps it (`deployments`). The core group is the empty string. This module does not know
//! which types exist.
//! Upstream: `apimachinery:pkg/runtime/schema/group_version.go`.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Noun};

/// The characters of a path segment that need escaping.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A group and a version: `apps/v1`, or `v1` for the core group.
///
/// Upstream: `schema.GroupVersion`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupVersion {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
}

/// A group, a version and a kind: `apps/v1, Kind=Deployment`.
///
/// Upstream: `schema.GroupVersionKind`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, as objects name it.
    pub kind: String,
}

/// A group, a version and a resource: the parts of a URL path.
///
/// Upstream: `schema.GroupVersionResource`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupVersionResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource: the plural in lower case.
    pub resource: String,
}

/// A group and a resource, displayed as `deployments.apps` or `pods`.
///
/// Upstream: `schema.GroupResource`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The resource: the plural in lower case.
    pub resource: String,
}

/// A group and a kind, displayed as `Deployment.apps` or `Pod`.
///
/// Upstream: `schema.GroupKind`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The kind, as objects name it.
    pub kind: String,
}

/// The type that every object states: `apiVersion` and `kind`.
///
/// Upstream: `metav1.TypeMeta`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeMeta {
    /// `apps/v1`, or `v1` for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// The scope of a resource: its objects live in namespaces, or belong to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Each object has a namespace.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

impl GroupVersion {
    /// A group and a version.
    #[must_use]
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
        }
    }

    /// The same group and version with a kind.
    #[must_use]
    pub fn with_kind(self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group,
            version: self.version,
            kind: kind.into(),
        }
    }

    /// The same group and version with a resource.
    #[must_use]
    pub fn with_resource(self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group,
            version: self.version,
            resource: resource.into(),
        }
    }
}

impl FromStr for GroupVersion {
    type Err = Error;

    /// Parses an `apiVersion`.
    ///
    /// # Errors
    /// More than one slash.
    ///
    /// Upstream: `schema.ParseGroupVersion`, with its message.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if version.contains('/') {
            let message = format!("unexpected GroupVersion string: {text}");
            return Err(Error::new(Noun::ApiVersion, message));
        }
        Ok(Self::new(group, version))
    }
}

impl GroupVersionKind {
    /// A group, a version and a kind.
    #[must_use]
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        GroupVersion::new(group, version).with_kind(kind)
    }

    /// `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The type that objects of this kind state.
    #[must_use]
    pub fn type_meta(&self) -> TypeMeta {
        TypeMeta {
            api_version: self.api_version(),
            kind: self.kind.clone(),
        }
    }

    /// The same without the version.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }
}

impl GroupVersionResource {
    /// A group, a version and a resource.
    #[must_use]
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        resource: impl Into<String>,
    ) -> Self {
        GroupVersion::new(group, version).with_resource(resource)
    }

    /// `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The same without the version.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }

    /// The URL path of the collection, of one namespace or of all; segments are escaped.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path = String::from(if self.group.is_empty() {
            "/api"
        } else {
            "/apis"
        });
        if !self.group.is_empty() {
            push_segment(&mut path, &self.group);
        }
        push_segment(&mut path, &self.version);
        if let Some(namespace) = namespace.filter(|n| !n.is_empty()) {
            path.push_str("/namespaces");
            push_segment(&mut path, namespace);
        }
        push_segment(&mut path, &self.resource);
        path
    }

    /// The URL path of one object; segments are escaped.
    #[must_use]
    pub fn object_path(&self, namespace: Option<&str>, name: &str) -> String {
        let mut path = self.path(namespace);
        push_segment(&mut path, name);
        path
    }
}

impl GroupResource {
    /// A group and a resource.
    #[must_use]
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl GroupKind {
    /// A group and a kind.
    #[must_use]
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

impl TypeMeta {
    /// An `apiVersion` and a kind.
    #[must_use]
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    /// Group, version and kind.
    ///
    /// # Errors
    /// The `apiVersion` has more than one slash.
    pub fn group_version_kind(&self) -> Result<GroupVersionKind, Error> {
        Ok(self
            .api_version
            .parse::<GroupVersion>()?
            .with_kind(&self.kind))
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&api_version(&self.group, &self.version))
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}, Resource={}",
            self.group, self.version, self.resource
        )
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.resource, &self.group)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.kind, &self.group)
    }
}

fn write_dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    Ok(())
}

fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

fn push_segment(path: &mut String, segment: &str) {
    path.push('/');
    path.extend(utf8_percent_encode(segment, SEGMENT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_the_group_the_namespace_and_the_object() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let deployments = GroupVersionResource::new("apps", "v1", "deployments");
        assert_eq!(pods.path(None), "/api/v1/pods");
        assert_eq!(pods.path(Some("shop")), "/api/v1/namespaces/shop/pods");
        assert_eq!(pods.path(Some("")), "/api/v1/pods");
        assert_eq!(
            deployments.path(Some("a")),
            "/apis/apps/v1/namespaces/a/deployments"
        );
        assert_eq!(
            deployments.object_path(Some("a"), "web"),
            "/apis/apps/v1/namespaces/a/deployments/web"
        );
        let roles = GroupVersionResource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
        assert_eq!(
            roles.object_path(None, "system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"
        );
    }

    #[test]
    fn a_segment_cannot_leave_its_place() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        assert_eq!(
            pods.path(Some("a/../b?x#y")),
            "/api/v1/namespaces/a%2F..%2Fb%3Fx%23y/pods"
        );
    }

    #[test]
    fn api_versions_read_and_print() {
        for (text, group, version) in [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("", "", "")] {
            let read: GroupVersion = text.parse().unwrap();
            assert_eq!(
                (read.group.as_str(), read.version.as_str()),
                (group, version)
            );
            assert_eq!(read.to_string(), text);
        }
        let error = "a/b/c".parse::<GroupVersion>().unwrap_err();
        assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn names_print_as_upstream_does() {
        let gvk = TypeMeta::new("apps/v1", "Deployment")
            .group_version_kind()
            .unwrap();
        assert_eq!(gvk.to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(gvk.group_kind().to_string(), "Deployment.apps");
        assert_eq!(gvk.type_meta().api_version, "apps/v1");
        let gvr = GroupVersionResource::new("", "v1", "pods");
        assert_eq!(gvr.to_string(), "/v1, Resource=pods");
        assert_eq!(gvr.group_resource().to_string(), "pods");
        assert_eq!(
            GroupResource::new("apps", "deployments").to_string(),
            "deployments.apps"
        );
    }
}
