//! A model of `tokio_util::sync::CancellationToken`, without children.
//!
//! ```text
//! cancel ──flag, then wakers──▶ is_cancelled, cancelled
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use shuttle::sync::atomic::AtomicBool;

use super::Notify;

/// A flag that is set once, and waited for.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_cancelled: AtomicBool,
    notify: Notify,
}

/// Cancels its token when it is dropped.
#[derive(Debug)]
pub struct DropGuard(CancellationToken);

impl CancellationToken {
    /// Not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels it.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Returns whether it is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(SeqCst)
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        loop {
            let notified = self.0.notify.notified();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }

    /// Cancels it when the guard is dropped.
    #[must_use]
    pub fn drop_guard(self) -> DropGuard {
        DropGuard(self)
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
