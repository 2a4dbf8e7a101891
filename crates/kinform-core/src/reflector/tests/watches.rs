//! Watches: their events, and the versions that they move.
//!
//! ```text
//! scripts → machine → steps
//! ```
//!
//! Each test names the upstream test that it pins, where there is one.

use super::*;

/// A machine that watches at version 10.
fn watching(config: ReflectorConfig) -> Bench {
    let config = ReflectorConfig {
        streaming_list: StreamingList::Never,
        ..config
    };
    let mut bench = Bench::new(config);
    bench.run(
        "start          -> list rv=0 limit=500
         ok
         page 10        -> begin, end 10, watch rv=10
         ok
         +60",
    );
    bench
}

#[track_caller]
fn check_watch(script: &str) {
    watching(ReflectorConfig::default()).run(script);
}

#[test]
fn every_request_has_the_selectors() {
    let selectors = (
        Some("app=web".to_owned()),
        Some("spec.nodeName=n1".to_owned()),
    );
    for (streaming_list, sent, script) in [
        (
            StreamingList::Preferred,
            ["stream", "probe", "watch"].as_slice(),
            [
                "start",
                "ok",
                "add a@3",
                "end-mark 10",
                "cut",
                "ok",
                "page 20",
            ],
        ),
        (
            StreamingList::Never,
            &["list", "list", "watch", "watch"],
            ["start", "ok", "page 7 t", "ok", "page 7", "ok", "ended"],
        ),
    ] {
        let mut bench = Bench::new(ReflectorConfig {
            streaming_list,
            label_selector: selectors.0.clone(),
            field_selector: selectors.1.clone(),
            ..ReflectorConfig::default()
        });
        let mut requests = Vec::new();
        for input in script {
            match input {
                "start" => bench.machine.start(bench.now),
                input => bench.machine.handle(parse(input), bench.now),
            }
            // A watch that ends within a second would be a failure.
            bench.now += Duration::from_secs(6);
            while let Some(step) = bench.machine.poll() {
                let Some(request) = words(&step).filter(|_| matches!(step, Step::Request(_)))
                else {
                    continue;
                };
                let has = match step {
                    Step::Request(Request::Watch { options, .. }) => {
                        (options.label_selector, options.field_selector)
                    }
                    Step::Request(
                        Request::List { options, .. } | Request::Probe { options, .. },
                    ) => (options.label_selector, options.field_selector),
                    _ => continue,
                };
                assert_eq!(has, selectors, "{request}");
                requests.extend(request.split(' ').next().map(str::to_owned));
            }
        }
        assert_eq!(requests, sent);
    }
}

#[test]
fn events_are_handed_on_and_move_the_version() {
    // client-go: TestReflectorWatchHandler, TestReflectorResourceVersionUpdate
    check_watch(
        "add a@11       -> added a@11
         mod a@12       -> updated a@12
         mark 13        -> mark 13
         del a@14       -> deleted a@14
         mark 14
         +6
         ended          -> watch rv=14",
    );
}

#[test]
fn a_deletion_with_its_objects_last_version_is_accepted() {
    check_watch(
        "mod b@20       -> updated b@20
         del a@5        -> deleted a@5
         +6
         ended          -> watch rv=20",
    );
}

#[test]
fn an_event_from_the_past_leads_to_a_list() {
    check_watch(
        "mod b@20       -> updated b@20
         mod a@20       -> updated a@20
         mod a@19       -> close, relist out of order, list rv=20
         ok
         page 21        -> begin, end 21, watch rv=21
         ok
         mod a@19       -> close, retry events out of order
         wait           -> relist out of order, list rv=21",
    );
    // Also one that cannot be read; a deletion may have the object's last version.
    check_watch(
        "mod b@20       -> updated b@20
         bad-del 19     -> quarantined
         bad 19         -> close, relist out of order, list rv=20",
    );
}

#[test]
fn a_server_that_counts_by_object_is_followed_without_comparing() {
    // client-go: TestReflectorWatchHandler (RV of the last event kept, even if numerically lower)
    let mut bench = watching(ReflectorConfig::default());
    for _ in 0..3 {
        bench.run(
            "add a@3        -> close, relist out of order, list rv=10
             ok
             page 10        -> begin, end 10, watch rv=10
             ok
             +60",
        );
    }
    bench.run(
        "add a@3        -> added a@3
         mod b@50       -> updated b@50
         mod a@4        -> updated a@4
         cut            -> watch rv=4
         ok             -> reopened 4
         error 410      -> close, relist expired, list rv=4
         ok
         page 2         -> begin, end 2, watch rv=2",
    );
}

#[test]
fn a_bookmark_from_the_past_asks_the_server_where_it_is() {
    check_watch(
        "mark 5         -> close, retry events out of order
         wait           -> probe
         ok
         page 12        -> watch rv=10
         ok             -> reopened 10",
    );
}

#[test]
fn what_cannot_be_read_is_set_apart_and_passed() {
    let mut bench = watching(ReflectorConfig::default());
    bench.run(
        "bad 11         -> quarantined
         bad            -> quarantined
         bad-del 12     -> quarantined
         +6
         ended          -> watch rv=12",
    );
    assert_eq!(bench.machine.stats().quarantined, 3);
}

#[test]
fn an_event_that_may_be_of_any_object_leads_to_a_list() {
    let mut bench = watching(ReflectorConfig::default());
    bench.run(
        "mod a@11       -> updated a@11
         nameless 12    -> quarantined, close, retry reply makes no sense
         wait           -> relist garbled watch, list rv=12
         ok
         item a@11      -> begin, item a@11
         page 13        -> end 13, watch rv=13
         ok
         nameless       -> quarantined, close, retry reply makes no sense
         wait           -> relist garbled watch, list rv=13",
    );
    assert_eq!(bench.machine.stats().quarantined, 2);
}

#[test]
fn a_bookmark_without_a_version_moves_nothing_and_any_shows_that_the_watch_works() {
    for (bookmark, version, counted) in [
        ("mark", 10, 0),
        ("mark 0", 10, 0),
        ("mark 11 -> mark 11", 11, 1),
        ("outside mod 11 -> mark 11", 11, 0),
    ] {
        let mut bench = watching(ReflectorConfig::default());
        bench.run(&format!(
            "ended          -> watch rv=10
             ok             -> reopened 10
             {bookmark}
             ended          -> watch rv={version}"
        ));
        let stats = bench.machine.stats();
        assert_eq!((stats.bookmarks, stats.reopens), (counted, 1), "{bookmark}");
    }
}

#[test]
fn what_is_foreign_is_skipped_and_moves_nothing() {
    // client-go: TestReflectorWatchHandler (wrong type rejected), TestIsUnsupportedTableObject
    check_watch(
        "foreign Table  -> skipped
         foreign Table
         +6
         ended          -> watch rv=10",
    );
}

#[test]
fn versions_that_are_no_numbers_are_followed() {
    check_watch(
        "mod a@x7       -> updated a@x7
         mod a@x3       -> updated a@x3
         +6
         cut            -> watch rv=x3",
    );
}

#[test]
fn a_busy_server_is_asked_for_the_watch_again_without_a_list() {
    // client-go: TestNoRelistOnTooManyRequests, TestBackoffOnTooManyRequests,
    // TestReflectorListAndWatchInitConnBackoff
    check_watch(
        "error 429      -> close, retry too many requests
         wait           -> watch rv=10
         http 429       -> retry too many requests
         wait           -> watch rv=10
         http 429       -> retry too many requests
         wait           -> watch rv=10
         http 429       -> retry too many requests
         wait           -> watch rv=10
         refused        -> retry connection refused
         wait           -> probe
         refused        -> retry connection refused
         wait           -> probe
         ok
         page 10        -> watch rv=10
         ok             -> reopened 10",
    );
}

#[test]
fn a_server_that_is_away_for_long_is_not_listed_when_it_comes_back() {
    let mut bench = watching(ReflectorConfig::default());
    bench.run("cut -> probe");
    for _ in 0..40 {
        bench.run("refused -> retry connection refused\n ? -> stale\n wait -> probe");
    }
    bench.run(
        "http 503       -> retry server unavailable
         wait           -> probe
         ok
         page 10        -> watch rv=10
         ok             -> reopened 10
         ?              -> synced",
    );
}

#[test]
fn a_watch_that_cannot_be_opened_though_the_server_answers_leads_to_a_list() {
    check_watch(
        "cut            -> probe
         ok
         page 10        -> watch rv=10
         http 503       -> retry server unavailable
         wait           -> probe
         ok
         page 10        -> watch rv=10
         transport      -> retry connection failed
         wait           -> probe
         ok
         page 10        -> watch rv=10
         http 504       -> retry server unavailable
         wait           -> relist watch unavailable, list rv=10",
    );
}

#[test]
fn history_that_expired_leads_to_a_list() {
    // client-go: TestResetWatch; as HTTP status at the start, too
    check_watch(
        "error 410      -> close, relist expired, list rv=10
         ok
         page 20        -> begin, end 20, watch rv=20
         http 410       -> retry history expired
         wait           -> relist expired, list rv=20",
    );
    check_watch("+6\n ended -> watch rv=10\n http 410 -> relist expired, list rv=10");
}

#[test]
fn a_version_in_the_servers_future_asks_for_the_most_recent_state() {
    for failure in [
        "error large -> close,",
        "ended -> watch rv=10\n http large ->",
    ] {
        check_watch(&format!(
            "{failure} retry version in the server's future
             wait -> relist too large version, list rv= limit=500"
        ));
    }
}

#[test]
fn refusals_of_a_watch_wait_and_list_again() {
    // client-go: TestReflectorListAndWatchWithErrors (watch-open error is returned)
    for (failure, kind, state) in [
        ("http 403", "forbidden", "forbidden"),
        ("http 404", "not found", "no such kind"),
        ("http 500", "internal error", "stale"),
        ("http 400", "request rejected", "stale"),
    ] {
        check_watch(&format!(
            "ended          -> watch rv=10
             {failure}      -> retry {kind}
             ?              -> {state}
             wait           -> relist watch refused, list rv=10"
        ));
    }
    check_watch(
        "ended          -> watch rv=10
         http 401       -> retry unauthorized
         ?              -> unauthorized
         wait           -> probe",
    );
}

#[test]
fn other_errors_in_a_watch_wait_and_list_again() {
    // client-go: TestReflectorReplacesStoreOnUnsafeDelete, TestRetryInternalError (off by default)
    for (event, kind) in [
        ("error 500", "internal error"),
        ("error storeread", "unreadable object in the server's store"),
        ("error none", "failure"),
        ("error 0", "failure"),
    ] {
        check_watch(&format!(
            "{event}        -> close, retry {kind}
             wait           -> relist watch error, list rv=10"
        ));
    }
}

#[test]
fn internal_errors_may_reopen_the_watch_for_some_time() {
    // client-go: TestRetryInternalError
    let internal_error_window = Duration::from_secs(30);
    watching(ReflectorConfig {
        internal_error_window,
        ..ReflectorConfig::default()
    })
    .run(
        "error 500      -> close, retry internal error
         wait           -> watch rv=10
         ok             -> reopened 10
         +20
         error 500      -> close, retry internal error
         wait           -> watch rv=10
         ok             -> reopened 10
         +20
         error 500      -> close, retry internal error
         wait           -> relist watch error, list rv=10",
    );
}

// fault: F11
#[test]
fn waits_are_as_long_as_the_server_asks_up_to_five_minutes() {
    for (asked, expected) in [(0, 0), (7, 7), (40, 40), (300, 300), (1_000_000_000, 300)] {
        let mut bench = watching(ReflectorConfig::default());
        bench.run(&format!(
            "ended -> watch rv=10\n http 429 {asked} -> retry too many requests"
        ));
        let wait = bench.machine.next_wake().unwrap().since(bench.now);
        assert!(wait >= Duration::from_secs(expected), "{asked}: {wait:?}");
        assert!(
            wait <= Duration::from_secs(expected.max(2)),
            "{asked}: {wait:?}"
        );
    }
}

#[test]
fn a_backoff_of_ones_own_is_used() {
    // client-go: TestNewReflectorWithCustomBackoff
    let policy = BackoffPolicy {
        first: Duration::from_millis(100),
        cap: Duration::from_millis(300),
        jitter_factor: 0.0,
        ..BackoffPolicy::default()
    };
    let mut bench = Bench::new(ReflectorConfig {
        backoff: policy,
        ..ReflectorConfig::default()
    });
    bench.run("start -> stream rv=");
    for expected in [100, 200, 300, 300] {
        bench.run("refused -> retry connection refused");
        let wait = bench.machine.next_wake().unwrap().since(bench.now);
        assert_eq!(wait, Duration::from_millis(expected));
        bench.run("wait -> stream rv=");
    }
}
