//! Streaming lists of servers and proxies that do not send them as they should.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinform::ReportEvent;
use kinform_testkit::Script;
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
