//! Models of the cells that threads share in kinform-core, for shuttle to interleave.
//!
//! ```text
//! load, store, rcu ──▶ a point where another task may run ──▶ the cell
//! ```
//!
//! Atomics are shuttle's: sequentially consistent, whatever ordering the code asks for, so a fence does
//! nothing here. A cell has the part of arc-swap's interface that kinform-core uses. One call is one
//! step, but for `rcu`, whose function runs between two steps, and again if another task was faster.
//!
//! Upstream counterpart: `arc-swap`, `std::sync::atomic`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use shuttle::sync::atomic::{AtomicU64, fence};

use std::sync::atomic::Ordering::SeqCst;

/// A cell with a counted pointer, replaced as a whole.
#[derive(Debug)]
pub(crate) struct Cell<P> {
    // Its accesses are the points where the scheduler chooses.
    steps: AtomicU64,
    // Never held at such a point.
    value: Mutex<P>,
}

/// The model of `arc_swap::ArcSwap`.
pub(crate) type ArcSwap<T> = Cell<Arc<T>>;
/// The model of `arc_swap::ArcSwapOption`.
pub(crate) type ArcSwapOption<T> = Cell<Option<Arc<T>>>;

impl<P: Clone> Cell<P> {
    pub(crate) fn new(value: P) -> Self {
        Self {
            steps: AtomicU64::new(0),
            value: Mutex::new(value),
        }
    }

    pub(crate) fn load(&self) -> P {
        self.steps.load(SeqCst);
        self.lock().clone()
    }

    pub(crate) fn load_full(&self) -> P {
        self.load()
    }

    pub(crate) fn store(&self, value: P) {
        self.steps.fetch_add(1, SeqCst);
        let old = std::mem::replace(&mut *self.lock(), value);
        drop(old);
    }

    fn lock(&self) -> MutexGuard<'_, P> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Cell<Arc<T>> {
    pub(crate) fn rcu<R: Into<Arc<T>>>(&self, mut change: impl FnMut(&Arc<T>) -> R) {
        loop {
            let known = self.load();
            let next = change(&known).into();
            self.steps.fetch_add(1, SeqCst);
            let mut value = self.lock();
            if Arc::ptr_eq(&known, &value) {
                *value = next;
                return;
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
