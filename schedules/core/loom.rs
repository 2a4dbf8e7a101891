//! Models of the cells that threads share in kinform-core, for loom.
//!
//! ```text
//! store: value into the list, its place into an atomic (AcqRel) ──▶ load (Acquire): any place that
//!                                                                   the memory model allows
//! ```
//!
//! Weaker than arc-swap, whose stores are sequentially consistent: code that holds here holds there.

use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loom::sync::atomic::AtomicUsize;
pub(crate) use loom::sync::atomic::{AtomicU64, fence};

/// A cell with a counted pointer, replaced as a whole.
#[derive(Debug)]
pub(crate) struct Cell<P> {
    // The place of the value.
    newest: AtomicUsize,
    // All values ever stored; this lock is no step of the model.
    values: Mutex<Vec<P>>,
}

/// The model of `arc_swap::ArcSwap`.
pub(crate) type ArcSwap<T> = Cell<Arc<T>>;
/// The model of `arc_swap::ArcSwapOption`.
pub(crate) type ArcSwapOption<T> = Cell<Option<Arc<T>>>;

impl<P: Clone> Cell<P> {
    pub(crate) fn new(value: P) -> Self {
        Self {
            newest: AtomicUsize::new(0),
            values: Mutex::new(vec![value]),
        }
    }

    pub(crate) fn load(&self) -> P {
        let at = self.newest.load(Acquire);
        self.lock()[at].clone()
    }

    pub(crate) fn load_full(&self) -> P {
        self.load()
    }

    pub(crate) fn store(&self, value: P) {
        let at = self.push(value);
        self.newest.swap(at, AcqRel);
    }

    fn push(&self, value: P) -> usize {
        let mut values = self.lock();
        values.push(value);
        values.len() - 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<P>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Cell<Arc<T>> {
    pub(crate) fn rcu<R: Into<Arc<T>>>(&self, mut change: impl FnMut(&Arc<T>) -> R) {
        let mut known = self.newest.load(Acquire);
        loop {
            let value = Arc::clone(&self.lock()[known]);
            let next = self.push(change(&value).into());
            match self.newest.compare_exchange(known, next, AcqRel, Acquire) {
                Ok(_) => return,
                Err(newer) => known = newer,
            }
        }
    }
}

impl<T> Cell<Option<Arc<T>>> {
    pub(crate) fn empty() -> Self {
        Self::new(None)
    }
}

impl<T: Default> Default for Cell<Arc<T>> {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}
