//! A model of `tokio::sync::watch`: a value under a lock, a version, and those that wait for the next.
//!
//! ```text
//! send_modify ──value, version, under one lock──▶ wakers ──▶ changed, wait_for
//! ```
//!
//! As in tokio, value and version change under one lock, readers hold that lock while they look, and
//! a receiver remembers the version that it has seen. A read that waits for a writer of its own task
//! is a deadlock, which the scheduler reports.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;

use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::{RwLock, RwLockReadGuard};

use super::Notify;

/// Bit of the version that says that the sender is gone; versions count in twos.
const CLOSED: u64 = 1;

/// Changes the value.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Sees the newest value, and waits for newer ones.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

#[derive(Debug)]
struct Shared<T> {
    value: RwLock<T>,
    version: AtomicU64,
    notify: Notify,
}

/// A look at the value, which holds writers up.
#[derive(Debug)]
pub struct Ref<'a, T>(RwLockReadGuard<'a, T>);

/// The sender is gone.
#[derive(Debug)]
pub struct RecvError;

impl<T> Shared<T> {
    fn borrow(&self) -> Ref<'_, T> {
        Ref(self.value.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn version(&self) -> u64 {
        self.version.load(SeqCst) & !CLOSED
    }
}

impl<T> Sender<T> {
    /// A sender of this value, without receivers.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            notify: Notify::new(),
        }))
    }

    /// A receiver that has seen the value of now.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            seen: self.0.version(),
            shared: Arc::clone(&self.0),
        }
    }

    /// Changes the value, and wakes all that wait.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        let mut value = self.0.value.write().unwrap_or_else(PoisonError::into_inner);
        modify(&mut value);
        self.0.version.fetch_add(2, SeqCst);
        drop(value);
        self.0.notify.notify_waiters();
    }

    /// Replaces the value.
    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|old| std::mem::swap(old, &mut value));
        value
    }

    /// The value now.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.borrow()
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.version.fetch_or(CLOSED, SeqCst);
        self.0.notify.notify_waiters();
    }
}

impl<T> Receiver<T> {
    /// The value now, which does not count as seen.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.borrow()
    }

    /// The value now, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.borrow();
        self.seen = self.shared.version();
        value
    }

    /// Returns whether there is a value that was not seen.
    ///
    /// # Errors
    /// The sender is gone.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        let version = self.shared.version.load(SeqCst);
        if version & CLOSED != 0 {
            return Err(RecvError);
        }
        Ok(version != self.seen)
    }

    /// The value of now counts as not seen.
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.wrapping_sub(2);
    }

    /// The value of now counts as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version();
    }

    /// Waits for a value that was not seen; it counts as seen then.
    ///
    /// # Errors
    /// The sender is gone.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        let Self { shared, seen } = self;
        loop {
            let notified = shared.notify.notified();
            let version = shared.version.load(SeqCst);
            if version & !CLOSED != *seen {
                *seen = version & !CLOSED;
                return Ok(());
            }
            if version & CLOSED != 0 {
                return Err(RecvError);
            }
            notified.await;
        }
    }

    /// Waits for a value that is as wanted; the value of now counts as seen.
    ///
    /// # Errors
    /// The sender is gone.
    pub async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        loop {
            let is_wanted = wanted(&self.borrow_and_update());
            if is_wanted {
                return Ok(self.shared.borrow());
            }
            self.changed().await?;
        }
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
