//! The cell that readers load the newest root from.
//!
//! ```text
//! writer ──publish──▶ SharedRoot ──load──▶ any number of readers
//! ```
//!
//! Upstream counterpart: the read lock of `client-go:tools/cache/thread_safe_store.go`.
//! Complexity: a load is a few nanoseconds and waits for nobody.

use kinform_api::KeyRef;

use super::root::Root;
use super::state::State;
use crate::object::Object;
use crate::sync::ArcSwap;

/// Holds the newest root; loaded by many, published by one.
#[derive(Debug)]
pub struct SharedRoot {
    cell: ArcSwap<State>,
}

impl SharedRoot {
    /// A cell that holds this root.
    #[must_use]
    pub fn new(root: Root) -> Self {
        Self {
            cell: ArcSwap::new(root.0),
        }
    }

    /// The newest root.
    #[must_use]
    pub fn load(&self) -> Root {
        Root(self.cell.load_full())
    }

    /// The object of this key in the newest root, whose handles are not counted for that.
    #[must_use]
    pub fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        let root = self.cell.load();
        root.object_of(key).map(|(_, object)| Object::clone(object))
    }

    /// Replaces the root. Only the one writer calls this.
    pub fn publish(&self, root: Root) {
        self.cell.store(root.0);
    }
}
