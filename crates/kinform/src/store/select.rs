//! Reading a part of a cache: by labels, in pages, by a prefix of names.
//!
//! ```text
//! LabelSelector → index of a label, if there is one, else all → the objects selected
//! (prefix, after, limit) → Order of each root → the next objects in the order of keys
//! ```
//!
//! Upstream counterpart: `client-go:tools/cache/listers.go` (`ListAll`), which walks everything; it
//! has no pages.

use kinform_api::selector::{LabelOperator, LabelSelector, Requirement};
use kinform_api::{KeyRef, ObjectKey};
use kinform_core::object::Object;

use super::listing::Part;
use super::{Listing, Snapshot};
use crate::object::Obj;

impl<K> Snapshot<K> {
    /// The objects whose labels `selector` selects.
    ///
    /// # Complexity
    /// O(objects under the selected values) if a label that must have one of some values has an
    /// index ([`Index::label`](crate::Index::label)), else O(objects).
    pub fn matching(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        let candidates = self.labelled(selector).unwrap_or_else(|| self.list());
        candidates.matching(|object| is_selected(object, selector))
    }

    /// The same of one namespace.
    pub(crate) fn matching_in(&self, namespace: &str, selector: &LabelSelector) -> Vec<Obj<K>> {
        let all = self.in_namespace(namespace);
        let labelled = self.labelled(selector);
        let labelled = labelled.filter(|labelled| labelled.len() < all.len());
        labelled.unwrap_or(all).matching(|object| {
            object.key_ref().namespace == namespace && is_selected(object, selector)
        })
    }

    /// The objects from an index of labels, for the requirement with the fewest objects.
    fn labelled(&self, selector: &LabelSelector) -> Option<Listing<K>> {
        let is_one_of = |requirement: &&Requirement| {
            use LabelOperator::{DoubleEquals, Equals, In};
            matches!(requirement.operator(), Equals | DoubleEquals | In)
        };
        let asked = selector.requirements().iter().filter(is_one_of);
        let listings = asked.filter_map(|requirement| {
            let index = self.cores.label_index(requirement.key())?;
            Some(self.listing(|root| match root.index(&index) {
                Ok(id) => Part::View(root.by_any(id, requirement.values())),
                Err(_) => Part::View(root.list()),
            }))
        });
        listings.min_by_key(Listing::len)
    }

    /// Up to `limit` objects in the order of their keys (namespace, then name), from the first one
    /// after `after` on.
    ///
    /// Pages of one snapshot fit together: each object is in one of them.
    ///
    /// # Complexity
    /// O(log objects + page), and the changes since this cache was last read in order; the first
    /// time, O(objects · log objects).
    pub fn page(&self, after: Option<&ObjectKey>, limit: usize) -> Vec<Obj<K>> {
        self.ordered(after.map(ObjectKey::key_ref), limit, |_| true)
    }

    /// The same of the objects in the namespace of `prefix` whose names begin with its name; an
    /// empty name is every object of the namespace.
    ///
    /// # Complexity
    /// As [`page`](Self::page).
    pub fn page_with_prefix(
        &self,
        prefix: KeyRef<'_>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Vec<Obj<K>> {
        let has_prefix = |key: KeyRef<'_>| {
            key.namespace == prefix.namespace && key.name.starts_with(prefix.name)
        };
        let after = after.map(ObjectKey::key_ref);
        if after.is_some_and(|after| after >= prefix) {
            return self.ordered(after, limit, has_prefix);
        }
        // The prefix itself may be a name.
        let exact = self.roots.iter().find_map(|root| root.get(prefix));
        let mut page: Vec<_> = exact.into_iter().take(limit).map(|o| self.obj(o)).collect();
        page.extend(self.ordered(Some(prefix), limit - page.len(), has_prefix));
        page
    }

    /// The objects after a key in order, as long as they match.
    fn ordered(
        &self,
        after: Option<KeyRef<'_>>,
        limit: usize,
        belongs: impl Fn(KeyRef<'_>) -> bool,
    ) -> Vec<Obj<K>> {
        const FIRST: KeyRef<'static> = KeyRef {
            namespace: "",
            name: "",
        };
        let mut parts: Vec<_> = self.members.iter().zip(&*self.roots).collect();
        // Each namespace has one part: all keys of a part come before those of the next.
        parts.sort_unstable_by(|(a, _), (b, _)| a.namespace.cmp(&b.namespace));
        let mut page = Vec::new();
        for (member, root) in parts {
            if page.len() >= limit {
                break;
            }
            let order = member.core.order(root);
            let objects = order.starting_at(after.unwrap_or(FIRST));
            let objects = objects.skip_while(|object| Some(object.key_ref()) == after);
            let objects = objects.take_while(|object| belongs(object.key_ref()));
            page.extend(objects.take(limit - page.len()).map(|o| self.obj(o)));
        }
        page
    }
}

fn is_selected(object: &Object, selector: &LabelSelector) -> bool {
    if selector.is_empty() {
        return true;
    }
    let object = object.thawed();
    let labels: Vec<_> = object.labels().collect();
    selector.matches(|key| {
        let found = labels.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_ref())
    })
}
