//! Work queues: keys that go round, and keys that wait.
//!
//! ```text
//! producer ─add, or add_all─▶ WorkQueue ─settle_and_get─▶ workers        a million delayed adds
//! ```
//!
//! Keys are added one after the other, as the peers' are. The cost of adding a batch of keys in one
//! turn, as a controller's handlers do, is reported as well. Workers are like a controller's: the
//! last key is given back when the next one is taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kinform::workqueue::WorkQueue;
use kinform_api::ObjectKey;
use kinform_core::queue::{Limiter, Priority, Verdict};

use super::planted::object_key;
use crate::row::Reading;
use crate::subject::{Failed, Task};

/// The number of keys, and below it the most that wait at a time, so that each add is a cycle.
const KEYS: usize = 100_000;
const BACKLOG: usize = 1024;
/// Adds between two looks at the backlog.
const BURST: usize = 256;

/// Cycles of one task that adds and works.
pub(super) async fn alone(task: &Task) -> Result<Vec<Reading>, Failed> {
    let keys = keys(KEYS)?;
    let queue = WorkQueue::new(Limiter::default());
    let before = task.moment();
    for burst in 0..task.size / BURST {
        for number in 0..BURST {
            queue.add(keys[(burst * BURST + number) % KEYS].clone());
        }
        let mut next = queue.get();
        for _ in 0..BURST {
            let item = next.await.ok_or("the queue is shut down")?;
            next = item.settle_and_get(Verdict::Forget);
        }
    }
    Ok(task.of_cycles(before.until_now(), task.size / BURST * BURST))
}

/// The way a producer adds keys.
#[derive(Clone, Copy)]
enum Adding {
    /// A batch of keys in one turn.
    Batches,
    OneByOne,
}

/// Cycles of a producer and `workers` workers.
pub(super) async fn shared(task: &Task, workers: usize) -> Result<Vec<Reading>, Failed> {
    let queue = || WorkQueue::new(Limiter::default());
    let mut readings = cycles(task, queue(), workers, Adding::OneByOne).await?;
    let batches = cycles(task, queue(), workers, Adding::Batches).await?;
    let cpu = batches.into_iter().find(|reading| reading.metric == CYCLE);
    readings.extend(cpu.map(|cpu| Reading::new("cpu_ns_per_cycle_in_batches", "ns", cpu.value)));
    Ok(readings)
}

/// The metric reported for each way of adding.
const CYCLE: &str = "cpu_ns_per_cycle";

async fn cycles(
    task: &Task,
    queue: WorkQueue<ObjectKey>,
    workers: usize,
    adding: Adding,
) -> Result<Vec<Reading>, Failed> {
    let keys = keys(KEYS)?;
    let handled = Arc::new(AtomicUsize::new(0));
    let before = task.moment();
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let (queue, handled) = (queue.clone(), Arc::clone(&handled));
            tokio::spawn(async move {
                let mut next = queue.get();
                while let Some(item) = next.await {
                    next = item.settle_and_get(Verdict::Forget);
                    handled.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (producer, count, size) = (queue.clone(), Arc::clone(&handled), task.size);
    tokio::spawn(async move {
        for from in (0..size).step_by(BURST) {
            let burst = (from..size.min(from + BURST)).map(|number| keys[number % KEYS].clone());
            match adding {
                Adding::Batches => {
                    producer.add_all(burst.collect(), Priority::Normal);
                }
                Adding::OneByOne => burst.for_each(|key| {
                    producer.add(key);
                }),
            }
            while from - count.load(Ordering::Relaxed).min(from) > BACKLOG {
                tokio::task::yield_now().await;
            }
        }
        producer.shut_down();
    })
    .await?;
    for task in tasks {
        task.await?;
    }
    let usage = before.until_now();
    let handled = handled.load(Ordering::Relaxed);
    if handled != task.size {
        return Err(format!("{handled} of {} keys were handled", task.size).into());
    }
    Ok(task.of_cycles(usage, handled))
}

/// Adds that wait from one to 1000 seconds.
pub(super) fn delayed(task: &Task) -> Result<Vec<Reading>, Failed> {
    let keys = keys(task.size)?;
    let queue = WorkQueue::new(Limiter::default());
    let live = task.live_bytes();
    let before = task.moment();
    for (number, key) in keys.iter().enumerate() {
        let delay = Duration::from_millis(1000 + (number as u64).wrapping_mul(7919) % 999_000);
        queue.add_after(key.clone(), delay);
    }
    let usage = before.until_now();
    if queue.stats().delayed != task.size {
        return Err(format!("{} keys wait, not {}", queue.stats().delayed, task.size).into());
    }
    Ok(task.of_adds(usage, live))
}

fn keys(count: usize) -> Result<Vec<ObjectKey>, Failed> {
    (0..count).map(object_key).collect()
}
