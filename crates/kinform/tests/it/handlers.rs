//! Handlers of every form, transforms, and informers that end when nobody listens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinform::env::Env;
use kinform::{
    FifoLimits, FifoPolicy, Handlers, InformerFactory, InformerState, Lifetime, Notification,
    RingLimits, Target, Transform,
};
use kinform_testkit::{Script, Sending, scripted};
use tokio::sync::Semaphore;

use crate::fixture::{Heard, factory, first_list, names, pod, pods, settle};

#[tokio::test]
async fn blocking_handlers_run_off_the_runtime() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let runtime_thread = std::thread::current().id();
    let elsewhere = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&elsewhere);
    let handlers = Handlers::new().on_add(move |_| {
        let here = std::thread::current().id() != runtime_thread;
        count.fetch_add(usize::from(here), Ordering::Relaxed);
    });
    let registration = informer.add_handler(handlers.blocking()).unwrap();
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n1")], 5).await;
    assert!(registration.synced().await);
    assert_eq!(elsewhere.load(Ordering::Relaxed), 2);
    factory.shutdown().await;
}

#[tokio::test]
async fn a_blocking_handler_hears_of_its_sync_off_the_runtime() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let runtime_thread = std::thread::current().id();
    let heard = Heard::default();
    let (add, sync) = (heard.clone(), heard.clone());
    let place = move || match std::thread::current().id() == runtime_thread {
        true => "on the runtime",
        false => "off the runtime",
    };
    let handlers = Handlers::new()
        .on_add(move |_| add.line(format!("add {}", place())))
        .on_synced(move || {
            sync.line(format!("synced {}", place()));
            panic!("this panic is part of the test");
        });
    let registration = informer.add_handler(handlers.blocking()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    assert!(registration.synced().await);
    watch.event("ADDED", &pod("b", 6, "n1"));
    // The end lets it hear what was published.
    informer.reached(6u64).await.unwrap();
    factory.shutdown().await;
    let expected = [
        "add off the runtime",
        "synced off the runtime",
        "add off the runtime",
    ];
    assert_eq!(heard.take(), expected);
    assert_eq!(registration.panics(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_async_handler_hears_one_after_the_other_and_may_panic() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let heard = Heard::default();
    let told = heard.clone();
    let handlers = Handlers::new().on_event_async(move |notification: Notification<Pod>| {
        let told = told.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let name = notification.object().map(|pod| pod.name().to_owned());
            told.line(name.clone().unwrap_or_else(|| "synced".to_owned()));
            assert_ne!(name.as_deref(), Some("a"), "this panic is part of the test");
        }
    });
    let registration = informer.add_handler(handlers).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    assert!(registration.synced().await);
    watch.event("ADDED", &pod("b", 6, "n1"));
    watch.event("ADDED", &pod("c", 7, "n1"));
    settle().await;
    // The end lets it hear what was published.
    factory.shutdown().await;
    assert_eq!(heard.take(), ["a", "synced", "b", "c"]);
    assert_eq!(registration.panics(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drained_handler_hears_what_was_published_before() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    let heard = Heard::default();
    let registration = informer.add_handler(heard.handlers()).unwrap();
    registration.drain().await;
    watch.event("ADDED", &pod("b", 6, "n1"));
    settle().await;
    assert_eq!(heard.take(), ["initial a@1", "synced"]);
    factory.shutdown().await;
}

// fault: F25
#[tokio::test(start_paused = true)]
async fn k13_a_handler_that_never_returns_delays_no_other_and_its_backlog_is_seen() {
    let (source, mut script) = scripted(pods());
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
        .env(Env::seeded(7))
        .ring_limits(RingLimits {
            changes: 4,
            ..RingLimits::default()
        })
        .build();
    let informer = factory.informer::<Pod>();
    let stuck = Handlers::new().on_event_async(|_| std::future::pending());
    let stuck = informer.add_handler(stuck).unwrap();
    let other = Heard::default();
    let lively = informer.add_handler(other.handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    assert_eq!(other.take(), ["initial a@1", "synced"]);
    // More than the ring holds.
    for (waiting, version) in (1..).zip(6..20) {
        watch.event("ADDED", &pod("b", version, "n1"));
        settle().await;
        let expected = match version {
            6 => "add b@6".to_owned(),
            _ => format!("update b@{} b@{version}", version - 1),
        };
        assert_eq!(other.take(), [expected]);
        assert_eq!((stuck.lag(), lively.lag()), (waiting, 0));
        assert_eq!(informer.stats().handler_lag, waiting);
    }
    let late = Heard::default();
    informer.add_handler(late.handlers()).unwrap();
    settle().await;
    assert_eq!(late.take(), ["initial a@1", "initial b@19", "synced"]);
    assert_eq!((stuck.heard(), stuck.has_synced()), (0, false));
    factory.shutdown_within(Duration::from_secs(1)).await;
    assert_eq!((factory.task_count(), stuck.lag()), (0, 0));
}

/// More than a ring holds, all of it there at once: a handler has its turn between batches, so it hears
/// each event and not the difference.
#[tokio::test(start_paused = true)]
async fn a_source_that_always_has_bytes_lets_its_handlers_hear_each_event() {
    const CHUNKS: u64 = 100;
    const EVENTS: u64 = 250;
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let registration = informer
        .add_handler(Handlers::new().on_update(|_, _| ()))
        .unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    assert!(registration.synced().await);
    for chunk in 0..CHUNKS {
        let versions = (0..EVENTS).map(|event| 6 + chunk * EVENTS + event);
        let events = versions.map(|version| {
            let object = pod("a", version, "n1");
            format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n")
        });
        watch.send(events.collect::<String>());
    }
    settle().await;
    assert_eq!(registration.times_behind(), 0);
    assert_eq!(registration.heard(), 1 + CHUNKS * EVENTS);
    factory.shutdown().await;
}

/// A handler that asks for the counts finds the event that it hears counted.
#[tokio::test(start_paused = true)]
async fn an_event_is_counted_before_it_is_heard() {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let counted = Arc::new(Mutex::new(Vec::new()));
    let handlers = {
        let (informer, counted) = (informer.clone(), Arc::clone(&counted));
        Handlers::new().on_update(move |_, _| counted.lock().unwrap().push(informer.stats().events))
    };
    let registration = informer.add_handler(handlers).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    assert!(registration.synced().await);
    for version in 6..=9 {
        watch.event("MODIFIED", &pod("a", version, "n1"));
        settle().await;
    }
    assert_eq!(*counted.lock().unwrap(), [1, 2, 3, 4]);
    factory.shutdown().await;
}

/// Of the batches of a first list nobody hears; others have their turn all the same.
#[tokio::test(start_paused = true)]
async fn a_first_list_that_is_there_at_once_lets_others_have_their_turn() {
    const CHUNKS: usize = 100;
    const OBJECTS: usize = 250;
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    factory.start().unwrap();
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    for chunk in 0..CHUNKS {
        let numbers = (0..OBJECTS).map(|object| chunk * OBJECTS + object);
        let events = numbers.map(|number| {
            let object = pod(&format!("p{number}"), 1, "n1");
            format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n")
        });
        watch.send(events.collect::<String>());
    }
    watch.initial_events_end("Pod", "5");
    let mut turns = 0;
    while !informer.has_synced() {
        turns += 1;
        assert!(turns < 100 * CHUNKS, "it never syncs");
        tokio::task::yield_now().await;
    }
    // One in eight batches at the least.
    assert!(turns >= CHUNKS / 8, "{turns}");
    factory.shutdown().await;
}

fn is_on_n1(pod: &kinform::Obj<Pod>) -> bool {
    let path = "spec.nodeName".parse().unwrap();
    pod.at(&path).unwrap() == ["n1"]
}

/// Lists a pod on n1 and one on n2, then moves each to the other node.
async fn pods_change_nodes(script: &mut Script) -> Sending {
    let watch = first_list(script, &[pod("a", 1, "n1"), pod("b", 2, "n2")], 5).await;
    settle().await;
    watch.event("MODIFIED", &pod("a", 6, "n2"));
    watch.event("MODIFIED", &pod("b", 7, "n1"));
    watch.event("MODIFIED", &pod("b", 8, "n1"));
    watch.event("DELETED", &pod("a", 9, "n2"));
    settle().await;
    watch
}

#[tokio::test(start_paused = true)]
async fn a_filter_makes_adds_and_deletes_of_updates() {
    // client-go: TestFilteringResourceEventHandler
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let heard = Heard::default();
    informer
        .add_handler(heard.handlers().filtered(is_on_n1))
        .unwrap();
    factory.start().unwrap();
    let _watch = pods_change_nodes(&mut script).await;
    let expected = [
        "initial a@1",
        "synced",
        "delete a@1",
        "add b@7",
        "update b@7 b@8",
    ];
    assert_eq!(heard.take(), expected);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_filter_holds_for_async_handlers_in_either_order() {
    for is_first in [true, false] {
        let (factory, mut script) = factory();
        let informer = factory.informer::<Pod>();
        let heard = Heard::default();
        let told = heard.clone();
        let on_event = move |notification: Notification<Pod>| {
            told.line(match notification {
                Notification::Added(pod) => format!("add {}", pod.name()),
                Notification::Updated { new, .. } => format!("update {}", new.name()),
                Notification::Deleted(pod) => format!("delete {}", pod.name()),
                Notification::Synced => "synced".to_owned(),
                other => format!("{other:?}"),
            });
            std::future::ready(())
        };
        let handlers = match is_first {
            true => Handlers::new().filtered(is_on_n1).on_event_async(on_event),
            false => Handlers::new().on_event_async(on_event).filtered(is_on_n1),
        };
        informer.add_handler(handlers).unwrap();
        factory.start().unwrap();
        let _watch = pods_change_nodes(&mut script).await;
        let expected = ["add a", "synced", "delete a", "add b", "update b"];
        assert_eq!(heard.take(), expected);
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_typed_transform_changes_what_is_stored_but_no_identity() {
    let (factory, mut script) = factory();
    let transform = Transform::typed(|mut pod: Pod| {
        assert_ne!(
            pod.metadata.name.as_deref(),
            Some("bad"),
            "part of the test"
        );
        pod.spec = None;
        pod.metadata.resource_version = None;
        pod
    });
    let select = || {
        factory
            .select(Target::<Pod>::new())
            .transform(transform.clone())
    };
    let informer = select().build();
    let same = select().build();
    factory.start().unwrap();
    let sent = [pod("a", 1, "n1"), pod("bad", 2, "n1")];
    let _watch = first_list(&mut script, &sent, 5).await;
    informer.synced().await.unwrap();
    assert!(script.is_quiet(), "the same transform is the same informer");
    assert_eq!(names(&informer), ["a"]);
    assert_eq!(same.stats().quarantined, 1);
    let list = informer.list();
    let a = list.iter().next().unwrap();
    assert!(a.is_projected());
    assert_eq!(a.resource_version(), "1");
    assert!(a.typed().unwrap().spec.is_none());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_can_end_when_nobody_listens() {
    let (factory, mut script) = factory();
    let select = || {
        factory
            .select(Target::<Pod>::new())
            .lifetime(Lifetime::WhileUsed)
            .build()
    };
    let informer = select();
    let registration = informer.add_handler(Heard::default().handlers()).unwrap();
    let mut changes = informer.changes().unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    changes.next().await.unwrap();
    registration.remove().await;
    settle().await;
    assert!(informer.state().is_synced(), "a stream still listens");
    drop(changes);
    settle().await;
    assert_eq!(informer.state(), InformerState::Stopped);
    assert!(watch.is_given_up());
    // Asked for again, it is a new one.
    let again = select();
    let _changes = again.changes().unwrap();
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("b", 6, "n1")], 7).await;
    again.synced().await.unwrap();
    assert_eq!(
        (names(&informer), names(&again)),
        (vec!["a".into()], vec!["b".into()])
    );
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_classic_queue_serves_the_same_informers() {
    let (source, mut script) = scripted(pods());
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
        .env(Env::seeded(7))
        .fifo(FifoPolicy::Coalescing)
        .build();
    let informer = factory.informer::<Pod>();
    let heard = Heard::default();
    informer.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    watch.event("ADDED", &pod("b", 6, "n1"));
    watch.event("DELETED", &pod("a", 7, "n1"));
    settle().await;
    assert_eq!(
        heard.take(),
        ["initial a@1", "synced", "add b@6", "delete a@7"]
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_bounds_of_ring_and_fifo_are_the_factorys() {
    let tight = RingLimits {
        batches: 1,
        changes: 1,
        ..RingLimits::default()
    };
    for (ring, falls_behind) in [(RingLimits::default(), false), (tight, true)] {
        let (source, mut script) = scripted(pods());
        let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
            .env(Env::seeded(7))
            .ring_limits(ring)
            .fifo_limits(FifoLimits {
                deltas: 1,
                bytes: 1,
            })
            .build();
        let pods = factory.informer::<Pod>();
        let calls = Arc::new(Semaphore::new(0));
        let allowed = Arc::clone(&calls);
        let handlers = Handlers::new().on_event_async(move |_| {
            let allowed = Arc::clone(&allowed);
            async move { allowed.acquire().await.unwrap().forget() }
        });
        let registration = pods.add_handler(handlers).unwrap();
        factory.start().unwrap();
        let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n1")], 5).await;
        settle().await;
        for version in 6..12 {
            watch.event("MODIFIED", &pod("a", version, "n1"));
            settle().await;
        }
        assert_eq!(names(&pods).len(), 2, "a small queue loses nothing");
        // Two initial adds and their end; the next call, with what was missed, is under way.
        calls.add_permits(3);
        settle().await;
        let is_behind = || registration.times_behind() > 0;
        assert_eq!(is_behind(), falls_behind, "{ring:?}");
        calls.add_permits(100);
        settle().await;
        assert_eq!(is_behind(), falls_behind, "{ring:?}");
        factory.shutdown().await;
    }
}
