use std::time::Duration;

use bytes::Bytes;
use http::Request;
use kinform_api::Status;
use kinform_apiserver::{Fault, FaultRule, Server, WatchLag};
use serde_json::json;
use tokio::time::Instant;

use crate::support::*;

const ALL: &str = "/api/v1/configmaps";

#[tokio::test(start_paused = true)]
async fn a_rule_acts_on_the_nth_match_and_then_no_more() {
    let (server, service) = server().await;
    let status = Status::too_many_requests("slow down", 3);
    let rule = FaultRule::new(Fault::Reply(status))
        .on_verb("list")
        .on_resource("configmaps");
    server.faults().inject(rule.from_nth(2).times(2));
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(get(&service, ALL).await.0);
        assert_eq!(get(&service, "/api/v1/secrets").await.0, 200);
    }
    assert_eq!(codes, [200, 429, 429, 200]);
}

#[tokio::test(start_paused = true)]
async fn replies_can_say_when_to_come_again_or_not() {
    let (server, service) = server().await;
    let with = Fault::Reply(Status::too_many_requests("slow down", 3));
    let without = Fault::Foreign {
        code: 429,
        media: "text/plain",
        body: "too many",
        retry_after: None,
    };
    for (fault, want) in [(with, Some("3")), (without, None)] {
        server.faults().inject(FaultRule::new(fault));
        let reply = service
            .call(Request::get(ALL).body(Bytes::new()).unwrap())
            .await;
        assert_eq!(reply.status(), 429);
        let after = reply
            .headers()
            .get("retry-after")
            .map(|value| value.to_str().unwrap());
        assert_eq!(after, want);
    }
}

#[tokio::test(start_paused = true)]
async fn streams_can_be_cut_stalled_and_refused() {
    let (server, service) = server().await;
    create(&service, "a", "x", json!({})).await;
    let on_watch = |fault| FaultRule::new(fault).on_verb("watch");
    let watch = format!("{ALL}?watch=1");

    server
        .faults()
        .inject(on_watch(Fault::ErrorEvent(Status::expired("gone"))));
    let mut stream = Watch::open(&service, &watch).await;
    assert_eq!(stream.tell().await, "ERROR 410 Expired");
    assert_eq!(stream.tell().await, "END");

    server.faults().inject(on_watch(Fault::EmptyStream));
    assert_eq!(Watch::open(&service, &watch).await.tell().await, "END");

    server.faults().inject(on_watch(Fault::StallAfter(20)));
    let mut stream = Watch::open(&service, &watch).await;
    assert_eq!(
        stream.within(Duration::from_secs(3600)).await,
        Vec::<String>::new()
    );

    server
        .faults()
        .inject(FaultRule::new(Fault::TruncateAfter(20)).on_verb("list"));
    let reply = service
        .call(Request::get(ALL).body(Bytes::new()).unwrap())
        .await;
    assert_eq!(reply.status(), 200);
    assert!(reply.into_body().collect().await.is_err());

    server.faults().stall_watches();
    let mut stream = Watch::open(&service, &watch).await;
    assert_eq!(
        stream.within(Duration::from_secs(3600)).await,
        Vec::<String>::new()
    );
    server.faults().resume_watches();
    assert!(stream.tell().await.starts_with("ADDED a/x"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_a_write_that_was_done() {
    let (server, service) = server().await;
    server
        .faults()
        .inject(FaultRule::new(Fault::LoseReply).on_verb("create"));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let request = Request::post("/api/v1/namespaces/a/configmaps")
        .header("content-type", "application/json")
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let reply = service.call(request).await;
    assert!(reply.into_body().collect().await.is_err());
    assert_eq!(
        get(&service, "/api/v1/namespaces/a/configmaps/x").await.0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn a_lagging_replica_shows_the_past_until_it_catches_up() {
    let (server, service) = server().await;
    let before = create(&service, "a", "x", json!({})).await;
    server.lag();
    let after = create(&service, "a", "y", json!({})).await;
    let (_, stale) = get(&service, &format!("{ALL}?resourceVersion=0")).await;
    assert_eq!(
        (version(&stale), stale["items"].as_array().unwrap().len()),
        (before, 1)
    );
    let (_, fresh) = get(&service, ALL).await;
    assert_eq!(version(&fresh), after);
    assert_eq!(
        get(&service, &format!("{ALL}?resourceVersion={after}"))
            .await
            .0,
        504
    );
    let path = format!("{ALL}?watch=1&resourceVersion={before}");
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(
        watch.within(Duration::from_secs(60)).await,
        Vec::<String>::new()
    );
    server.catch_up();
    assert_eq!(watch.tell().await, format!("ADDED a/y {after}"));
}

// apiserver: RunTestWatchDispatchBookmarkEvents. A client resumes from a bookmark, and never hears
// earlier events that it was not sent.
#[tokio::test(start_paused = true)]
async fn s3_a_bookmark_names_no_version_whose_events_were_not_sent() {
    let (server, service) = server().await;
    let before = create(&service, "a", "x", json!({})).await;
    server.lag();
    let after = create(&service, "a", "y", json!({})).await;
    let path = format!(
        "{ALL}?watch=1&resourceVersion={before}&allowWatchBookmarks=true&timeoutSeconds=300"
    );
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.tell().await, format!("BOOKMARK {before}"));
    server.catch_up();
    assert_eq!(watch.tell().await, format!("ADDED a/y {after}"));
    assert_eq!(watch.tell().await, format!("BOOKMARK {after}"));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_can_stay_away() {
    let (server, service) = server().await;
    server.faults().without_bookmarks();
    server.faults().without_initial_events_end();
    let path = format!("{ALL}?watch=1&allowWatchBookmarks=true&timeoutSeconds=100");
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.within(Duration::from_secs(200)).await, ["END"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_can_be_its_end_alone() {
    let (server, service) = server().await;
    let before = create(&service, "a", "x", json!({})).await;
    server.faults().without_initial_events();
    let path = format!(
        "{ALL}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true&timeoutSeconds=100"
    );
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.tell().await, format!("SYNCED {before}"));
    let after = create(&service, "a", "y", json!({})).await;
    assert_eq!(watch.tell().await, format!("ADDED a/y {after}"));
    server.faults().clear();
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.tell().await, format!("ADDED a/x {before}"));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_streaming_list_can_come_after_the_next_events() {
    let (server, service) = server().await;
    let x = create(&service, "a", "x", json!({})).await;
    let silent = format!(
        "{ALL}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &timeoutSeconds=300"
    );
    let path = format!("{silent}&allowWatchBookmarks=true");
    let soon = Duration::from_secs(1);
    server.faults().delay_initial_events_end();
    let mut watch = Watch::open(&service, &path).await;
    let mut without = Watch::open(&service, &silent).await;
    assert_eq!(watch.within(soon).await, [format!("ADDED a/x {x}")]);
    let y = create(&service, "a", "y", json!({})).await;
    let told = [format!("ADDED a/y {y}"), format!("SYNCED {y}")];
    assert_eq!(watch.within(soon).await, told);
    // A watch without bookmarks has no end either way.
    let added = [format!("ADDED a/x {x}"), format!("ADDED a/y {y}")];
    assert_eq!(without.within(soon).await, added);

    // Where no event comes, the end is the first bookmark.
    let mut quiet = Watch::open(&service, &path).await;
    assert_eq!(quiet.within(soon).await, added);
    assert_eq!(quiet.tell().await, format!("SYNCED {y}"));
    assert_eq!(quiet.tell().await, format!("BOOKMARK {y}"));

    // A list that waits for its end has it also after the fault; a new one has it at once.
    let mut waiting = Watch::open(&service, &path).await;
    assert_eq!(waiting.within(soon).await, added);
    server.faults().clear();
    assert_eq!(waiting.tell().await, format!("SYNCED {y}"));
    let mut next = Watch::open(&service, &path).await;
    let [first, second] = added;
    let told = [first, second, format!("SYNCED {y}")];
    assert_eq!(next.within(soon).await, told);
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_history_expired_can_be_refused() {
    let (server, service) = server().await;
    let before = create(&service, "a", "x", json!({})).await;
    create(&service, "a", "y", json!({})).await;
    server.store().compact(u64::MAX);
    let path = format!("{ALL}?watch=1&resourceVersion={before}");
    assert_eq!(get(&service, &path).await.0, 200);
    server.faults().refuse_expired_watches();
    let (code, status) = get(&service, &path).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let list = format!("{ALL}?resourceVersion=0");
    assert_eq!(get(&service, &list).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_lagging_server_can_answer_with_less_than_was_asked_for() {
    let (server, service) = server().await;
    let before = create(&service, "a", "x", json!({})).await;
    server.lag();
    let after = create(&service, "a", "y", json!({})).await;
    let list = format!("{ALL}?resourceVersion={after}&resourceVersionMatch=NotOlderThan");
    assert_eq!(get(&service, &list).await.0, 504);
    server.faults().ignore_asked_versions();
    let (code, stale) = get(&service, &list).await;
    assert_eq!((code, version(&stale)), (200, before));
    let (_, latest) = get(&service, ALL).await;
    assert_eq!(version(&latest), after);
}

#[tokio::test(start_paused = true)]
async fn each_continue_token_can_expire_at_once() {
    let (server, service) = server().await;
    for name in ["x", "y"] {
        create(&service, "a", name, json!({})).await;
    }
    let token =
        |page: &serde_json::Value| page["metadata"]["continue"].as_str().unwrap().to_owned();
    let (_, page) = get(&service, &format!("{ALL}?limit=1")).await;
    let next = format!("{ALL}?limit=1&continue={}", token(&page));
    server.faults().refuse_continue_tokens();
    let (code, status) = get(&service, &next).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let rest = format!("{ALL}?limit=1&continue={}", token(&status));
    assert_eq!(get(&service, &rest).await.0, 200);
    server.faults().clear();
    assert_eq!(get(&service, &next).await.0, 200);
}

async fn lags(lag: Option<WatchLag>) -> Vec<u128> {
    lags_of(lag, 1).await
}

/// Delay of each of a watch's events from a server with this lag, in microseconds, for objects of
/// this size.
async fn lags_of(lag: Option<WatchLag>, bytes: usize) -> Vec<u128> {
    let builder = Server::builder();
    let server = lag.into_iter().fold(builder, |b, lag| b.watch_lag(lag));
    let server = server.in_process();
    without_maps(&server);
    let service = server.service();
    namespace(&service, "a").await;
    let mut watch = Watch::open(&service, &format!("{ALL}?watch=1")).await;
    let mut lags = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let before = Instant::now();
        let body = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(bytes)}});
        let path = "/api/v1/namespaces/a/configmaps";
        let (code, made) = send(&service, http::Method::POST, path, body).await;
        assert_eq!(code, 201);
        let expected = format!("ADDED a/{name} {}", version(&made));
        assert_eq!(watch.tell().await, expected);
        lags.push(before.elapsed().as_micros());
    }
    lags
}

#[tokio::test(start_paused = true)]
async fn watches_are_late_by_what_the_seed_says_and_stay_in_order() {
    assert_eq!(lags(None).await, [0; 6]);
    let most = Duration::from_millis(5);
    let first = lags(Some(WatchLag::up_to(most, 7))).await;
    // Timers have a resolution of a millisecond.
    assert!(first.iter().all(|lag| *lag <= 6_000), "{first:?}");
    assert!(first.iter().any(|lag| *lag > 0), "{first:?}");
    assert_eq!(lags(Some(WatchLag::up_to(most, 7))).await, first);
    // Large objects are sent in several chunks, but have one lag.
    assert_eq!(
        lags_of(Some(WatchLag::up_to(most, 7)), 8 << 10).await,
        first
    );
    let others = [8, 9, 10].map(|seed| WatchLag::up_to(most, seed));
    let others = futures::future::join_all(others.map(|lag| lags(Some(lag)))).await;
    assert!(others.iter().any(|other| *other != first), "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn the_lag_can_be_changed_while_watches_are_open() {
    let server = Server::builder().in_process();
    without_maps(&server);
    let service = server.service();
    namespace(&service, "a").await;
    let hour = WatchLag::up_to(Duration::from_secs(3600), 1);
    server.faults().delay_watches(Some(hour));
    let mut watch = Watch::open(&service, &format!("{ALL}?watch=1")).await;
    let first = create(&service, "a", "x", json!({})).await;
    assert!(watch.within(Duration::from_secs(1)).await.is_empty());
    // The lag survives the clearing of faults; the next part ends it.
    server.faults().clear();
    let second = update(&service, "a", "x", json!({})).await;
    assert_eq!(watch.tell().await, format!("ADDED a/x {first}"));
    server.faults().delay_watches(None);
    let before = Instant::now();
    assert!(watch.tell().await.starts_with("MODIFIED a/x"), "{second}");
    assert_eq!(before.elapsed(), Duration::ZERO);
}
