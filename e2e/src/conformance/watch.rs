//! Watches: their starts, their events, their ends.
//!
//! ```text
//! GET collection ? watch, resourceVersion, sendInitialEvents, bookmarks ──▶ events, in order ──▶ end
//! ```
//!
//! Upstream counterpart: `kubernetes:test/e2e/apimachinery/watch.go`,
//! `apiserver:pkg/storage/testing` (`RunWatchSemantics`).

use std::time::Instant;

use serde_json::{Value, json};

use super::probe::{Failure, Probe, holds, same, version};
use super::{Row, refusals, rows};

pub(super) const REFUSALS: &[Row] = refusals![
    initial_events_need_a_match: "TestValidateListOptions";
        "GET" "~/configmaps?watch=1&sendInitialEvents=true" => 422 "Invalid" "requires setting resourceVersionMatch to NotOlderThan",
    no_initial_events_need_a_match_too: "TestValidateListOptions";
        "GET" "~/configmaps?watch=1&sendInitialEvents=false" => 422 "Invalid" "resourceVersionMatch",
    a_watch_with_a_match_alone_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan" => 422 "Invalid" "forbidden for watch",
    a_watch_with_an_exact_match_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?watch=1&resourceVersion=1&resourceVersionMatch=Exact&sendInitialEvents=true" => 422 "Invalid" "resourceVersionMatch",
    a_malformed_version_of_a_watch_is_an_error: "apiserver:pkg/storage/cacher";
        "GET" "~/configmaps?watch=1&resourceVersion=abc" => 500 "" "abc",
    a_watch_with_a_bad_selector_is_refused: "apiserver:pkg/endpoints/handlers/get.go";
        "GET" "~/configmaps?watch=1&labelSelector=a%3D%3D%3Db" => 400 "BadRequest" "unable to parse requirement",
    a_watch_of_an_unknown_resource_is_refused: "apiserver:pkg/server/handler.go";
        "GET" "~/wings?watch=1" => 404 "NotFound" "could not find the requested resource",
];

pub(super) const ROWS: &[Row] = rows![
    a_watch_without_a_version_begins_with_what_is_there: "RunWatchSemantics: legacy, RV unset",
    a_watch_from_0_begins_with_what_is_there: "RunWatchSemantics: legacy, RV 0",
    a_legacy_watch_with_bookmarks_tells_the_end_of_its_initial_events: "RunWatchSemantics: legacy",
    a_streaming_list_tells_its_end: "RunWatchSemantics: allowWatchBookmarks and sendInitialEvents, RV unset",
    a_streaming_list_from_0_tells_its_end: "RunWatchSemantics: RV 0",
    a_streaming_list_from_a_version_tells_the_whole_state: "RunWatchSemantics: RV N",
    a_streaming_list_without_bookmarks_tells_no_end: "RunWatchSemantics: no bookmarks",
    the_end_is_not_older_than_any_object: "RunWatchSemanticInitialEventsExtended",
    the_end_of_an_empty_streaming_list_comes_at_once: "RunWatchSemantics",
    no_initial_events_from_no_version_is_from_now: "RunWatchSemantics: sendInitialEvents=false",
    no_initial_events_from_0_is_from_now: "RunWatchSemantics: sendInitialEvents=false, RV 0",
    a_watch_from_a_version_tells_only_what_is_newer: "e2e: watch.go, from a specific resource version",
    a_watch_resumes_without_missing_anything: "e2e: watch.go, restart from the last resource version observed",
    a_watch_from_the_future_skips_what_is_older: "apiserver:pkg/storage/cacher",
    a_streaming_list_from_the_future_fails_in_its_stream: "RunWatchSemantics",
    initial_events_are_in_the_order_of_names: "apiserver:pkg/storage/cacher",
    a_deletion_has_a_version_of_its_own: "RunTestWatchDeleteEventObjectHaveLatestRV",
    a_recreated_object_is_deleted_and_added: "e2e: watch.go",
    concurrent_watches_tell_one_order: "e2e: watch.go, concurrent watches in the same order",
    a_watch_of_one_object_tells_of_it_alone: "TestNameInFieldSelector",
    a_watch_over_all_namespaces_tells_of_each: "TestWatchClusterScoped",
    the_old_path_of_watches_still_works: "watch_namespace_test",
    the_old_path_of_one_object_still_works: "watch_namespace_test",
    a_watch_on_a_named_object_is_a_get: "apiserver:pkg/endpoints/request/requestinfo.go",
    watch_false_is_a_list: "apiserver:pkg/endpoints/request/requestinfo.go",
    a_watch_ends_in_time_with_a_bookmark_before: "watch_timeout_test; RunTestWatchDispatchBookmarkEvents",
    a_watch_without_bookmarks_gets_none: "RunTestOptionalWatchBookmarksWithCorrectResourceVersion",
    headers_come_before_events: "TestWatchHTTPTimeout",
    a_write_that_changes_nothing_is_not_told: "TestNoOpUpdates",
    an_object_with_a_finalizer_is_modified_then_deleted: "TestStoreDeleteWithFinalizers",
    deleting_a_collection_tells_each_deletion: "apiserver:pkg/registry/generic/registry",
    a_streaming_list_with_a_selector_tells_what_matches: "RunWatchListMatchSingle",
    watch_events_carry_their_kind: "apiserver:pkg/endpoints/handlers/watch.go",
];

const STREAMING: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const LIVE: &str = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

/// Two config maps, and something in the cache that is newer than both.
async fn two(p: &Probe) -> Result<[Value; 2], Failure> {
    let made = [p.map("b", "1").await?, p.map("a", "1").await?];
    let at = version(&made[1]);
    p.get(&format!("~/configmaps?resourceVersion={at}"))
        .await?
        .code(200)?;
    Ok(made)
}

async fn begins_with_all(p: &Probe, query: &str) -> Result<(), Failure> {
    two(p).await?;
    let mut watch = p.watch(&format!("~/configmaps?{query}")).await?;
    watch.sees("ADDED", "a").await?;
    watch.sees("ADDED", "b").await?;
    watch.is_quiet().await?;
    p.map("c", "1").await?;
    watch.sees("ADDED", "c").await?;
    Ok(())
}

async fn tells_its_end(p: &Probe, query: &str) -> Result<(), Failure> {
    let made = two(p).await?;
    let mut watch = p
        .watch(&format!("~/configmaps?{query}&allowWatchBookmarks=true"))
        .await?;
    watch.sees("ADDED", "a").await?;
    watch.sees("ADDED", "b").await?;
    let end = watch.initial_end().await?;
    holds(
        "it is as new as the objects",
        version(&end) >= version(&made[1]),
    )?;
    same("the kind", end["kind"].as_str(), Some("ConfigMap"))?;
    p.map("c", "1").await?;
    watch.sees("ADDED", "c").await?;
    Ok(())
}

async fn a_watch_without_a_version_begins_with_what_is_there(p: &Probe) -> Result<(), Failure> {
    begins_with_all(p, "watch=1").await
}

async fn a_watch_from_0_begins_with_what_is_there(p: &Probe) -> Result<(), Failure> {
    begins_with_all(p, "watch=true&resourceVersion=0").await
}

async fn a_legacy_watch_with_bookmarks_tells_the_end_of_its_initial_events(
    p: &Probe,
) -> Result<(), Failure> {
    tells_its_end(p, "watch=1").await
}

async fn a_streaming_list_tells_its_end(p: &Probe) -> Result<(), Failure> {
    tells_its_end(p, STREAMING).await
}

async fn a_streaming_list_from_0_tells_its_end(p: &Probe) -> Result<(), Failure> {
    tells_its_end(p, &format!("{STREAMING}&resourceVersion=0")).await
}

async fn a_streaming_list_from_a_version_tells_the_whole_state(p: &Probe) -> Result<(), Failure> {
    let made = two(p).await?;
    let at = version(&made[1]);
    let path = format!("~/configmaps?{STREAMING}&resourceVersion={at}&allowWatchBookmarks=true");
    let mut watch = p.watch(&path).await?;
    watch.sees("ADDED", "a").await?;
    watch.sees("ADDED", "b").await?;
    watch.initial_end().await?;
    Ok(())
}

async fn a_streaming_list_without_bookmarks_tells_no_end(p: &Probe) -> Result<(), Failure> {
    begins_with_all(p, STREAMING).await
}

async fn the_end_is_not_older_than_any_object(p: &Probe) -> Result<(), Failure> {
    two(p).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let newer = p.post("~/secrets", &secret).await?.code(201)?;
    let path = format!("~/configmaps?{STREAMING}&allowWatchBookmarks=true");
    let mut watch = p.watch(&path).await?;
    watch.next().await?;
    watch.next().await?;
    let end = watch.initial_end().await?;
    holds("it counts all resources", version(&end) >= version(&newer))
}

async fn the_end_of_an_empty_streaming_list_comes_at_once(p: &Probe) -> Result<(), Failure> {
    let path = format!("~/configmaps?{STREAMING}&allowWatchBookmarks=true");
    let mut watch = p.watch(&path).await?;
    watch.initial_end().await?;
    watch.is_quiet().await
}

async fn is_from_now(p: &Probe, query: &str) -> Result<(), Failure> {
    two(p).await?;
    let mut watch = p.watch(&format!("~/configmaps?{query}")).await?;
    watch.is_quiet().await?;
    p.map("c", "1").await?;
    watch.sees("ADDED", "c").await?;
    Ok(())
}

async fn no_initial_events_from_no_version_is_from_now(p: &Probe) -> Result<(), Failure> {
    is_from_now(p, LIVE).await
}

async fn no_initial_events_from_0_is_from_now(p: &Probe) -> Result<(), Failure> {
    is_from_now(p, &format!("{LIVE}&resourceVersion=0")).await
}

async fn a_watch_from_a_version_tells_only_what_is_newer(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let second = p
        .merge("~/configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    p.merge("~/configmaps/a", &json!({"data": {"k": "3"}}))
        .await?
        .code(200)?;
    p.delete("~/configmaps/a").await?.code(200)?;
    let at = version(&second);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    let third = watch.sees("MODIFIED", "a").await?;
    same("the data", third["data"]["k"].as_str(), Some("3"))?;
    watch.sees("DELETED", "a").await?;
    watch.is_quiet().await
}

async fn a_watch_resumes_without_missing_anything(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    p.merge("~/configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    let seen = watch.sees("MODIFIED", "a").await?;
    drop(watch);
    p.merge("~/configmaps/a", &json!({"data": {"k": "3"}}))
        .await?
        .code(200)?;
    p.delete("~/configmaps/a").await?.code(200)?;
    let at = version(&seen);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    watch.sees("MODIFIED", "a").await?;
    watch.sees("DELETED", "a").await?;
    Ok(())
}

async fn a_watch_from_the_future_skips_what_is_older(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let future = version(&made) + 1_000_000;
    let path = format!("~/configmaps?watch=1&resourceVersion={future}&timeoutSeconds=2");
    let mut watch = p.watch(&path).await?;
    p.map("b", "1").await?;
    watch.ends().await
}

async fn a_streaming_list_from_the_future_fails_in_its_stream(p: &Probe) -> Result<(), Failure> {
    let path = format!("~/configmaps?{STREAMING}&resourceVersion=99999999999");
    let mut watch = p.watch(&path).await?;
    let event = watch.any().await?;
    same("the event", event["type"].as_str(), Some("ERROR"))?;
    same("the code", event["object"]["code"].as_u64(), Some(504))?;
    watch.ends().await
}

async fn initial_events_are_in_the_order_of_names(p: &Probe) -> Result<(), Failure> {
    for name in ["z", "m", "a"] {
        p.map(name, "1").await?;
    }
    let mut watch = p.watch(&format!("~/configmaps?{STREAMING}")).await?;
    for name in ["a", "m", "z"] {
        watch.sees("ADDED", name).await?;
    }
    Ok(())
}

async fn a_deletion_has_a_version_of_its_own(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    p.delete("~/configmaps/a").await?.code(200)?;
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    let gone = watch.sees("DELETED", "a").await?;
    holds("it is newer", version(&gone) > at)?;
    let list = p.get("~/configmaps").await?.code(200)?;
    holds("a list is as new", version(&list) >= version(&gone))
}

async fn a_recreated_object_is_deleted_and_added(p: &Probe) -> Result<(), Failure> {
    let first = p.map("a", "1").await?;
    let at = version(&first);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    p.delete("~/configmaps/a").await?.code(200)?;
    p.map("a", "2").await?;
    let gone = watch.sees("DELETED", "a").await?;
    let new = watch.sees("ADDED", "a").await?;
    same(
        "the first",
        &gone["metadata"]["uid"],
        &first["metadata"]["uid"],
    )?;
    holds(
        "the second is another",
        new["metadata"]["uid"] != first["metadata"]["uid"],
    )
}

async fn concurrent_watches_tell_one_order(p: &Probe) -> Result<(), Failure> {
    let start = p.map("start", "1").await?;
    let mut marks = vec![version(&start)];
    for number in 0..12 {
        let made = match number % 4 {
            3 => p
                .merge(
                    "~/configmaps/start",
                    &json!({"data": {"k": format!("{number}")}}),
                )
                .await?
                .code(200)?,
            _ => p.map(&format!("m-{number}"), "1").await?,
        };
        marks.push(version(&made));
    }
    let mut orders = Vec::new();
    for (skipped, at) in marks.iter().take(6).enumerate() {
        let mut watch = p
            .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
            .await?;
        let mut order = Vec::new();
        for _ in skipped..12 {
            order.push(version(&watch.next().await?["object"]));
        }
        orders.push((skipped, order));
    }
    for (skipped, order) in orders {
        same("the order", &order[..], &marks[skipped + 1..])?;
    }
    Ok(())
}

async fn a_watch_of_one_object_tells_of_it_alone(p: &Probe) -> Result<(), Failure> {
    two(p).await?;
    let path = "~/configmaps?watch=1&fieldSelector=metadata.name%3Da";
    let mut watch = p.watch(path).await?;
    watch.sees("ADDED", "a").await?;
    p.merge("~/configmaps/b", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    p.merge("~/configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    watch.sees("MODIFIED", "a").await?;
    Ok(())
}

async fn a_watch_over_all_namespaces_tells_of_each(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let path =
        format!("/api/v1/configmaps?watch=1&resourceVersion={at}&labelSelector=only%3D{{ns}}");
    let mut watch = p.watch(&path).await?;
    let mut map = super::probe::config_map("b", "1");
    map["metadata"]["labels"]["only"] = p.namespace.clone().into();
    p.post("~/configmaps", &map).await?.code(201)?;
    let seen = watch.sees("ADDED", "b").await?;
    same(
        "the namespace",
        seen["metadata"]["namespace"].as_str(),
        Some(&*p.namespace),
    )
}

async fn the_old_path_of_watches_still_works(p: &Probe) -> Result<(), Failure> {
    two(p).await?;
    let mut watch = p.watch("/api/v1/watch/namespaces/{ns}/configmaps").await?;
    watch.sees("ADDED", "a").await?;
    watch.sees("ADDED", "b").await?;
    Ok(())
}

async fn the_old_path_of_one_object_still_works(p: &Probe) -> Result<(), Failure> {
    two(p).await?;
    let mut watch = p
        .watch("/api/v1/watch/namespaces/{ns}/configmaps/b")
        .await?;
    watch.sees("ADDED", "b").await?;
    watch.is_quiet().await
}

async fn a_watch_on_a_named_object_is_a_get(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let object = p.get("~/configmaps/a?watch=1").await?.code(200)?;
    same("the kind", object["kind"].as_str(), Some("ConfigMap"))
}

async fn watch_false_is_a_list(p: &Probe) -> Result<(), Failure> {
    let list = p.get("~/configmaps?watch=false").await?.code(200)?;
    same("the kind", list["kind"].as_str(), Some("ConfigMapList"))
}

async fn a_watch_ends_in_time_with_a_bookmark_before(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let began = Instant::now();
    let at = version(&made);
    let path = format!(
        "~/configmaps?watch=1&resourceVersion={at}&allowWatchBookmarks=true&timeoutSeconds=10"
    );
    let mut watch = p.watch(&path).await?;
    let mark = watch.bookmark().await?;
    holds("its version", version(&mark) >= at)?;
    watch.ends().await?;
    let seconds = began.elapsed().as_secs();
    holds(
        &format!("it ended after {seconds} s"),
        (9..14).contains(&seconds),
    )
}

async fn a_watch_without_bookmarks_gets_none(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let path = format!("~/configmaps?watch=1&resourceVersion={at}&timeoutSeconds=4");
    let mut watch = p.watch(&path).await?;
    match watch.any().await {
        Err(ended) if ended.to_string() == "the watch ended" => Ok(()),
        other => Err(super::probe::failure(format!("{other:?}"))),
    }
}

async fn headers_come_before_events(p: &Probe) -> Result<(), Failure> {
    let path = format!("~/configmaps?{LIVE}&resourceVersion=0");
    let watch = p.watch(&path).await?;
    let header = |name| {
        watch
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    same("the type", header("content-type"), Some("application/json"))?;
    same(
        "caching",
        header("cache-control"),
        Some("no-cache, private"),
    )
}

async fn a_write_that_changes_nothing_is_not_told(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    let again = p
        .merge("~/configmaps/a", &json!({"data": {"k": "1"}}))
        .await?
        .code(200)?;
    same("the version", version(&again), at)?;
    let put = p.put("~/configmaps/a", &made).await?.code(200)?;
    same("the version", version(&put), at)?;
    watch.is_quiet().await
}

async fn an_object_with_a_finalizer_is_modified_then_deleted(p: &Probe) -> Result<(), Failure> {
    let mut map = super::probe::config_map("a", "1");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = p.post("~/configmaps", &map).await?.code(201)?;
    let at = version(&made);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    p.delete("~/configmaps/a").await?.code(200)?;
    let marked = watch.sees("MODIFIED", "a").await?;
    holds(
        "it is marked",
        marked["metadata"]["deletionTimestamp"].is_string(),
    )?;
    p.merge("~/configmaps/a", &json!({"metadata": {"finalizers": null}}))
        .await?
        .code(200)?;
    let gone = watch.sees("DELETED", "a").await?;
    holds("newer", version(&gone) > version(&marked))
}

async fn deleting_a_collection_tells_each_deletion(p: &Probe) -> Result<(), Failure> {
    let made = two(p).await?;
    let at = version(&made[1]);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    let deleted = p
        .delete("~/configmaps?labelSelector=of%3Drow")
        .await?
        .code(200)?;
    same(
        "what is returned",
        super::probe::names(&deleted),
        ["a", "b"],
    )?;
    p.forget();
    let mut gone = Vec::new();
    for _ in 0..2 {
        let event = watch.next().await?;
        same("the event", event["type"].as_str(), Some("DELETED"))?;
        gone.push(version(&event["object"]));
    }
    // Workers delete in parallel, in no defined order.
    p.forget();
    holds("each has a version of its own", gone[0] < gone[1])
}

async fn a_streaming_list_with_a_selector_tells_what_matches(p: &Probe) -> Result<(), Failure> {
    two(p).await?;
    let path = format!(
        "~/configmaps?{STREAMING}&allowWatchBookmarks=true&fieldSelector=metadata.name%3Db"
    );
    let mut watch = p.watch(&path).await?;
    watch.sees("ADDED", "b").await?;
    watch.initial_end().await?;
    Ok(())
}

async fn watch_events_carry_their_kind(p: &Probe) -> Result<(), Failure> {
    two(p).await?;
    let mut watch = p.watch("~/configmaps?watch=1").await?;
    let event = watch.next().await?;
    let object = &event["object"];
    let seen = (object["apiVersion"].as_str(), object["kind"].as_str());
    same("the kind", seen, (Some("v1"), Some("ConfigMap")))
}
