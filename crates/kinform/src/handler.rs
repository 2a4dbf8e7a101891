//! Handlers of changes: closures, or an async function.
//!
//! ```text
//! Change (from the ring) → filter → on_add | on_update | on_delete | on_synced
//! ```
//!
//! Handlers are plain closures that receive borrowed handles. They run on a task of their own, one
//! change after the other, and yield between batches; a slow one delays no other. A panic is
//! caught, counted as delivered and reported: the next change comes as if nothing had happened.
//! Never: holds a lock of this crate while they run.
//!
//! Upstream counterpart: `client-go:tools/cache/controller.go`
//! (`ResourceEventHandlerDetailedFuncs`, `FilteringResourceEventHandler`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kinform_core::delta::Change;

use crate::env::in_runtime;
use crate::error::Error;
use crate::informer::{Informer, ListenerParts, Registration, RunOn, Sink, SinkCall, listen};
use crate::object::{Lens, Obj};

/// A notification that is owned: for async handlers and streams.
///
/// # Order guarantees
/// For one key: `(Added Updated* Deleted)*`, with `Sync` only in between. `old` is the last state
/// that this handler received. Objects of different uid are never joined by an update.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notification<K> {
    /// The object exists and did not before.
    Added(Added<K>),
    /// The object changed.
    Updated {
        /// The state that the handler received last.
        old: Obj<K>,
        /// The state now.
        new: Obj<K>,
    },
    /// The object is gone.
    Deleted(Deleted<K>),
    /// A resync: the object in its known state.
    Sync(Obj<K>),
    /// All initial objects were reported: those stored when the handler came, or the first list.
    /// Once.
    Synced,
}

/// An object that exists and did not before.
#[derive(Debug)]
pub struct Added<K> {
    object: Obj<K>,
    initial: bool,
}

impl<K> Added<K> {
    /// Its state.
    pub fn object(&self) -> &Obj<K> {
        &self.object
    }

    /// The same, owned.
    pub fn into_object(self) -> Obj<K> {
        self.object
    }

    /// Returns whether it was stored when the handler came, or belongs to the first list.
    #[doc(alias = "isInInitialList")]
    pub fn is_initial(&self) -> bool {
        self.initial
    }
}

impl<K> From<Obj<K>> for Added<K> {
    /// An add that is not initial.
    fn from(object: Obj<K>) -> Self {
        Self {
            object,
            initial: false,
        }
    }
}

impl<K> std::ops::Deref for Added<K> {
    type Target = Obj<K>;

    fn deref(&self) -> &Obj<K> {
        &self.object
    }
}

impl<K> Clone for Added<K> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            initial: self.initial,
        }
    }
}

/// An object that is gone.
#[derive(Debug)]
#[doc(alias = "DeletedFinalStateUnknown")]
pub struct Deleted<K> {
    object: Obj<K>,
    final_state_unknown: bool,
}

impl<K> Deleted<K> {
    /// Its state at deletion; the last known one if the final state is unknown.
    pub fn object(&self) -> &Obj<K> {
        &self.object
    }

    /// The same, owned.
    pub fn into_object(self) -> Obj<K> {
        self.object
    }

    /// Returns whether the deletion itself was not seen: a list implied it, or the handler fell
    /// behind.
    pub fn is_final_state_unknown(&self) -> bool {
        self.final_state_unknown
    }
}

impl<K> std::ops::Deref for Deleted<K> {
    type Target = Obj<K>;

    fn deref(&self) -> &Obj<K> {
        &self.object
    }
}

impl<K> Clone for Deleted<K> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            final_state_unknown: self.final_state_unknown,
        }
    }
}

impl<K> Clone for Notification<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(added) => Self::Added(added.clone()),
            Self::Updated { old, new } => Self::Updated {
                old: old.clone(),
                new: new.clone(),
            },
            Self::Deleted(deleted) => Self::Deleted(deleted.clone()),
            Self::Sync(object) => Self::Sync(object.clone()),
            Self::Synced => Self::Synced,
        }
    }
}

impl<K> Notification<K> {
    pub(crate) fn of(change: &Change, lens: &Arc<Lens>) -> Self {
        let handle = |object: &kinform_core::object::Object| Obj::new(object.clone(), lens);
        match change {
            Change::Added { object, initial } => Self::Added(Added {
                object: handle(object),
                initial: *initial,
            }),
            Change::Updated { old, new } => Self::Updated {
                old: handle(old),
                new: handle(new),
            },
            Change::Deleted {
                object,
                final_state_unknown,
            } => Self::Deleted(Deleted {
                object: handle(object),
                final_state_unknown: *final_state_unknown,
            }),
            Change::Sync(object) => Self::Sync(handle(object)),
        }
    }

    /// The newest state in this notification; `None` for `Synced`.
    pub fn object(&self) -> Option<&Obj<K>> {
        match self {
            Self::Added(added) => Some(&added.object),
            Self::Sync(object) => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted(deleted) => Some(&deleted.object),
            Self::Synced => None,
        }
    }
}

type OnAdd<K> = Box<dyn FnMut(&Added<K>) + Send>;
type OnUpdate<K> = Box<dyn FnMut(&Obj<K>, &Obj<K>) + Send>;
type OnDelete<K> = Box<dyn FnMut(&Deleted<K>) + Send>;
type OnSync<K> = Box<dyn FnMut(&Obj<K>) + Send>;
type Filter<K> = Box<dyn FnMut(&Obj<K>) -> bool + Send>;
type OnEvent<K> = Box<dyn FnMut(Notification<K>) -> BoxFuture<'static, ()> + Send>;

/// Handlers to be added to an informer; only those that are set are called.
#[doc(alias = "ResourceEventHandlerFuncs")]
#[must_use]
pub struct Handlers<K> {
    name: Option<String>,
    on_add: Option<OnAdd<K>>,
    on_update: Option<OnUpdate<K>>,
    on_delete: Option<OnDelete<K>>,
    on_resync: Option<OnSync<K>>,
    on_synced: Option<Box<dyn FnMut() + Send>>,
    on_batch_end: Option<Box<dyn FnMut() + Send>>,
    filter: Option<Filter<K>>,
    on_event: Option<OnEvent<K>>,
    resync: Option<Duration>,
    run_on: RunOn,
}

impl<K> Default for Handlers<K> {
    fn default() -> Self {
        Self {
            name: None,
            on_add: None,
            on_update: None,
            on_delete: None,
            on_resync: None,
            on_synced: None,
            on_batch_end: None,
            filter: None,
            on_event: None,
            resync: None,
            run_on: RunOn::default(),
        }
    }
}

impl<K: 'static> Handlers<K> {
    /// An empty set of handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hears objects that exist and did not before; [`Added::is_initial`] marks those that were
    /// stored when these handlers came.
    pub fn on_add(mut self, heard: impl FnMut(&Added<K>) + Send + 'static) -> Self {
        self.on_add = Some(Box::new(heard));
        self
    }

    /// Hears changes: the last state that these handlers received, and the new one.
    pub fn on_update(mut self, heard: impl FnMut(&Obj<K>, &Obj<K>) + Send + 'static) -> Self {
        self.on_update = Some(Box::new(heard));
        self
    }

    /// Hears deletions, with the last state.
    pub fn on_delete(mut self, heard: impl FnMut(&Deleted<K>) + Send + 'static) -> Self {
        self.on_delete = Some(Box::new(heard));
        self
    }

    /// Hears resyncs; without this, they are heard as updates whose old and new are the same.
    pub fn on_resync(mut self, heard: impl FnMut(&Obj<K>) + Send + 'static) -> Self {
        self.on_resync = Some(Box::new(heard));
        self
    }

    /// Called once, when all initial objects have been reported.
    pub fn on_synced(mut self, heard: impl FnMut() + Send + 'static) -> Self {
        self.on_synced = Some(Box::new(heard));
        self
    }

    /// Called after some changes when further ones may follow only later.
    pub(crate) fn on_batch_end(mut self, heard: impl FnMut() + Send + 'static) -> Self {
        self.on_batch_end = Some(Box::new(heard));
        self
    }

    /// Passes only objects that `keep` accepts: an update into that set is heard as an add, one out
    /// of it as a delete of the old state.
    #[doc(alias = "FilteringResourceEventHandler")]
    pub fn filtered(mut self, keep: impl FnMut(&Obj<K>) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(keep));
        self
    }

    /// Hears everything as owned notifications, in an async function, one after the other; with a
    /// filter ([`filtered`](Self::filtered)), everything that passes it. Excludes the `on_*`
    /// closures: they are not called. It runs on a task of the runtime and must not block, also
    /// after [`blocking`](Self::blocking).
    pub fn on_event_async<F>(
        mut self,
        mut heard: impl FnMut(Notification<K>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.on_event = Some(Box::new(move |notification| Box::pin(heard(notification))));
        self
    }

    /// The handler hears every stored object again each `period`: in `on_resync`, or else in
    /// `on_update` as both old and new. A period is at least one second; zero disables resync.
    ///
    /// Default: the informer's. Upstream: `AddEventHandlerWithResyncPeriod`.
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// The closures may block: they run on threads made for that, never on the runtime's own. No
    /// effect on an async function ([`on_event_async`](Self::on_event_async)): it can itself await
    /// `tokio::task::spawn_blocking`.
    pub fn blocking(mut self) -> Self {
        self.run_on = RunOn::Thread;
        self
    }

    /// A name for logs, metrics and reports.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    fn into_parts(self, lens: Arc<Lens>) -> ListenerParts {
        ListenerParts {
            name: self.name.clone(),
            resync: self.resync,
            run_on: self.run_on,
            sink: self.into_sink(lens),
        }
    }

    fn into_sink(mut self, lens: Arc<Lens>) -> Sink {
        if let Some(mut heard) = self.on_event.take() {
            return Sink::Async(Box::new(move |told| {
                let notification = match told {
                    SinkCall::Change(change) => self.filter(Notification::of(change, &lens)),
                    SinkCall::Synced => Some(Notification::Synced),
                    SinkCall::BatchEnd => None,
                };
                match notification {
                    Some(notification) => heard(notification),
                    None => Box::pin(std::future::ready(())),
                }
            }));
        }
        Sink::Sync(Box::new(move |told| match told {
            SinkCall::Synced => {
                if let Some(heard) = &mut self.on_synced {
                    heard();
                }
            }
            SinkCall::BatchEnd => {
                if let Some(heard) = &mut self.on_batch_end {
                    heard();
                }
            }
            SinkCall::Change(change) => {
                let notification = Notification::of(change, &lens);
                if let Some(notification) = self.filter(notification) {
                    self.tell(&notification);
                }
            }
        }))
    }

    fn filter(&mut self, notification: Notification<K>) -> Option<Notification<K>> {
        let Some(keep) = &mut self.filter else {
            return Some(notification);
        };
        match notification {
            Notification::Updated { old, new } => match (keep(&old), keep(&new)) {
                (true, true) => Some(Notification::Updated { old, new }),
                (false, true) => Some(Notification::Added(Added {
                    object: new,
                    initial: false,
                })),
                (true, false) => Some(Notification::Deleted(Deleted {
                    object: old,
                    final_state_unknown: false,
                })),
                (false, false) => None,
            },
            other => other.object().is_none_or(keep).then_some(other),
        }
    }

    fn tell(&mut self, notification: &Notification<K>) {
        match notification {
            Notification::Added(added) => {
                if let Some(heard) = &mut self.on_add {
                    heard(added);
                }
            }
            Notification::Updated { old, new } => {
                if let Some(heard) = &mut self.on_update {
                    heard(old, new);
                }
            }
            Notification::Deleted(deleted) => {
                if let Some(heard) = &mut self.on_delete {
                    heard(deleted);
                }
            }
            Notification::Sync(object) => match (&mut self.on_resync, &mut self.on_update) {
                (Some(heard), _) => heard(object),
                (None, Some(heard)) => heard(object, object),
                (None, None) => {}
            },
            Notification::Synced => {}
        }
    }
}

impl<K: 'static> Informer<K> {
    /// Adds handlers, at any time: they hear everything stored as initial adds, then every change.
    /// Handlers that fall behind receive a diff instead of the changes that they missed.
    ///
    /// # Errors
    /// The informer is stopped, or no tokio runtime runs here.
    #[doc(alias = "AddEventHandler")]
    pub fn add_handler(&self, handlers: Handlers<K>) -> Result<Registration, Error> {
        self.cores().running()?;
        in_runtime()?;
        let parts = handlers.into_parts(Arc::clone(self.lens()));
        Ok(listen(self.cores(), parts))
    }
}

impl<K> fmt::Debug for Handlers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("name", &self.name)
            .field("resync", &self.resync)
            .field("run_on", &self.run_on)
            .finish_non_exhaustive()
    }
}
