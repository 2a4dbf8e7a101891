//! Models of the primitives that the included modules share, in the place of their crates' `sync`.
//!
//! ```text
//! shuttle: locks, atomics, threads ──▶ here ◀── notify, watch, token: models of tokio's
//! ```
//!
//! Each call of a model has at least one point where another task may run, before its effect. The
//! models have what the included modules use of tokio's interface, with tokio's guarantees; their
//! wakers are called with no lock held.
//!
//! Upstream counterpart: `tokio::sync`, `tokio_util::sync`.

mod notify;
mod token;
pub mod watch;

use std::sync::PoisonError;

pub use shuttle::sync::atomic::AtomicU64;
pub use shuttle::sync::{Mutex, MutexGuard};
pub use shuttle::thread;

pub use self::notify::Notify;
pub use self::token::CancellationToken;

/// Locks a value, as `sync::lock` of kinform does.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
