//! Dispatching each event to many handlers.
//!
//! ```text
//! events as bytes ─▶ informer ─▶ store ─▶ ring ─▶ N handlers            (the whole way)
//! changes ─▶ RingWriter ─▶ ring ─▶ N tasks with a cursor each           (the ring alone)
//! ```
//!
//! A handler that falls behind receives only the newest state of each object, so deliveries are
//! reported as a share of the events sent.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kinform::Handlers;
use kinform_core::delta::Change;
use kinform_core::informer::ring::{Found, RingLimits, RingWriter};
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::Edit;
use kinform_core::store::root::Root;
use kinform_core::{Object, Projection};
use tokio::sync::watch;

use super::paced;
use super::planted::{Garden, garden};
use crate::row::Reading;
use crate::subject::small::{Step, node, pod_json};
use crate::subject::{Failed, HEARD_PODS, SETTLING, Task};

pub(super) async fn run(task: &Task, handlers: usize) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    let mut readings = whole(task, handlers, None).await?;
    let ring = ring_alone(task, handlers).await?;
    readings.push(Reading::new("ring_events_per_second", "1/s", ring));
    Ok(readings)
}

/// Ten handlers next to one that never returns from its first event.
pub(super) async fn stalled(task: &Task) -> Result<Vec<Reading>, Failed> {
    let never = Handlers::new().on_event_async(|_| std::future::pending());
    let mut readings = whole(task, 10, Some(never)).await?;
    if task.heap.is_none() {
        readings.extend(paced::run(task.size).await?);
    }
    Ok(readings)
}

/// Measures from the bytes of the first event until all handlers have received the last one.
async fn whole(
    task: &Task,
    handlers: usize,
    beside: Option<Handlers<Pod>>,
) -> Result<Vec<Reading>, Failed> {
    let events = task.size as u64;
    let Garden {
        factory,
        pods,
        gate,
    } = garden(HEARD_PODS, 0..events);
    let last = (events + 1).to_string();
    let heard = Arc::new(AtomicUsize::new(0));
    let (done, mut waiting) = watch::channel(0);
    let mut registrations = Vec::new();
    for _ in 0..handlers {
        let (heard, done, last) = (Arc::clone(&heard), done.clone(), last.clone());
        registrations.push(pods.add_handler(Handlers::new().on_update(move |_, new| {
            heard.fetch_add(1, Ordering::Relaxed);
            if new.resource_version() == last {
                done.send_modify(|done| *done += 1);
            }
        }))?);
    }
    let _beside = beside
        .map(|handlers| pods.add_handler(handlers))
        .transpose()?;
    factory.start()?;
    for registration in &registrations {
        registration.synced().await;
    }
    let live = task.live_bytes();
    let before = task.moment();
    gate.cancel();
    waiting.wait_for(|done| *done == handlers).await?;
    let usage = before.until_now();
    if task.heap.is_some() {
        tokio::time::sleep(SETTLING).await;
        let held = task.live_bytes() as f64 - live as f64;
        return Ok(vec![Reading::new("held_bytes", "B", held)]);
    }
    let told = heard.load(Ordering::Relaxed) as f64 / (events as f64 * handlers as f64);
    Ok(vec![
        Reading::new(
            "events_per_second",
            "1/s",
            events as f64 / usage.wall_seconds,
        ),
        Reading::new(
            "cpu_us_per_event",
            "us",
            usage.cpu_seconds * 1e6 / events as f64,
        ),
        Reading::new("heard_share", "x", told),
    ])
}

/// Changes in a batch.
const BATCH: usize = 256;

/// Changes sent through the ring alone: some milliseconds even with one handler.
const RING_CHANGES: usize = 400_000;

/// Changes a second of CPU time, over all threads; by the clock the figure would depend on other
/// load on the machine.
async fn ring_alone(task: &Task, handlers: usize) -> Result<f64, Failed> {
    let batches = RING_CHANGES / BATCH;
    let limits = RingLimits {
        batches: batches.next_power_of_two(),
        changes: usize::MAX,
        bytes: usize::MAX,
    };
    let mut ring = RingWriter::new(limits);
    let empty = Root::empty(Seed(5));
    let (old, new) = (object(1)?, object(2)?);
    let prepared: Vec<(Vec<Change>, Root)> = (1..=batches as u64)
        .map(|position| {
            let change = || Change::Updated {
                old: old.clone(),
                new: new.clone(),
            };
            let root = Edit::new(&empty).commit(position);
            ((0..BATCH).map(|_| change()).collect(), root)
        })
        .collect();
    let (published, _) = watch::channel(0);
    let tasks: Vec<_> = (0..handlers)
        .map(|_| {
            let (ring, mut published) = (ring.ring().clone(), published.subscribe());
            tokio::spawn(async move {
                let (mut cursor, mut heard) = (0, 0);
                while cursor < batches as u64 {
                    match ring.at(cursor) {
                        Found::Batch(batch) => {
                            for change in batch.changes() {
                                heard += usize::from(matches!(
                                    black_box(change),
                                    Change::Updated { .. }
                                ));
                            }
                            cursor += 1;
                            tokio::task::yield_now().await;
                        }
                        Found::Nothing => {
                            let _ = published.changed().await;
                        }
                        Found::Evicted => break,
                    }
                }
                heard
            })
        })
        .collect();
    let before = task.moment();
    for (changes, root) in prepared {
        let end = root.position();
        ring.write(changes, root);
        ring.reveal(end);
        published.send_replace(end);
        tokio::task::yield_now().await;
    }
    let mut heard = 0;
    for task in tasks {
        heard += task.await?;
    }
    let usage = before.until_now();
    if heard != batches * BATCH * handlers {
        return Err(format!("{heard} changes were heard").into());
    }
    Ok((batches * BATCH) as f64 / usage.cpu_seconds)
}

fn object(version: u64) -> Result<Object, Failed> {
    let mut text = String::new();
    let Step { pod, .. } = Step::of(1, HEARD_PODS);
    pod_json(&mut text, pod, node(pod), version);
    Object::from_json(text.as_bytes(), &Projection::default())
        .map_err(|error| format!("{error:?}").into())
}
