//! Changes to a cluster, at a given rate, for the demo's caches to follow.
//!
//! ```text
//! rate, seed → create | patch | delete of pods, scale of deployments and foos → HTTP, as any client
//! ```
//!
//! Every change carries its time of sending as an annotation, so that handlers can measure the
//! latency. Pods are created and deleted in balance: their number stays near the initial one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::{ApiResource, DynamicObject, Resource, ResourceExt as _};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use sample_controller::Foo;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// The annotation with the time of sending: nanoseconds since the clock's start.
pub(crate) const WRITTEN: &str = "kinform.dev/written";

/// BOUND: changes in flight; beyond that the server is slower than the rate, and waiting is honest.
const MAX_IN_FLIGHT: usize = 64;

/// A clock that both ends of the measurement share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendClock {
    start: Instant,
}

impl SendClock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The text to write into [`WRITTEN`].
    pub(crate) fn stamp(&self) -> String {
        self.start.elapsed().as_nanos().to_string()
    }

    /// The time since `stamp` was taken.
    pub(crate) fn since(&self, stamp: &str) -> Option<Duration> {
        let sent = Duration::from_nanos(stamp.parse().ok()?);
        self.start.elapsed().checked_sub(sent)
    }
}

/// Names to change.
#[derive(Debug, Clone)]
pub(crate) struct Targets {
    /// Pods, as (namespace, name).
    pub(crate) pods: Vec<(String, String)>,
    /// Deployments, as (namespace, name).
    pub(crate) deployments: Vec<(String, String)>,
    /// Foos, as (namespace, name).
    pub(crate) foos: Vec<(String, String)>,
}

/// The numbers of changes accepted and refused.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Changes that the server accepted.
    pub(crate) accepted: AtomicU64,
    /// Changes that the server refused, or that did not arrive.
    pub(crate) refused: AtomicU64,
}

/// One change to make.
#[derive(Debug)]
enum Change {
    PatchPod(String, String),
    CreatePod(String, String),
    DeletePod(String, String),
    ScaleDeployment(String, String, i32),
    ScaleFoo(String, String, i32),
}

/// Makes `rate` changes a second until it is dropped or aborted.
pub(crate) async fn churn(
    client: Client,
    clock: SendClock,
    mut targets: Targets,
    rate: u32,
    tally: Arc<Tally>,
) {
    if rate == 0 || targets.pods.is_empty() {
        return;
    }
    let mut random = SmallRng::seed_from_u64(u64::from(rate));
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut in_flight = JoinSet::new();
    let mut made: u64 = 0;
    loop {
        ticks.tick().await;
        while in_flight.len() >= MAX_IN_FLIGHT {
            in_flight.join_next().await;
        }
        while in_flight.try_join_next().is_some() {}
        made += 1;
        let change = choose(&mut targets, &mut random, made);
        let (client, tally) = (client.clone(), Arc::clone(&tally));
        in_flight.spawn(async move {
            let counter = match send(&client, clock, change).await {
                Ok(()) => &tally.accepted,
                Err(error) => {
                    tracing::debug!("churn: {error}");
                    &tally.refused
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        });
    }
}

/// Mostly patches, some pods created and deleted, now and then something scaled.
fn choose(targets: &mut Targets, random: &mut SmallRng, made: u64) -> Change {
    let pod = random.random_range(0..targets.pods.len());
    match random.random_range(0..100) {
        0..8 => {
            let namespace = targets.pods[pod].0.clone();
            let name = format!("churn-{made}");
            targets.pods.push((namespace.clone(), name.clone()));
            Change::CreatePod(namespace, name)
        }
        8..16 if targets.pods.len() > 1 => {
            let (namespace, name) = targets.pods.swap_remove(pod);
            Change::DeletePod(namespace, name)
        }
        16..24 if !targets.deployments.is_empty() => {
            let (namespace, name) =
                targets.deployments[random.random_range(0..targets.deployments.len())].clone();
            Change::ScaleDeployment(namespace, name, random.random_range(1..10))
        }
        24..27 if !targets.foos.is_empty() => {
            let (namespace, name) =
                targets.foos[random.random_range(0..targets.foos.len())].clone();
            Change::ScaleFoo(namespace, name, random.random_range(1..10))
        }
        _ => {
            let (namespace, name) = targets.pods[pod].clone();
            Change::PatchPod(namespace, name)
        }
    }
}

async fn send(client: &Client, clock: SendClock, change: Change) -> Result<(), kube_client::Error> {
    let params = PatchParams::default();
    let stamped = json!({"annotations": {WRITTEN: clock.stamp()}});
    match change {
        Change::PatchPod(namespace, name) => {
            let patch = Patch::Merge(json!({"metadata": stamped}));
            let pods = objects::<Pod>(client, &namespace);
            pods.patch(&name, &params, &patch).await?;
        }
        Change::CreatePod(namespace, name) => {
            let mut pod = DynamicObject::new(&name, &ApiResource::erase::<Pod>(&())).data(json!({
                "spec": {"nodeName": "node-0", "containers": [{"name": "main", "image": "nginx:1.29"}]},
            }));
            pod.labels_mut().insert("app".into(), "churn".into());
            pod.annotations_mut().insert(WRITTEN.into(), clock.stamp());
            let pods = objects::<Pod>(client, &namespace);
            pods.create(&PostParams::default(), &pod).await?;
        }
        Change::DeletePod(namespace, name) => {
            let now = DeleteParams::default().grace_period(0);
            let pods = objects::<Pod>(client, &namespace);
            pods.delete(&name, &now).await?;
        }
        Change::ScaleDeployment(namespace, name, replicas) => {
            let patch = Patch::Merge(json!({"metadata": stamped, "spec": {"replicas": replicas}}));
            let deployments = objects::<Deployment>(client, &namespace);
            deployments.patch(&name, &params, &patch).await?;
        }
        Change::ScaleFoo(namespace, name, replicas) => {
            let patch = Patch::Merge(json!({"metadata": stamped, "spec": {"replicas": replicas}}));
            let foos = objects::<Foo>(client, &namespace);
            foos.patch(&name, &params, &patch).await?;
        }
    }
    Ok(())
}

/// The objects of `K` in a namespace as JSON: the reply is not decoded into a type.
fn objects<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_come_and_go_in_balance() {
        let pods = (0..1_000)
            .map(|n| ("default".to_owned(), format!("p{n}")))
            .collect();
        let mut targets = Targets {
            pods,
            deployments: Vec::new(),
            foos: Vec::new(),
        };
        let mut random = SmallRng::seed_from_u64(7);
        let mut kinds = [0; 3];
        for made in 0..20_000 {
            match choose(&mut targets, &mut random, made) {
                Change::CreatePod(..) => kinds[0] += 1,
                Change::DeletePod(..) => kinds[1] += 1,
                _ => kinds[2] += 1,
            }
        }
        assert!(
            (600..1_400).contains(&targets.pods.len()),
            "{}",
            targets.pods.len()
        );
        assert!(kinds.iter().all(|kind| *kind > 1_000), "{kinds:?}");
    }

    #[test]
    fn a_stamp_tells_its_age() {
        let clock = SendClock::start();
        let age = clock.since(&clock.stamp()).unwrap();
        assert!(age < Duration::from_secs(10));
        assert_eq!(clock.since("soon"), None);
    }
}
