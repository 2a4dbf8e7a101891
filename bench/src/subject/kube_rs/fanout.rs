//! Dispatching each event to many subscribers through a shared reflector.
//!
//! ```text
//! events, decoded already ─▶ reflect_shared ─▶ store, broadcast ─▶ N subscribers
//! ```
//!
//! Its broadcast waits for the slowest subscriber, so every subscriber receives every event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinSet;

use crate::meter::Usage;
use crate::row::Reading;
use crate::subject::small::{Step, node, typed_pod};
use crate::subject::{Failed, HEARD_PODS, Task};

/// BOUND: events that wait for the slowest subscriber.
const BUFFER: usize = 1024;

pub(super) async fn run(task: &Task, handlers: usize) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    let (usage, heard) = tell(task, handlers, &Beside::Nobody).await?;
    let events = task.size as f64;
    let told = (events + HEARD_PODS as f64) * handlers as f64;
    Ok(vec![
        Reading::new("events_per_second", "1/s", events / usage.wall_seconds),
        Reading::new("cpu_us_per_event", "us", usage.cpu_seconds * 1e6 / events),
        Reading::new("heard_share", "x", heard as f64 / told),
    ])
}

/// Ten subscribers next to one that never takes an event. The broadcast waits for it, so the figure
/// is the events that the others received until the broadcast stalled.
pub(super) async fn stalled(task: &Task) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    let (_, heard) = tell(task, 10, &Beside::Stalled).await?;
    let told = (task.size + HEARD_PODS) as f64 * 10.0;
    Ok(vec![Reading::new("heard_share", "x", heard as f64 / told)])
}

#[derive(PartialEq, Eq)]
enum Beside {
    Nobody,
    Stalled,
}

/// The time to wait for further deliveries before counting as stalled.
const STANDSTILL: Duration = Duration::from_secs(5);

async fn tell(task: &Task, handlers: usize, beside: &Beside) -> Result<(Usage, u64), Failed> {
    let events = task.size as u64;
    let init = (0..HEARD_PODS).map(|pod| Event::InitApply(typed_pod(pod, node(pod), 1)));
    let steps = (0..events).map(|number| {
        let Step { pod, node } = Step::of(number, HEARD_PODS);
        Event::Apply(typed_pod(pod, node, number + 2))
    });
    let init = std::iter::once(Event::Init).chain(init);
    let all: Vec<_> = init.chain([Event::InitDone]).chain(steps).collect();
    let writer = Writer::<Pod>::new_shared(BUFFER, ());
    let last = (events + 1).to_string();
    let heard = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..handlers {
        let mut pods = writer.subscribe().ok_or("the store is not shared")?;
        let (heard, last) = (Arc::clone(&heard), last.clone());
        tasks.spawn(async move {
            while let Some(pod) = pods.next().await {
                heard.fetch_add(1, Ordering::Relaxed);
                if pod.metadata.resource_version.as_ref() == Some(&last) {
                    break;
                }
            }
        });
    }
    let _stalled = (*beside == Beside::Stalled).then(|| writer.subscribe());
    let before = task.moment();
    let stream = stream::iter(all.into_iter().map(watcher::Result::Ok));
    let mut driven = std::pin::pin!(stream.reflect_shared(writer));
    tokio::select! {
        biased;
        () = async {
            while driven.next().await.is_some() {}
            while tasks.join_next().await.is_some() {}
        } => {}
        () = tokio::time::sleep(STANDSTILL), if *beside == Beside::Stalled => {}
    }
    Ok((before.until_now(), heard.load(Ordering::Relaxed)))
}
