//! The context and the result of a reconcile function.
//!
//! ```text
//! reconcile(object, Ctx<C>) → Ok(Action) | Err(anything that is an error)
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/reconcile` (`Request`, `Result`),
//! `kube-runtime:controller` (`Context`, `Action`).

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kinform_api::ObjectKey;
use tokio_util::sync::CancellationToken;

use super::causes::Causes;
use super::site::Site;
use super::writes::Writer;
use crate::object::Obj;

/// The next step for a key after a reconcile that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Action {
    requeue_after: Option<Duration>,
    wake_at: Option<Timestamp>,
}

impl Action {
    /// No reconcile until something changes. Units and default: this is the default.
    pub const fn await_change() -> Self {
        Self {
            requeue_after: None,
            wake_at: None,
        }
    }

    /// A reconcile after `delay`, or sooner if something changes: then the delay is over, unless
    /// that reconcile asks for one again.
    #[doc(alias = "RequeueAfter")]
    pub const fn requeue(delay: Duration) -> Self {
        Self {
            requeue_after: Some(delay),
            wake_at: None,
        }
    }

    /// A reconcile at `time`, also if something changes before: a deadline, the end of a lifetime.
    ///
    /// The wake-up is kept until a reconcile begins after it, the object is gone, or another
    /// reconcile returns a new one. A time in the past is a reconcile at once.
    pub const fn wake_at(time: Timestamp) -> Self {
        Self {
            requeue_after: None,
            wake_at: Some(time),
        }
    }

    /// The delay after which the key is reconciled without a change.
    #[must_use]
    pub const fn requeue_after(self) -> Option<Duration> {
        self.requeue_after
    }

    /// The time at which the key is reconciled in any case.
    #[must_use]
    pub const fn wakes_at(self) -> Option<Timestamp> {
        self.wake_at
    }
}

/// The second argument of a reconcile function. It derefs to the context that the controller was
/// given.
pub struct Ctx<C> {
    pub(super) context: Arc<C>,
    pub(super) key: ObjectKey,
    pub(super) failures: u32,
    pub(super) stopping: CancellationToken,
    pub(super) site: Arc<Site>,
    /// The object when the run began; `None` if it is gone.
    pub(super) object: Option<Obj<()>>,
    pub(super) writer: Writer,
    pub(super) is_stale: bool,
    pub(super) causes: Causes,
}

impl<C> Ctx<C> {
    /// The controller's context, shared by all workers.
    ///
    /// A `reconcile(Arc<K>, Arc<C>)` written for kube-runtime runs as
    /// `|object, cx| reconcile(object, cx.context())`.
    #[must_use]
    pub fn context(&self) -> Arc<C> {
        Arc::clone(&self.context)
    }

    /// The key that is reconciled.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The number of failures of this key in a row before this attempt.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns whether the caches may lack writes of an earlier run of this key: they did not show
    /// them within 30 s. Each run says so until the caches have them; a run that writes again makes
    /// the next one wait again. If a watch has ended that would have shown them, as that of a namespace
    /// that was removed, the next run says so, and it alone.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Why the key is reconciled: the events, retries and wake-ups since its last run.
    #[must_use]
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Cancelled when the controller is asked to stop: long work can end early.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }
}

impl<C> Ctx<C> {
    /// The same for a function that is set before the context.
    pub(super) fn without_context(self) -> Ctx<()> {
        let Self {
            key,
            failures,
            stopping,
            site,
            object,
            writer,
            is_stale,
            causes,
            context: _,
        } = self;
        Ctx {
            context: Arc::new(()),
            key,
            failures,
            stopping,
            site,
            object,
            writer,
            is_stale,
            causes,
        }
    }
}

impl<C> Deref for Ctx<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.context
    }
}

impl<C> Clone for Ctx<C> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            key: self.key.clone(),
            failures: self.failures,
            stopping: self.stopping.clone(),
            site: Arc::clone(&self.site),
            object: self.object.clone(),
            writer: self.writer.clone(),
            is_stale: self.is_stale,
            causes: self.causes.clone(),
        }
    }
}

impl<C> fmt::Debug for Ctx<C> {
    /// The key, never the context.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, failures, .. } = self;
        f.debug_struct("Ctx")
            .field("key", key)
            .field("failures", failures)
            .finish_non_exhaustive()
    }
}
