//! The task of one handler: takes what it is to hear from the ring, and calls it.
//!
//! ```text
//! progress → Delivery::next → change by change → Sink (panics caught) → synced, lag, counters
//! ```
//!
//! The handler's place in the stream is a machine of the core; here is who waits, calls and ends.
//! It ends when it is removed (after the change under way), or when the informer has ended and
//! everything published was heard.
//! INVARIANT: user code runs under no lock, and its panic ends nothing: it counts as delivered.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`processorListener`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::select_all;
use kinform_core::delta::Change;
use kinform_core::informer::delivery::{Changes, Next};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Command, Core, Cores, Seat};
use crate::handler::{Parts, Place, Sink, Told};
use crate::report::{Report, ReportEvent};

/// Handlers that were added to an informer. Dropping it changes nothing; they are removed by
/// [`remove`](Self::remove).
#[derive(Debug)]
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct Registration {
    shared: Arc<Shared>,
}

/// What the task, the registration and the informer know together.
#[derive(Debug)]
pub(crate) struct Shared {
    name: String,
    synced: watch::Sender<bool>,
    lag: AtomicU64,
    heard: AtomicU64,
    panics: AtomicU64,
    remove: CancellationToken,
    drain: CancellationToken,
    ended: CancellationToken,
}

impl Shared {
    pub(crate) fn new(name: String) -> Arc<Self> {
        Arc::new(Self {
            name,
            synced: watch::Sender::new(false),
            lag: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            remove: CancellationToken::new(),
            drain: CancellationToken::new(),
            ended: CancellationToken::new(),
        })
    }

    pub(crate) fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    pub(crate) fn set_lag(&self, lag: u64) {
        self.lag.store(lag, Ordering::Relaxed);
    }
}

impl Registration {
    /// The name given to the handlers, or one that was made up.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether everything that was stored at the beginning has been heard.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until everything that was stored at the beginning has been heard, or the handlers are
    /// gone; whether it was heard.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn synced(&self) -> bool {
        let mut synced = self.shared.synced.subscribe();
        tokio::select! {
            biased;
            reached = synced.wait_for(|synced| *synced) => reached.is_ok(),
            () = self.shared.ended.cancelled() => self.has_synced(),
        }
    }

    /// How many batches wait to be heard.
    pub fn lag(&self) -> u64 {
        self.shared.lag()
    }

    /// How many changes were told.
    pub fn heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Relaxed)
    }

    /// How many of them ended in a panic.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }

    /// Removes the handlers; returns when the change under way, if any, was heard. What waits is
    /// not told. Must not be awaited inside these handlers.
    ///
    /// Cancel safety: once polled, they are removed even if the wait is dropped.
    pub async fn remove(self) {
        self.shared.remove.cancel();
        self.shared.ended.cancelled().await;
    }

    /// Removes the handlers when they have heard everything published so far.
    ///
    /// Cancel safety: once polled, they are removed even if the wait is dropped.
    pub async fn drain(self) {
        self.shared.drain.cancel();
        self.shared.ended.cancelled().await;
    }

    /// Whether the handlers are gone: removed, or heard everything of an informer that ended.
    pub fn is_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }
}

struct Listener {
    places: Vec<Seat>,
    shared: Arc<Shared>,
    sink: Option<Sink>,
    place: Place,
}

/// What a turn over all places came to.
enum Turn {
    Told,
    Idle,
    Removed,
}

/// Adds handlers to all cores of an informer. Must be called inside a runtime.
pub(super) fn listen(cores: &Cores, parts: Parts) -> Registration {
    let places: Vec<_> = cores.iter().map(Core::seat).collect();
    let name = parts.name.unwrap_or_else(|| {
        let first = places.first().map_or(0, |place| place.delivery.id().0);
        format!("handler-{first}")
    });
    let shared = Shared::new(name);
    for (core, place) in cores.iter().zip(&places) {
        core.add_listener(&shared);
        if let Some(period) = parts.resync {
            let _ = core
                .commands
                .send(Command::Resync(place.delivery.id(), period));
        }
    }
    let listener = Listener {
        places,
        shared: Arc::clone(&shared),
        sink: Some(parts.sink),
        place: parts.place,
    };
    let tasks = &cores[0].tasks;
    let abort = tasks.abort.clone();
    tasks.tracker.spawn(async move {
        let ended = listener.shared.ended.clone().drop_guard();
        tokio::select! {
            biased;
            () = abort.cancelled() => {}
            () = listener.run() => {}
        }
        drop(ended);
    });
    Registration { shared }
}

impl Listener {
    async fn run(mut self) {
        loop {
            // Before looking: what is published from here on wakes us.
            let ended = self
                .places
                .iter_mut()
                .all(|place| place.progress.borrow_and_update().ended);
            let draining = ended || self.shared.drain.is_cancelled();
            match self.turn().await {
                Turn::Told => tokio::task::yield_now().await,
                Turn::Removed => break,
                Turn::Idle if draining => break,
                Turn::Idle => self.wait().await,
            }
        }
        self.shared.set_lag(0);
    }

    async fn wait(&mut self) {
        let news = self
            .places
            .iter_mut()
            .map(|place| Box::pin(place.progress.changed()));
        tokio::select! {
            biased;
            () = self.shared.remove.cancelled() => {}
            () = self.shared.drain.cancelled() => {}
            _ = select_all(news) => {}
        }
    }

    /// One piece from each place that has one.
    async fn turn(&mut self) -> Turn {
        let mut turn = Turn::Idle;
        for at in 0..self.places.len() {
            if self.shared.remove.is_cancelled() {
                return Turn::Removed;
            }
            match self.places[at].delivery.next() {
                Next::Changes(changes) => {
                    self.tell(at, changes).await;
                    turn = Turn::Told;
                }
                Next::Synced => {
                    turn = Turn::Told;
                    if self.places.iter().all(|place| place.delivery.has_synced()) {
                        self.tell_synced().await;
                        self.shared.synced.send_replace(true);
                    }
                }
                Next::Idle => {}
            }
        }
        let waiting = self.places.iter().map(|place| place.delivery.waiting());
        self.shared.set_lag(waiting.sum());
        if self.shared.remove.is_cancelled() {
            return Turn::Removed;
        }
        turn
    }

    async fn tell(&mut self, at: usize, changes: Changes) {
        let core = Arc::clone(&self.places[at].core);
        match self.sink.take() {
            Some(Sink::Sync(mut sink)) => {
                let shared = Arc::clone(&self.shared);
                let told = move || {
                    tell_each(&mut sink, &changes, &shared, &core);
                    sink
                };
                let sink = match self.place {
                    Place::Task => told(),
                    Place::Thread => match tokio::task::spawn_blocking(told).await {
                        Ok(sink) => sink,
                        // Only the end of the runtime cancels it.
                        Err(_) => return self.shared.remove.cancel(),
                    },
                };
                self.sink = Some(Sink::Sync(sink));
            }
            Some(Sink::Async(mut sink)) => {
                for change in &*changes {
                    if self.shared.remove.is_cancelled() {
                        break;
                    }
                    let told = catch_unwind(AssertUnwindSafe(|| sink(Told::Change(change))));
                    let heard = match told {
                        Ok(future) => AssertUnwindSafe(future).catch_unwind().await.is_ok(),
                        Err(_) => false,
                    };
                    count(&self.shared, &core, Some(change), heard);
                }
                self.sink = Some(Sink::Async(sink));
            }
            None => {}
        }
    }

    async fn tell_synced(&mut self) {
        let heard = match &mut self.sink {
            Some(Sink::Sync(sink)) => catch_unwind(AssertUnwindSafe(|| sink(Told::Synced))).is_ok(),
            Some(Sink::Async(sink)) => {
                match catch_unwind(AssertUnwindSafe(|| sink(Told::Synced))) {
                    Ok(future) => AssertUnwindSafe(future).catch_unwind().await.is_ok(),
                    Err(_) => false,
                }
            }
            None => true,
        };
        if !heard {
            panicked(&self.shared, &self.places[0].core, None);
        }
    }
}

fn tell_each(
    sink: &mut Box<dyn FnMut(Told<'_>) + Send>,
    changes: &Changes,
    shared: &Arc<Shared>,
    core: &Core,
) {
    for change in &**changes {
        if shared.remove.is_cancelled() {
            return;
        }
        let heard = catch_unwind(AssertUnwindSafe(|| sink(Told::Change(change)))).is_ok();
        count(shared, core, Some(change), heard);
    }
}

fn count(shared: &Shared, core: &Core, change: Option<&Change>, heard: bool) {
    shared.heard.fetch_add(1, Ordering::Relaxed);
    core.telemetry.notified(1);
    if !heard {
        panicked(shared, core, change);
    }
}

fn panicked(shared: &Shared, core: &Core, change: Option<&Change>) {
    shared.panics.fetch_add(1, Ordering::Relaxed);
    core.telemetry.handler_panicked();
    let key = change.map(|change| change.object().key());
    tracing::error!(handler = %shared.name, key = ?key, "a handler panicked");
    core.report(Report::now(ReportEvent::HandlerPanicked {
        handler: shared.name.clone(),
        key,
    }));
}
