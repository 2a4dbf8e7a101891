//! The state of a process's way to the servers: its switches, and what they make a request wait for.
//!
//! ```text
//! faults ─▶ Line { frozen, dead, one way, slow, traps } ─▶ moving, alive, heard, delay ─▶ requests, bodies
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinform_apiserver::Service;
use kinform_testkit::Link;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::finding::Invariant;
use crate::pace::Pace;
use crate::script::{On, Trap, Watched};
use crate::shared::{Life, Shared, lock};

/// Requests a second of a process, and those that it may send at once: as kinform's clients.
const RATE: u32 = 50;
const BURST: u32 = 100;
/// BOUND: lists, or watches, of one path and selector in a minute: of two informers, with backoff.
const MOST: usize = 60;

/// The state of a wire.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) shared: Arc<Shared>,
    pub(crate) life: Life,
    pub(crate) reads: Link,
    pub(crate) writes: Link,
    /// Reads of the informers that are audited, if there are any.
    pub(crate) audited: Link,
    /// A server forgot to tell something: caches are wrong until their next audit.
    pub(crate) is_lied_to: AtomicBool,
    /// The process stands still.
    pub(crate) frozen: watch::Sender<bool>,
    /// Answers do not arrive.
    pub(crate) one_way: watch::Sender<bool>,
    pub(crate) trickles: watch::Sender<bool>,
    /// The type whose watches bring nothing.
    pub(crate) deaf_to: watch::Sender<Option<Watched>>,
    /// Writes are refused, except those of leases and events.
    pub(crate) no_writes: AtomicBool,
    /// The longest delay of a request and of an answer, in milliseconds.
    pub(crate) slow: AtomicU64,
    /// The number of cuts: a connection of an earlier number is broken.
    pub(crate) cuts: watch::Sender<u64>,
    pub(crate) connections: AtomicU64,
    /// Connections below this number are dead, without a sign.
    pub(crate) dead_below: watch::Sender<u64>,
    pub(crate) traps: Mutex<Vec<(On, Trap)>>,
    /// The time at which the requests so far would have been sent, evenly.
    pub(crate) sent: Mutex<Instant>,
    /// The time since which nothing comes through.
    pub(crate) dark_since: Mutex<Option<Instant>>,
    /// Its lists and watches.
    pub(crate) pace: Mutex<Pace>,
    /// The server that a write reaches which is on its way by itself.
    pub(crate) late: Mutex<Service>,
}

impl Line {
    pub(crate) async fn moving(&self) {
        // The sender is here.
        let _ = self.frozen.subscribe().wait_for(|frozen| !*frozen).await;
    }

    /// Waits for ever on a connection that is dead.
    pub(crate) async fn alive(&self, connection: u64) {
        if *self.dead_below.borrow() > connection {
            std::future::pending().await
        }
    }

    /// Waits while answers do not arrive.
    pub(crate) async fn heard(&self, connection: u64) {
        let _ = self.one_way.subscribe().wait_for(|one_way| !*one_way).await;
        self.moving().await;
        self.alive(connection).await;
    }

    /// Waits while watches of this type bring nothing.
    pub(crate) async fn hears_of(&self, watched: Watched) {
        let is_heard = |deaf_to: &Option<Watched>| *deaf_to != Some(watched);
        // The sender is here.
        let _ = self.deaf_to.subscribe().wait_for(is_heard).await;
    }

    pub(crate) async fn delay(&self) {
        let most = self.slow.load(Ordering::Relaxed);
        if most > 0 {
            let millis = self.shared.below(most);
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Counts a list or a watch: a loop without a wait is a finding.
    pub(crate) fn paced(&self, kind: &str) {
        if let Some(count) = lock(&self.pace).count(kind, MOST) {
            let what = format!("process {}: {kind}, {count} times in a minute", self.life.0);
            self.shared.find(Invariant::I26, what);
        }
    }

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
}

pub(crate) fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
