//! Tests of watches that end, fall silent and are resumed.
//!
//! ```text
//! scripts → machine → steps
//! ```
//!
//! Each test names the upstream test that it pins, where there is one.

use super::*;

/// A machine that watches at version 10 through the stream of its list.
fn watching() -> Bench {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run(
        "start          -> stream rv=
         ok
         add z@1        -> begin, item z@1
         end-mark 10    -> end 10
         +60
         mark 10",
    );
    bench
}

#[test]
fn a_watch_that_ends_in_order_goes_on_at_once() {
    // client-go: TestWatchList (cut after sync = plain watch at last RV)
    watching().run(
        "ended          -> watch rv=10
         ?              -> synced
         ok             -> reopened 10",
    );
}

#[test]
fn a_watch_that_is_cut_asks_the_server_where_it_is() {
    watching().run(
        "mod a@11       -> updated a@11
         cut            -> probe
         ok
         page 30        -> watch rv=11
         ok             -> reopened 11",
    );
}

#[test]
fn a_server_of_which_another_cache_says_that_it_went_back_is_listed_though_its_version_is_ahead() {
    let listed = "ok
             add a@2        -> begin, item a@2
             end-mark 40    -> doubted, end 40
             ?              -> synced
             elsewhere 9999 ->
             mod a@41       -> updated a@41";
    watching().run(&format!(
        "cut            -> probe
         elsewhere 9999 -> close, relist server went back elsewhere, stream rv=
         {listed}"
    ));
    // It waits before it asks again.
    watching().run(&format!(
        "cut            -> probe
         http 503       -> retry server unavailable
         elsewhere 9999 ->
         +60            -> relist server went back elsewhere, stream rv=
         {listed}"
    ));
    // Its own watch was not interrupted, or was resumed just before: then it lists, once in ten minutes.
    watching().run(
        "elsewhere 400  ->
         mod a@13       -> updated a@13",
    );
    watching().run(
        "cut            -> probe
         ok
         page 30        -> watch rv=10
         ok             -> reopened 10
         elsewhere 90   -> close, relist server went back elsewhere, stream rv=
         ok
         add a@2        -> begin, item a@2
         end-mark 40    -> doubted, end 40
         ?              -> synced
         elsewhere 95   ->
         mod a@41       -> updated a@41",
    );
    // It knows itself, and that says more.
    watching().run(
        "cut            -> probe
         ok
         page 4         -> relist server went back, stream rv=
         elsewhere 90   ->
         ok
         add a@2        -> begin, item a@2
         end-mark 40    -> went back, end 40",
    );
    // It was listed later.
    watching().run(
        "cut             -> probe
         elsewhere 0     ->
         ok
         page 30         -> watch rv=10",
    );
}

#[test]
fn a_server_that_went_back_is_listed_from_its_own_present() {
    for failure in ["ok\n page 4", "ok\n page 1"] {
        let mut bench = watching();
        bench.run(&format!(
            "cut            -> probe
             {failure}      -> relist server went back, stream rv=
             ok
             add a@2        -> begin, item a@2
             end-mark 4     -> epoch 10>4, went back, end 4
             ?              -> synced
             mod a@5        -> updated a@5
             +6
             ended          -> watch rv=5"
        ));
        assert_eq!(bench.machine.stats().epochs, 1);
    }
}

#[test]
fn a_probe_that_is_not_answered_is_tried_again_or_not_needed() {
    watching().run("cut -> probe\n transport -> retry connection failed\n wait -> probe");
    watching().run("cut -> probe\n +30 -> close, retry deadline exceeded\n wait -> probe");
    watching().run("cut -> probe\n ok\n item a@1\n cut -> retry connection failed\n wait -> probe");
    watching().run("cut -> probe\n http 403 -> watch rv=10");
    watching().run("cut -> probe\n http 500 -> watch rv=10");
    watching().run("cut -> probe\n ok\n page \"\" -> watch rv=10");
}

#[test]
fn a_very_short_watch_leads_to_a_list() {
    // client-go: TestReflectorHandleWatchResultChanClosedBefore
    watching().run(
        "ended          -> watch rv=10
         ok             -> reopened 10
         ended          -> retry very short watch
         wait           -> relist very short watch, stream rv=10",
    );
}

#[test]
fn a_watch_that_is_cut_at_once_is_tried_a_few_times() {
    let mut bench = watching();
    bench.run("ended -> watch rv=10");
    for _ in 0..2 {
        bench.run(
            "ok             -> reopened 10
             cut            -> retry connection failed
             wait           -> probe
             ok
             page 10        -> watch rv=10",
        );
    }
    bench.run(
        "ok             -> reopened 10
         cut            -> retry connection failed
         wait           -> relist watch unavailable, stream rv=10",
    );
}

#[test]
fn a_watch_that_lived_or_spoke_makes_up_for_those_that_did_not() {
    for (life, version) in [("+2", 10), ("mod z@11 -> updated z@11", 11)] {
        let mut bench = watching();
        bench.run("ended -> watch rv=10");
        let cut_twice = |bench: &mut Bench, version: u32| {
            for _ in 0..2 {
                bench.run(&format!(
                    "ok             -> reopened {version}
                     cut            -> retry connection failed
                     wait           -> probe
                     ok
                     page 11        -> watch rv={version}"
                ));
            }
        };
        cut_twice(&mut bench, 10);
        bench.run(&format!("ok -> reopened 10\n {life}\n cut -> probe"));
        bench.run(&format!("ok\n page 11 -> watch rv={version}"));
        cut_twice(&mut bench, version);
    }
}

#[test]
fn watches_that_are_short_again_and_again_wait() {
    let mut bench = watching();
    bench.run("mod a@11 -> updated a@11\n ended -> watch rv=11");
    for version in 12..15 {
        bench.run(&format!(
            "ok             -> reopened {}
             mod a@{version} -> updated a@{version}
             ended          -> watch rv={version}",
            version - 1
        ));
    }
    bench.run("ok -> reopened 14\n mod a@15 -> updated a@15\n ended -> retry connection failed");
    bench.run("wait -> watch rv=15");
}

#[test]
fn bytes_that_make_no_sense_lead_to_a_list() {
    watching().run(
        "garbled        -> close, retry reply makes no sense
         wait           -> relist garbled watch, stream rv=10",
    );
}

#[test]
fn silence_asks_the_server_where_it_is_and_reopens_without_a_list() {
    watching().run(
        "+89
         mark 10
         +89
         +1             -> silent, close, probe
         ?              -> synced
         ok
         page 10        -> watch rv=10
         ok             -> reopened 10
         +90            -> silent, close, probe
         ok
         page 3         -> relist server went back, stream rv=",
    );
}

/// A watch at `ours` that says nothing, while the server is at `theirs`: it is opened again.
fn deaf(bench: &mut Bench, ours: u32, theirs: u32) {
    bench.run(&format!(
        "+90            -> silent, close, probe
         ok
         page {theirs}  -> watch rv={ours}
         ok             -> reopened {ours}"
    ));
}

/// The same, and it leads to a list at the server's version, with this object.
fn deaf_list(bench: &mut Bench, theirs: u32, item: &str) {
    bench.run(&format!(
        "+90            -> silent, close, probe
         ok
         page {theirs}  -> relist silent watch, stream rv=
         ok
         add {item}     -> begin, item {item}
         end-mark {theirs} -> end {theirs}"
    ));
}

#[test]
fn k29_a_watch_that_says_nothing_while_the_server_moves_on_is_a_list() {
    let mut bench = watching();
    // The first probe finds out that the server is ahead, then there are two silent watches; the same
    // again, as long as lists have objects that are newer.
    for (ours, theirs) in [(10, 20), (20, 30), (30, 40)] {
        deaf(&mut bench, ours, theirs);
        deaf(&mut bench, ours, theirs);
        deaf_list(&mut bench, theirs, &format!("z@{}", theirs - 5));
    }
    (0..2).for_each(|_| deaf(&mut bench, 40, 50));
    deaf_list(&mut bench, 50, "z@35");
    // That one showed nothing new: four watches.
    (0..4).for_each(|_| deaf(&mut bench, 50, 60));
    // An event makes it no shorter, and is no silence.
    bench.run("add y@61 -> added y@61");
    (0..4).for_each(|_| deaf(&mut bench, 61, 70));
    deaf_list(&mut bench, 70, "z@35");
    // A bookmark does.
    bench.run("mark 71 -> mark 71");
    (0..2).for_each(|_| deaf(&mut bench, 71, 80));
    deaf_list(&mut bench, 80, "z@35");
    let stats = bench.machine.stats();
    assert_eq!((stats.lists, stats.relists), (7, 6));
}

#[test]
fn k29_a_watch_that_is_cut_without_a_word_counts_unless_the_server_cannot_be_reached_then() {
    let mut bench = watching();
    let cut = |bench: &mut Bench, then: &str| {
        bench.run(&format!("+60\n cut -> probe\n ok\n page 20 -> {then}"));
    };
    let again = "watch rv=10\n ok -> reopened 10";
    cut(&mut bench, again);
    bench.run("+60\n cut -> probe\n refused -> retry connection refused\n wait -> probe");
    bench.run(&format!("ok\n page 20 -> {again}"));
    cut(&mut bench, again);
    cut(&mut bench, "relist silent watch, stream rv=");
}

#[test]
fn k29_a_quiet_watch_of_a_server_that_does_not_move_is_no_list() {
    let mut bench = watching();
    (0..100).for_each(|_| deaf(&mut bench, 10, 10));
    assert_eq!(bench.machine.stats().silences, 100);
    // Each watch has a bookmark, if late.
    for version in 11..50 {
        bench.run(&format!("+80\n mark {version} -> mark {version}"));
        deaf(&mut bench, version, 99);
    }
    // A server without bookmarks has an event in every second watch.
    for version in 50..100 {
        deaf(&mut bench, version - 1, 999);
        bench.run(&format!("mod a@{version} -> updated a@{version}"));
        deaf(&mut bench, version, 999);
    }
    assert_eq!(bench.machine.stats().relists, 0);
}

#[test]
fn watches_that_are_refused_while_lists_are_ahead_are_a_list() {
    for (failure, kind) in [
        ("html", "not a Kubernetes server"),
        ("http 401", "unauthorized"),
        ("refused", "connection refused"),
        ("http 503", "server unavailable"),
    ] {
        let mut bench = watching();
        bench.run(&format!("ended -> watch rv=10\n {failure} -> retry {kind}"));
        // The server does not move: there is nothing to list. What says that a server is away is
        // counted in any case.
        if kind != "server unavailable" {
            for _ in 0..10 {
                bench.run("wait -> probe\n ok\n page 10 -> watch rv=10");
                bench.run(&format!("{failure} -> retry {kind}"));
            }
            bench.run("wait -> probe\n ok\n page 20 -> watch rv=10");
            bench.run(&format!("{failure} -> retry {kind}"));
        }
        bench.run("wait -> probe\n ok\n page 20 -> watch rv=10");
        bench.run(&format!("{failure} -> retry {kind}"));
        bench.run("wait -> probe\n ok\n page 20 -> watch rv=10");
        bench.run(&format!(
            "{failure} -> retry {kind}
             wait -> relist watch unavailable, stream rv=10"
        ));
    }
    // A server that is away is asked for its version, and not for everything.
    let mut bench = watching();
    bench.run("ended -> watch rv=10\n html -> retry not a Kubernetes server");
    for _ in 0..10 {
        bench.run("wait -> probe\n html -> retry not a Kubernetes server");
    }
    bench.run("wait -> probe\n ok\n page 20 -> watch rv=10\n ok -> reopened 10");
    assert_eq!(bench.machine.stats().relists, 0);
    // Too many requests are no reason for more.
    let mut bench = watching();
    bench.run("cut -> probe\n ok\n page 20 -> watch rv=10");
    for _ in 0..10 {
        bench.run("http 429 -> retry too many requests\n wait -> watch rv=10");
    }
}

#[test]
fn a_streaming_list_that_a_proxy_does_not_know_comes_in_pages() {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run(
        "start -> stream rv=
         html  -> fallback failed, list rv=0 limit=500
         ok
         item a@1 -> begin, item a@1
         page 10  -> end 10, watch rv=10",
    );
}

#[test]
fn a_watch_that_is_not_accepted_in_time_is_silence_too() {
    watching().run("ended -> watch rv=10\n +90 -> close, retry deadline exceeded\n wait -> probe");
}

#[test]
fn silence_while_we_do_not_read_is_our_own() {
    watching().run("+80\n unblocked 80\n +80\n mark 10");
    // A watch that lived only while we did not read was a very short one.
    let mut short = watching();
    short.run("ended -> watch rv=10\n ok -> reopened 10\n +5\n unblocked 5");
    short.run("ended -> retry very short watch");
    let mut bench = Bench::new(ReflectorConfig {
        streaming_list: StreamingList::Never,
        ..ReflectorConfig::default()
    });
    bench.run("start -> list rv=0 limit=500\n ok\n +100\n unblocked 100\n +100");
    bench.run("+20 -> close, retry connection failed");
}

#[test]
fn what_is_stale_says_since_when() {
    let mut bench = Bench::new(ReflectorConfig::default());
    assert!(!bench.machine.has_synced());
    assert_eq!(bench.machine.heard_at(), None);
    bench = watching();
    let heard_at = bench.now;
    assert!(bench.machine.has_synced());
    assert_eq!(bench.machine.heard_at(), Some(heard_at));
    bench.run("+30\n cut -> probe\n refused -> retry connection refused");
    assert_eq!(*bench.machine.state(), State::Stale { since: heard_at });
    bench.run("wait -> probe\n http 503 -> retry server unavailable");
    assert_eq!(*bench.machine.state(), State::Stale { since: heard_at });
}

#[test]
fn states_and_requests_have_words() {
    use crate::reflector::report::Verb;

    let since = Instant::from_millis(7);
    let at_three = State::Synced {
        version: "3".into(),
    };
    for (state, words) in [
        (State::Pending, "pending".to_owned()),
        (at_three, "synced at 3".to_owned()),
        (State::Stale { since }, format!("stale since {since:?}")),
        (
            State::Forbidden { verb: Verb::Probe },
            "forbidden to probe".to_owned(),
        ),
    ] {
        assert_eq!(state.to_string(), words);
    }
}

#[test]
fn a_stop_closes_what_is_open_and_ends_everything() {
    // client-go: TestRunUntil, TestReflectorWatchStoppedBefore, TestReflectorWatchStoppedAfter
    check("stop\n ? -> stopped\n start");
    check("start -> stream rv=\n stop -> close\n ok\n add a@1");
}

#[test]
fn a_stop_in_a_list_leaves_nothing_of_it() {
    check(
        "start          -> stream rv=
         ok
         add a@1        -> begin, item a@1
         stop           -> close, abort
         ?              -> stopped
         add b@2
         end-mark 5
         ended
         timer
         stop
         relist",
    );
    let mut bench = watching();
    bench.run("cut -> probe\n refused -> retry connection refused\n stop\n ? -> stopped");
    assert_eq!(bench.machine.next_wake(), None);
}

#[test]
fn the_owner_may_want_a_list() {
    watching().run("relist -> close, relist asked, stream rv=10");
    watching().run(
        "cut            -> probe
         refused        -> retry connection refused
         relist
         wait           -> relist asked, stream rv=10",
    );
}

#[test]
fn a_store_that_is_not_what_the_server_has_is_listed_as_it_is_now() {
    watching().run("diverged -> close, relist diverged, stream rv=");
    let mut bench = watching();
    bench.run("cut -> probe\n refused -> retry connection refused\n diverged");
    bench.run("wait -> relist diverged, stream rv=");
    check("start -> stream rv=\n diverged\n ok\n add z@1 -> begin, item z@1\n end-mark 9 -> end 9");
}

#[test]
fn what_is_left_over_from_a_closed_request_is_ignored() {
    watching().run(
        "error 410      -> close, relist expired, stream rv=10
         add a@11
         mark 12
         ended
         cut
         garbled
         item a@1
         page 5
         bytes
         ok
         add b@3        -> begin, item b@3",
    );
}
