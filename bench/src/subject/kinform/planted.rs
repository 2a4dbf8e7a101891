//! A source without a server: small pods, made where the informer reads them.
//!
//! ```text
//! list ─▶ pods, cut anywhere into chunks      watch ─▶ so many events, or events without an end
//! ```
//!
//! For scenarios about reading a cache. They do not measure filling it, and a million pods of 8 KB
//! would not fit into the memory of every machine. Pod `n` is on node `n mod 40`; an event moves a
//! pod to another node, so that indexes are as disordered as after days.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kinform::source::{Body, ListerWatcher, ResourceInfo, SourceError};
use kinform::{Informer, InformerFactory, ReflectorOptions, StreamingList};
use kinform_api::{GroupVersionResource, ListOptions, Scope, WatchOptions};
use kinform_core::Encoding;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::subject::Failed;
use crate::subject::small::{Step, key, node, pod_json};

/// The source.
struct Planted {
    info: ResourceInfo,
    pods: usize,
    watch: Arc<Watch>,
}

/// Opens a watch.
type Watch = dyn Fn() -> BoxStream<'static, Result<Bytes, SourceError>> + Send + Sync;

/// An informer of that number of pods, and its factory.
pub(super) struct Garden {
    pub(super) factory: InformerFactory,
    pub(super) pods: Informer<Pod>,
    /// The events begin when it is cancelled.
    pub(super) gate: CancellationToken,
}

/// An informer of that number of pods, which receives these events when the gate is opened.
pub(super) fn garden(pods: usize, events: Range<u64>) -> Garden {
    let gate = CancellationToken::new();
    let closed = gate.clone();
    let (factory, pods) = planted(pods, move || {
        let closed = closed.clone().cancelled_owned();
        let texts = texts(pods, events.clone()).map(|text| Ok(text.into()));
        let opened = closed.map(|()| stream::iter(texts)).flatten_stream();
        opened.chain(stream::pending()).boxed()
    });
    Garden {
        factory,
        pods,
        gate,
    }
}

/// An informer of that number of pods, its factory, and a sender of its events.
pub(super) fn fed(pods: usize) -> (InformerFactory, Informer<Pod>, mpsc::UnboundedSender<Bytes>) {
    // BOUND: the sender waits until its events were heard.
    let (sender, receiver) = mpsc::unbounded_channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let (factory, pods) = planted(pods, move || {
        let receiver = Arc::clone(&receiver);
        let next = |receiver: Arc<Mutex<mpsc::UnboundedReceiver<Bytes>>>| async move {
            let bytes = receiver.lock().await.recv().await?;
            Some((Ok(bytes), receiver))
        };
        stream::unfold(receiver, next).boxed()
    });
    (factory, pods, sender)
}

fn planted(
    pods: usize,
    watch: impl Fn() -> BoxStream<'static, Result<Bytes, SourceError>> + Send + Sync + 'static,
) -> (InformerFactory, Informer<Pod>) {
    let watch: Arc<Watch> = Arc::new(watch);
    let factory = InformerFactory::with_sources(move |info, _| {
        let watch = Arc::clone(&watch);
        Arc::new(Planted { info, pods, watch })
    });
    let reflector = ReflectorOptions::new().with_streaming_list(StreamingList::Never);
    let factory = factory.reflector(reflector).build();
    let resource = GroupVersionResource::new("", "v1", "pods");
    let info = ResourceInfo::new(resource, "Pod", Scope::Namespaced);
    let pods = factory.select(info).build();
    (factory, pods)
}

/// Events as they are sent: pods that go to other nodes.
pub(super) fn texts(pods: usize, events: Range<u64>) -> impl Iterator<Item = String> + Send {
    events.clone().step_by(PIECE).map(move |from| {
        let mut text = String::with_capacity(PIECE * 350);
        for number in from..events.end.min(from + PIECE as u64) {
            let Step { pod, node } = Step::of(number, pods);
            text.push_str("{\"type\":\"MODIFIED\",\"object\":");
            pod_json(&mut text, pod, node, number + 2);
            text.push_str("}\n");
        }
        text
    })
}

/// BOUND: pods or events a chunk.
const PIECE: usize = 256;

impl ListerWatcher for Planted {
    fn list<'a>(&'a self, _: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        let pods = self.pods;
        let head = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\
            \"metadata\":{\"resourceVersion\":\"1\"},\"items\":[";
        let pieces = (0..pods).step_by(PIECE).map(move |from| {
            let mut text = String::with_capacity(PIECE * 300);
            for number in from..pods.min(from + PIECE) {
                if number > 0 {
                    text.push(',');
                }
                pod_json(&mut text, number, node(number), 1);
            }
            text
        });
        let texts = std::iter::once(head.to_owned()).chain(pieces);
        let texts = texts.chain(std::iter::once("]}".to_owned()));
        let body = Body::new(
            Encoding::Json,
            stream::iter(texts.map(|text| Ok(text.into()))),
        );
        std::future::ready(Ok(body)).boxed()
    }

    fn watch<'a>(&'a self, _: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        let body = Body::new(Encoding::Json, (self.watch)());
        std::future::ready(Ok(body)).boxed()
    }

    fn resource(&self) -> &ResourceInfo {
        &self.info
    }
}

/// The key of a pod, as kinform has it.
pub(super) fn object_key(number: usize) -> Result<kinform_api::ObjectKey, Failed> {
    Ok(key(number).parse()?)
}
