//! kube-rs at its best: `watcher` and `reflector`, managedFields cleared in the stream.
//!
//! ```text
//! watcher ─modify─▶ reflector ─▶ Store, until its list is whole ─▶ readings
//! ```
//!
//! It decodes JSON only, so it has no figures for protobuf. Its objects are typed from the start.
//! It has no work queue of its own that programs could use.

mod controller;
mod fanout;
mod reads;

use std::fmt::Debug;
use std::hash::Hash;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, PodSpec, PodStatus, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, GroupVersionKind};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::row::Reading;
use crate::scenario::Work;
use crate::subject::{Failed, SETTLING, Task};

/// Does the task; reports no reading for features that kube-rs lacks.
///
/// # Errors
/// The server cannot be reached, or does not do what it must.
pub fn run(task: &Task) -> BoxFuture<'_, Result<Vec<Reading>, Failed>> {
    // Boxed, so that it is compiled here, once, and not in each program.
    answer(task).boxed()
}

async fn answer(task: &Task) -> Result<Vec<Reading>, Failed> {
    match task.work {
        Work::SyncProtobuf
        | Work::SyncProtobufOneThread
        | Work::SyncCold
        | Work::QueueAlone
        | Work::QueueShared(_)
        | Work::DelayedAdds => Ok(Vec::new()),
        Work::Fanout(handlers) => fanout::run(task, handlers).await,
        Work::WriteToReconcile => controller::run(task).await,
        Work::StalledHandler => fanout::stalled(task).await,
        Work::IndexList => Ok(reads::index_list(task)),
        Work::ReadUnderWrite => reads::read_under_write(task),
        Work::Relist(_) => relist(task).await,
        Work::SyncMix | Work::SyncUnseen | Work::SmallOperator => several(task).await,
        Work::MetadataOnly => {
            let live = task.live_bytes();
            let before = task.moment();
            let api: Api<PartialObjectMeta<Pod>> = Api::all(client(task)?);
            let (store, stream) = reflect(watcher::watcher(api, config(task)), &());
            let mut stream = std::pin::pin!(stream);
            listed(&mut stream).await?;
            let usage = before.until_now();
            task.of_a_sync(usage, live, store.len()).await
        }
        Work::SyncJson
        | Work::SyncJsonPaged
        | Work::SyncStream
        | Work::SyncJsonTyped
        | Work::TouchEverything => sync(task).await,
    }
}

fn client(task: &Task) -> Result<Client, Failed> {
    Ok(Client::try_from(task.server()?)?)
}

fn pods(task: &Task) -> Result<Api<Pod>, Failed> {
    Ok(Api::all(client(task)?))
}

fn config(task: &Task) -> watcher::Config {
    match task.work {
        Work::SyncStream => watcher::Config::default().streaming_lists(),
        Work::SyncJsonPaged | Work::SmallOperator => watcher::Config::default().page_size(500),
        _ => watcher::Config::default().any_semantic(),
    }
}

fn cleared<K: Resource>(
    stream: impl Stream<Item = watcher::Result<Event<K>>>,
) -> impl Stream<Item = watcher::Result<Event<K>>> {
    stream.modify(|object| object.managed_fields_mut().clear())
}

/// Syncs, and where the scenario reads each pod, does that.
async fn sync(task: &Task) -> Result<Vec<Reading>, Failed> {
    let live = task.live_bytes();
    let before = task.moment();
    let (store, stream) = reflect(watcher::watcher(pods(task)?, config(task)), &());
    let mut stream = std::pin::pin!(stream);
    listed(&mut stream).await?;
    let stored = match task.work {
        Work::TouchEverything | Work::SyncJsonTyped => {
            let pods = store.state();
            let on_a_node = pods.iter().filter(|pod| {
                let spec = pod.spec.as_ref();
                spec.is_some_and(|spec| spec.node_name.is_some())
            });
            on_a_node.count()
        }
        _ => store.len(),
    };
    let usage = before.until_now();
    task.of_a_sync(usage, live, stored).await
}

/// A store and the stream that fills it.
fn reflect<K, S>(
    events: S,
    kind: &K::DynamicType,
) -> (
    Store<K>,
    impl Stream<Item = watcher::Result<Event<K>>> + use<K, S>,
)
where
    S: Stream<Item = watcher::Result<Event<K>>>,
    K: Resource<DynamicType: Eq + Hash + Clone> + Clone + 'static,
{
    let writer = reflector::store::Writer::<K>::new(kind.clone());
    (
        writer.as_reader(),
        reflector::reflector(writer, cleared(events)),
    )
}

/// All collections of the corpus, one after the other: typed where k8s-openapi has the type.
async fn several(task: &Task) -> Result<Vec<Reading>, Failed> {
    let needs = task.work.needs().ok_or("the scenario has no corpus")?;
    let live = task.live_bytes();
    let before = task.moment();
    let client = client(task)?;
    let mut filled = Vec::new();
    for collection in needs.shape.collections() {
        filled.push(match collection.plural {
            "pods" => {
                let events = watcher::watcher(Api::<Pod>::all(client.clone()), config(task));
                keep(events.modify(trim), &()).await?
            }
            "nodes" => fill(task, Api::<Node>::all(client.clone()), &()).await?,
            "deployments" => fill(task, Api::<Deployment>::all(client.clone()), &()).await?,
            "configmaps" => fill(task, Api::<ConfigMap>::all(client.clone()), &()).await?,
            "secrets" => fill(task, Api::<Secret>::all(client.clone()), &()).await?,
            "endpointslices" => fill(task, Api::<EndpointSlice>::all(client.clone()), &()).await?,
            "replicasets" => fill(task, Api::<ReplicaSet>::all(client.clone()), &()).await?,
            _ => {
                let kind =
                    GroupVersionKind::gvk(collection.group, collection.version, collection.kind);
                let resource = ApiResource::from_gvk_with_plural(&kind, collection.plural);
                let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
                fill(task, api, &resource).await?
            }
        });
    }
    let usage = before.until_now();
    let stored = filled.iter().map(|(stored, _)| stored);
    let stored = stored.sum::<usize>() + task.size % filled.len();
    task.of_a_sync(usage, live, stored).await
}

/// Fills a store; returns the number of stored objects and their owner.
async fn fill<K>(
    task: &Task,
    api: Api<K>,
    kind: &K::DynamicType,
) -> Result<(usize, BoxStream<'static, ()>), Failed>
where
    K: Resource<DynamicType: Eq + Hash + Clone + Send + Sync + Unpin>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    keep(watcher::watcher(api, config(task)), kind).await
}

async fn keep<K, S>(
    events: S,
    kind: &K::DynamicType,
) -> Result<(usize, BoxStream<'static, ()>), Failed>
where
    S: Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    K: Resource<DynamicType: Eq + Hash + Clone + Send + Sync> + Clone + Send + Sync + 'static,
{
    let (store, stream) = reflect(events, kind);
    let mut stream = Box::pin(stream);
    listed(&mut stream).await?;
    Ok((store.len(), stream.map(|_| ()).boxed()))
}

/// Drops the fields that a small operator does not need.
fn trim(pod: &mut Pod) {
    pod.metadata.annotations = None;
    pod.metadata.owner_references = None;
    let node_name = pod.spec.take().and_then(|spec| spec.node_name);
    pod.spec = Some(PodSpec {
        node_name,
        ..PodSpec::default()
    });
    let phase = pod.status.take().and_then(|status| status.phase);
    pod.status = Some(PodStatus {
        phase,
        ..PodStatus::default()
    });
}

/// Drives the stream until a list is whole.
async fn listed<K>(
    stream: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> Result<(), Failed> {
    while let Some(event) = stream.try_next().await? {
        if matches!(event, Event::InitDone) {
            return Ok(());
        }
    }
    Err("the stream ended".into())
}

async fn relist(task: &Task) -> Result<Vec<Reading>, Failed> {
    let (_store, stream) = reflect(watcher::watcher(pods(task)?, config(task)), &());
    // An expired watch is an error of the stream, which then lists again.
    let stream = stream.filter(|event| future::ready(event.is_ok()));
    let mut stream = std::pin::pin!(stream);
    listed(&mut stream).await?;
    // The watch is open when the stream has been silent for a while.
    let _ = tokio::time::timeout(SETTLING, stream.next()).await;
    let steady = task.live_bytes();
    let before = task.moment();
    task.tell_replay("expire").await?;
    listed(&mut stream).await?;
    Ok(task.of_a_relist(before.until_now(), steady))
}
