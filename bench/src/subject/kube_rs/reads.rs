//! Reading a reflector's store, which is filled directly: lists, and reads during writes.
//!
//! ```text
//! Writer::apply_watcher_event ─▶ Store ─▶ filter | get, beside endless events
//! ```
//!
//! The store has no index, so the look-ups of kinform and client-go are filters over `state` here,
//! as its users write them.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;

use crate::row::{Reading, median};
use crate::subject::small::{NODES, Step, key, node, node_name, typed_pod};
use crate::subject::{Failed, READ_TIME, Task, each_ns};

fn planted(pods: usize) -> (Store<Pod>, Writer<Pod>) {
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&Event::Init);
    for number in 0..pods {
        writer.apply_watcher_event(&Event::InitApply(typed_pod(number, node(number), 1)));
    }
    writer.apply_watcher_event(&Event::InitDone);
    (store, writer)
}

fn step(writer: &mut Writer<Pod>, number: u64, pods: usize) {
    let Step { pod, node } = Step::of(number, pods);
    writer.apply_watcher_event(&Event::Apply(typed_pod(pod, node, number + 2)));
}

pub(super) fn index_list(task: &Task) -> Vec<Reading> {
    if task.heap.is_some() {
        return Vec::new();
    }
    let (store, mut writer) = planted(task.size);
    for number in 0..task.size as u64 {
        step(&mut writer, number, task.size);
    }
    let lists = (0..NODES).map(node_name).map(|node| {
        let began = Instant::now();
        black_box(on_node(&store, &node));
        began.elapsed().as_secs_f64() * 1e3
    });
    let lists: Vec<f64> = lists.collect();
    vec![Reading::new("all_handles_ms", "ms", median(&lists))]
}

fn on_node(store: &Store<Pod>, node: &str) -> Vec<Arc<Pod>> {
    let mut pods = store.state();
    pods.retain(|pod| {
        let spec = pod.spec.as_ref();
        spec.and_then(|spec| spec.node_name.as_deref()) == Some(node)
    });
    pods
}

fn in_namespace(store: &Store<Pod>, namespace: &str) -> Vec<Arc<Pod>> {
    let mut pods = store.state();
    pods.retain(|pod| pod.metadata.namespace.as_deref() == Some(namespace));
    pods
}

pub(super) fn read_under_write(task: &Task) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    let (store, mut writer) = planted(task.size);
    let (stop, written, size) = (AtomicBool::new(false), AtomicU64::new(0), task.size);
    let began = Instant::now();
    let mut readings = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                step(&mut writer, number, size);
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let readings = read(&store, size);
        stop.store(true, Ordering::Relaxed);
        readings
    });
    let rate = written.into_inner() as f64 / began.elapsed().as_secs_f64();
    readings.push(Reading::new("writes_per_second", "1/s", rate));
    Ok(readings)
}

fn read(store: &Store<Pod>, size: usize) -> Vec<Reading> {
    let references: Vec<ObjectRef<Pod>> = (0..1000)
        .map(|step| {
            let key = key(Step::of(step, size).pod);
            let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
            ObjectRef::new(name).within(namespace)
        })
        .collect();
    let get = each_ns(READ_TIME, |turn| {
        black_box(store.get(&references[turn % references.len()]));
    });
    let namespace = each_ns(READ_TIME, |turn| {
        black_box(in_namespace(store, &format!("namespace-{}", turn % NODES)));
    });
    let index = each_ns(READ_TIME, |turn| {
        black_box(on_node(store, &node_name(turn % NODES)));
    });
    vec![
        Reading::new("get_ns", "ns", get),
        Reading::new("list_namespace_us", "us", namespace / 1e3),
        Reading::new("list_index_us", "us", index / 1e3),
    ]
}
