//! The handle of handlers that were added, and the state that it shares with their task.
//!
//! ```text
//! Registration ─remove, drain─▶ ListenerState ◀─synced, places, heard, panics─ Listener (the task)
//! ```
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go`
//! (`ResourceEventHandlerRegistration`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kinform_api::mutant;
use kinform_core::informer::writer::Reader;
use kinform_core::stats::Histogram;

use crate::sync::thread::{self, ThreadId};
use crate::sync::{AtomicU64, CancellationToken, Mutex, lock, watch};

/// Handlers that were added to an informer. Dropping it changes nothing; they are removed by
/// [`remove`](Self::remove).
#[derive(Debug)]
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct Registration {
    state: Arc<ListenerState>,
}

/// Numbers of one handler, or of one stream of changes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HandlerStats {
    /// The name given to the handlers, or a generated one; `stream` of a stream.
    pub name: String,
    /// It has received all initial objects. A stream never says so.
    pub has_synced: bool,
    /// Batches that wait for delivery.
    pub lag: u64,
    /// Changes delivered to handlers; a stream does not count them.
    pub heard: u64,
    /// Calls that ended in a panic.
    pub panics: u64,
    /// Times that it fell behind the kept changes, and received a diff instead.
    pub times_behind: u64,
    /// From the publication of a change in the cache until the handler is done with it, sampled: one
    /// publication at a time. First lists are left out.
    pub latency: Histogram,
}

/// The state that the task, the registration and the informer share.
#[derive(Debug)]
pub(crate) struct ListenerState {
    pub(super) name: String,
    pub(super) synced: watch::Sender<bool>,
    // One for each watch of its informer.
    places: Mutex<Vec<Arc<Place>>>,
    pub(super) heard: AtomicU64,
    pub(super) panics: AtomicU64,
    times_behind: AtomicU64,
    // Empty until something is measured: most listeners of a test never are.
    latency: Mutex<Option<Histogram>>,
    pub(super) remove: CancellationToken,
    pub(super) drain: CancellationToken,
    pub(super) ended: CancellationToken,
    pub(super) inside: Mutex<Inside>,
}

/// The place of a listener in the stream of one watch.
#[derive(Debug)]
pub(super) struct Place {
    reader: Reader,
    // After everything that was handed out.
    position: AtomicU64,
}

impl Place {
    pub(super) fn reach(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// The position after everything that was handed out.
    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> u64 {
        if mutant!("K13") {
            return 0;
        }
        let end = self.reader.ring().end();
        end.saturating_sub(self.position.load(Ordering::Relaxed))
    }
}

/// The task or thread of the callbacks: a callback that waited for the end would wait for itself.
#[derive(Debug, Default)]
pub(super) struct Inside {
    pub(super) task: Option<tokio::task::Id>,
    thread: Option<ThreadId>,
}

impl ListenerState {
    pub(crate) fn new(name: String) -> Arc<Self> {
        Arc::new(Self {
            name,
            synced: watch::Sender::new(false),
            places: Mutex::default(),
            heard: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            times_behind: AtomicU64::new(0),
            latency: Mutex::default(),
            remove: CancellationToken::new(),
            drain: CancellationToken::new(),
            ended: CancellationToken::new(),
            inside: Mutex::default(),
        })
    }

    /// The number of batches that wait now, also while a callback runs.
    pub(crate) fn lag(&self) -> u64 {
        lock(&self.places).iter().map(|place| place.waiting()).sum()
    }

    /// Adds a place in the stream of one watch.
    pub(super) fn add_place(&self, reader: Reader, position: u64) -> Arc<Place> {
        let place = Arc::new(Place {
            reader,
            position: AtomicU64::new(position),
        });
        lock(&self.places).push(Arc::clone(&place));
        place
    }

    pub(super) fn remove_place(&self, place: &Arc<Place>) {
        lock(&self.places).retain(|known| !Arc::ptr_eq(known, place));
    }

    /// Removes all places: a registration that is held longer keeps no cache alive.
    pub(super) fn remove_places(&self) {
        lock(&self.places).clear();
    }

    pub(crate) fn times_behind(&self) -> u64 {
        self.times_behind.load(Ordering::Relaxed)
    }

    /// Records how often the listener fell behind.
    pub(crate) fn measure(&self, times_behind: u64) {
        self.times_behind.fetch_max(times_behind, Ordering::Relaxed);
    }

    /// Records the time from the publication of a change until it was handled.
    pub(super) fn took(&self, latency: Duration) {
        lock(&self.latency).get_or_insert_default().record(latency);
    }

    /// The numbers of the listener.
    pub(crate) fn stats(&self) -> HandlerStats {
        HandlerStats {
            name: self.name.clone(),
            has_synced: *self.synced.borrow(),
            lag: self.lag(),
            heard: self.heard.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            times_behind: self.times_behind(),
            latency: lock(&self.latency).clone().unwrap_or_default(),
        }
    }

    /// Until the guard is dropped, callbacks run on this thread.
    pub(super) fn enter(&self) -> impl Drop + use<'_> {
        struct Guard<'a>(&'a ListenerState);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                lock(&self.0.inside).thread = None;
            }
        }
        lock(&self.inside).thread = Some(thread::current().id());
        Guard(self)
    }

    /// Waits for the end of the task, except in a callback, which would wait for itself.
    async fn ended(&self) {
        let is_own = {
            let inside = lock(&self.inside);
            let here = tokio::task::try_id();
            (here.is_some() && here == inside.task) || inside.thread == Some(thread::current().id())
        };
        if !is_own && !mutant!("C5") {
            self.ended.cancelled().await;
        }
    }
}

impl Registration {
    pub(super) fn new(state: Arc<ListenerState>) -> Self {
        Self { state }
    }

    /// The name given to the handlers, or a generated one.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns whether the handlers have received all initial objects.
    pub fn has_synced(&self) -> bool {
        *self.state.synced.borrow()
    }

    /// Waits until the handlers have received all initial objects, or are gone; returns whether
    /// they received them.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn synced(&self) -> bool {
        let mut synced = self.state.synced.subscribe();
        tokio::select! {
            biased;
            reached = synced.wait_for(|synced| *synced) => reached.is_ok(),
            () = self.state.ended.cancelled() => self.has_synced(),
        }
    }

    /// Returns the number of batches that wait for delivery, also while a handler runs.
    pub fn lag(&self) -> u64 {
        self.state.lag()
    }

    /// Returns the number of changes that were delivered.
    pub fn heard(&self) -> u64 {
        self.state.heard.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that ended in a panic.
    pub fn panics(&self) -> u64 {
        self.state.panics.load(Ordering::Relaxed)
    }

    /// Returns how often these handlers fell behind the kept changes, and received a diff instead.
    pub fn times_behind(&self) -> u64 {
        self.state.times_behind()
    }

    /// Removes the handlers; returns when the call under way, if any, has ended. Waiting changes
    /// are dropped. Awaited inside one of these handlers it returns immediately, and that call is
    /// the last; inside a task that such a handler started and waits for, it waits for ever.
    ///
    /// Cancel safety: once polled, they are removed even if the wait is dropped.
    #[doc(alias = "ShutDownEventHandler")]
    pub async fn remove(self) {
        self.cancel();
        self.state.ended().await;
    }

    /// Removes the handlers without waiting: the call under way may still complete, and none
    /// follows. Later calls, also after the informer ended, change nothing.
    #[doc(alias = "RemoveEventHandler")]
    pub fn cancel(&self) {
        self.state.remove.cancel();
    }

    /// Removes the handlers when they have received everything published so far. Awaited inside one
    /// of these handlers it returns immediately, and they continue until then.
    ///
    /// Cancel safety: once polled, they are removed even if the wait is dropped.
    pub async fn drain(self) {
        self.state.drain.cancel();
        self.state.ended().await;
    }

    /// Returns whether the handlers are gone: removed, or done with an informer that ended.
    pub fn is_ended(&self) -> bool {
        self.state.ended.is_cancelled()
    }
}
