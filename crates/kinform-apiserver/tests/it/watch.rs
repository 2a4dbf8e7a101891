use std::time::Duration;

use futures::StreamExt;
use kinform_apiserver::Server;
use serde_json::json;

use crate::support::*;

const ALL: &str = "/api/v1/configmaps?watch=1";

// e2e: watch.go "should be able to restart watching from the last resource version observed"
#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_came_after_its_version_and_then_what_comes() {
    let (_server, service) = server().await;
    let first = create(&service, "a", "x", json!({})).await;
    create(&service, "a", "y", json!({})).await;
    let mut watch = Watch::open(&service, &format!("{ALL}&resourceVersion={first}")).await;
    assert_eq!(watch.tell().await, format!("ADDED a/y {}", first + 1));
    update(&service, "a", "x", json!({})).await;
    delete(&service, "a", "x").await;
    assert_eq!(watch.tell().await, format!("MODIFIED a/x {}", first + 2));
    assert_eq!(watch.tell().await, format!("DELETED a/x {}", first + 3));
}

#[tokio::test(start_paused = true)]
async fn watches_share_the_bytes_of_a_large_object() {
    let (_server, service) = server().await;
    for accept in [
        "application/json",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    ] {
        let name = format!("large-{}", accept.len());
        let mut bodies = Vec::new();
        for _ in 0..3 {
            let request = http::Request::get(format!("{ALL}&includeObject=Object"));
            let request = request.header("accept", accept).body(bytes::Bytes::new());
            bodies.push(service.call(request.unwrap()).await.into_body());
        }
        let large = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(100_000)}});
        let (code, _) = send(
            &service,
            http::Method::POST,
            "/api/v1/namespaces/a/configmaps",
            large,
        )
        .await;
        assert_eq!(code, 201);
        let path = format!("/api/v1/namespaces/a/configmaps/{name}");
        send(&service, http::Method::DELETE, &path, json!(null)).await;
        let mut places = Vec::new();
        // A deleted object in protobuf is encoded for each watch, under its last version.
        let frames = if accept.contains("protobuf") { 1 } else { 2 };
        for body in &mut bodies {
            let mut large = Vec::new();
            while large.len() < frames {
                let chunk = body.next().await.unwrap().unwrap();
                if chunk.len() > 100_000 {
                    large.push(chunk);
                }
            }
            places.push(large);
        }
        let addresses = |of: &Vec<bytes::Bytes>| of.iter().map(|it| it.as_ptr()).collect();
        let shared: Vec<Vec<_>> = places.iter().map(addresses).collect();
        assert!(
            shared.iter().all(|of| *of == shared[0]),
            "{accept}: each watch has a copy"
        );
    }
}

// apiserver: TestCacheWatcherHandlesFiltering; e2e: watch.go "label value changed"
#[tokio::test(start_paused = true)]
async fn s4_an_object_that_leaves_a_selector_is_deleted_with_its_old_content() {
    let (server, service) = server().await;
    let now = server.store().revision();
    let path = format!("{ALL}&labelSelector=in%3Dyes&resourceVersion={now}");
    let mut watch = Watch::open(&service, &path).await;
    create(&service, "a", "x", json!({"in": "no"})).await;
    let entered = update(&service, "a", "x", json!({"in": "yes"})).await;
    let changed = update(&service, "a", "x", json!({"in": "yes", "more": "1"})).await;
    let left = update(&service, "a", "x", json!({"in": "no"})).await;
    delete(&service, "a", "x").await;
    assert_eq!(watch.tell().await, format!("ADDED a/x {entered}"));
    assert_eq!(watch.tell().await, format!("MODIFIED a/x {changed}"));
    let event = watch.next().await.unwrap();
    assert_eq!(short(&event), format!("DELETED a/x {left}"));
    assert_eq!(event["object"]["metadata"]["labels"]["in"], "yes");
    assert_eq!(
        watch.within(Duration::from_secs(5)).await,
        Vec::<String>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_by_period_and_before_the_end() {
    let (server, service) = server().await;
    let now = server.store().revision();
    let path = format!("{ALL}&resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=130");
    let mut watch = Watch::open(&service, &path).await;
    let started = tokio::time::Instant::now();
    let mut told = Vec::new();
    loop {
        let event = watch.tell().await;
        told.push((started.elapsed().as_secs(), event.clone()));
        if event == "END" {
            break;
        }
    }
    let mark = format!("BOOKMARK {now}");
    let want = [(60, &*mark), (120, &*mark), (128, &*mark), (130, "END")];
    assert_eq!(told, want.map(|(at, what)| (at, what.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_version_before_the_history_is_an_error_event_and_then_the_end() {
    let server = Server::builder().history(3).in_process();
    let service = server.service();
    namespace(&service, "a").await;
    for name in ["c", "d", "e", "f"] {
        create(&service, "a", name, json!({})).await;
    }
    let floor = server.store().floor();
    assert_eq!(floor, server.store().revision() - 3);
    let mut old = Watch::open(&service, &format!("{ALL}&resourceVersion={}", floor - 1)).await;
    let event = old.next().await.unwrap();
    assert_eq!(
        event["object"]["message"],
        format!("too old resource version: {} ({floor})", floor - 1)
    );
    assert_eq!(old.tell().await, "END");
    let mut kept = Watch::open(&service, &format!("{ALL}&resourceVersion={floor}")).await;
    assert_eq!(kept.tell().await, format!("ADDED a/d {}", floor + 1));
}

// apiserver: TestSlowWatcher family: a watcher that does not keep up ends cleanly.
#[tokio::test(start_paused = true)]
async fn a_slow_watch_ends_cleanly_and_resumes() {
    let server = Server::builder().history(50).in_process();
    let service = server.service();
    namespace(&service, "a").await;
    let start = server.store().revision();
    let mut watch = Watch::open(&service, &format!("{ALL}&resourceVersion={start}")).await;
    create(&service, "a", "x", json!({})).await;
    assert_eq!(watch.tell().await, format!("ADDED a/x {}", start + 1));
    for round in 0..60 {
        update(&service, "a", "x", json!({"round": round.to_string()})).await;
    }
    assert_eq!(watch.tell().await, "END");
}

#[tokio::test(start_paused = true)]
async fn cutting_and_stopping_end_watches_cleanly() {
    let (server, service) = server().await;
    let now = server.store().revision();
    let path = format!("{ALL}&resourceVersion={now}");
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(
        watch.within(Duration::from_secs(1)).await,
        Vec::<String>::new()
    );
    assert_eq!(server.journal().open_watches("configmaps"), 1);
    server.cut_watches();
    assert_eq!(watch.tell().await, "END");
    drop(watch);
    assert_eq!(server.journal().open_watches("configmaps"), 0);
    let mut watch = Watch::open(&service, &path).await;
    let state = server.stop().await;
    assert_eq!(watch.tell().await, "END");
    let server = Server::builder()
        .state(state.without_history())
        .in_process();
    create(&server.service(), "a", "x", json!({})).await;
    let mut watch = Watch::open(
        &server.service(),
        &format!("{ALL}&resourceVersion={}", now - 1),
    )
    .await;
    assert_eq!(watch.tell().await, "ERROR 410 Expired");
}
