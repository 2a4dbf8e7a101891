//! The task of one handler: takes what it is to hear from the ring, and calls it.
//!
//! ```text
//! progress → Subscription::next → change by change → Sink (panics caught) → synced, lag, counters
//! ```
//!
//! The handler's subscription is made of machines of the core; here is who waits, calls and ends.
//! It ends when it is removed (after the change under way), or when the informer has ended and
//! everything published was heard.
//! INVARIANT: user code runs under no lock, and its panic ends nothing: it counts as delivered.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`processorListener`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use futures::FutureExt;
use kinform_core::delta::Change;
use kinform_core::informer::delivery::Changes;
use kinform_core::mutant;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Core, Cores, Piece, Subscription, lock};
use crate::handler::{Parts, RunOn, Sink, Told};
use crate::report::{Report, ReportEvent};

/// BOUND: changes told, but for the rest of a batch, before other tasks have their turn.
const AT_ONCE: usize = 256;

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
    times_behind: AtomicU64,
    remove: CancellationToken,
    drain: CancellationToken,
    ended: CancellationToken,
    inside: Mutex<Inside>,
}

/// Where the callbacks run: who waits for their end in there would wait for itself.
#[derive(Debug, Default)]
struct Inside {
    task: Option<tokio::task::Id>,
    thread: Option<ThreadId>,
}

impl Shared {
    pub(crate) fn new(name: String) -> Arc<Self> {
        Arc::new(Self {
            name,
            synced: watch::Sender::new(false),
            lag: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            times_behind: AtomicU64::new(0),
            remove: CancellationToken::new(),
            drain: CancellationToken::new(),
            ended: CancellationToken::new(),
            inside: Mutex::default(),
        })
    }

    pub(crate) fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    pub(crate) fn times_behind(&self) -> u64 {
        self.times_behind.load(Ordering::Relaxed)
    }

    /// Copies what the subscription says.
    pub(crate) fn measure(&self, subscription: &Subscription) {
        self.lag.store(subscription.waiting(), Ordering::Relaxed);
        let behind = subscription.times_behind();
        self.times_behind.fetch_max(behind, Ordering::Relaxed);
    }

    /// Until the guard is dropped, callbacks run on this thread.
    fn enter(&self) -> impl Drop + use<'_> {
        struct Guard<'a>(&'a Shared);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                lock(&self.0.inside).thread = None;
            }
        }
        lock(&self.inside).thread = Some(thread::current().id());
        Guard(self)
    }

    /// Waits for the end of the task, but for the callback that asks.
    async fn ended(&self) {
        let is_own = {
            let inside = lock(&self.inside);
            let here = tokio::task::try_id();
            (here.is_some() && here == inside.task) || inside.thread == Some(thread::current().id())
        };
        if !is_own {
            self.ended.cancelled().await;
        }
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

    /// How often these handlers fell behind what is kept for them, and were told the difference.
    pub fn times_behind(&self) -> u64 {
        self.shared.times_behind()
    }

    /// Removes the handlers; returns when the change under way, if any, was heard. What waits is
    /// not told. Awaited inside one of these handlers it returns at once, and that call is the last;
    /// inside a task that such a handler started and waits for, it waits for ever.
    ///
    /// Cancel safety: once polled, they are removed even if the wait is dropped.
    #[doc(alias = "ShutDownEventHandler")]
    pub async fn remove(self) {
        self.cancel();
        self.shared.ended().await;
    }

    /// Removes the handlers without waiting: the change under way may still be heard, nothing after
    /// it. Later calls, also after the informer ended, change nothing.
    #[doc(alias = "RemoveEventHandler")]
    pub fn cancel(&self) {
        self.shared.remove.cancel();
    }

    /// Removes the handlers when they have heard everything published so far. Awaited inside one of
    /// these handlers it returns at once, and they go on until then.
    ///
    /// Cancel safety: once polled, they are removed even if the wait is dropped.
    pub async fn drain(self) {
        self.shared.drain.cancel();
        self.shared.ended().await;
    }

    /// Whether the handlers are gone: removed, or heard everything of an informer that ended.
    pub fn is_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }
}

struct Listener {
    subscription: Subscription,
    shared: Arc<Shared>,
    sink: Option<Sink>,
    run_on: RunOn,
}

/// Adds handlers to an informer. Must be called inside a runtime.
pub(super) fn listen(cores: &Cores, parts: Parts) -> Registration {
    let number = cores.count_listener();
    let name = parts.name.unwrap_or_else(|| format!("handler-{number}"));
    let shared = Shared::new(name);
    let listener = Listener {
        // Here, not in the task: what is published from now on is heard as such.
        subscription: Subscription::new(cores, Arc::clone(&shared), parts.resync),
        shared: Arc::clone(&shared),
        sink: Some(parts.sink),
        run_on: parts.run_on,
    };
    let tasks = cores.tasks();
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
        lock(&self.shared.inside).task = tokio::task::try_id();
        let mut told = 0;
        loop {
            // Before looking for more: what is published from here on wakes us.
            let is_over = self.subscription.look();
            let draining = is_over || self.shared.drain.is_cancelled();
            if self.shared.remove.is_cancelled() {
                if mutant!("B32") {
                    std::future::pending::<()>().await;
                }
                break;
            }
            match self.subscription.next() {
                Some(Piece::Changes(core, changes)) => {
                    told += changes.len();
                    self.tell(core, changes).await;
                }
                Some(Piece::Synced) => {
                    self.tell_synced().await;
                    self.shared.synced.send_replace(true);
                }
                None if draining => break,
                None => self.wait().await,
            }
            self.shared.measure(&self.subscription);
            if told >= AT_ONCE {
                told = 0;
                tokio::task::yield_now().await;
            }
        }
        self.shared.lag.store(0, Ordering::Relaxed);
    }

    async fn wait(&mut self) {
        tokio::select! {
            biased;
            () = self.shared.remove.cancelled() => {}
            () = self.shared.drain.cancelled() => {}
            () = self.subscription.wait() => {}
        }
    }

    async fn tell(&mut self, core: Arc<Core>, changes: Changes) {
        match self.sink.take() {
            Some(Sink::Sync(mut sink)) => {
                let shared = Arc::clone(&self.shared);
                let told = move || {
                    tell_each(&mut sink, &changes, &shared, &core);
                    sink
                };
                let sink = match self.run_on {
                    RunOn::Task => told(),
                    RunOn::Thread => match tokio::task::spawn_blocking(told).await {
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
            Some(Sink::Sync(sink)) => {
                let _inside = self.shared.enter();
                catch_unwind(AssertUnwindSafe(|| sink(Told::Synced))).is_ok()
            }
            Some(Sink::Async(sink)) => {
                match catch_unwind(AssertUnwindSafe(|| sink(Told::Synced))) {
                    Ok(future) => AssertUnwindSafe(future).catch_unwind().await.is_ok(),
                    Err(_) => false,
                }
            }
            None => true,
        };
        if !heard {
            panicked(&self.shared, self.subscription.any_core(), None);
        }
    }
}

fn tell_each(
    sink: &mut Box<dyn FnMut(Told<'_>) + Send>,
    changes: &Changes,
    shared: &Arc<Shared>,
    core: &Core,
) {
    let _inside = shared.enter();
    for change in &**changes {
        if shared.remove.is_cancelled() {
            break;
        }
        let locked = mutant!("B27").then(|| lock(&core.listeners));
        let heard = catch_unwind(AssertUnwindSafe(|| sink(Told::Change(change)))).is_ok();
        drop(locked);
        if mutant!("B35") && !heard {
            panic!("a handler's panic goes on");
        }
        count(shared, core, Some(change), heard);
    }
    if catch_unwind(AssertUnwindSafe(|| sink(Told::BatchEnd))).is_err() {
        panicked(shared, Some(core), None);
    }
}

fn count(shared: &Shared, core: &Core, change: Option<&Change>, heard: bool) {
    shared.heard.fetch_add(1, Ordering::Relaxed);
    core.telemetry.notified(1);
    if !heard {
        panicked(shared, Some(core), change);
    }
}

fn panicked(shared: &Shared, core: Option<&Core>, change: Option<&Change>) {
    shared.panics.fetch_add(1, Ordering::Relaxed);
    let key = change.map(|change| change.object().key());
    tracing::error!(handler = %shared.name, key = ?key, "a handler panicked");
    // An informer whose namespaces were all removed has nobody who reports.
    let Some(core) = core else { return };
    core.telemetry.handler_panicked();
    core.report(Report::now(ReportEvent::HandlerPanicked {
        handler: shared.name.clone(),
        key,
    }));
}
