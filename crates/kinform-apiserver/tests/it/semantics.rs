//! First events of a watch, for each version and option.
//!
//! The rows of apiserver's RunWatchSemantics (pkg/storage/testing/watcher_tests.go).

use std::time::Duration;

use serde_json::json;

use crate::support::*;

/// Events that precede those made after the watch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Nothing,
    /// The state in key order.
    State,
    /// The state in key order, and its end bookmark.
    StateAndEnd,
    /// Events since the version asked for.
    History,
}

#[tokio::test(start_paused = true)]
async fn watches_begin_as_upstreams_do() {
    use First::{History, Nothing, State, StateAndEnd};
    let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let without = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let rows: [(&str, &str, bool, First); 18] = [
        (streaming, "", true, StateAndEnd),
        (streaming, "0", true, StateAndEnd),
        (streaming, "OLD", true, StateAndEnd),
        (streaming, "NOW", true, StateAndEnd),
        (streaming, "", false, State),
        (streaming, "0", false, State),
        (streaming, "OLD", false, State),
        (streaming, "NOW", false, State),
        (without, "", true, Nothing),
        (without, "0", true, Nothing),
        (without, "OLD", true, History),
        (without, "NOW", true, Nothing),
        ("", "", true, StateAndEnd),
        ("", "0", true, StateAndEnd),
        ("", "", false, State),
        ("", "0", false, State),
        ("", "OLD", true, History),
        ("", "NOW", true, Nothing),
    ];
    for (options, version, bookmarks, first) in rows {
        let row = format!("{options} {version:?} bookmarks={bookmarks}");
        let (server, service) = server().await;
        let old = server.store().revision();
        for name in ["z", "y", "x"] {
            create(&service, "a", name, json!({})).await;
        }
        let now = server.store().revision();
        let version = match version {
            "OLD" => old.to_string(),
            "NOW" => now.to_string(),
            as_it_is => as_it_is.to_owned(),
        };
        let path = format!(
            "/api/v1/configmaps?watch=1&{options}&resourceVersion={version}&allowWatchBookmarks={bookmarks}"
        );
        let mut watch = Watch::open(&service, &path).await;
        let mut want: Vec<String> = match first {
            Nothing => vec![],
            State | StateAndEnd => [("x", 3), ("y", 2), ("z", 1)]
                .map(|(n, at)| format!("ADDED a/{n} {}", old + at))
                .into(),
            History => [("z", 1), ("y", 2), ("x", 3)]
                .map(|(n, at)| format!("ADDED a/{n} {}", old + at))
                .into(),
        };
        if first == StateAndEnd {
            want.push(format!("SYNCED {now}"));
        }
        assert_eq!(watch.within(Duration::from_secs(5)).await, want, "{row}");
        for (number, name) in ["v", "w"].into_iter().enumerate() {
            create(&service, "a", name, json!({})).await;
            let event = format!("ADDED a/{name} {}", now + number as u64 + 1);
            assert_eq!(watch.tell().await, event, "{row}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_is_silent_until_then() {
    let (server, service) = server().await;
    let now = server.store().revision();
    let path = format!(
        "/api/v1/configmaps?watch=1&resourceVersion={}&allowWatchBookmarks=true",
        now + 2
    );
    let mut watch = Watch::open(&service, &path).await;
    create(&service, "a", "v", json!({})).await;
    assert_eq!(
        watch.within(Duration::from_secs(200)).await,
        Vec::<String>::new()
    );
    create(&service, "a", "w", json!({})).await;
    create(&service, "a", "x", json!({})).await;
    assert_eq!(watch.tell().await, format!("ADDED a/x {}", now + 3));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_from_the_future_fails_after_three_seconds() {
    let (server, service) = server().await;
    let path = "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                &resourceVersion=99999&allowWatchBookmarks=true";
    let started = tokio::time::Instant::now();
    let mut watch = Watch::open(&service, path).await;
    let event = watch.next().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    let status = &event["object"];
    assert_eq!(
        (&event["type"], &status["code"]),
        (&json!("ERROR"), &json!(504))
    );
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(watch.tell().await, "END");
    // A version that is reached in time is served.
    let soon = format!(
        "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &resourceVersion={}&allowWatchBookmarks=true",
        server.store().revision() + 1
    );
    let (mut watch, _) = tokio::join!(Watch::open(&service, &soon), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        create(&service, "a", "x", json!({})).await
    });
    assert!(watch.tell().await.starts_with("ADDED a/x"));
}

// apiserver: RunTestWatchDispatchBookmarkEvents: a bookmark's version is the whole store's.
#[tokio::test(start_paused = true)]
async fn bookmarks_tell_the_version_of_the_whole_store() {
    let (server, service) = server().await;
    let now = server.store().revision();
    let path = format!(
        "/api/v1/secrets?watch=1&resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=90"
    );
    let mut watch = Watch::open(&service, &path).await;
    create(&service, "a", "x", json!({})).await;
    assert_eq!(watch.tell().await, format!("BOOKMARK {}", now + 1));
}
