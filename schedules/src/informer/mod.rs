//! Handlers and their places in the stream, from the shell's sources, on a core of a few lines.
//!
//! ```text
//! scenario: Writer::apply, Core::wake ──▶ Cursor ──▶ Subscription ──▶ Listener ──▶ a handler's calls
//! ```
//!
//! The core here has the fields that those files use, and no source, fifo or reflector: a scenario
//! applies the deltas.

#[path = "../../../crates/kinform/src/informer/cursor.rs"]
mod cursor;
#[path = "../../../crates/kinform/src/informer/listener.rs"]
#[expect(dead_code, reason = "a scenario calls a part of it")]
mod listener;
#[path = "../../../crates/kinform/src/informer/registration.rs"]
#[expect(dead_code, reason = "a scenario calls a part of it")]
mod registration;
pub(crate) mod scenario;
#[path = "../../../crates/kinform/src/informer/subscription.rs"]
mod subscription;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kinform_core::delta::HandlerId;
use kinform_core::informer::writer::Reader;

use self::cursor::{Cursor, Progress};
use self::registration::ListenerState;
use self::subscription::{Piece, Subscription};
use crate::env::Env;
use crate::report::ReportEvent;
use crate::sync::{CancellationToken, Mutex, lock, watch};

/// One store, as listeners see it.
#[derive(Debug)]
struct Core {
    reader: Reader,
    env: Env,
    progress: watch::Sender<Progress>,
    cursors: AtomicUsize,
    stops_when_unused: AtomicBool,
    commands: Commands,
    listeners: Mutex<Vec<Weak<ListenerState>>>,
    reporter: Reporter,
}

impl Core {
    fn new(reader: Reader) -> Arc<Self> {
        Arc::new(Self {
            reader,
            env: Env::system(),
            progress: watch::Sender::new(Progress::default()),
            cursors: AtomicUsize::new(0),
            stops_when_unused: AtomicBool::new(false),
            commands: Commands,
            listeners: Mutex::default(),
            reporter: Reporter::default(),
        })
    }

    fn add_listener(&self, listener: &Arc<ListenerState>) {
        lock(&self.listeners).push(Arc::downgrade(listener));
    }

    fn remove_listener(&self, listener: &Arc<ListenerState>) {
        lock(&self.listeners).retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(listener)));
    }

    fn stop(&self) {}
}

/// A command that no loop obeys.
#[expect(dead_code, reason = "no loop obeys it")]
enum Command {
    Resync(HandlerId, Duration),
    Forget(HandlerId),
}

#[derive(Debug)]
struct Commands;

impl Commands {
    fn send(&self, _: Command) -> Result<(), Command> {
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Reporter {
    telemetry: Telemetry,
}

impl Reporter {
    fn report(&self, event: ReportEvent) {
        drop(event);
    }
}

#[derive(Debug, Default)]
struct Telemetry {
    panics: AtomicU64,
}

impl Telemetry {
    fn notified(&self, _: u64) {}

    fn handler_panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }
}

/// The watches of one informer: one, which stays.
#[derive(Clone, Debug)]
struct Cores(Arc<Group>);

#[derive(Debug)]
struct Group {
    members: Vec<Member>,
    changed: watch::Sender<u64>,
    tasks: Tasks,
    stop: CancellationToken,
    listeners: AtomicU64,
}

#[derive(Debug)]
struct Member {
    id: u64,
    core: Arc<Core>,
}

#[derive(Debug, Default)]
struct Tasks {
    tracker: Tracker,
    abort: CancellationToken,
}

#[derive(Debug, Default)]
struct Tracker;

impl Tracker {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(shuttle::future::spawn(task));
    }
}

impl Cores {
    fn new(core: Arc<Core>) -> Self {
        Self(Arc::new(Group {
            members: vec![Member { id: 1, core }],
            changed: watch::Sender::new(0),
            tasks: Tasks::default(),
            stop: CancellationToken::new(),
            listeners: AtomicU64::new(0),
        }))
    }

    fn members(&self) -> &[Member] {
        &self.0.members
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn count_listener(&self) -> u64 {
        self.0.listeners.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn resync_period(&self) -> Option<Duration> {
        None
    }

    fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    fn stop_token(&self) -> &CancellationToken {
        &self.0.stop
    }
}
