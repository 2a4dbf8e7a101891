//! Replies that were not asked for, or that may be of any object: other kinds, other namespaces, frames
//! that hide something. A scripted server, paused time.
//!
//! ```text
//! script → informer → refused list │ skipped event │ list
//! ```

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::{ObjectKey, ReflectorOptions, ReportEvent, StreamingList};
use serde_json::json;

use crate::fixture::{factory, first_list, names, pod};
use crate::reflector::{in_namespace, newest, scripted_factory, told};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn what_states_another_kind_in_a_watch_is_skipped_and_moves_no_version() {
    // client-go: TestReflectorWatchHandler, TestGetExpectedGVKFromObject, TestIsUnsupportedTableObject
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let mut reports = pods.reports();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    pods.synced().await.unwrap();
    for (kind, api_version) in [
        ("Table", "meta.k8s.io/v1"),
        ("ConfigMap", "v1"),
        ("Pod", "v2"),
    ] {
        let mut foreign = pod("b", 9, "n1");
        foreign["kind"] = json!(kind);
        foreign["apiVersion"] = json!(api_version);
        watch.event("ADDED", &foreign);
    }
    let what = told(&mut reports, |event| match event {
        ReportEvent::Skipped { what } => Some(what.clone()),
        _ => None,
    });
    assert_eq!(what.await, r#"kind "Table" of "meta.k8s.io/v1""#);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(names(&pods), ["a"]);
    watch.end();
    let (options, _ask) = script.next_watch().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "5");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_may_hide_a_change_of_any_object_leads_to_a_list() {
    // client-go: handleAnyWatch lists again after an event that does not decode.
    let changed = pod("a", 6, "n2");
    let hidden = [
        format!("{}\n", json!({ "type": "PATCHED", "object": changed })),
        format!("{}\n", json!({ "object": changed })),
        "{\"type\":\"MODIFIED\"}\n".to_owned(),
        "{\"type\":\"ERROR\"}\n".to_owned(),
        format!("{}\n", json!({ "type": "DELETED", "object": {} })),
        format!("{}\n", json!({ "kind": "PodList", "items": [changed] })),
    ];
    for frame in hidden {
        let (factory, mut script) = factory();
        let pods = factory.informer::<Pod>();
        factory.start().unwrap();
        let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
        pods.synced().await.unwrap();
        let requests = pods.stats().requests;
        watch.send(frame.clone());
        let _watch = first_list(&mut script, std::slice::from_ref(&changed), 9).await;
        tokio::time::sleep(SECOND).await;
        let cached = pods.get(&ObjectKey::new(Some("default"), "a")).unwrap();
        assert_eq!(cached.resource_version(), "6", "{frame}");
        assert_eq!(pods.stats().requests, requests + 1, "{frame}");
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_another_kind_is_refused() {
    // client-go: TestIsUnsupportedTableObject
    let config_map = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "name": "x", "namespace": "default", "resourceVersion": "3" },
    });
    let plain = json!({ "metadata": { "name": "x", "namespace": "default" } });
    let list = |kind: &str, api_version: &str, items: serde_json::Value| {
        json!({
            "kind": kind, "apiVersion": api_version,
            "metadata": { "resourceVersion": "9" }, "items": items,
        })
    };
    let elsewhere = json!({ "metadata": { "name": "x", "namespace": "elsewhere" } });
    let lists = [
        list("PodList", "v1", json!([config_map])),
        list("PodList", "v1", json!([plain, elsewhere])),
        list("ConfigMapList", "v1", json!([plain])),
        list("ConfigMapList", "v1", json!([])),
        list("PodList", "v2", json!([])),
        json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": [] }),
    ];
    let (factory, scripts) =
        scripted_factory(ReflectorOptions::new().with_streaming_list(StreamingList::Never));
    let pods = in_namespace(&factory, "default");
    let (_, mut script) = newest(&scripts);
    let mut reports = pods.reports();
    for list in lists {
        script.next_list().await.1.reply(list.to_string());
        let trouble = told(&mut reports, |event| match event {
            ReportEvent::Failed(trouble) => Some(trouble.clone()),
            _ => None,
        });
        let trouble = trouble.await;
        assert_eq!(trouble.reason, "Garbled", "{list}");
        assert!(!pods.has_synced(), "{list}");
    }
    let good = list("PodList", "v1", json!([plain])).to_string();
    script.next_list().await.1.reply(good);
    pods.synced().await.unwrap();
    assert_eq!(names(&pods), ["x"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_of_another_namespace_than_was_asked_for_is_skipped_and_moves_no_version() {
    let (factory, scripts) = scripted_factory(ReflectorOptions::new());
    let pods = in_namespace(&factory, "default");
    let (_, mut script) = newest(&scripts);
    let mut reports = pods.reports();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    pods.synced().await.unwrap();
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        let mut elsewhere = pod("a", 9, "n1");
        elsewhere["metadata"]["namespace"] = json!("elsewhere");
        watch.event(kind, &elsewhere);
    }
    let what = told(&mut reports, |event| match event {
        ReportEvent::Skipped { what } => Some(what.clone()),
        _ => None,
    });
    assert_eq!(what.await, r#"namespace "elsewhere""#);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(names(&pods), ["a"]);
    watch.end();
    let (options, _ask) = script.next_watch().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "5");
    factory.shutdown().await;
}
