//! The cell that readers load the newest root from.
//!
//! ```text
//! writer ──publish──▶ SharedRoot ──load──▶ any number of readers
//! ```
//!
//! Upstream counterpart: the read lock of `client-go:tools/cache/thread_safe_store.go`.
//! Complexity: a load is a few nanoseconds and waits for nobody.

use arc_swap::ArcSwap;

use super::root::Root;

/// Holds the newest root; loaded by many, published by one.
#[derive(Debug)]
pub struct SharedRoot {
    cell: ArcSwap<Root>,
}

impl SharedRoot {
    /// A cell that holds this root.
    #[must_use]
    pub fn new(root: Root) -> Self {
        Self {
            cell: ArcSwap::from_pointee(root),
        }
    }

    /// The newest root.
    #[must_use]
    pub fn load(&self) -> Root {
        Root::clone(&self.cell.load())
    }

    /// Replaces the root. Only the one writer calls this.
    pub fn publish(&self, root: Root) {
        self.cell.store(root.into());
    }
}
