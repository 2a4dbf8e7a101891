//! All objects of one resource at one moment: ordered, with clones that share the data.
//!
//! ```text
//! snapshot ──clone (two words)──▶ lists, initial events     snapshot ──insert/remove──▶ next state
//! ```
//!
//! Objects are in leaves of at most [`LEAF`], in the byte order of their keys, which is the order
//! of upstream's storage (`a-b/x` before `a/x`). Clones share the leaves and the row of leaves
//! until a write: the first write after a clone copies the row (8 bytes a leaf) and one leaf, later
//! writes change them in place.
//!
//! Complexity: look-up and seek O(log n); insert and remove O(LEAF), plus O(n / LEAF) for the first
//! write after a clone; clone O(1); counting a range O(leaves in it).
//!
//! Upstream: apiserver:pkg/storage/cacher/store/store_btree.go.

use std::sync::Arc;

use super::stored::Stored;

/// BOUND: objects in a leaf. The pointers of two full leaves fit a page.
const LEAF: usize = 256;

type Leaf = Arc<Vec<Arc<Stored>>>;

/// An immutable state of a resource. Clones are cheap and independent of each other.
#[derive(Clone, Default)]
pub struct Snapshot {
    // INVARIANT: leaves are not empty; keys ascend in and across leaves.
    leaves: Arc<Vec<Leaf>>,
    len: usize,
}

impl Snapshot {
    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the object with a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        let at = self.seek(key);
        self.at(at).filter(|object| object.key() == key)
    }

    /// Iterates over all objects in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// Returns the place of the first object whose key is not below `key`.
    pub(crate) fn seek(&self, key: &str) -> Place {
        let leaf = self.leaf_of(key);
        let offset = self.leaves.get(leaf).map_or(0, |objects| {
            objects.partition_point(|object| object.key() < key)
        });
        Place { leaf, offset }.settled(self)
    }

    /// Returns the object at a place, or `None` at the end.
    pub(crate) fn at(&self, place: Place) -> Option<&Arc<Stored>> {
        self.leaves.get(place.leaf)?.get(place.offset)
    }

    /// Returns the place after the last object.
    pub(crate) fn end(&self) -> Place {
        Place {
            leaf: self.leaves.len(),
            offset: 0,
        }
    }

    /// Returns the place after this one.
    pub(crate) fn next(&self, place: Place) -> Place {
        Place {
            leaf: place.leaf,
            offset: place.offset + 1,
        }
        .settled(self)
    }

    /// Counts the objects from `from` up to, but not including, `to`.
    pub(crate) fn count(&self, from: Place, to: Place) -> usize {
        if to.leaf <= from.leaf {
            return to.offset.saturating_sub(from.offset);
        }
        let whole: usize = self.leaves[from.leaf..to.leaf.min(self.leaves.len())]
            .iter()
            .map(|l| l.len())
            .sum();
        whole + to.offset - from.offset
    }

    pub(crate) fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        let at = self.leaf_of(object.key());
        let leaves = Arc::make_mut(&mut self.leaves);
        let Some(leaf) = leaves.get_mut(at) else {
            leaves.push(Arc::new(vec![object]));
            self.len += 1;
            return None;
        };
        let objects = Arc::make_mut(leaf);
        let offset = objects.partition_point(|other| other.key() < object.key());
        match objects
            .get_mut(offset)
            .filter(|other| other.key() == object.key())
        {
            Some(other) => return Some(std::mem::replace(other, object)),
            None => objects.insert(offset, object),
        }
        if objects.len() > LEAF {
            // Keys that arrive in order fill leaves completely, instead of leaving half-full ones.
            let cut = if offset == LEAF { LEAF } else { LEAF / 2 };
            let upper = objects.split_off(cut);
            leaves.insert(at + 1, Arc::new(upper));
        }
        self.len += 1;
        None
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        let at = self.leaf_of(key);
        let offset = self
            .leaves
            .get(at)?
            .binary_search_by(|object| object.key().cmp(key))
            .ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let objects = Arc::make_mut(&mut leaves[at]);
        let removed = objects.remove(offset);
        self.len -= 1;
        let left = objects.len();
        if left == 0 {
            leaves.remove(at);
        } else if left < LEAF / 4
            && leaves
                .get(at + 1)
                .is_some_and(|next| next.len() + left <= LEAF / 2)
        {
            let next = leaves.remove(at + 1);
            Arc::make_mut(&mut leaves[at]).extend(next.iter().cloned());
        }
        Some(removed)
    }

    /// Returns the leaf that contains `key` or would take it.
    fn leaf_of(&self, key: &str) -> usize {
        let after = self
            .leaves
            .partition_point(|leaf| leaf.first().is_some_and(|o| o.key() <= key));
        after.saturating_sub(1)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// A position in a snapshot, valid only for the snapshot that returned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    leaf: usize,
    offset: usize,
}

impl Place {
    /// Moves to the start of the next leaf if this one is exhausted.
    fn settled(self, snapshot: &Snapshot) -> Self {
        match snapshot.leaves.get(self.leaf) {
            Some(leaf) if self.offset >= leaf.len() => Self {
                leaf: self.leaf + 1,
                offset: 0,
            },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::stored::Draft;
    use super::*;

    fn object(key: &str, revision: u64) -> Arc<Stored> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let value = json!({"metadata": {"name": name, "namespace": namespace}});
        Arc::new(Draft::new(&[], value).unwrap().seal(revision))
    }

    fn same(snapshot: &Snapshot, model: &BTreeMap<String, u64>) {
        let got: Vec<_> = snapshot
            .iter()
            .map(|o| (o.key().to_owned(), o.revision()))
            .collect();
        let want: Vec<_> = model.iter().map(|(k, v)| (k.clone(), *v)).collect();
        assert_eq!(got, want);
        assert_eq!(snapshot.len(), model.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_snapshot_is_an_ordered_map_and_its_clones_stay(
            steps in prop::collection::vec((0u16..900, 0u8..4), 1..1500),
            probe in 0u16..900,
        ) {
            let (mut snapshot, mut model) = (Snapshot::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for (revision, (key, action)) in steps.iter().enumerate() {
                let key = format!("ns-{}/o-{key}", key % 3);
                if *action == 0 {
                    let removed = snapshot.remove(&key).map(|o| o.revision());
                    prop_assert_eq!(removed, model.remove(&key));
                } else {
                    let before = snapshot.insert(object(&key, revision as u64)).map(|o| o.revision());
                    prop_assert_eq!(before, model.insert(key, revision as u64));
                }
                if revision % 400 == 7 {
                    kept.push((snapshot.clone(), model.clone()));
                }
            }
            same(&snapshot, &model);
            for (old, model) in &kept {
                same(old, model);
            }
            let probe = format!("ns-{}/o-{probe}", probe % 3);
            let from = snapshot.seek(&probe);
            let first = snapshot.at(from).map(|o| o.key().to_owned());
            prop_assert_eq!(first.as_ref(), model.range(probe.clone()..).next().map(|(k, _)| k));
            let end = snapshot.seek("ns-2/");
            if from <= end {
                let between = model.range(probe..).take_while(|(k, _)| k.as_str() < "ns-2/").count();
                prop_assert_eq!(snapshot.count(from, end), between);
            }
            let mut walked = 0;
            let mut place = snapshot.seek("");
            while snapshot.at(place).is_some() {
                walked += 1;
                place = snapshot.next(place);
            }
            prop_assert_eq!(walked, model.len());
        }
    }
}
