//! Values that are computed from stored objects, and kept until one of those changes.
//!
//! ```text
//! shelves ──the number of their changes──▶ the same? kept value : computed again
//! ```
//!
//! Rooms above keep parsed configurations here: webhooks, policies. Reads are exact: a write that was
//! acknowledged is part of the next value.
//!
//! Complexity: one look at the store's counters and one lock for a kept value.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use crate::storage::{Shelf, Store};

/// A place for one computed value.
#[derive(Debug, Default)]
pub(crate) struct Derived(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    changes: u64,
    value: Arc<dyn Any + Send + Sync>,
}

impl Derived {
    /// Returns the value for the present objects of these shelves. It is computed outside of the
    /// lock, so that concurrent requests may compute it twice.
    pub(crate) fn get<T: Send + Sync + 'static>(
        &self,
        store: &Store,
        shelves: &[Shelf],
        compute: impl FnOnce() -> T,
    ) -> Arc<T> {
        // Read before the objects: what changes in between is computed again by the next caller.
        let changes = store.changes(shelves);
        let kept = || {
            let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = slot.as_ref().filter(|kept| kept.changes == changes)?;
            kept.value.clone().downcast::<T>().ok()
        };
        if let Some(value) = kept() {
            return value;
        }
        let value = Arc::new(compute());
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|kept| kept.changes <= changes) {
            *slot = Some(Kept {
                changes,
                value: value.clone(),
            });
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::{Draft, Expect, HistoryLimits};

    #[test]
    fn a_value_is_computed_again_only_after_a_change_of_its_shelves() {
        let store = Store::new(HistoryLimits::default());
        let (ours, other) = (store.shelf("a"), store.shelf("b"));
        let derived = Derived::default();
        let mut computed = 0;
        let mut get = || {
            *derived.get(&store, &[ours], || {
                computed += 1;
                computed
            })
        };
        let write = |shelf| {
            let draft = Draft::new(
                &[],
                json!({"metadata": {"name": "x"}, "n": store.revision()}),
            );
            store.put(shelf, draft.unwrap(), Expect::Any).unwrap();
        };
        assert_eq!([get(), get()], [1, 1]);
        write(other);
        assert_eq!(get(), 1);
        write(ours);
        assert_eq!([get(), get()], [2, 2]);
        store.remove(ours, "x", Expect::Any).unwrap();
        assert_eq!(get(), 3);
    }
}
