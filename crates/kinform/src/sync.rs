//! The one way to take a lock, and the primitives of code that runs under a scheduler too.
//!
//! ```text
//! Mutex<T> → lock → MutexGuard<T>, whatever another thread did
//! std, tokio, tokio-util → here → workqueue/, informer/{cursor,listener,registration,subscription}
//! ```
//!
//! `cargo xtask schedules` compiles the files named above once more, from these very sources, with
//! models of the primitives in this module's place: so they take them from here alone.
//!
//! INVARIANT: no code of a user's runs under these locks, and no guard lives across an await.

use std::sync::PoisonError;

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread;

pub(crate) use tokio::sync::{Notify, watch};
pub(crate) use tokio_util::sync::CancellationToken;

/// Locks a value that cannot be left half changed: a poisoned lock is used on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
