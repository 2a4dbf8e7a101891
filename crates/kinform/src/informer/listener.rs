//! The task of one handler: takes its changes from the ring, and calls it.
//!
//! ```text
//! progress → Subscription::next → change by change → Sink (panics caught) → synced, lag, counters
//! ```
//!
//! The handler's subscription is made of machines of the core; this module waits, calls and ends.
//! The task ends when its handler is removed (after the call under way), or when the informer has
//! ended and the handler has received every published change.
//! INVARIANT: user code runs under no lock, and its panic ends no task: it counts as delivered.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`processorListener`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::registration::{ListenerState, Registration};
use super::{Core, Cores, Piece, Subscription};
use crate::report::ReportEvent;
use crate::sync::lock;
use futures::FutureExt;
use futures::future::BoxFuture;
use kinform_api::mutant;
use kinform_core::delta::Change;
use kinform_core::informer::delivery::Changes;
use kinform_core::informer::resync::MINIMUM_PERIOD;

/// BOUND: changes delivered before other tasks have their turn. A batch is not divided: its rest is
/// delivered first.
const AT_ONCE: usize = 256;

/// The place where handlers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunOn {
    /// On a task of the runtime.
    #[default]
    Task,
    /// On a thread that may block.
    Thread,
}

/// Handlers without their type, as the informer keeps them.
pub(crate) struct ListenerParts {
    pub(crate) name: Option<String>,
    pub(crate) resync: Option<Duration>,
    pub(crate) run_on: RunOn,
    pub(crate) sink: Sink,
}

/// One call of a sink.
#[derive(Debug)]
pub(crate) enum SinkCall<'a> {
    Change(&'a Change),
    Synced,
    /// To sinks that are not async: further changes may follow only later.
    BatchEnd,
}

type SyncSink = Box<dyn FnMut(SinkCall<'_>) + Send>;

/// The receiver of changes.
pub(crate) enum Sink {
    Sync(SyncSink),
    Async(Box<dyn FnMut(SinkCall<'_>) -> BoxFuture<'static, ()> + Send>),
}

struct Listener {
    subscription: Subscription,
    state: Arc<ListenerState>,
    sink: Option<Sink>,
    run_on: RunOn,
}

/// Adds handlers to an informer. Must be called inside a runtime.
pub(crate) fn listen(cores: &Cores, parts: ListenerParts) -> Registration {
    let number = cores.count_listener();
    // client-go: a period below one second is raised to it.
    let resync = parts.resync.or_else(|| cores.resync_period());
    let resync = resync.filter(|period| !period.is_zero());
    let resync = resync.map(|period| period.max(MINIMUM_PERIOD));
    let name = parts.name.unwrap_or_else(|| format!("handler-{number}"));
    let state = ListenerState::new(name);
    let listener = Listener {
        // Here, not in the task: changes published from now on are live, not initial.
        subscription: Subscription::new(cores, Arc::clone(&state), resync),
        state: Arc::clone(&state),
        sink: Some(parts.sink),
        run_on: parts.run_on,
    };
    let tasks = cores.tasks();
    let abort = tasks.abort.clone();
    tasks.tracker.spawn(async move {
        let ended = listener.state.ended.clone().drop_guard();
        tokio::select! {
            biased;
            () = abort.cancelled() => {}
            () = listener.run() => {}
        }
        drop(ended);
    });
    Registration::new(state)
}

impl Listener {
    async fn run(mut self) {
        lock(&self.state.inside).task = tokio::task::try_id();
        let mut told = 0;
        loop {
            // Before the next look: a publication from here on wakes this task.
            let is_over = !mutant!("C4") && self.subscription.look();
            let draining = is_over || self.state.drain.is_cancelled();
            if self.state.remove.is_cancelled() {
                if mutant!("B32") {
                    std::future::pending::<()>().await;
                }
                break;
            }
            let piece = self.subscription.next();
            // Before the handler is called: it may need long for what it missed.
            self.state.measure(self.subscription.times_behind());
            match piece {
                Some(Piece::Changes(core, changes)) => {
                    told += changes.len();
                    self.tell(core, changes).await;
                }
                Some(Piece::Synced) => {
                    self.tell_synced().await;
                    self.state.synced.send_replace(true);
                }
                None if draining => break,
                None if mutant!("C4") && self.subscription.look() => break,
                None => self.wait().await,
            }
            if told >= AT_ONCE {
                told = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    async fn wait(&mut self) {
        tokio::select! {
            biased;
            () = self.state.remove.cancelled() => {}
            () = self.state.drain.cancelled() => {}
            () = self.subscription.wait() => {}
        }
    }

    async fn tell(&mut self, core: Arc<Core>, changes: Changes) {
        match self.sink.take() {
            Some(Sink::Sync(sink)) => {
                let state = Arc::clone(&self.state);
                self.call(sink, move |sink| tell_each(sink, &changes, &state, &core))
                    .await;
            }
            Some(Sink::Async(mut sink)) => {
                for change in &*changes {
                    if self.state.remove.is_cancelled() {
                        break;
                    }
                    let told = catch_unwind(AssertUnwindSafe(|| sink(SinkCall::Change(change))));
                    let heard = match told {
                        Ok(future) => AssertUnwindSafe(future).catch_unwind().await.is_ok(),
                        Err(_) => false,
                    };
                    count(&self.state, &core, Some(change), heard);
                }
                self.sink = Some(Sink::Async(sink));
            }
            None => {}
        }
    }

    async fn tell_synced(&mut self) {
        let heard = match self.sink.take() {
            Some(Sink::Sync(sink)) => {
                let state = Arc::clone(&self.state);
                let told = move |sink: &mut SyncSink| {
                    let _inside = state.enter();
                    catch_unwind(AssertUnwindSafe(|| sink(SinkCall::Synced))).is_ok()
                };
                self.call(sink, told).await.unwrap_or(true)
            }
            Some(Sink::Async(mut sink)) => {
                let told = catch_unwind(AssertUnwindSafe(|| sink(SinkCall::Synced)));
                self.sink = Some(Sink::Async(sink));
                match told {
                    Ok(future) => AssertUnwindSafe(future).catch_unwind().await.is_ok(),
                    Err(_) => false,
                }
            }
            None => true,
        };
        if !heard {
            panicked(&self.state, self.subscription.any_core(), None);
        }
    }

    /// Calls a sink where it is to run, and keeps it; `None` if the runtime has ended.
    async fn call<T: Send + 'static>(
        &mut self,
        mut sink: SyncSink,
        told: impl FnOnce(&mut SyncSink) -> T + Send + 'static,
    ) -> Option<T> {
        let told = move || (told(&mut sink), sink);
        let (result, sink) = match self.run_on {
            RunOn::Task => told(),
            RunOn::Thread => match tokio::task::spawn_blocking(told).await {
                Ok(done) => done,
                // Only the end of the runtime cancels it.
                Err(_) => {
                    self.state.remove.cancel();
                    return None;
                }
            },
        };
        self.sink = Some(Sink::Sync(sink));
        Some(result)
    }
}

fn tell_each(sink: &mut SyncSink, changes: &Changes, state: &Arc<ListenerState>, core: &Core) {
    let _inside = state.enter();
    for change in &**changes {
        if state.remove.is_cancelled() {
            break;
        }
        let locked = mutant!("B27").then(|| lock(&core.listeners));
        let heard = catch_unwind(AssertUnwindSafe(|| sink(SinkCall::Change(change)))).is_ok();
        drop(locked);
        if mutant!("B35") && !heard {
            panic!("a handler's panic goes on");
        }
        count(state, core, Some(change), heard);
    }
    if catch_unwind(AssertUnwindSafe(|| sink(SinkCall::BatchEnd))).is_err() {
        panicked(state, Some(core), None);
    }
}

fn count(state: &ListenerState, core: &Core, change: Option<&Change>, heard: bool) {
    state.heard.fetch_add(1, Ordering::Relaxed);
    core.reporter.telemetry.notified(1);
    if !heard {
        panicked(state, Some(core), change);
    }
}

fn panicked(state: &ListenerState, core: Option<&Core>, change: Option<&Change>) {
    state.panics.fetch_add(1, Ordering::Relaxed);
    let key = change.map(|change| change.object().key());
    tracing::error!(handler = %state.name, key = ?key, "a handler panicked");
    // An informer whose namespaces were all removed has no core, and so no reporter.
    let Some(core) = core else { return };
    core.reporter.telemetry.handler_panicked();
    core.reporter.report(ReportEvent::HandlerPanicked {
        handler: state.name.clone(),
        key,
    });
}
