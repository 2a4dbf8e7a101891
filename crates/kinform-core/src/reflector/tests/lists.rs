//! Lists: streamed, in pages, and what they fall back to.
//!
//! ```text
//! scripts → machine → steps
//! ```
//!
//! Each test names the upstream test that it pins, where there is one.

use super::*;

#[test]
fn a_streaming_list_becomes_the_watch() {
    // client-go: TestWatchList (bookmark = synced; modify/delete before bookmark applied),
    // TestReflectorListAndWatch (RV "" + NotOlderThan + sendInitialEvents)
    check(
        "start          -> stream rv=
         ok
         ?              -> listing
         add a@3        -> begin, item a@3
         mod b@2        -> updated b@2
         del a@4        -> deleted a@4
         end-mark 9     -> end 9
         ?              -> synced
         add c@10       -> added c@10
         mod c@11       -> updated c@11
         del c@12       -> deleted c@12
         mark 20        -> mark 20
         end-mark 21    -> mark 21
         +6
         ended          -> watch rv=21
         ok             -> reopened 21",
    );
}

#[test]
fn initial_events_move_no_version() {
    // client-go: TestWatchListResourceVersion
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run("start -> stream rv=\n ok\n add a@30 -> begin, item a@30\n mod b@3 -> updated b@3");
    bench.run("del c@50 -> deleted c@50");
    assert_eq!(bench.machine.version(), None);
    bench.run("cut -> abort, retry connection failed\n wait -> stream rv=");
    bench.run("ok\n add a@30 -> begin, item a@30\n end-mark 9 -> end 9\n +6\n ended -> watch rv=9");
}

#[test]
fn a_refused_streaming_list_is_pages_for_this_cycle_only() {
    // client-go: TestWatchList (Invalid falls back)
    check(
        "start          -> stream rv=
         http 422       -> fallback refused, list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 7         -> end 7, watch rv=7
         ok
         +60
         error 410      -> close, relist expired, stream rv=7",
    );
}

#[test]
fn any_other_failure_of_a_streaming_list_is_pages_for_this_cycle_only() {
    // client-go: TestWatchList (any error falls back)
    for failure in ["http 500", "http 503", "http 403", "http 400", "transport"] {
        check(&format!(
            "start          -> stream rv=
             {failure}      -> fallback {}, list rv=0 limit=500",
            if failure.contains('4') {
                "refused"
            } else {
                "failed"
            }
        ));
    }
    for event in [
        "error 500",
        "error none",
        "error storeread",
        "foreign Table",
    ] {
        check(&format!(
            "start          -> stream rv=
             ok
             add a@1        -> begin, item a@1
             {event}        -> close, abort, fallback failed, list rv=0 limit=500"
        ));
    }
}

#[test]
fn a_busy_server_is_asked_for_the_streaming_list_again() {
    // client-go: TestWatchList (429 retried)
    for (failure, kind) in [
        ("refused", "connection refused"),
        ("http 429", "too many requests"),
        ("http 401", "unauthorized"),
        ("http 404", "not found"),
    ] {
        check(&format!(
            "start          -> stream rv=
             {failure}      -> retry {kind}
             wait           -> stream rv=
             ok
             add a@1        -> begin, item a@1
             error 429      -> close, abort, retry too many requests
             wait           -> stream rv="
        ));
    }
}

#[test]
fn a_streaming_list_without_progress_is_remembered() {
    check(
        "start          -> stream rv=
         ok
         bytes
         add a@1        -> begin, item a@1
         +29
         mod a@2        -> updated a@2
         +29
         +1             -> close, abort, fallback no progress remembered, list rv=0 limit=500
         ok
         page 7         -> begin, end 7, watch rv=7
         ok
         +60
         error 410      -> close, relist expired, list rv=7
         ok
         page 8         -> begin, end 8, watch rv=8
         ok
         +80
         mark 8
         +80
         mark 8
         +80
         mark 8
         +80
         mark 8
         +80
         mark 8
         +80
         mark 8
         +80
         error 410      -> close, relist expired, stream rv=8",
    );
}

#[test]
fn a_streaming_list_without_an_end_is_remembered() {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run("start -> stream rv=\n ok\n add a@1 -> begin, item a@1");
    for _ in 0..14 {
        bench.run("+20\n mod a@1 -> updated a@1");
    }
    bench.run("+20 -> close, abort, fallback no end bookmark remembered, list rv=0 limit=500");
    check(
        "start          -> stream rv=
         ok
         end-mark 0     -> close, fallback no end bookmark remembered, list rv=0 limit=500",
    );
}

#[test]
fn a_streaming_list_that_ends_early_is_tried_three_times() {
    // client-go: TestWatchList (stream cut before sync = new watch-list), here with an end to it
    check(
        "start          -> stream rv=
         ok
         add a@1        -> begin, item a@1
         ended          -> abort, retry connection failed
         wait           -> stream rv=
         ok
         add a@1        -> begin, item a@1
         cut            -> abort, retry connection failed
         wait           -> stream rv=
         ok
         add a@1        -> begin, item a@1
         ended          -> abort, fallback ended early remembered, list rv=0 limit=500",
    );
    check("start -> stream rv=\n ok\n ended -> fallback failed, list rv=0 limit=500");
    check("start -> stream rv=\n ok\n garbled -> close, fallback failed, list rv=0 limit=500");
}

#[test]
fn an_expired_streaming_list_asks_for_the_most_recent_state() {
    // client-go: TestWatchList (expired)
    for refusal in [
        "http 410",
        "http large",
        "ok\n error 410",
        "ok\n error large",
    ] {
        let close = if refusal.starts_with("ok") {
            "close, "
        } else {
            ""
        };
        check(&format!(
            "start          -> stream rv=
             ok
             add z@1        -> begin, item z@1
             end-mark 9     -> end 9
             +60
             error 410      -> close, relist expired, stream rv=9
             {refusal}      -> {close}stream rv=
             http 410       -> retry history expired
             wait           -> relist expired, stream rv=
             ok
             add z@1        -> begin, item z@1
             end-mark 12    -> end 12
             +60
             error 410      -> close, relist expired, stream rv=12"
        ));
    }
}

#[test]
fn pages_share_the_first_version_and_ask_for_it_once() {
    // client-go: TestReflectorListAndWatch (RV 0 + limit 500), TestListPager_List
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 7 t1      -> list rv= limit=500 token=t1
         ok
         item b@2       -> item b@2
         bad-item 3     -> quarantined
         page 7         -> end 7, watch rv=7
         ok
         ?              -> synced",
    );
}

#[test]
fn pages_of_different_versions_are_no_list() {
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 7 t1      -> list rv= limit=500 token=t1
         ok
         item b@2       -> item b@2
         page 8         -> abort, retry reply makes no sense
         wait           -> list rv=0",
    );
}

#[test]
fn a_list_at_our_version_comes_in_one_piece_unless_there_is_no_cache() {
    // client-go: TestReflectorNotPaginatingNotConsistentReads,
    // TestReflectorPaginatingNonConsistentReadsIfWatchCacheDisabled
    let relist = |limit: &str, pages: &str| {
        check_paged(&format!(
            "start          -> list rv=0 limit=500
             ok
             {pages}
             page 7         -> begin, end 7, watch rv=7
             ok
             +60
             error 410      -> close, relist expired, list rv=7{limit}"
        ));
    };
    relist("", "");
    relist(" limit=500", "page 7 t -> list rv= limit=500 token=t\n ok");
}

#[test]
fn a_forced_page_size_holds_at_any_version() {
    // client-go: TestReflectorWatchListPageSize
    let config = ReflectorConfig {
        streaming_list: StreamingList::Never,
        page_size: Some(4),
        ..ReflectorConfig::default()
    };
    Bench::new(config).run(
        "start          -> list rv=0 limit=4
         ok
         page 7         -> begin, end 7, watch rv=7
         ok
         +60
         error 410      -> close, relist expired, list rv=7 limit=4",
    );
    let in_one_piece = ReflectorConfig {
        streaming_list: StreamingList::Never,
        page_size: Some(0),
        ..ReflectorConfig::default()
    };
    Bench::new(in_one_piece).run("start -> list rv=0");
}

#[test]
fn the_first_list_asks_for_any_state_or_for_the_most_recent_one() {
    // kubernetes#139766: a stream of the most recent state waits for a cache that lags
    let table = [
        (FirstList::ByMode, "0", ""),
        (FirstList::AnyVersion, "0", "0"),
        (FirstList::MostRecent, "", ""),
    ];
    for (first_list, pages, stream) in table {
        let config = ReflectorConfig {
            first_list,
            ..ReflectorConfig::default()
        };
        Bench::new(config).run(&format!(
            "start          -> stream rv={stream}
             http 422       -> fallback refused, list rv={pages} limit=500
             ok
             page 7         -> begin, end 7, watch rv=7
             ok
             +60
             error 410      -> close, relist expired, stream rv=7
             http 422       -> fallback refused, list rv=7"
        ));
    }
}

#[test]
fn an_expired_list_asks_for_the_most_recent_state_at_once() {
    // client-go: TestReflectorExpiredExactResourceVersion, TestReflectorFullListIfTooLarge
    for refusal in ["http 410", "http large"] {
        check_paged(&format!(
            "start          -> list rv=0 limit=500
             ok
             page 10        -> begin, end 10, watch rv=10
             ok
             +60
             error 410      -> close, relist expired, list rv=10
             {refusal}      -> list rv= limit=500
             ok
             page 12        -> begin, end 12, watch rv=12
             ok
             +60
             error 410      -> close, relist expired, list rv=12"
        ));
    }
}

#[test]
fn a_page_that_expired_makes_it_one_full_list_at_the_same_version() {
    // client-go: TestReflectorFullListIfExpired
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 10 t1     -> list rv= limit=500 token=t1
         http 410       -> abort, list rv=0
         http 410       -> list rv= limit=500
         ok
         item a@1       -> begin, item a@1
         page 12 t1     -> list rv= limit=500 token=t1
         http 410       -> abort, list rv=
         http 410       -> retry history expired
         wait           -> list rv= limit=500",
    );
}

#[test]
fn a_token_that_repeats_or_pages_without_progress_are_given_up() {
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 7 t       -> list rv= limit=500 token=t
         ok
         item a@1       -> item a@1
         page 7 t       -> abort, retry reply makes no sense
         wait           -> list rv=0",
    );
}

#[test]
fn a_list_that_breaks_off_counts_for_nothing() {
    // client-go: TestReflectorListAndWatchWithErrors
    for (ending, kind, close) in [
        ("cut", "connection failed", ""),
        ("ended", "connection failed", ""),
        ("garbled", "reply makes no sense", "close, "),
        ("transport", "connection failed", ""),
        ("+120", "connection failed", "close, "),
    ] {
        let mut bench = Bench::new(ReflectorConfig {
            streaming_list: StreamingList::Never,
            ..ReflectorConfig::default()
        });
        bench.run(&format!(
            "start          -> list rv=0 limit=500
             ok
             item a@1       -> begin, item a@1
             {ending}       -> {close}abort, retry {kind}
             wait           -> list rv=0 limit=500
             ok
             page 7         -> begin, end 7, watch rv=7"
        ));
        assert_eq!(bench.machine.stats().aborted_lists, 1);
    }
    check_paged("start -> list rv=0 limit=500\n +120 -> close, retry deadline exceeded");
}

#[test]
fn a_server_that_gives_less_than_asked_is_asked_for_the_most_recent_state() {
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         page 10        -> begin, end 10, watch rv=10
         ok
         +60
         error 410      -> close, relist expired, list rv=10
         ok
         item a@1       -> begin, item a@1
         page 5         -> abort, list rv= limit=500
         ok
         page 6         -> begin, epoch 10>6, went back, end 6, watch rv=6",
    );
    check(
        "start          -> stream rv=
         ok
         add z@1        -> begin, item z@1
         end-mark 10    -> end 10
         +60
         error 410      -> close, relist expired, stream rv=10
         ok
         end-mark 5     -> close, stream rv=
         ok
         add z@1        -> begin, item z@1
         end-mark 6     -> epoch 10>6, went back, end 6",
    );
}

#[test]
fn a_list_without_a_version_is_used_and_never_resumed_from() {
    for version in ["0", "\"\""] {
        check_paged(&format!(
            "start          -> list rv=0 limit=500
             ok
             item a@        -> begin, item a@
             page {version} -> end {}, watch rv=
             ok
             add b@9        -> added b@9
             add a@3        -> added a@3
             mark 10
             +60
             ended          -> relist versionless, list rv=0 limit=500
             ok
             page {version} -> begin, end {0}, watch rv=
             http 405       -> retry request rejected
             wait           -> relist watch refused, list rv=0 limit=500",
            version.trim_matches('"')
        ));
    }
}

#[test]
fn what_is_wrong_is_a_state_and_tried_again() {
    for (failure, state) in [
        ("http 403", "forbidden"),
        ("http 404", "no such kind"),
        ("http 401", "unauthorized"),
        ("refused", "pending"),
        ("http 503", "pending"),
        ("html", "pending"),
    ] {
        let mut bench = Bench::new(ReflectorConfig {
            streaming_list: StreamingList::Never,
            ..ReflectorConfig::default()
        });
        bench.machine.start(bench.now);
        for _ in 0..50 {
            bench.machine.handle(parse(failure), bench.now);
            assert_eq!(bench.machine.state().as_str(), state);
            let wake = bench.machine.next_wake().unwrap();
            assert!(wake >= bench.now + Duration::from_millis(800), "{failure}");
            assert!(wake < bench.now + Duration::from_secs(60), "{failure}");
            bench.now = wake;
            bench.machine.handle(Input::Timer, wake);
        }
        assert!(
            bench.now.since_start() > Duration::from_secs(30 * 40),
            "slow retries"
        );
    }
}

#[test]
fn a_list_larger_than_a_cache_may_be_counts_for_nothing() {
    let config = || ReflectorConfig {
        cache_limits: CacheLimits {
            objects: 2,
            ..CacheLimits::default()
        },
        ..ReflectorConfig::default()
    };
    // Over all pages; the rest of a chunk is void.
    let mut bench = Bench::new(ReflectorConfig {
        streaming_list: StreamingList::Never,
        ..config()
    });
    bench.run(
        "start          -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 7 more    -> list rv= limit=500 token=more
         ok
         item b@2       -> item b@2
         item c@3       -> item c@3, close, abort, retry list over the limit
         item d@4
         wait           -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 7         -> end 7, watch rv=7",
    );
    let mut bench = Bench::new(config());
    bench.run(
        "start          -> stream rv=
         ok
         add a@1        -> begin, item a@1
         add b@2        -> item b@2
         add c@3        -> item c@3, close, abort, retry list over the limit
         wait           -> stream rv=",
    );
}

#[test]
fn a_cache_that_events_made_larger_than_it_may_be_is_listed_again() {
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         page 7         -> begin, end 7, watch rv=7
         ok
         +60
         over-limit     -> close, relist over the limit, list rv=7
         over-limit
         ok
         page 8         -> begin, end 8, watch rv=8",
    );
}
