//! Bugs that informers and controllers shipped with: one test a bug, named after it.
//!
//! ```text
//! a scripted server ──▶ factory, handlers, streams, controllers ──▶ what users of them hear
//! ```
//!
//! Those of the machines are in kinform-core; `cargo xtask mutants` puts most of them back.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::select_all;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinform::controller::{Action, Controller};
use kinform::env::Env;
use kinform::source::{ResourceInfo, SourceError, SourceErrorKind};
use kinform::workqueue::WorkQueue;
use kinform::{
    Error, GroupVersionResource, Handlers, Index, Informer, InformerFactory, Limiter, Notification,
    Registration, ReportEvent, Scope, Target, Transform, Verdict,
};
use kinform_testkit::{Sending, scripted};
use serde_json::json;

use crate::fixture::{Heard, factory, first_list, names, pod, pods, settle};

const SECOND: Duration = Duration::from_secs(1);

/// Waits, in paused time, for what must come.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(60 * SECOND, what).await;
    waited.expect("it comes within a minute")
}

// kubernetes#134928: an event whose transform failed was dropped, and nobody was told.
#[tokio::test(start_paused = true)]
async fn b9_what_a_transform_failed_on_is_told_and_heals_with_its_next_version() {
    let (factory, mut script) = factory();
    let fails = Arc::new(AtomicBool::new(true));
    let is_failing = Arc::clone(&fails);
    let transform = Transform::typed(move |pod: Pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let is_failing = name.ends_with('7') && is_failing.load(Ordering::Relaxed);
        assert!(!is_failing, "this panic is part of the test");
        pod
    });
    let informer = factory
        .select(Target::<Pod>::new())
        .transform(transform)
        .build();
    let mut reports = informer.reports();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[], 5).await;
    for version in 10..30 {
        watch.event("ADDED", &pod(&format!("p{version}"), version, "n1"));
    }
    settle().await;
    assert_eq!(names(&informer).len(), 18);
    let mut set_apart = Vec::new();
    while set_apart.len() < 2 {
        if let ReportEvent::Quarantined(what) = soon(reports.next()).await.unwrap().event {
            set_apart.push((what.key.unwrap().to_string(), what.version.unwrap()));
        }
    }
    let expected = [("default/p17", "17"), ("default/p27", "27")];
    assert_eq!(set_apart, expected.map(|(key, at)| (key.into(), at.into())));
    fails.store(false, Ordering::Relaxed);
    for name in [17, 27] {
        watch.event("MODIFIED", &pod(&format!("p{name}"), 40 + name, "n1"));
    }
    settle().await;
    assert_eq!(names(&informer).len(), 20);
    assert_eq!(informer.stats().quarantined_now, 0);
    factory.shutdown().await;
}

// kube#925, emberstack/kubernetes-reflector#696: once a queue was full, all stood still.
#[tokio::test(start_paused = true)]
async fn b25_a_burst_larger_than_every_queue_passes() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let added = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&added);
    let handlers = Handlers::new().on_add(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    let registration = informer.add_handler(handlers).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[], 5).await;
    // One chunk of a connection, twice as many events as the fifo takes.
    let burst = |from: u64| {
        let event = |version| {
            let pod = pod(&format!("p{version}"), version, "n1");
            format!("{}\n", json!({ "type": "ADDED", "object": pod }))
        };
        (from..from + 9_000).map(event).collect::<String>()
    };
    for from in [10, 10_000] {
        watch.send(burst(from));
        settle().await;
    }
    assert_eq!(informer.list().len(), 18_000);
    assert_eq!(added.load(Ordering::Relaxed), 18_000);
    assert_eq!(registration.lag(), 0);
    factory.shutdown().await;
}

// kube#1322, kube#1324: keys that waited for a free worker were never run.
#[tokio::test(start_paused = true)]
async fn b26_whoever_waits_gets_the_key_that_another_gives_back() {
    for waiting in 1..4 {
        let queue = WorkQueue::new(Limiter::default());
        queue.add(1);
        let held = soon(queue.get()).await.unwrap();
        let waiting = (0..waiting).map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.map(|item| *item.key()) })
        });
        let waiting: Vec<_> = waiting.collect();
        settle().await;
        queue.add(1);
        settle().await;
        // Who had it asks for no other: one of those who wait must be woken.
        held.settle(Verdict::Forget);
        let (woken, ..) = soon(select_all(waiting)).await;
        assert_eq!(woken.unwrap(), Some(1));
    }
}

// kubernetes#136509: a resync before the handlers ran locked up; kubernetes#137282,
// ovn-kubernetes#483: so did adding and removing handlers in handlers.
#[tokio::test(start_paused = true)]
async fn b27_handlers_may_add_and_remove_handlers() {
    let (factory, mut script) = factory();
    let informer: Informer<Pod> = factory.informer();
    let (inner, plain) = (Heard::default(), Heard::default());
    let mine: Arc<Mutex<Vec<Registration>>> = Arc::default();
    let (this, held, told) = (informer.clone(), Arc::clone(&mine), inner.clone());
    let handlers = Handlers::new().on_add(move |pod| {
        let added = this.add_handler(told.handlers()).unwrap();
        let mut held = held.lock().unwrap();
        held.push(added);
        // First another one, in the end this handler itself.
        if pod.name() != "a" {
            let at = usize::from(pod.name() == "b");
            // One poll asks for it; nobody can wait here for a handler that is running.
            let _ = held.remove(at).remove().now_or_never();
        }
    });
    let outer = informer
        .add_handler(handlers.resync_period(SECOND))
        .unwrap();
    informer.add_handler(plain.handlers()).unwrap();
    mine.lock().unwrap().push(outer);
    factory.start().unwrap();
    tokio::time::sleep(2 * SECOND).await;
    let watch = first_list(&mut script, &[], 5).await;
    settle().await;
    for (version, name) in (6..).zip(["a", "b", "c"]) {
        watch.event("ADDED", &pod(name, version, "n1"));
        tokio::time::sleep(2 * SECOND).await;
    }
    assert_eq!(plain.take(), ["synced", "add a@6", "add b@7", "add c@8"]);
    assert!(inner.take().contains(&"initial a@6".to_owned()));
    let left: Vec<Registration> = std::mem::take(&mut *mine.lock().unwrap());
    for registration in left {
        soon(registration.remove()).await;
    }
    assert_eq!(informer.stats().handlers, 1);
    factory.shutdown().await;
}

// client-go#1167: handlers could not be removed; controller-runtime#649, #1163: what served them stayed.
#[tokio::test(start_paused = true)]
async fn b32_handlers_and_streams_leave_nothing_behind() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    soon(informer.synced()).await.unwrap();
    settle().await;
    let tasks = factory.task_count();
    for _ in 0..2_000 {
        let handlers = Heard::default().handlers().resync_period(SECOND);
        let registration = informer.add_handler(handlers).unwrap();
        soon(registration.synced()).await;
        soon(registration.remove()).await;
        let mut changes = informer.changes().unwrap();
        soon(changes.next()).await.unwrap();
    }
    settle().await;
    assert_eq!(factory.task_count(), tasks);
    assert_eq!(informer.stats().handlers, 0);
    factory.shutdown().await;
}

// client-go ends the process, or skips the item; kube-runtime's controller ends its stream.
// fault: F25
#[tokio::test(start_paused = true)]
async fn b35_a_panic_in_any_callback_touches_its_own_item_only() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let heard = Heard::default();
    let fail = |pod: &kinform::Obj<Pod>| {
        assert_ne!(pod.name(), "bad", "this panic is part of the test");
        true
    };
    let fragile = [
        Handlers::new().on_add(move |pod| _ = fail(pod)),
        Handlers::new().on_update(move |_, pod| _ = fail(pod)),
        Handlers::new().on_delete(move |pod| _ = fail(pod)),
        Handlers::new().filtered(fail).on_add(|_| ()),
        Handlers::new().on_synced(|| panic!("this panic is part of the test")),
        Handlers::new().on_event_async(move |told: Notification<Pod>| async move {
            told.object().map(fail);
        }),
        Handlers::new().blocking().on_add(move |pod| _ = fail(pod)),
    ];
    let fragile: Vec<_> = fragile
        .into_iter()
        .map(|handlers| informer.add_handler(handlers).unwrap())
        .collect();
    informer.add_handler(heard.handlers()).unwrap();
    let index = Index::by("app", |pod: &Pod| {
        let name = pod.metadata.name.clone();
        assert_ne!(
            name.as_deref(),
            Some("bad"),
            "this panic is part of the test"
        );
        name
    });
    let by_app = informer.add_index(index).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("bad", 2, "n1")], 5).await;
    settle().await;
    watch.event("MODIFIED", &pod("bad", 6, "n1"));
    watch.event("DELETED", &pod("bad", 7, "n1"));
    watch.event("ADDED", &pod("c", 8, "n1"));
    settle().await;
    let expected = [
        "initial a@1",
        "initial bad@2",
        "synced",
        "update bad@2 bad@6",
        "delete bad@7",
        "add c@8",
    ];
    assert_eq!(heard.take(), expected);
    let panics: Vec<u64> = fragile.iter().map(Registration::panics).collect();
    assert_eq!(panics, [1, 1, 1, 3, 1, 3, 1]);
    assert!(fragile.iter().all(|handler| handler.heard() == 5));
    assert!(fragile.iter().all(Registration::has_synced));
    assert_eq!((by_app.get("a").len(), by_app.get("c").len()), (1, 1));
    factory.shutdown().await;
}

// kube-runtime's shared streams: a subscriber whose news were gone again was never woken any more.
#[tokio::test(start_paused = true)]
async fn d1_a_stream_that_was_woken_for_nothing_is_woken_again() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[], 5).await;
    let mut changes = informer.changes().unwrap();
    assert!(matches!(
        soon(changes.next()).await,
        Some(Notification::Synced)
    ));
    let (told, heard) = tokio::sync::mpsc::unbounded_channel();
    let reading = tokio::spawn(async move {
        while let Some(notification) = changes.next().await {
            let name = notification.object().map(|pod| pod.name().to_owned());
            told.send(name.unwrap()).unwrap();
        }
    });
    let mut heard = heard;
    for version in [10, 20, 30] {
        settle().await;
        // It is there and gone before the stream looks; a bookmark wakes it for nothing.
        let event = |kind, version| {
            let pod = pod("short", version, "n1");
            format!("{}\n", json!({ "type": kind, "object": pod }))
        };
        let short = event("ADDED", version) + &event("DELETED", version + 1);
        watch.send(short);
        watch.bookmark("Pod", &(version + 2).to_string());
        settle().await;
        watch.event("ADDED", &pod(&format!("p{version}"), version + 3, "n1"));
        while soon(heard.recv()).await.unwrap() == "short" {}
    }
    factory.shutdown().await;
    soon(reading).await.unwrap();
}

/// A factory for pods and config maps, each with a script of its own.
struct Two {
    factory: InformerFactory,
    pods: kinform_testkit::Script,
    maps: kinform_testkit::Script,
}

impl Two {
    fn new() -> Self {
        let gvr = GroupVersionResource::new("", "v1", "configmaps");
        let info = ResourceInfo::new(gvr, "ConfigMap", Scope::Namespaced);
        let (maps_source, maps) = scripted(info);
        let (pods_source, pods) = scripted(pods());
        let factory =
            InformerFactory::with_sources(move |info, _| match &*info.resource.resource {
                "pods" => Arc::clone(&pods_source) as _,
                _ => Arc::clone(&maps_source) as _,
            });
        let factory = factory.env(Env::seeded(7)).build();
        Self {
            factory,
            pods,
            maps,
        }
    }
}

// kube-runtime's controller: one backoff for all its watches, so a failing one stopped the others
// (stackabletech/trino-operator#936).
#[tokio::test(start_paused = true)]
async fn d3_a_watch_that_fails_for_ever_delays_no_other() {
    let Two {
        factory,
        mut pods,
        mut maps,
    } = Two::new();
    let (informer, owned) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let saw = Arc::clone(&seen);
    let controller = Controller::of(&informer).owns(&owned);
    let running = tokio::spawn(controller.run(move |pod: Arc<Pod>, _| {
        saw.lock().unwrap().extend(pod.metadata.name.clone());
        std::future::ready(Ok::<_, Error>(Action::await_change()))
    }));
    factory.start().unwrap();
    let watch = first_list(&mut pods, &[], 5).await;
    first_list(&mut maps, &[], 5).await.cut();
    let failing = tokio::spawn(async move {
        for refusals in 1.. {
            let refused = SourceError::new(SourceErrorKind::Refused, "connection refused");
            maps.next().await.refuse(refused);
            if refusals == 8 {
                return maps;
            }
        }
        maps
    });
    for version in 10..20 {
        tokio::time::sleep(15 * SECOND).await;
        watch.event("ADDED", &pod(&format!("p{version}"), version, "n1"));
        settle().await;
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen, [format!("p{version}")], "at once");
    }
    let _maps = soon(failing).await.unwrap();
    running.abort();
    factory.shutdown().await;
}

async fn many(script: &mut kinform_testkit::Script, count: u64) -> Sending {
    let pods: Vec<_> = (0..count)
        .map(|name| pod(&format!("p{name}"), name + 1, "n1"))
        .collect();
    first_list(script, &pods, count + 1).await
}

// kube-runtime's runner: each wake polled every reconcile that was under way.
#[tokio::test(start_paused = true)]
async fn d13_a_reconcile_that_ends_wakes_no_other() {
    const PODS: u64 = 400;
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let polls = Arc::new(AtomicUsize::new(0));
    let (count, done) = (Arc::clone(&polls), Arc::new(AtomicUsize::new(0)));
    let ended = Arc::clone(&done);
    let controller = Controller::of(&informer).workers(PODS as usize);
    let running = tokio::spawn(controller.run(move |pod: Arc<Pod>, _| {
        let (count, ended) = (Arc::clone(&count), Arc::clone(&ended));
        async move {
            // Each ends at a time of its own, while all the others are under way.
            let version = pod.metadata.resource_version.as_deref();
            let version: u64 = version.unwrap_or_default().parse().unwrap();
            let until = tokio::time::Instant::now() + 10 * SECOND + Duration::from_millis(version);
            let mut sleep = Box::pin(tokio::time::sleep_until(until));
            poll_fn(|context| {
                count.fetch_add(1, Ordering::Relaxed);
                sleep.as_mut().poll(context)
            })
            .await;
            ended.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Error>(Action::await_change())
        }
    }));
    factory.start().unwrap();
    let _watch = many(&mut script, PODS).await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(done.load(Ordering::Relaxed), PODS as usize);
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls <= 3 * PODS as usize, "{polls} polls");
    running.abort();
    factory.shutdown().await;
}

// kube-runtime's controller: the panic of one reconcile ended all of them.
// fault: F26
#[tokio::test(start_paused = true)]
async fn d15_a_reconcile_that_panics_is_tried_again_and_ends_no_other() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let saw = Arc::clone(&seen);
    let controller = Controller::of(&informer).workers(2);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(move |pod: Arc<Pod>, ctx| {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let is_bad = name == "bad" && ctx.failures() < 5;
        saw.lock().unwrap().push(name);
        async move {
            assert!(!is_bad, "this panic is part of the test");
            Ok::<_, Error>(Action::await_change())
        }
    }));
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("bad", 1, "n1")], 5).await;
    for version in 10..20 {
        tokio::time::sleep(SECOND).await;
        watch.event("ADDED", &pod(&format!("p{version}"), version, "n1"));
    }
    tokio::time::sleep(SECOND).await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let count = |is_bad| {
        seen.iter()
            .filter(|name| (*name == "bad") == is_bad)
            .count()
    };
    assert_eq!((count(true), count(false)), (6, 10));
    let stats = metrics.snapshot();
    assert_eq!((stats.panics, stats.succeeded), (5, 11));
    assert!(!running.is_finished());
    running.abort();
    factory.shutdown().await;
}
