//! The delay of ten handlers next to a stalled one, under a load that all keep up with.
//!
//! ```text
//! events every millisecond ─▶ informer ─▶ ten handlers, now - when they were sent ─▶ 99th percentile
//!                         └─▶ the same beside one that never returns ─▶ ratio
//! ```
//!
//! Two informers of one process take turns, a tenth of a second each, and alternate in going first,
//! so that other load on the machine affects both. The ratio is the median of the turns'. Before
//! they begin, both have sent more events than are kept for a handler, so the stalled one has
//! fallen behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kinform::{Handlers, InformerFactory};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::planted::{fed, texts};
use crate::row::{Reading, median};
use crate::subject::{Failed, HEARD_PODS};

const HANDLERS: usize = 10;
/// More events than are kept: a handler that received none of them has fallen behind.
const FLOOD: u64 = 20_000;
/// A turn: this number of ticks, with this number of events each.
const TICKS: u64 = 100;
const EVENTS: u64 = 10;
/// The least number of turns: with twenty on a busy machine the median is off by a fifth.
const TURNS: u64 = 40;
const PERIOD: Duration = Duration::from_millis(1);
/// BOUND: the longest wait for sent events.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures how late other handlers run next to a stalled one, over at least `events` events for
/// each arm.
pub(super) async fn run(events: usize) -> Result<Vec<Reading>, Failed> {
    let never = Handlers::new().on_event_async(|_| std::future::pending());
    let mut alone = Arm::new(None).await?;
    let mut beside = Arm::new(Some(never)).await?;
    let (mut ratios, mut lates) = (Vec::new(), Vec::new());
    for turn in 0..(events as u64 / (TICKS * EVENTS)).max(TURNS) {
        let (without, with) = if turn % 2 == 0 {
            let without = alone.turn().await?;
            (without, beside.turn().await?)
        } else {
            let with = beside.turn().await?;
            (alone.turn().await?, with)
        };
        ratios.push(with / without);
        lates.push(with * 1e6);
    }
    Ok(vec![
        Reading::new("others_p99_us", "us", median(&lates)),
        Reading::new("others_p99_ratio", "x", median(&ratios)),
    ])
}

/// An informer and its handlers.
struct Arm {
    _factory: InformerFactory,
    feed: mpsc::UnboundedSender<bytes::Bytes>,
    clock: Arc<Clock>,
    /// The number of the next event.
    next: u64,
    /// The number of handlers that have received the last event.
    done: watch::Receiver<usize>,
}

/// The send times of the events under way.
struct Clock {
    began: Instant,
    /// The number of the last event of a turn.
    last: AtomicU64,
    /// When the newest were sent, in nanoseconds, by their number.
    sent: Vec<AtomicU64>,
    late: Mutex<Vec<f64>>,
    done: watch::Sender<usize>,
}

impl Arm {
    async fn new(beside: Option<Handlers<Pod>>) -> Result<Self, Failed> {
        let (factory, pods, feed) = fed(HEARD_PODS);
        let (done, waiting) = watch::channel(0);
        let clock = Arc::new(Clock {
            began: Instant::now(),
            last: AtomicU64::new(u64::MAX),
            sent: (0..TICKS * EVENTS).map(|_| AtomicU64::new(0)).collect(),
            late: Mutex::default(),
            done,
        });
        let mut registrations = Vec::new();
        for _ in 0..HANDLERS {
            let clock = Arc::clone(&clock);
            let handlers =
                Handlers::new().on_update(move |_, new| clock.heard(new.resource_version()));
            registrations.push(pods.add_handler(handlers)?);
        }
        beside.map(|stalls| pods.add_handler(stalls)).transpose()?;
        factory.start()?;
        for registration in &registrations {
            registration.synced().await;
        }
        let mut arm = Self {
            _factory: factory,
            feed,
            clock,
            next: 0,
            done: waiting,
        };
        arm.clock.last.store(FLOOD - 1, Ordering::Relaxed);
        arm.send(FLOOD)?;
        arm.all_heard().await?;
        Ok(arm)
    }

    /// Seconds that the latest of a hundred calls was late.
    async fn turn(&mut self) -> Result<f64, Failed> {
        self.clock.late()?.clear();
        let last = self.next + TICKS * EVENTS - 1;
        self.clock.last.store(last, Ordering::Relaxed);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..TICKS {
            ticks.tick().await;
            self.send(EVENTS)?;
        }
        self.all_heard().await?;
        let mut late = self.clock.late()?;
        late.sort_by(f64::total_cmp);
        let enough = late.len() >= HANDLERS * TICKS as usize;
        let at = late.get(late.len() * 99 / 100).filter(|_| enough);
        Ok(*at.ok_or("the handlers did not keep up with the pace")?)
    }

    fn send(&mut self, count: u64) -> Result<(), Failed> {
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        let texts: Vec<_> = texts(HEARD_PODS, numbers.clone()).collect();
        let now = self.clock.began.elapsed().as_nanos() as u64;
        for number in numbers {
            self.clock.sent(number).store(now, Ordering::Relaxed);
        }
        for text in texts {
            self.feed.send(text.into())?;
        }
        Ok(())
    }

    async fn all_heard(&mut self) -> Result<(), Failed> {
        let waited = self.done.wait_for(|done| *done >= HANDLERS);
        tokio::time::timeout(PATIENCE, waited).await??;
        self.clock.done.send_replace(0);
        Ok(())
    }
}

impl Clock {
    fn sent(&self, number: u64) -> &AtomicU64 {
        &self.sent[number as usize % self.sent.len()]
    }

    fn late(&self) -> Result<std::sync::MutexGuard<'_, Vec<f64>>, Failed> {
        self.late.lock().map_err(|_| "a handler panicked".into())
    }

    /// Versions begin at 2.
    fn heard(&self, version: &str) {
        let now = self.began.elapsed().as_nanos() as u64;
        let Ok(version) = version.parse::<u64>() else {
            return;
        };
        let number = version - 2;
        let sent = self.sent(number).load(Ordering::Relaxed);
        if let Ok(mut late) = self.late() {
            late.push(now.saturating_sub(sent) as f64 / 1e9);
        }
        if number == self.last.load(Ordering::Relaxed) {
            self.done.send_modify(|done| *done += 1);
        }
    }
}
