//! The order of keys over a root: pages, and all keys with a prefix, without a walk over everything.
//!
//! ```text
//! Root ──build──▶ Order (chunks of slots, sorted by key) ──follow(newer root)──▶ Order ──starting_at(key)──▶ objects
//! ```
//!
//! A store is not sorted: sorting is paid by those that read in order. An order holds four bytes an object, in
//! chunks that clones share, and follows a newer root by the difference of both.
//! INVARIANT: an order lists exactly the slots in use of its root, each once, by key.
//! BOUND: a chunk holds `CHUNK` slots at most.
//!
//! Upstream counterpart: none; client-go sorts nothing.
//! Complexity: build O(n log n); follow O(changed blocks), and O(log n + a chunk) for each key that came or went;
//! a read O(log n) and the objects read.

use std::sync::Arc;

use kinform_api::KeyRef;

use super::radix::WIDTH;
use super::root::Root;
use crate::object::Object;

const CHUNK: usize = 512;

/// The objects of one root in the order of their keys.
#[derive(Debug, Clone)]
pub struct Order {
    root: Root,
    // INVARIANT: no chunk is empty.
    chunks: Vec<Arc<Vec<u32>>>,
}

impl Order {
    /// Sorts the keys of a root.
    #[must_use]
    pub fn build(root: Root) -> Self {
        let mut slots: Vec<u32> = root.0.slots.iter().map(|(slot, _)| slot as u32).collect();
        let key = |slot: &u32| root.0.slots.get(*slot as usize).map(Object::key_ref);
        slots.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        // Half full, so that what comes next splits nothing.
        let chunks = slots
            .chunks(CHUNK / 2)
            .map(|chunk| Arc::new(chunk.to_vec()));
        Self {
            chunks: chunks.collect(),
            root,
        }
    }

    /// The root whose objects it lists.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Lists the objects of a later root of the same store from now on.
    pub fn follow(&mut self, root: &Root) {
        let old = self.root.clone();
        // All that goes before all that comes: a slot that changed hands is searched under the key that it had.
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let mut next = 0;
        while let Some((base, was, is)) = old.0.slots.differing_from(&root.0.slots, next) {
            for at in 0..WIDTH {
                let slot = (base + at) as u32;
                let was = was.and_then(|leaf| leaf[at].as_ref()).map(Object::key_ref);
                let is = is.and_then(|leaf| leaf[at].as_ref()).map(Object::key_ref);
                if was == is {
                    continue;
                }
                gone.extend(was.map(|key| (slot, key)));
                come.extend(is.map(|key| (slot, key)));
            }
            next = base + WIDTH;
        }
        if gone.len() + come.len() > root.len() / 4 {
            *self = Self::build(root.clone());
            return;
        }
        for (slot, key) in gone {
            self.remove(&old, slot, key);
        }
        // What is left has the same key in both roots.
        self.root = root.clone();
        for (slot, key) in come {
            self.insert(slot, key);
        }
    }

    /// The objects from the first key at or after `from` on, in order.
    pub fn starting_at<'a>(
        &'a self,
        from: KeyRef<'_>,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        let chunk = self.chunk_of(&self.root, from);
        let first = self.chunks.get(chunk).map_or(0, |slots| {
            slots.partition_point(|slot| key(&self.root, *slot) < Some(from))
        });
        let rest = self.chunks.get(chunk..).unwrap_or_default();
        let slots = rest.iter().flat_map(|chunk| chunk.iter());
        slots
            .skip(first)
            .filter_map(|slot| self.root.0.slots.get(*slot as usize))
    }

    /// The chunk that holds a key, or would.
    fn chunk_of(&self, root: &Root, of: KeyRef<'_>) -> usize {
        let after = self
            .chunks
            .partition_point(|chunk| key(root, chunk[0]) <= Some(of));
        after.saturating_sub(1)
    }

    fn remove(&mut self, root: &Root, slot: u32, of: KeyRef<'_>) {
        let at = self.chunk_of(root, of);
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        let place = chunk.partition_point(|slot| key(root, *slot) < Some(of));
        debug_assert_eq!(chunk.get(place), Some(&slot), "an order lists its root");
        let chunk = Arc::make_mut(chunk);
        chunk.remove(place);
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
    }

    fn insert(&mut self, slot: u32, of: KeyRef<'_>) {
        let at = self.chunk_of(&self.root, of);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(Arc::new(vec![slot]));
            return;
        };
        let root = &self.root;
        let place = chunk.partition_point(|slot| key(root, *slot) < Some(of));
        let chunk = Arc::make_mut(chunk);
        chunk.insert(place, slot);
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            self.chunks.insert(at + 1, Arc::new(upper));
        }
    }
}

fn key(root: &Root, slot: u32) -> Option<KeyRef<'_>> {
    root.0.slots.get(slot as usize).map(Object::key_ref)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kinform_api::ObjectKey;
    use proptest::prelude::*;

    use super::*;
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;
    use crate::store::edit::Edit;

    fn object(name: u16) -> Object {
        let json = format!(
            r#"{{"metadata":{{"namespace":"n{}","name":"p{name}","uid":"u"}}}}"#,
            name % 3
        );
        Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
    }

    fn listed(order: &Order, from: KeyRef<'_>) -> Vec<ObjectKey> {
        order.starting_at(from).map(Object::key).collect()
    }

    fn check(order: &Order, model: &BTreeSet<ObjectKey>) {
        let all: Vec<_> = model.iter().cloned().collect();
        assert_eq!(
            listed(
                order,
                KeyRef {
                    namespace: "",
                    name: ""
                }
            ),
            all
        );
        for from in all.iter().step_by(97) {
            let expected: Vec<_> = model.range(from.clone()..).cloned().collect();
            assert_eq!(listed(order, from.key_ref()), expected);
        }
        let (namespace, name) = ("n1", "p2");
        let beside = KeyRef { namespace, name };
        let expected: Vec<_> = all
            .into_iter()
            .filter(|key| key.key_ref() >= beside)
            .collect();
        assert_eq!(listed(order, beside), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

        #[test]
        fn an_order_that_followed_is_the_sorted_store(
            batches in prop::collection::vec(
                prop::collection::vec((any::<bool>(), 0..3_000u16), 1..200),
                1..12,
            ),
            begun in 0..3_000u16,
        ) {
            let mut edit = Edit::new(&Root::empty(Seed(1)));
            let mut model = BTreeSet::new();
            for name in 0..begun {
                let object = object(name);
                model.insert(object.key());
                edit.insert(object);
            }
            let mut root = edit.commit(1);
            let mut order = Order::build(root.clone());
            check(&order, &model);
            for batch in batches {
                let mut edit = Edit::new(&root);
                for (is_add, name) in batch {
                    let object = object(name);
                    if is_add {
                        model.insert(object.key());
                        edit.insert(object);
                    } else {
                        model.remove(&object.key());
                        edit.remove(object.key_ref());
                    }
                }
                root = edit.commit(root.position() + 1);
                order.follow(&root);
                check(&order, &model);
                prop_assert!(order.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
            }
        }
    }
}
