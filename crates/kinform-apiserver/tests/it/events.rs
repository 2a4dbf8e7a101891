//! Events in both versions: one storage, served under two sets of names.

use http::Method;
use kinform_apiserver::Service;
use serde_json::{Value, json};

use crate::support::{self, Watch, get, send};

const OLDER: &str = "/api/v1/namespaces/a/events";
const NEWER: &str = "/apis/events.k8s.io/v1/namespaces/a/events";

async fn create(service: &Service, path: &str, event: Value) -> Value {
    let (code, event) = send(service, Method::POST, path, event).await;
    assert_eq!(code, 201, "{event}");
    event
}

fn newer() -> Value {
    json!({"metadata": {"name": "new"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "a"}, "reason": "Because", "note": "text",
        "reportingController": "example.com/c", "reportingInstance": "c-0", "action": "Doing",
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}})
}

fn older() -> Value {
    json!({"metadata": {"name": "old"}, "involvedObject": {"kind": "Pod", "name": "q", "namespace": "a"},
        "reason": "Started", "message": "text", "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "count": 3, "type": "Warning"})
}

async fn names(service: &Service, path: &str) -> Vec<String> {
    let (code, list) = get(service, path).await;
    assert_eq!(code, 200, "{list}");
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

// Replies of a real server for the same events.
#[tokio::test(start_paused = true)]
async fn an_event_is_the_same_in_both_versions_but_for_its_names() {
    let (_server, service) = support::server().await;
    let made = create(&service, NEWER, newer()).await;
    let (_, seen) = get(&service, &format!("{OLDER}/new")).await;
    assert_eq!(seen["metadata"], made["metadata"]);
    let expected = json!({"kind": "Event", "apiVersion": "v1", "metadata": made["metadata"],
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "a"}, "reason": "Because",
        "message": "text", "source": {}, "firstTimestamp": null, "lastTimestamp": null,
        "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Doing",
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"},
        "reportingComponent": "example.com/c", "reportingInstance": "c-0"});
    assert_eq!(seen, expected);
    let made = create(&service, OLDER, older()).await;
    let (_, seen) = get(&service, &format!("{NEWER}/old")).await;
    let expected = json!({"kind": "Event", "apiVersion": "events.k8s.io/v1",
        "metadata": made["metadata"], "eventTime": null, "reason": "Started", "note": "text",
        "regarding": {"kind": "Pod", "name": "q", "namespace": "a"}, "type": "Warning",
        "deprecatedSource": {"component": "kubelet", "host": "n"}, "deprecatedCount": 3,
        "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": null});
    assert_eq!(seen, expected);
    assert_eq!(names(&service, OLDER).await, names(&service, NEWER).await);
}

#[tokio::test(start_paused = true)]
async fn each_version_selects_by_its_own_names() {
    let (_server, service) = support::server().await;
    create(&service, NEWER, newer()).await;
    create(&service, OLDER, older()).await;
    for (path, selector, expected) in [
        (NEWER, "regarding.name=p", &["new"][..]),
        (NEWER, "regarding.name!=p,regarding.kind=Pod", &["old"]),
        (NEWER, "reportingController=example.com/c", &["new"]),
        (NEWER, "type=Warning,reason=Started", &["old"]),
        (OLDER, "involvedObject.name=q", &["old"]),
        (OLDER, "reportingComponent=example.com/c", &["new"]),
        (OLDER, "source=kubelet", &["old"]),
    ] {
        let found = names(&service, &format!("{path}?fieldSelector={selector}")).await;
        assert_eq!(found, expected, "{selector}");
    }
    for (path, field) in [
        (NEWER, "involvedObject.name"),
        (NEWER, "reportingComponent"),
        (NEWER, "source"),
        (NEWER, ""),
        (OLDER, "regarding.name"),
    ] {
        let (code, status) = get(&service, &format!("{path}?fieldSelector={field}=x")).await;
        assert_eq!(code, 400, "{field}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_and_watches_of_one_version_are_seen_in_the_other() {
    let (_server, service) = support::server().await;
    create(&service, OLDER, older()).await;
    let mut watch = Watch::open(&service, &format!("{NEWER}?watch=1&resourceVersion=0")).await;
    let first = watch.next().await.unwrap();
    assert_eq!(
        (&first["type"], &first["object"]["note"]),
        (&json!("ADDED"), &json!("text"))
    );
    let patch = json!({"deprecatedCount": 4, "note": "changed"});
    let request = http::Request::patch(format!("{NEWER}/old"))
        .header("content-type", "application/merge-patch+json")
        .body(bytes::Bytes::from(patch.to_string()))
        .unwrap();
    assert_eq!(service.call(request).await.status(), 200);
    let (_, seen) = get(&service, &format!("{OLDER}/old")).await;
    assert_eq!(
        (&seen["count"], &seen["message"]),
        (&json!(4), &json!("changed"))
    );
    let changed = watch.next().await.unwrap();
    assert_eq!(changed["object"]["apiVersion"], "events.k8s.io/v1");
    assert_eq!(changed["object"]["deprecatedCount"], 4);
    let (code, _) = send(
        &service,
        Method::PUT,
        &format!("{NEWER}/old"),
        changed["object"].clone(),
    )
    .await;
    assert_eq!(code, 200);
    let (_, same) = get(&service, &format!("{OLDER}/old")).await;
    assert_eq!(
        same["metadata"], seen["metadata"],
        "nothing changed, so no revision was made"
    );
    let (code, gone) = send(
        &service,
        Method::DELETE,
        &format!("{NEWER}/old"),
        Value::Null,
    )
    .await;
    assert_eq!(
        (code, &gone["details"]["group"]),
        (200, &json!("events.k8s.io"))
    );
    let deleted = watch.next().await.unwrap();
    assert_eq!(
        (&deleted["type"], &deleted["object"]["note"]),
        (&json!("DELETED"), &json!("changed"))
    );
    assert_ne!(
        deleted["object"]["metadata"]["resourceVersion"],
        seen["metadata"]["resourceVersion"]
    );
}

// apiserver: --event-ttl
#[tokio::test(start_paused = true)]
async fn an_event_ends_an_hour_after_its_last_write() {
    let (_server, service) = support::server().await;
    create(&service, OLDER, older()).await;
    let made = create(&service, NEWER, newer()).await;
    let minutes = |count: u64| std::time::Duration::from_secs(60 * count);
    tokio::time::advance(minutes(40)).await;
    let path = format!("{NEWER}/new");
    let mut again = made.clone();
    again["series"]["count"] = json!(3);
    let (code, again) = send(&service, Method::PUT, &path, again).await;
    assert_eq!(code, 200, "{again}");
    assert_eq!(names(&service, OLDER).await, ["new", "old"]);
    let version = support::version(&made);
    let path = format!("{OLDER}?watch=1&resourceVersion={version}");
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.next().await.unwrap()["type"], "MODIFIED");
    tokio::time::advance(minutes(21)).await;
    assert_eq!(names(&service, OLDER).await, ["new"]);
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
    tokio::time::advance(minutes(40)).await;
    assert_eq!(names(&service, OLDER).await, Vec::<String>::new());
}
