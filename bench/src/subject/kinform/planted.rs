//! A source without a server: small pods, made where the informer reads them.
//!
//! ```text
//! list ─▶ pods, cut anywhere into chunks      watch ─▶ so many events, or events without an end
//! ```
//!
//! For scenarios about reading a cache: what fills it is not measured there, and a million pods of
//! 8 KB would not fit into everybody's memory. Pod `n` is on node `n mod 40`; an event moves a pod to
//! another node, so that indexes are as disordered as after days.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kinform::source::{Body, ListerWatcher, ResourceInfo, SourceError};
use kinform::{Informer, InformerFactory, ReflectorConfig, StreamingList};
use kinform_api::{GroupVersionResource, ListOptions, Scope, WatchOptions};
use kinform_core::Encoding;
use tokio_util::sync::CancellationToken;

use crate::subject::Failed;
use crate::subject::small::{Step, key, node, pod_json};

/// The source.
struct Planted {
    info: ResourceInfo,
    pods: usize,
    events: Range<u64>,
    gate: CancellationToken,
}

/// An informer of that many pods, and what keeps it.
pub(super) struct Garden {
    pub(super) factory: InformerFactory,
    pub(super) pods: Informer<Pod>,
    /// The events begin when it is cancelled.
    pub(super) gate: CancellationToken,
}

/// An informer of that many pods, which hears these events when the gate is opened.
pub(super) fn garden(pods: usize, events: Range<u64>) -> Garden {
    let gate = CancellationToken::new();
    let closed = gate.clone();
    let factory = InformerFactory::with_sources(move |info, _| {
        Arc::new(Planted {
            info,
            pods,
            events: events.clone(),
            gate: closed.clone(),
        })
    });
    let reflector = ReflectorConfig {
        streaming_list: StreamingList::Never,
        ..ReflectorConfig::default()
    };
    let factory = factory.reflector(reflector).build();
    let resource = GroupVersionResource::new("", "v1", "pods");
    let info = ResourceInfo::new(resource, "Pod", Scope::Namespaced);
    Garden {
        pods: factory.select_resource(info).build(),
        factory,
        gate,
    }
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
        let (pods, events) = (self.pods, self.events.clone());
        let pieces = events.clone().step_by(PIECE).map(move |from| {
            let mut text = String::with_capacity(PIECE * 350);
            for number in from..events.end.min(from + PIECE as u64) {
                let Step { pod, node } = Step::of(number, pods);
                text.push_str("{\"type\":\"MODIFIED\",\"object\":");
                pod_json(&mut text, pod, node, number + 2);
                text.push_str("}\n");
            }
            Ok(Bytes::from(text))
        });
        let gate = self.gate.clone().cancelled_owned();
        let opened = gate.map(|()| stream::iter(pieces)).flatten_stream();
        let body = Body::new(Encoding::Json, opened.chain(stream::pending()));
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
