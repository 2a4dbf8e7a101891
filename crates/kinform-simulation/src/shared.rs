//! The state that all parts of a run share: the trace, the history, the dice, the findings.
//!
//! ```text
//! wires, listeners, reconciles ─▶ Shared { trace, history, dice, findings, leaders } ─▶ Run
//! ```
//!
//! Everything is on one thread: the locks are never contended, and never held across an await.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinform::ObjectKey;
use kinform_operator::Operator;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::finding::{Finding, Invariant};
use crate::history::History;
use crate::trace::{Keep, Trace};

/// A process: its number, and the number of its start.
pub(crate) type Life = (usize, u64);

/// BOUND: findings of one run; the first decides.
const MOST_FINDINGS: usize = 20;
/// The longest delay of a hop.
const DELAY_MICROS: u64 = 4_000;

/// A request of a part to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Kill this process.
    Kill(Life),
}

/// The state that all parts of a run share.
pub(crate) struct Shared {
    pub(crate) start: Instant,
    trace: Mutex<Trace>,
    history: Mutex<History>,
    dice: Mutex<SmallRng>,
    findings: Mutex<Vec<Finding>>,
    // BOUND: one for each trap of a script.
    orders: mpsc::UnboundedSender<Order>,
    /// The operators of the processes that are alive, frozen ones too.
    operators: Mutex<BTreeMap<Life, Operator>>,
    /// The keys in a reconcile.
    pub(crate) busy: Mutex<BTreeMap<ObjectKey, Life>>,
    /// The uids whose cleanup is done.
    pub(crate) cleaned: Mutex<BTreeSet<String>>,
    /// Handlers and reconciles fail now and then.
    is_rough: AtomicBool,
    pub(crate) requests: AtomicU64,
    pub(crate) reconciles: AtomicU64,
    /// The caches that went on from what was on disk, without a list.
    pub(crate) resumed: AtomicU64,
    /// The last time at which a controller wrote or reconciled.
    worked: Mutex<Instant>,
    /// The disks of the processes, if they have any.
    disks: Option<TempDir>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks ends the run.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(
        seed: u64,
        keep: Keep,
        (history, disks): (History, Option<TempDir>),
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Order>) {
        let (orders, received) = mpsc::unbounded_channel();
        let shared = Self {
            start: Instant::now(),
            trace: Mutex::new(Trace::new(keep)),
            history: Mutex::new(history),
            dice: Mutex::new(SmallRng::seed_from_u64(seed)),
            findings: Mutex::default(),
            orders,
            operators: Mutex::default(),
            busy: Mutex::default(),
            cleaned: Mutex::default(),
            is_rough: AtomicBool::new(true),
            requests: AtomicU64::new(0),
            reconciles: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            worked: Mutex::new(Instant::now()),
            disks,
        };
        (Arc::new(shared), received)
    }

    /// The folder of the processes' disks.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.disks.as_ref().map(TempDir::path)
    }

    /// Empties the disks of the processes.
    pub(crate) fn clear_disks(&self) {
        let Some(folder) = self.folder() else {
            return;
        };
        for disk in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let files = std::fs::read_dir(disk.path());
            for file in files.into_iter().flatten().flatten() {
                // One that stays is found by the next start that reads it.
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// The time of the run.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        lock(&self.trace).note(self.now(), what);
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        lock(&self.trace)
    }

    /// The history, up to now.
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        let mut history = lock(&self.history);
        history.refresh();
        history
    }

    /// A promise was broken.
    pub(crate) fn find(&self, invariant: Invariant, what: impl Into<String>) {
        let finding = Finding {
            invariant,
            at: self.now(),
            what: what.into(),
        };
        self.note(format_args!("BROKEN {finding}"));
        let mut findings = lock(&self.findings);
        if findings.len() < MOST_FINDINGS {
            findings.push(finding);
        }
    }

    /// The first promise that was broken.
    pub(crate) fn first_finding(&self) -> Option<Finding> {
        lock(&self.findings).first().cloned()
    }

    pub(crate) fn order(&self, order: Order) {
        // A run that has ended needs none.
        let _ = self.orders.send(order);
    }

    /// A number below `most`.
    pub(crate) fn below(&self, most: u64) -> u64 {
        lock(&self.dice).random_range(0..most.max(1))
    }

    /// One time in this many, while things go wrong.
    pub(crate) fn strikes(&self, one_in: u64) -> bool {
        self.is_rough.load(Ordering::Relaxed) && self.below(one_in) == 0
    }

    /// From now on nothing fails by chance.
    pub(crate) fn calm(&self) {
        self.is_rough.store(false, Ordering::Relaxed);
    }

    /// From now on things fail by chance again.
    pub(crate) fn roughen(&self) {
        self.is_rough.store(true, Ordering::Relaxed);
    }

    /// Waits as between two tasks or machines: half of the time only for the turn of others.
    pub(crate) async fn hop(&self) {
        match self.below(8) {
            0..4 => tokio::task::yield_now().await,
            _ => {
                let micros = self.below(DELAY_MICROS);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
        }
    }

    pub(crate) fn begin(&self, life: Life, operator: &Operator) {
        lock(&self.operators).insert(life, operator.clone());
    }

    pub(crate) fn end(&self, life: Life) {
        lock(&self.operators).remove(&life);
        lock(&self.busy).retain(|_, by| *by != life);
    }

    /// The processes that believe to lead. More than one is a finding.
    pub(crate) fn leaders(&self) -> Vec<Life> {
        let operators = lock(&self.operators);
        let leads = |(life, operator): (&Life, &Operator)| operator.term().map(|_| *life);
        operators.iter().filter_map(leads).collect()
    }

    pub(crate) fn worked(&self) {
        *lock(&self.worked) = Instant::now();
    }

    /// The time since a controller wrote or reconciled.
    pub(crate) fn idle(&self) -> Duration {
        lock(&self.worked).elapsed()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
