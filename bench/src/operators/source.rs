//! A source in this process: config maps of 1 KB, and events when the bench sends them.
//!
//! ```text
//! list ─▶ maps in namespaces      Feed::send(events) ─▶ the watch
//! ```

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{Body, ListerWatcher, ResourceInfo, SourceError};
use kinform::{Informer, InformerFactory, ReflectorOptions, StreamingList};
use kinform_api::{GroupVersionResource, ListOptions, Scope, WatchOptions};
use kinform_core::Encoding;
use tokio::sync::{Mutex, mpsc};

/// BOUND: events a chunk.
const PIECE: usize = 256;

/// An informer of config maps without a server.
#[derive(Debug)]
pub struct Fed {
    /// Its factory.
    pub factory: InformerFactory,
    /// The informer.
    pub maps: Informer<ConfigMap>,
    events: mpsc::UnboundedSender<Bytes>,
    version: u64,
}

struct Source {
    info: ResourceInfo,
    maps: usize,
    events: Arc<Mutex<mpsc::UnboundedReceiver<Bytes>>>,
}

impl Fed {
    /// An informer whose first list has that number of maps, all in the namespace `large`.
    #[must_use]
    pub fn new(maps: usize) -> Self {
        // BOUND: a sender waits until its events were reconciled.
        let (events, receiver) = mpsc::unbounded_channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let factory = InformerFactory::with_sources(move |info, _| {
            let events = Arc::clone(&receiver);
            Arc::new(Source { info, maps, events })
        });
        let reflector = ReflectorOptions::new().with_streaming_list(StreamingList::Never);
        let factory = factory.reflector(reflector).build();
        let resource = GroupVersionResource::new("", "v1", "configmaps");
        let info = ResourceInfo::new(resource, "ConfigMap", Scope::Namespaced);
        let maps = factory.select(info).build();
        Self {
            factory,
            maps,
            events,
            version: 1,
        }
    }

    /// Changes each of the first maps of a namespace, or makes it.
    pub fn send(&mut self, kind: &str, namespace: &str, maps: usize) {
        for from in (0..maps).step_by(PIECE) {
            let mut text = String::with_capacity(PIECE * 1_200);
            for number in from..maps.min(from + PIECE) {
                self.version += 1;
                text.push_str(&format!("{{\"type\":\"{kind}\",\"object\":"));
                text.push_str(&map(namespace, number, self.version));
                text.push_str("}\n");
            }
            // The informer has ended: nothing is reconciled, which the caller notices.
            let _ = self.events.send(text.into());
        }
    }
}

/// The JSON of a map; its generation is its version.
fn map(namespace: &str, number: usize, version: u64) -> String {
    let text = "x".repeat(760);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"map-{number:06}","namespace":"{namespace}","uid":"{namespace}-{number:012}","resourceVersion":"{version}","generation":{version},"labels":{{"app":"bench"}}}},"data":{{"text":"{text}"}}}}"#
    )
}

impl ListerWatcher for Source {
    fn list<'a>(&'a self, _: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        let mut text = String::from(
            "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[",
        );
        for number in 0..self.maps {
            text.push_str(if number == 0 { "" } else { "," });
            text.push_str(&map("large", number, 1));
        }
        text.push_str("]}");
        let body = Body::new(Encoding::Json, stream::iter([Ok(text.into())]));
        std::future::ready(Ok(body)).boxed()
    }

    fn watch<'a>(&'a self, _: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        let events = Arc::clone(&self.events);
        let next = |events: Arc<Mutex<mpsc::UnboundedReceiver<Bytes>>>| async move {
            let bytes = events.lock().await.recv().await?;
            Some((Ok(bytes), events))
        };
        let body = Body::new(Encoding::Json, stream::unfold(events, next));
        std::future::ready(Ok(body)).boxed()
    }

    fn resource(&self) -> &ResourceInfo {
        &self.info
    }
}
