//! Replies of servers and proxies that do not send them as they should.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinform::source::{Body, ListerWatcher, ResourceInfo, SourceError};
use kinform::{
    Encoding, GroupVersionResource, InformerFactory, ListOptions, ReportEvent, Scope, WatchOptions,
};
use kinform_testkit::{Script, status_error};
use serde_json::{Value, json};

use crate::fixture::{Heard, factory, first_list, names, pod, settle};

const SECOND: Duration = Duration::from_secs(1);

/// Answers the next list, which has this limit, with these pods.
async fn list(script: &mut Script, limit: Option<u32>, pods: &[Value], version: &str) {
    let (options, ask) = script.next_list().await;
    assert_eq!(options.limit, limit);
    let metadata = json!({ "resourceVersion": version });
    let list = json!({
        "kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": pods,
    });
    ask.reply(list.to_string());
}

#[tokio::test(start_paused = true)]
async fn k14_nobody_hears_deletes_from_an_empty_streaming_list() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let heard = Heard::default();
    informer.add_handler(heard.handlers()).unwrap();
    let mut reports = informer.reports();
    factory.start().unwrap();
    let pods = [pod("a", 1, "n1"), pod("b", 2, "n1")];
    let watch = first_list(&mut script, &pods, 5).await;
    settle().await;
    assert_eq!(heard.take(), ["initial a@1", "initial b@2", "synced"]);
    tokio::time::sleep(60 * SECOND).await;
    informer.relist();
    let (_, ask) = script.next_watch().await;
    let lying = ask.stream();
    lying.initial_events_end("Pod", "9");
    // It ignores the limit, too.
    list(&mut script, Some(1), &pods, "9").await;
    list(&mut script, None, &pods, "9").await;
    let (_, _watch) = script.next_watch().await;
    settle().await;
    assert!(watch.is_given_up() && lying.is_given_up());
    assert_eq!(heard.take(), Vec::<String>::new());
    assert_eq!(names(&informer).len(), 2);
    let fell_back = loop {
        if let ReportEvent::FellBack { reason } = reports.next().await.unwrap().event {
            break reason;
        }
    };
    assert_eq!(fell_back, "empty unlike a list");
    factory.shutdown().await;
}

// fault: F6
#[tokio::test(start_paused = true)]
async fn k15_a_watch_that_trickles_bytes_is_silent() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    for _ in 0..9 {
        assert!(!watch.is_given_up());
        tokio::time::sleep(10 * SECOND).await;
        watch.send(" \n");
    }
    settle().await;
    assert!(watch.is_given_up());
    assert_eq!(informer.stats().silences, 1);
    list(&mut script, Some(1), &[], "5").await;
    let (options, _watch) = script.next_watch().await;
    assert_eq!(options.resource_version, Some("5".into()));
    factory.shutdown().await;
}

// fault: F21
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_a_proxy_holds_back_becomes_pages_soon() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    factory.start().unwrap();
    let (_, ask) = script.next_watch().await;
    let held_back = ask.stream();
    tokio::time::sleep(4 * SECOND).await;
    assert!(held_back.is_given_up());
    list(&mut script, Some(500), &[pod("a", 1, "n1")], "5").await;
    informer.synced().await.unwrap();
    assert_eq!(names(&informer), ["a"]);
    factory.shutdown().await;
}

/// A server that answers each list with these bytes of protobuf, and has no watch.
struct Messages(ResourceInfo, Vec<u8>);

impl ListerWatcher for Messages {
    fn list<'a>(&'a self, _: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        let bytes = futures::stream::iter([Ok(self.1.clone().into())]);
        async { Ok(Body::new(Encoding::Protobuf, bytes)) }.boxed()
    }

    fn watch<'a>(&'a self, _: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        async { Err(status_error(405, "MethodNotAllowed", "no watch")) }.boxed()
    }

    fn resource(&self) -> &ResourceInfo {
        &self.0
    }
}

/// A field of protobuf with a length.
fn field(number: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let head = [number << 3 | 2, u8::try_from(value.len()).unwrap()];
    [&head[..], &value].concat()
}

#[tokio::test(start_paused = true)]
async fn k18_a_text_that_is_not_utf_8_costs_no_object_and_is_told() {
    let metadata = field(
        1,
        &[&field(1, &[b"a"]), &field(3, &[b"n"]), &field(6, &[b"7"])],
    );
    let entry = field(2, &[&field(1, &[b"k"]), &field(2, &[b"gr\xfcn"])]);
    let list = [
        field(1, &[&field(2, &[b"9"])]),
        field(2, &[&metadata, &entry]),
    ]
    .concat();
    let kind = field(1, &[&field(1, &[b"v1"]), &field(2, &[b"ConfigMapList"])]);
    let body = [&b"k8s\0"[..], &kind, &field(2, &[&list])].concat();
    let maps = GroupVersionResource::new("", "v1", "configmaps");
    let info = ResourceInfo::new(maps, "ConfigMap", Scope::Namespaced);
    let source = std::sync::Arc::new(Messages(info, body));
    let factory =
        InformerFactory::with_sources(move |_, _| std::sync::Arc::clone(&source) as _).build();
    let informer = factory.informer::<ConfigMap>();
    let mut reports = informer.reports();
    factory.start().unwrap();
    informer.synced().await.unwrap();
    let map = informer.list().to_objs().remove(0).typed().unwrap();
    assert_eq!(map.data.as_ref().unwrap()["k"], "gr\u{fffd}n");
    let (key, path) = loop {
        if let ReportEvent::Mended { key, path } = reports.next().await.unwrap().event {
            break (key.to_string(), path);
        }
    };
    assert_eq!((key.as_str(), path.as_str()), ("n/a", "data.k"));
    let stats = informer.stats();
    assert!(stats.mended > 0);
    assert_eq!((stats.quarantined, stats.quarantined_now), (0, 0));
    factory.shutdown().await;
}
