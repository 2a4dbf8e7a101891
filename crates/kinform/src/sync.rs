//! The one way to take a lock.
//!
//! ```text
//! Mutex<T> → lock → MutexGuard<T>, whatever another thread did
//! ```
//!
//! INVARIANT: no code of a user's runs under these locks, and no guard lives across an await.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value that cannot be left half changed: a poisoned lock is used on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
