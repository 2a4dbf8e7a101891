//! The notifications of all handlers: checked, counted, and timed.
//!
//! ```text
//! Handlers ──▶ EventChecker: contradictions │ counters │ lag: annotation of the write ──▶ now
//! ```

use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kinform::{Handlers, Notification, Obj};
use kinform_testkit::checks::event_checker::EventChecker;
use kube_core::DynamicObject;

/// The annotation with the time of a write, in nanoseconds since 1970.
pub(crate) const WRITTEN: &str = "soak.kinform/written";
/// The pause of the slow handler: longer than the time between two writes.
const PAUSE: Duration = Duration::from_millis(6);
/// The handler that panics does so once in as many calls.
const CALLS_A_PANIC: u64 = 997;
/// The message of a panic that is planned.
const PLANNED: &str = "a planned panic of a handler";
/// BOUND: lags that are kept between two samples.
const MAX_LAGS: usize = 100_000;

/// The behaviour of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It does nothing wrong.
    Plain,
    /// It panics now and then.
    Panicking,
    /// It is slower than the writes.
    Slow,
}

/// Everything that was heard.
#[derive(Debug, Default)]
pub(super) struct Witness {
    pub(super) visits: AtomicU64,
    pub(super) reconciles: AtomicU64,
    pub(super) terms: AtomicU64,
    checkers: Mutex<Vec<EventChecker>>,
    /// Contradictions that handlers heard which are gone.
    past: Mutex<Vec<String>>,
    lags: Mutex<Vec<u64>>,
}

impl Witness {
    /// A handler that stays, and its checker.
    pub(super) fn handlers(
        self: &Arc<Self>,
        name: &str,
        manner: Manner,
    ) -> (EventChecker, Handlers<DynamicObject>) {
        let checker = EventChecker::new(name);
        lock(&self.checkers).push(checker.clone());
        let handlers = match manner {
            Manner::Slow => slow(&checker).named(name),
            Manner::Plain | Manner::Panicking => self.closures(&checker, manner).named(name),
        };
        (checker, handlers)
    }

    fn closures(
        self: &Arc<Self>,
        checker: &EventChecker,
        manner: Manner,
    ) -> Handlers<DynamicObject> {
        let calls = Arc::new(AtomicU64::new(0));
        let hear = {
            let checker = checker.clone();
            move |notification: &Notification<DynamicObject>| {
                checker.hear(notification);
                let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
                if manner == Manner::Panicking && call.is_multiple_of(CALLS_A_PANIC) {
                    panic::panic_any(PLANNED);
                }
            }
        };
        let [add, update, delete, resync] = [(); 4].map(|()| hear.clone());
        let (timed_add, timed_update) = (Arc::clone(self), Arc::clone(self));
        Handlers::new()
            .on_add(move |added| {
                if !added.is_initial() {
                    timed_add.time(None, added.object());
                }
                add(&Notification::Added(added.clone()));
            })
            .on_update(move |old, new| {
                timed_update.time(Some(old), new);
                let (old, new) = (old.clone(), new.clone());
                update(&Notification::Updated { old, new });
            })
            .on_delete(move |deleted| delete(&Notification::Deleted(deleted.clone())))
            .on_resync(move |object| resync(&Notification::Sync(object.clone())))
            .on_synced(move || hear(&Notification::Synced))
    }

    /// Takes the time since the write that made this state, if the driver wrote it.
    fn time(&self, old: Option<&Obj<DynamicObject>>, new: &Obj<DynamicObject>) {
        let (before, at) = (old.and_then(written), written(new));
        let Some(at) = at.filter(|_| at != before) else {
            return;
        };
        let mut lags = lock(&self.lags);
        if lags.len() < MAX_LAGS {
            lags.push(now().saturating_sub(at) / 1_000_000);
        }
    }

    /// Notifications that the handlers heard which stay.
    pub(super) fn heard(&self) -> u64 {
        lock(&self.checkers)
            .iter()
            .map(EventChecker::delivered)
            .sum()
    }

    /// The lags in milliseconds since the last call.
    pub(super) fn take_lags(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.lags))
    }

    /// Records what a handler heard that is gone now.
    pub(super) fn leave(&self, checker: &EventChecker) {
        if let Err(violation) = checker.check() {
            lock(&self.past).push(violation.to_string());
        }
    }

    /// The number of handlers that heard a contradiction, and the first contradiction.
    pub(super) fn contradictions(&self) -> (u64, Option<String>) {
        let checkers = lock(&self.checkers);
        let heard = checkers.iter().filter_map(|checker| checker.check().err());
        let mut all = lock(&self.past).clone();
        all.extend(heard.map(|violation| violation.to_string()));
        (all.len() as u64, all.into_iter().next())
    }
}

/// A handler that pauses before each change; the first list it hears at once.
fn slow(checker: &EventChecker) -> Handlers<DynamicObject> {
    let checker = checker.clone();
    Handlers::new().on_event_async(move |notification| {
        let checker = checker.clone();
        async move {
            match &notification {
                Notification::Added(added) if added.is_initial() => {}
                _ => tokio::time::sleep(PAUSE).await,
            }
            checker.hear(&notification);
        }
    })
}

/// The time at which the driver wrote an object.
fn written(object: &Obj<DynamicObject>) -> Option<u64> {
    object.annotation(WRITTEN)?.parse().ok()
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Keeps planned panics off the terminal.
pub(super) fn hide_planned_panics() {
    let shown = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&PLANNED) {
            shown(panic);
        }
    }));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
