//! The look-ups of the table.
//!
//! ```text
//! (group, version, kind), Go package and name, number ──▶ Type
//! (group, version, plural) ──▶ Resource
//! ```
//!
//! Complexity: `builtin` and `resource` hash; `named_type` searches the sorted names;
//! `numbered_type` is one read. The first look-up of a process parses the table.
//!
//! Upstream: the scheme of `kubernetes/client-go:kubernetes/scheme`; a real server's discovery.

use crate::parse::table;
use crate::resource::{GroupVersion, Resource};
use crate::types::Type;

/// The type of a built-in kind; group `""` is the core group.
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let kinds = &table().kinds;
    kinds
        .get(&(group, version, kind))
        .map(|number| &table().types[usize::from(*number)])
}

/// The type of a [number](Type::number).
pub fn numbered_type(number: u16) -> Option<&'static Type> {
    table().types.get(usize::from(number))
}

/// Every built-in kind, lists and old versions included: (group, version, kind, type), in no
/// promised order.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static Type)> {
    let table = table();
    table.kinds.iter().map(|((group, version, kind), number)| {
        (*group, *version, *kind, &table.types[usize::from(*number)])
    })
}

/// The type of a Go package and name, as (`k8s.io/apimachinery/pkg/apis/meta/v1`, `ObjectMeta`).
pub fn named_type(package: &str, name: &str) -> Option<&'static Type> {
    let table = table();
    let at = table
        .types
        .binary_search_by(|probe| (probe.package, probe.name).cmp(&(package, name)));
    at.ok().map(|at| &table.types[at])
}

/// Every served resource, in the order of discovery.
pub fn resources() -> &'static [Resource] {
    &table().resources
}

/// Every served group and version, in the order of discovery.
pub fn group_versions() -> &'static [GroupVersion] {
    &table().group_versions
}

/// The resource of a group (`""` is the core), a version and a plural.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    let table = table();
    table
        .by_plural
        .get(&(group, version, plural))
        .map(|at| &table.resources[*at])
}
