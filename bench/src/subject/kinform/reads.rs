//! Reading a cache: lists by an index, and reads during constant writes.
//!
//! ```text
//! planted source ─▶ informer ─▶ index ─▶ lists, before and after churn
//!                          └──▶ get | list by namespace | list by index, beside endless events
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kinform::{Index, Informer};

use super::planted::{Garden, garden, object_key};
use crate::row::{Reading, median};
use crate::subject::small::{NODES, Step, node_name};
use crate::subject::{Failed, READ_TIME, Task, each_ns};

/// 1 of 40 nodes' pods: as a view, with every handle touched, with every name read, and as a list
/// of cloned handles.
pub(super) async fn index_list(task: &Task) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    let steps = task.size as u64;
    let Garden {
        factory,
        pods,
        gate,
    } = garden(task.size, 0..steps);
    let by_node = pods.add_index(Index::path("spec.nodeName"))?;
    factory.start()?;
    pods.synced().await?;
    gate.cancel();
    while pods.stats().events < steps {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut views = Vec::new();
    for node in (0..NODES).map(node_name) {
        let began = Instant::now();
        let length = black_box(black_box(by_node.get(&node)).len());
        views.push(began.elapsed().as_secs_f64() * 1e3);
        if length == 0 {
            return Err(format!("no pods are on {node}").into());
        }
    }
    let held = each_node(|node| drop(black_box(by_node.get(node).to_objs())));
    let touched = each_node(|node| {
        for pod in &by_node.get(node) {
            black_box(pod.raw().revision());
        }
    });
    let named = each_node(|node| {
        for pod in &by_node.get(node) {
            black_box(pod.name());
        }
    });
    Ok(vec![
        Reading::new("all_handles_ms", "ms", held),
        Reading::new("all_names_ms", "ms", named),
        Reading::new("all_touched_ms", "ms", touched),
        Reading::new("view_ms", "ms", median(&views)),
    ])
}

/// Milliseconds of the median node.
fn each_node(read: impl Fn(&str)) -> f64 {
    let took = (0..NODES).map(node_name).map(|node| {
        let began = Instant::now();
        read(&node);
        began.elapsed().as_secs_f64() * 1e3
    });
    median(&took.collect::<Vec<_>>())
}

/// Reads in a thread while events are applied at full speed.
pub(super) async fn read_under_write(task: &Task) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    let Garden {
        factory,
        pods,
        gate,
    } = garden(task.size, 0..u64::MAX - 2);
    let by_node = pods.add_index(Index::path("spec.nodeName"))?;
    factory.start()?;
    pods.synced().await?;
    let (size, reader) = (task.size, pods.clone());
    gate.cancel();
    let events = pods.stats().events;
    let began = Instant::now();
    let mut readings = tokio::task::spawn_blocking(move || -> Result<_, Failed> {
        let keys = (0..1000)
            .map(|step| object_key(Step::of(step, size).pod))
            .collect::<Result<Vec<_>, _>>()?;
        let get = each_ns(READ_TIME, |turn| {
            black_box(reader.get(&keys[turn % keys.len()]));
        });
        let in_namespace = each_ns(READ_TIME, |turn| {
            count(&reader, &format!("namespace-{}", turn % NODES));
        });
        let in_index = each_ns(READ_TIME, |turn| {
            let listing = by_node.get(node_name(turn % NODES));
            listing.iter().for_each(|pod| drop(black_box(pod)));
        });
        Ok(vec![
            Reading::new("get_ns", "ns", get),
            Reading::new("list_namespace_us", "us", in_namespace / 1e3),
            Reading::new("list_index_us", "us", in_index / 1e3),
        ])
    })
    .await??;
    let written = (pods.stats().events - events) as f64;
    let rate = written / began.elapsed().as_secs_f64();
    readings.push(Reading::new("writes_per_second", "1/s", rate));
    Ok(readings)
}

fn count(pods: &Informer<Pod>, namespace: &str) {
    let listing = pods.store().in_namespace(namespace);
    listing.iter().for_each(|pod| drop(black_box(pod)));
}
