//! Mistakes that other informers made, in public; each would be found here.
//!
//! ```text
//! scripts, small servers → machine → steps
//! ```
//!
//! The names say which: `b6` and `d7` are the names of the mutants that put them back.

use super::*;

/// A machine that watches at version 10, asked for in pages.
fn watching() -> Bench {
    let mut bench = Bench::new(paged());
    bench.run(
        "start          -> list rv=0 limit=500
         ok
         page 10        -> begin, end 10, watch rv=10
         ok
         +60",
    );
    bench
}

fn paged() -> ReflectorConfig {
    ReflectorConfig {
        streaming_list: StreamingList::Never,
        ..ReflectorConfig::default()
    }
}

/// The next request; what stands before it is thrown away.
fn next_request(bench: &mut Bench) -> Option<Request> {
    std::iter::from_fn(|| bench.machine.poll()).find_map(|step| match step {
        Step::Request(request) => Some(request),
        _ => None,
    })
}

/// Answers each request as `server` says, for so long; returns how many requests that were.
fn requests_within(
    bench: &mut Bench,
    limit: Duration,
    mut server: impl FnMut(&Request, &mut Bench),
) -> usize {
    let began = bench.now;
    let mut requests = 0;
    bench.machine.start(bench.now);
    while bench.now.since(began) < limit && requests < 10_000 {
        match next_request(bench) {
            Some(request) => {
                requests += 1;
                server(&request, bench);
            }
            None => {
                bench.now = bench.machine.next_wake().expect("it never gives up");
                bench.machine.handle(Input::Timer, bench.now);
            }
        }
    }
    requests
}

fn tell(bench: &mut Bench, inputs: &[&str]) {
    for input in inputs {
        bench.machine.handle(parse(input), bench.now);
    }
}

#[test]
fn b6_no_page_of_a_list_is_skipped() {
    // kube#1524, kube#1525; client-go: TestListPager_List, TestListPager_EachListItem
    for (items, size) in (0..=12).flat_map(|items| (1..=12).map(move |size| (items, size))) {
        let config = ReflectorConfig {
            page_size: Some(size),
            ..paged()
        };
        let mut bench = Bench::new(config);
        bench.machine.start(bench.now);
        let mut heard = Vec::new();
        loop {
            let steps: Vec<Step> = std::iter::from_fn(|| bench.machine.poll()).collect();
            let mut asked = None;
            for step in steps {
                match step {
                    Step::Delta(Delta::Replaced(item)) => heard.push(item.name().to_owned()),
                    Step::Request(Request::List { options, .. }) => asked = Some(options),
                    _ => {}
                }
            }
            let Some(options) = asked else { break };
            assert_eq!(options.limit, Some(size));
            let from: u32 = options.continue_token.map_or(0, |t| t.parse().unwrap());
            let to = items.min(from + size);
            tell(&mut bench, &["ok"]);
            (from..to).for_each(|i| tell(&mut bench, &[&format!("item o{i}@1")]));
            let token = if to < items {
                to.to_string()
            } else {
                String::new()
            };
            tell(&mut bench, &[format!("page 7 {token}").trim_end()]);
        }
        let expected: Vec<String> = (0..items).map(|i| format!("o{i}")).collect();
        assert_eq!(heard, expected, "{items} items in pages of {size}");
        assert!(bench.machine.has_synced());
    }
}

#[test]
fn b10_an_unreadable_object_is_told_before_the_version_moves_past_it() {
    // kube: the error surfaces once, the next event moves the version past it; kube#774
    watching().run(
        "mod a@11       -> updated a@11
         bad 12         -> quarantined
         mod b@13       -> updated b@13
         mod a@14       -> updated a@14
         +6
         ended          -> watch rv=14",
    );
    check(
        "start          -> stream rv=
         ok
         add a@1        -> begin, item a@1
         bad 2          -> quarantined
         add c@3        -> item c@3
         end-mark 9     -> end 9",
    );
}

#[test]
fn b14_what_a_lagging_replica_says_never_takes_us_back() {
    // kubernetes#59848; client-go: TestReflectorResyncWithResourceVersion
    let mut bench = watching();
    bench.run("mod a@20 -> updated a@20");
    for lag in 1..20 {
        let lagging = 20 - lag;
        bench.run(&format!(
            "+60
             error 410      -> close, relist expired, list rv=20
             ok
             item a@{lagging} -> begin, item a@{lagging}
             page {lagging} -> abort, list rv= limit=500
             ok
             item a@20      -> begin, item a@20
             page 20        -> end 20, watch rv=20
             ok"
        ));
    }
}

// fault: F17
#[test]
fn b14_with_two_replicas_of_which_one_lags_time_goes_on_only() {
    // client-go sends its version and believes what comes; here what comes is checked
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut bench = Bench::new(paged());
        bench.machine.start(bench.now);
        let (mut newest, mut seen, mut lists) = (100u64, 0, 0);
        for _ in 0..200 {
            let mut asked = None;
            while let Some(step) = bench.machine.poll() {
                match step {
                    Step::Request(request) => asked = Some(request),
                    Step::Delta(Delta::ListEnd { version }) => {
                        let version: u64 = version.parse().unwrap();
                        assert!(version >= seen, "seed {seed}: {seen}, then {version}");
                        (seen, lists) = (version, lists + 1);
                    }
                    _ => {}
                }
            }
            newest += (dice.throw() * 5.0) as u64;
            let lag = (dice.throw() * 20.0) as u64;
            match asked {
                Some(Request::List { options, .. }) => {
                    // Only the most recent state is read through the quorum.
                    let is_recent = options.resource_version.is_none();
                    let version = if is_recent { newest } else { newest - lag };
                    tell(&mut bench, &["ok", &format!("page {version}")]);
                }
                Some(_) => {
                    seen = seen.max(newest);
                    tell(&mut bench, &["ok", &format!("mod a@{newest}"), "error 410"]);
                }
                None => {
                    bench.now = bench.machine.next_wake().unwrap();
                    bench.machine.handle(Input::Timer, bench.now);
                }
            }
        }
        assert!(lists > 20, "seed {seed}: {lists}");
    }
}

// fault: F13
#[test]
fn b15_a_version_from_the_servers_future_is_asked_for_once() {
    // kubernetes#107133; client-go: TestReflectorFullListIfTooLarge
    for refusal in ["http large", "http 410"] {
        watching().run(&format!(
            "error 410      -> close, relist expired, list rv=10
             {refusal}      -> list rv= limit=500
             ok
             page 4         -> begin, epoch 10>4, went back, end 4, watch rv=4"
        ));
    }
}

#[test]
fn b16_a_server_that_never_ends_its_initial_events_is_asked_for_pages() {
    // kubernetes#140890; client-go: TestInitialEventsEndBookmarkTicker, which only warns
    for silence in [29, 20] {
        let mut bench = Bench::new(ReflectorConfig::default());
        let limit = Duration::from_secs(301);
        let mut last = None;
        let requests = requests_within(&mut bench, limit, |request, bench| {
            last = Some(request.clone());
            if let Request::Watch { .. } = request {
                tell(bench, &["ok", "add a@1"]);
                for _ in 0..300 / silence {
                    bench.now += Duration::from_secs(silence);
                    bench.machine.handle(Input::Timer, bench.now);
                    tell(bench, &["mod a@1"]);
                }
            }
        });
        assert!(matches!(last, Some(Request::List { .. })), "{last:?}");
        assert!(requests <= 4, "{requests}");
    }
}

#[test]
fn b17_a_reopened_watch_asks_for_no_initial_events() {
    // kube#1844, kube#1882: every object again each 290 s
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run("start -> stream rv=\n ok\n add a@3 -> begin, item a@3\n end-mark 9 -> end 9");
    for _ in 0..10 {
        bench.run("+80\n mark 9\n +80\n mark 9\n +80\n mark 9\n +50");
        bench.run("ended -> watch rv=9\n ok -> reopened 9");
    }
}

#[test]
fn b18_history_that_expired_at_the_start_of_a_watch_leads_to_a_list() {
    // kube#1042: the same version is asked for again, for ever
    watching().run("ended -> watch rv=10\n http 410 -> relist expired, list rv=10");
}

// fault: F5
#[test]
fn b20_a_watch_that_a_middlebox_forgot_is_reopened() {
    // kube#1798: the cache stood still for hours
    let mut bench = watching();
    let heard = bench.now;
    let wake = bench.machine.next_wake().expect("silence has a limit");
    assert!(wake.since(heard) <= Duration::from_secs(150), "{wake:?}");
    bench.run("wait -> silent, close, probe\n ok\n page 10 -> watch rv=10\n ok -> reopened 10");
}

#[test]
fn b22_nothing_that_a_server_says_ends_a_reflector() {
    // fabric8 kubernetes-client#6379, kyverno#13862: stopped, and said that all was well
    let refusals = [
        "400", "401", "403", "404", "410", "422", "429", "500", "503",
    ];
    let endings = ["cut", "ended", "garbled", "transport"].map(str::to_owned);
    let events = ["410", "large", "429", "500", "storeread", "none", "0"];
    let troubles = refusals.map(|code| format!("http {code}"));
    let troubles = troubles.into_iter().chain(endings);
    for trouble in troubles.chain(events.map(|event| format!("error {event}"))) {
        let mut bench = watching();
        if trouble.starts_with("http") {
            bench.run("ended -> watch rv=10");
        }
        tell(&mut bench, &[&trouble]);
        let asks = next_request(&mut bench).is_some();
        assert!(asks || bench.machine.next_wake().is_some(), "{trouble}");
        assert!(
            asks || !matches!(bench.machine.state(), State::Synced { .. }),
            "{trouble}: it waits, and says that it is synced"
        );
        let hour = Duration::from_secs(3_600);
        let requests = requests_within(&mut bench, hour, |request, bench| match request {
            Request::Watch { .. } => tell(bench, &["ok"]),
            _ => tell(bench, &["ok", "page 30"]),
        });
        assert!(asks || requests > 0, "{trouble}: never asked again");
        assert!(
            matches!(bench.machine.state(), State::Synced { .. }),
            "{trouble}"
        );
    }
}

// fault: F1
#[test]
fn b23_a_server_that_is_down_is_not_asked_in_a_loop() {
    // srelens#595: 15,646 requests in 200 ms
    for failure in ["refused", "transport", "http 503"] {
        let mut bench = Bench::new(ReflectorConfig::default());
        let minute = Duration::from_secs(60);
        let requests = requests_within(&mut bench, minute, |_, bench| tell(bench, &[failure]));
        assert!((3..=20).contains(&requests), "{failure}: {requests}");
    }
}

#[test]
fn d4_a_list_that_fails_again_and_again_waits_longer_each_time() {
    // kube-runtime 5.0 src/watcher.rs: each attempt resets the backoff
    for failure in ["http 403", "http 404", "http 503", "refused"] {
        let mut bench = Bench::new(paged());
        bench.machine.start(bench.now);
        let mut waits = Vec::new();
        for _ in 0..7 {
            tell(&mut bench, &[failure]);
            let wake = bench.machine.next_wake().expect("it never gives up");
            waits.push(wake.since(bench.now));
            bench.now = wake;
            bench.machine.handle(Input::Timer, wake);
        }
        let least = |i: u32| Duration::from_millis(800 * (1 << i)).min(Duration::from_secs(30));
        for (i, wait) in waits.iter().enumerate() {
            assert!(*wait >= least(i as u32), "{failure}: {waits:?}");
        }
    }
}

#[test]
fn d5_a_server_that_ends_each_watch_at_once_is_no_hot_loop() {
    // kube-runtime 5.0 src/watcher.rs; client-go: TestReflectorHandleWatchResultChanClosedBefore
    for script in [&["ok", "ended"][..], &["ok", "mark 10", "ended"]] {
        let mut bench = watching();
        let minute = Duration::from_secs(60);
        tell(&mut bench, &["ended"]);
        let requests = requests_within(&mut bench, minute, |request, bench| match request {
            Request::Watch { .. } => tell(bench, script),
            _ => tell(bench, &["ok", "page 10"]),
        });
        assert!((3..=80).contains(&requests), "{script:?}: {requests}");
    }
}

#[test]
fn d6_watches_of_a_fleet_do_not_end_together() {
    // kube: 290 s for all; client-go: TestWatchTimeout
    let mut timeouts = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let mut machine = Reflector::new(ReflectorConfig::default(), seed);
        machine.start(Instant::ZERO);
        while let Some(step) = machine.poll() {
            if let Step::Request(Request::Watch { options, .. }) = step {
                timeouts.insert(options.timeout.unwrap().as_secs());
            }
        }
    }
    assert!(timeouts.len() > 30, "{timeouts:?}");
    assert!(timeouts.iter().all(|t| (300..=600).contains(t)));
}

#[test]
fn d7_any_version_is_asked_for_also_with_a_limit() {
    // kube-core 5.0 src/params.rs drops the version 0 when there is a limit
    let mut bench = Bench::new(paged());
    bench.machine.start(bench.now);
    let Some(Request::List { options, .. }) = next_request(&mut bench) else {
        panic!("a list");
    };
    assert_eq!(options.to_query(), "limit=500&resourceVersion=0");
}

#[test]
fn d8_a_streaming_list_never_starts_below_what_was_seen_and_has_a_fallback() {
    // kube: from 0, without a fallback; kube#2010
    check(
        "start          -> stream rv=
         ok
         add z@1        -> begin, item z@1
         end-mark 9     -> end 9
         +60
         error 410      -> close, relist expired, stream rv=9
         http 422       -> fallback refused, list rv=9
         ok
         page 11        -> begin, end 11, watch rv=11",
    );
}

#[test]
fn d9_a_version_too_large_at_the_start_of_a_watch_is_given_up() {
    // kube#1042: only an event changes the version, a status does not
    watching().run(
        "ended          -> watch rv=10
         http large     -> retry version in the server's future
         wait           -> relist too large version, list rv= limit=500
         ok
         page 4         -> begin, epoch 10>4, went back, end 4, watch rv=4",
    );
}

#[test]
fn d10_a_token_that_expired_makes_it_one_full_list() {
    // kube#1748: page one again, for ever
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         page 10 t1     -> list rv= limit=500 token=t1
         http 410       -> abort, list rv=0
         ok
         item a@1       -> begin, item a@1
         page 12        -> end 12, watch rv=12",
    );
}

#[test]
fn d11_one_unreadable_item_costs_a_list_that_item_only() {
    // kube#774, kube#2061
    check_paged(
        "start          -> list rv=0 limit=500
         ok
         item a@1       -> begin, item a@1
         bad-item 2     -> quarantined
         item c@3       -> item c@3
         page 10        -> end 10, watch rv=10",
    );
}
