//! The last version that the terms of controllers wrote of each resource.
//!
//! ```text
//! reply to a write → LastWrites ──released lease──▶ successor: waits for these versions
//! ```
//!
//! Only resources count that the controller's caches hold.
//! INVARIANT: a version only grows; a resource with a write of unknown version stays unknown.
//!
//! Upstream counterpart: none.
//! Complexity: O(log resources) a write.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use kinform_api::{GroupResource, ResourceVersion};

/// The last version that was written of each resource; see [`Reconciler::last_writes`].
///
/// [`Reconciler::last_writes`]: super::Reconciler::last_writes
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWrites(
    // BOUND: the resources of the caches of its controllers.
    BTreeMap<GroupResource, Option<ResourceVersion>>,
);

impl LastWrites {
    /// Adds a write. `None` is a version that is not known: of a delete, or of a lost reply.
    pub fn add(&mut self, resource: &GroupResource, version: Option<&ResourceVersion>) {
        // A version without an order cannot be waited for.
        let version = version.filter(|version| version.compare(version).is_ok());
        match self.0.entry(resource.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(version.cloned());
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                let (Some(before), Some(version)) = (&known, version) else {
                    *known = None;
                    return;
                };
                if version.compare(before) == Ok(Ordering::Greater) {
                    *known = Some(version.clone());
                }
            }
        }
    }

    /// Adds the writes of another controller.
    pub fn merge(&mut self, other: &Self) {
        for (resource, version) in other.iter() {
            self.add(resource, version);
        }
    }

    /// The resources, in order, with the last version of each if that is known.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupResource, Option<&ResourceVersion>)> {
        self.0
            .iter()
            .map(|(resource, version)| (resource, version.as_ref()))
    }

    /// The number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last write of a resource; `None` if there was none.
    pub(super) fn of(&self, resource: &GroupResource) -> Option<Option<&ResourceVersion>> {
        self.0.get(resource).map(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_version_is_kept_and_an_unknown_one_stays_unknown() {
        let pods = GroupResource::new("", "pods");
        for (versions, expected) in [
            (&["7"][..], Some("7")),
            (&["7", "12", "9"], Some("12")),
            (&["7", ""], None),
            (&["x-1"], None),
            (&["", "7"], None),
        ] {
            let mut last = LastWrites::default();
            for version in versions {
                let version = ResourceVersion::from(*version);
                last.add(&pods, Some(&version).filter(|v| !v.is_unset()));
            }
            let mut merged = LastWrites::default();
            merged.merge(&last);
            assert_eq!(merged, last);
            let found = last.of(&pods).unwrap().map(ResourceVersion::as_str);
            assert_eq!((found, last.len()), (expected, 1), "{versions:?}");
        }
        assert!(LastWrites::default().is_empty());
    }
}
