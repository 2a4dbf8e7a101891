//! The state that all wires of a run share: the trace, the plan's counters, the way to the server.
//!
//! ```text
//! Wire of each process ──write, notification──▶ Hub { counts, plan } ──▶ Mishap now? Order to the run
//! ```
//!
//! Every number is drawn from one seeded sequence, in the order in which one thread asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinform_apiserver::{Service, Store};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::left::Left;
use super::plan::{Extent, Mishap, Plan, When};
use super::trace::{Trace, Who};

/// The longest delay of a request or a notification in a run without other faults.
const DELAY: Duration = Duration::from_millis(4);

/// The requests a second of a process, and those that it may send at once before: the default of
/// kinform's clients.
const RATE: u32 = 50;
const BURST: u32 = 100;

/// A request of a wire to the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// A process has met this, and cannot go on by itself.
    Meet(usize, Mishap),
    /// A write of a process was answered: look at the server.
    Look,
    /// Another client takes back after this time what it has left: see [`Hub::left`].
    Leave(usize, Duration),
}

/// The state that all wires share.
#[derive(Debug)]
pub(crate) struct Hub {
    trace: Mutex<Trace>,
    plan: Plan,
    dice: Mutex<SmallRng>,
    extent: Mutex<Extent>,
    // BOUND: one for each request, whose number the run limits.
    orders: mpsc::UnboundedSender<Order>,
    server: Mutex<Option<(Service, Arc<Store>)>>,
    /// The time at which the requests so far would have been sent, evenly.
    sent: Mutex<Instant>,
    /// The things that other clients have left on the server.
    // BOUND: one for each accident of the plan.
    left: Mutex<Vec<Left>>,
    /// Requests of operators that are neither watches nor traffic of leases and events.
    requests: AtomicU64,
    /// The newest version that an operator was shown, own creations aside.
    seen: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks ends the run: its state is no longer read.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// The hub of a plan; the receiver gets its orders.
    pub(crate) fn new(plan: Plan) -> (Arc<Self>, mpsc::UnboundedReceiver<Order>) {
        let (orders, received) = mpsc::unbounded_channel();
        let hub = Self {
            trace: Mutex::new(Trace::new()),
            dice: Mutex::new(SmallRng::seed_from_u64(plan.seed)),
            plan,
            extent: Mutex::default(),
            orders,
            server: Mutex::default(),
            left: Mutex::default(),
            sent: Mutex::new(Instant::now()),
            requests: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        };
        (Arc::new(hub), received)
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The trace.
    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        lock(&self.trace)
    }

    /// Notes an entry; returns its number.
    pub(crate) fn note(&self, who: Who, text: impl Into<String>) -> usize {
        self.trace().note(who, text)
    }

    /// The writes, reads, notifications and deletions so far.
    pub(crate) fn extent(&self) -> Extent {
        *lock(&self.extent)
    }

    /// Counts a write; returns what happens to it.
    pub(crate) fn write(&self) -> Option<Mishap> {
        let number = {
            let mut extent = lock(&self.extent);
            extent.writes += 1;
            extent.writes
        };
        self.planned(When::Write(number))
    }

    /// Counts a read; returns what happens to it.
    pub(crate) fn read(&self) -> Option<Mishap> {
        let number = {
            let mut extent = lock(&self.extent);
            extent.reads += 1;
            extent.reads
        };
        self.planned(When::Read(number))
    }

    /// Counts a notification; returns what happens to it.
    pub(crate) fn notification(&self) -> Option<Mishap> {
        let number = {
            let mut extent = lock(&self.extent);
            extent.notifications += 1;
            extent.notifications
        };
        self.planned(When::Notification(number))
    }

    /// Counts a deletion of the script; returns what should happen to it, which is not noted yet.
    pub(crate) fn deletion(&self) -> Option<Mishap> {
        let number = {
            let mut extent = lock(&self.extent);
            extent.deletions += 1;
            extent.deletions
        };
        self.plan.at(When::Deletion(number))
    }

    fn planned(&self, when: When) -> Option<Mishap> {
        let what = self.plan.at(when)?;
        self.note(Who::Fault, what.to_string());
        Some(what)
    }

    /// Counts a request.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the rate of requests allows another one.
    pub(crate) async fn throttle(&self) {
        let now = Instant::now();
        let each = Duration::from_secs(1) / RATE;
        let at = {
            let mut sent = lock(&self.sent);
            *sent = (*sent).max(now) + each;
            *sent
        };
        let free = now + each * BURST;
        if at > free {
            tokio::time::sleep(at - free).await;
        }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// An operator was shown this version: no replica is older after a restart.
    pub(crate) fn show(&self, version: u64) {
        self.seen.fetch_max(version, Ordering::Relaxed);
    }

    /// The newest version that an operator was shown.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Sends an order to the run; a run that has ended needs none.
    pub(crate) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Notes a thing that another client has left on the server, and when it takes that back.
    pub(crate) fn leave(&self, thing: Left, after: Option<Duration>) {
        let number = {
            let mut left = lock(&self.left);
            left.push(thing);
            left.len() - 1
        };
        if let Some(after) = after {
            self.order(Order::Leave(number, after));
        }
    }

    /// The things that other clients have left on the server.
    pub(crate) fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        lock(&self.left)
    }

    /// Sets the server that is there now.
    pub(crate) fn serve(&self, server: Option<(Service, Arc<Store>)>) {
        *lock(&self.server) = server;
    }

    /// The server that is there now.
    pub(crate) fn server(&self) -> Option<(Service, Arc<Store>)> {
        lock(&self.server).clone()
    }

    /// A number below `most`.
    pub(crate) fn below(&self, most: u64) -> u64 {
        lock(&self.dice).random_range(0..most.max(1))
    }

    /// A time by [`super::plan::spread`].
    pub(crate) fn spread(&self, most: Duration) -> Duration {
        super::plan::spread(&mut lock(&self.dice), most)
    }

    /// Waits as a network does, up to a few milliseconds: half of the time only for the turn of
    /// other tasks.
    pub(crate) async fn hop(&self) {
        match self.below(8) {
            0..4 => tokio::task::yield_now().await,
            _ => {
                let micros = self.below(DELAY.as_micros() as u64);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
        }
    }
}
