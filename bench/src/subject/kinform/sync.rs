//! Filling a cache, and filling it again.
//!
//! ```text
//! factory of the scenario's encoding and mode ─▶ informers, synced ─▶ what that cost
//! ```

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinform::source::{ClientOptions, ResourceInfo, Wire, client_for};
use kinform::{
    DecodedValues, FirstList, InformerFactory, Projection, ReflectorOptions, ReportEvent, Storage,
    StreamingList, Target,
};
use kinform_api::{FieldPath, GroupVersionResource, Scope};
use kube::core::{DynamicObject, PartialObjectMeta};

use crate::row::Reading;
use crate::scenario::Work;
use crate::subject::{Failed, SETTLING, Task};

/// A factory with the scenario's encoding and mode of listing.
pub(super) fn factory(task: &Task) -> Result<InformerFactory, Failed> {
    // Without a limit of requests a second, as its peers are run.
    let options = ClientOptions::default().with_rate_limit(0, 0);
    let client = client_for(task.server()?, &options)?;
    let reflector = ReflectorOptions::new();
    let reflector = match task.work {
        Work::SyncStream => reflector,
        Work::SyncJsonPaged => reflector
            .with_streaming_list(StreamingList::Never)
            .with_first_list(FirstList::MostRecent)
            .with_page_size(500),
        _ => reflector.with_streaming_list(StreamingList::Never),
    };
    let wire = match task.work {
        Work::SyncProtobuf
        | Work::SyncProtobufOneThread
        | Work::TouchEverything
        | Work::MetadataOnly => Wire::Auto,
        _ => Wire::Json,
    };
    let builder = InformerFactory::builder(client).reflector(reflector);
    Ok(builder.wire(wire).build())
}

pub(super) async fn plain(task: &Task) -> Result<Vec<Reading>, Failed> {
    let live = task.live_bytes();
    let before = task.moment();
    let factory = factory(task)?;
    let pods = factory.informer::<Pod>();
    factory.start()?;
    pods.synced().await?;
    let usage = before.until_now();
    task.of_a_sync(usage, live, pods.list().len()).await
}

/// Keeps the pods compressed, and reads one field of each afterwards.
pub(super) async fn cold(task: &Task) -> Result<Vec<Reading>, Failed> {
    let live = task.live_bytes();
    let before = task.moment();
    let factory = factory(task)?;
    let pods = factory
        .select(Target::<Pod>::new())
        .storage(Storage::Compressed)
        .build();
    factory.start()?;
    pods.synced().await?;
    let usage = before.until_now();
    let mut readings = task.of_a_sync(usage, live, pods.list().len()).await?;
    let path: FieldPath = "spec.nodeName".parse()?;
    let before = task.moment();
    let listing = pods.list();
    let on_a_node = listing.iter().filter(|pod| pod.at(&path).is_ok_and(|found| !found.is_empty()));
    let on_a_node = on_a_node.count();
    let seconds = before.until_now().cpu_seconds;
    if on_a_node != task.size {
        return Err(format!("{on_a_node} pods are on a node, not {}", task.size).into());
    }
    if task.heap.is_none() {
        let each = seconds * 1e6 / task.size.max(1) as f64;
        readings.push(Reading::new("first_read_us", "us", each));
    }
    Ok(readings)
}

/// Reads each pod as its type, as a controller's first pass does; for one scenario all are kept.
pub(super) async fn typed(task: &Task) -> Result<Vec<Reading>, Failed> {
    let live = task.live_bytes();
    let before = task.moment();
    let factory = factory(task)?;
    let select = factory.select(Target::<Pod>::new());
    let pods = match task.work {
        Work::SyncJsonTyped => select.decoded_values(DecodedValues::All).build(),
        _ => select.build(),
    };
    factory.start()?;
    pods.synced().await?;
    let mut on_a_node = 0;
    for pod in pods.list().typed() {
        let spec = pod.spec.as_ref();
        on_a_node += usize::from(spec.is_some_and(|spec| spec.node_name.is_some()));
    }
    let usage = before.until_now();
    task.of_a_sync(usage, live, on_a_node).await
}

pub(super) async fn metadata(task: &Task) -> Result<Vec<Reading>, Failed> {
    let live = task.live_bytes();
    let before = task.moment();
    let factory = factory(task)?;
    let pods = factory.informer::<PartialObjectMeta<Pod>>();
    factory.start()?;
    pods.synced().await?;
    let usage = before.until_now();
    task.of_a_sync(usage, live, pods.list().len()).await
}

/// All collections of the corpus, one after the other.
pub(super) async fn several(task: &Task) -> Result<Vec<Reading>, Failed> {
    let needs = task.work.needs().ok_or("the scenario has no corpus")?;
    let live = task.live_bytes();
    let before = task.moment();
    let factory = factory(task)?;
    let mut informers = Vec::new();
    for collection in needs.shape.collections() {
        let resource = GroupVersionResource {
            group: collection.group.into(),
            version: collection.version.into(),
            resource: collection.plural.into(),
        };
        let info = ResourceInfo::new(resource, collection.kind, Scope::Namespaced);
        let select = factory.select::<DynamicObject>(info);
        informers.push(match (task.work, collection.plural) {
            (Work::SmallOperator, "pods") => select.projection(little()?).build(),
            _ => select.build(),
        });
    }
    factory.start()?;
    for informer in &informers {
        informer.synced().await?;
    }
    let usage = before.until_now();
    let stored = informers.iter().map(|informer| informer.list().len());
    let stored = stored.sum::<usize>() + task.size % informers.len();
    task.of_a_sync(usage, live, stored).await
}

/// The fields that a small operator needs of pods.
fn little() -> Result<Projection, Failed> {
    let paths = ["metadata.labels", "spec.nodeName", "status.phase"];
    let paths: Vec<FieldPath> = paths
        .iter()
        .map(|path| path.parse())
        .collect::<Result<_, _>>()?;
    Ok(Projection::new().keep_only(paths))
}

/// Sync, then the server expires the watch: from there to the new list being stored.
pub(super) async fn relist(task: &Task) -> Result<Vec<Reading>, Failed> {
    let factory = factory(task)?;
    let pods = factory.informer::<Pod>();
    factory.start()?;
    pods.synced().await?;
    let mut reports = pods.reports();
    tokio::time::sleep(SETTLING).await;
    let steady = task.live_bytes();
    let before = task.moment();
    task.tell_replay("expire").await?;
    while let Some(report) = reports.next().await {
        if let ReportEvent::Listed {
            relist: Some(_), ..
        } = report.event
        {
            return Ok(task.of_a_relist(before.until_now(), steady));
        }
    }
    Err("the informer ended".into())
}
