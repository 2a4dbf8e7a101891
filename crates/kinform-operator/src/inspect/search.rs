//! The search for objects in all caches.
//!
//! ```text
//! q, cache, namespace ─▶ a walk over keys ─▶ the first 200 in the order of their keys
//! ```
//!
//! The walk reads keys only: nothing is decoded or copied but the keys that are shown.
//! Complexity: O(objects) a search.
//!
//! Upstream counterpart: none.

use std::collections::BinaryHeap;

use kinform::KeyRef;
use serde::{Deserialize, Serialize};

use super::numbers::{Head, ROWS};
use super::program::{Cache, Program, type_name};
use super::sight::Sight;

/// Objects that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Objects {
    /// The head.
    #[serde(flatten)]
    pub head: Head,
    /// The first 200 objects in the order of cache, namespace and name.
    pub objects: Vec<ObjectRow>,
    /// The number of objects that were found.
    pub found: u64,
    /// The number of objects that were looked at: those that the caller may list.
    pub searched: u64,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ObjectRow {
    /// The cache.
    pub cache: String,
    /// The resource.
    pub resource: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// The objects that a request asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) cache: Option<String>,
    pub(super) namespace: Option<String>,
    /// A part of the name, or `part of namespace/part of name`; without regard to case.
    pub(super) q: String,
}

/// The objects for this caller.
pub(super) fn search(program: &Program, sight: &Sight, wanted: &Wanted) -> Objects {
    let mut view = Objects {
        head: Head::of(&program.name),
        ..Objects::default()
    };
    for cache in program.caches() {
        let is_wanted = wanted.cache.as_ref().is_none_or(|id| *id == cache.id);
        if is_wanted && sight.sees_cache(cache.informer.resource()) {
            look_through(&cache, sight, wanted, &mut view);
        }
    }
    view
}

fn look_through(cache: &Cache, sight: &Sight, wanted: &Wanted, view: &mut Objects) {
    let info = cache.informer.resource();
    let sees_all = sight.sees_all(&info.resource);
    let pattern = Pattern::new(&wanted.q);
    let left = ROWS.saturating_sub(view.objects.len());
    // The last of them is on top, and gives way to an earlier one.
    let mut first: BinaryHeap<(&str, &str)> = BinaryHeap::new();
    let listing = cache.informer.list();
    for object in listing.objects() {
        let key = object.key_ref();
        let namespace = Some(key.namespace).filter(|namespace| !namespace.is_empty());
        if !sees_all && !sight.sees(&info.resource, namespace) {
            continue;
        }
        view.searched += 1;
        let is_there = wanted
            .namespace
            .as_ref()
            .is_none_or(|one| one == key.namespace);
        if !is_there || !pattern.matches(key) {
            continue;
        }
        view.found += 1;
        let place = (key.namespace, key.name);
        if first.len() < left {
            first.push(place);
        } else if let Some(mut last) = first.peek_mut()
            && place < *last
        {
            *last = place;
        }
    }
    let rows = first.into_sorted_vec().into_iter();
    view.objects.extend(rows.map(|(namespace, name)| ObjectRow {
        cache: cache.id.clone(),
        resource: type_name(info),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        name: name.to_owned(),
    }));
}

/// Parts of a namespace and of a name, in lower case.
struct Pattern {
    namespace: String,
    name: String,
}

impl Pattern {
    fn new(q: &str) -> Self {
        let q = q.trim().to_lowercase();
        let (namespace, name) = q.split_once('/').unwrap_or(("", &q));
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn matches(&self, key: KeyRef<'_>) -> bool {
        has(key.name, &self.name) && has(key.namespace, &self.namespace)
    }
}

/// Returns whether a text has a part that is in lower case.
fn has(text: &str, part: &str) -> bool {
    if part.is_empty() {
        return true;
    }
    // Names are in lower case, nearly all.
    match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => text.to_ascii_lowercase().contains(part),
        false => text.contains(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_of_the_name_or_of_both() {
        let key = KeyRef {
            namespace: "kube-system",
            name: "system:Node-Proxier",
        };
        for (q, want) in [
            ("", true),
            ("node", true),
            ("NODE-p", true),
            ("kube/node", true),
            ("system/", true),
            ("kube", false),
            ("shop/node", false),
            ("kube/q", false),
        ] {
            assert_eq!(Pattern::new(q).matches(key), want, "{q}");
        }
    }
}
