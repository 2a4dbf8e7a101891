//! Signs of user code that a simulation cannot see from its server: panics, blocked threads, endless
//! work, the number of reconciles, those that fail again and again.
//!
//! ```text
//! panic hook ─▶ messages of this thread            spans "reconcile" ─▶ a count, failures
//! runtime parks ─▶ Watchdog (a thread) ─▶ 5 s without: the run is told; 10 s: the process ends
//! ```
//!
//! Upstream counterpart: none.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::spans::{Failing, Spans};

thread_local! {
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Collects the panics of this thread, and counts its reconciles, until it is dropped.
#[derive(Debug)]
pub(crate) struct Alarms {
    #[expect(
        dead_code,
        reason = "the subscriber is this thread's while the guard lives"
    )]
    spans: tracing::subscriber::DefaultGuard,
}

impl Alarms {
    /// Begins with none.
    pub(crate) fn set() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                let collected = PANICS.with_borrow_mut(|all| {
                    let all = all.as_mut()?;
                    all.push(panic.to_string().replace('\n', " "));
                    Some(())
                });
                if collected.is_none() {
                    before(panic);
                }
            }));
        });
        PANICS.set(Some(Vec::new()));
        Self {
            spans: tracing::subscriber::set_default(Spans::begin()),
        }
    }

    /// The first panic so far.
    pub(crate) fn panic() -> Option<String> {
        PANICS.with_borrow(|all| all.as_ref()?.first().cloned())
    }

    /// The reconciles so far, of kinform's controllers and of kube-runtime's.
    pub(crate) fn reconciles() -> u64 {
        Spans::reconciles()
    }

    /// A key whose last reconciles failed, of kinform's controllers.
    pub(crate) fn failing() -> Option<Failing> {
        Spans::failing()
    }
}

impl Drop for Alarms {
    fn drop(&mut self) {
        PANICS.set(None);
    }
}

/// BOUND: the time for which a run may have tasks to run without a pause.
const BUSY: u32 = 5;
/// BOUND: the time for which user code may block the thread; after it the process ends.
const BLOCKED: u32 = 10;

/// Watches that the thread of a simulation makes progress, by the real clock.
#[derive(Debug)]
pub(crate) struct Watchdog {
    progress: Arc<Progress>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// The progress of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The times that its runtime had no task to run.
    parked: AtomicU64,
    /// Wakes the run that is always busy.
    pub(crate) busy: Notify,
    ended: Mutex<bool>,
    end: Condvar,
}

impl Progress {
    /// The runtime has no task to run now.
    pub(crate) fn park(&self) {
        self.parked.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a second; returns whether the simulation has ended.
    fn is_over(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let second = Duration::from_secs(1);
        let waited = self.end.wait_timeout_while(ended, second, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Watchdog {
    /// Watches from now on.
    pub(crate) fn start(test: String) -> Self {
        let progress = Arc::new(Progress::default());
        let watched = Arc::clone(&progress);
        let watch = move || {
            let (mut last, mut since) = (0, 0);
            while !watched.is_over() {
                let now = watched.parked.load(Ordering::Relaxed);
                since = if now == last { since + 1 } else { 0 };
                last = now;
                if since >= BUSY {
                    watched.busy.notify_one();
                }
                if since >= BLOCKED {
                    end_process(&test);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("kinform-watchdog".to_owned())
            .spawn(watch);
        Self {
            progress,
            // Without a thread, nobody watches: the simulation is right all the same.
            thread: thread.ok(),
        }
    }

    /// The progress that it watches.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self
            .progress
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.progress.end.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the watchdog is no matter of the simulation's.
            let _ = thread.join();
        }
    }
}

#[expect(clippy::print_stderr, reason = "the test ends here, and this says why")]
fn end_process(test: &str) -> ! {
    eprintln!(
        "simulate: in {test}, code of the operator has blocked its thread for {BLOCKED} s. \
         A future must not block: use the async form, or tokio::task::spawn_blocking"
    );
    std::process::exit(101)
}
