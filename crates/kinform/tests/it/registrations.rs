//! Registrations: who is removed when, by whom, and what a callback that fails costs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::{Handlers, Index, Notification, Registration, Target, Transform};
use tokio::time::Instant;

use crate::fixture::{Heard, factory, first_list, names, pod, settle};

const SECOND: Duration = Duration::from_secs(1);

/// A handler that needs five seconds for each object.
fn slow(heard: &Heard) -> Handlers<Pod> {
    let heard = heard.clone();
    Handlers::new().on_event_async(move |notification: Notification<Pod>| {
        let heard = heard.clone();
        async move {
            if let Some(pod) = notification.object() {
                heard.line(format!("begins {}", pod.name()));
                tokio::time::sleep(5 * SECOND).await;
                heard.line(format!("ends {}", pod.name()));
            }
        }
    })
}

/// Lets others run until that is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    let limit = std::time::Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(std::time::Instant::now() < limit, "it never comes");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_the_callback_under_way_and_drops_what_waits() {
    // client-go: TestRemoveEventHandler_SynchronousShutdown, TestShutDownEventHandler_Lifecycles
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    let never_started = pods.add_handler(slow(&heard)).unwrap();
    let start = Instant::now();
    never_started.remove().await;
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing is under way");

    let before = pods.add_handler(slow(&heard)).unwrap();
    factory.start().unwrap();
    let sent = [pod("a", 1, "n1"), pod("b", 2, "n1")];
    let _watch = first_list(&mut script, &sent, 5).await;
    let after = pods.add_handler(slow(&heard)).unwrap();
    tokio::time::sleep(SECOND).await;
    let start = Instant::now();
    tokio::join!(before.remove(), after.remove());
    assert_eq!(start.elapsed(), 4 * SECOND, "until both callbacks ended");
    let lines = heard.take();
    let begun = lines
        .iter()
        .filter(|line| line.starts_with("begins"))
        .count();
    let ended = lines.iter().filter(|line| line.starts_with("ends")).count();
    assert_eq!((begun, ended), (2, 2), "{lines:?}");
    tokio::time::sleep(20 * SECOND).await;
    assert!(heard.take().is_empty(), "nothing is told after the removal");
    assert_eq!(pods.stats().handlers, 0);
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_removal_need_not_wait_even_for_a_callback_that_panics_later() {
    // client-go: TestRemoveEventHandler_AsynchronousPanic, TestRemoveWhileActive
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let panicking = pods
        .add_handler(Handlers::new().on_event_async(|_| async {
            tokio::time::sleep(5 * SECOND).await;
            panic!("this panic is part of the test");
        }))
        .unwrap();
    let other = Heard::default();
    pods.add_handler(other.handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    panicking.cancel();
    panicking.cancel();
    assert!(!panicking.is_ended(), "the callback is under way");
    watch.event("ADDED", &pod("b", 6, "n1"));
    tokio::time::sleep(6 * SECOND).await;
    assert!(panicking.is_ended());
    assert_eq!(
        (panicking.panics(), panicking.heard()),
        (1, 1),
        "b is not told"
    );
    assert_eq!(other.take(), ["initial a@1", "synced", "add b@6"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_handlers_twice_are_two_registrations_and_each_is_removed_once() {
    // client-go: TestSharedInformerMultipleRegistration, TestSharedInformerRemoveHandler,
    // TestRemovingRemovedSharedInformer, TestRemoveOnStoppedSharedInformer
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    let first = pods.add_handler(heard.handlers()).unwrap();
    let second = pods.add_handler(heard.handlers()).unwrap();
    assert_ne!(first.name(), second.name());
    assert_eq!(pods.stats().handlers, 2);
    factory.start().unwrap();
    let watch = first_list(&mut script, &[], 5).await;
    settle().await;
    assert_eq!(heard.take(), ["synced", "synced"]);
    first.cancel();
    first.cancel();
    first.remove().await;
    assert_eq!(pods.stats().handlers, 1);
    watch.event("ADDED", &pod("a", 6, "n1"));
    settle().await;
    assert_eq!(heard.take(), ["add a@6"], "the other is another");
    factory.shutdown().await;
    second.cancel();
    second.remove().await;
    assert!(heard.take().is_empty());
    // client-go: TestAddOnStoppedSharedInformer
    let late = pods.add_handler(heard.handlers()).unwrap_err();
    assert!(late.is_stopped());
    assert_eq!(late.to_string(), "the informer of pods is stopped");
    assert!(pods.add_index(Index::owner()).unwrap_err().is_stopped());
    assert!(pods.changes().unwrap_err().is_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_removal_inside_its_own_callback_returns_and_that_call_is_the_last() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    for drains in [false, true] {
        let heard = Heard::default();
        let own: Arc<Mutex<Option<Registration>>> = Arc::default();
        let (told, slot) = (heard.clone(), Arc::clone(&own));
        let handlers = Handlers::new().on_event_async(move |notification: Notification<Pod>| {
            let (told, slot) = (told.clone(), Arc::clone(&slot));
            async move {
                let Some(name) = notification.object().map(|pod| pod.name().to_owned()) else {
                    return;
                };
                told.line(format!("begins {name}"));
                let own = slot.lock().unwrap().take();
                match own {
                    Some(own) if drains => own.drain().await,
                    Some(own) => own.remove().await,
                    None => {}
                }
                told.line(format!("ends {name}"));
            }
        });
        *own.lock().unwrap() = Some(pods.add_handler(handlers).unwrap());
        if !drains {
            factory.start().unwrap();
            let sent = [pod("a", 1, "n1"), pod("b", 2, "n1")];
            // Dropped at the end of the test's task: the watch goes on.
            std::mem::forget(first_list(&mut script, &sent, 5).await);
        }
        settle().await;
        let lines = heard.take();
        assert_eq!(lines.len(), if drains { 4 } else { 2 }, "{lines:?}");
        assert_eq!(pods.stats().handlers, 0);
    }
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

#[tokio::test]
async fn a_removal_inside_a_blocking_callback_returns_too() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let own: Arc<Mutex<Option<Registration>>> = Arc::default();
    let (slot, calls) = (Arc::clone(&own), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&calls);
    let runtime = tokio::runtime::Handle::current();
    let handlers = Handlers::new().blocking().on_add(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        if let Some(own) = slot.lock().unwrap().take() {
            runtime.block_on(own.remove());
        }
    });
    *own.lock().unwrap() = Some(pods.add_handler(handlers).unwrap());
    factory.start().unwrap();
    let sent = [pod("a", 1, "n1"), pod("b", 2, "n1")];
    let _watch = first_list(&mut script, &sent, 5).await;
    until(|| pods.stats().handlers == 0).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    factory.shutdown().await;
}

/// Handlers that check each call against the earlier ones: a contradiction is a panic, which the
/// registration counts.
fn checking(wrong: &Arc<AtomicUsize>) -> Handlers<Pod> {
    let known = Arc::new(Mutex::new(std::collections::HashMap::new()));
    let [adds, updates, deletes] = [(); 3].map(|()| (Arc::clone(&known), Arc::clone(wrong)));
    let check = |wrong: &AtomicUsize, holds: bool| {
        wrong.fetch_add(usize::from(!holds), Ordering::Relaxed);
    };
    Handlers::new()
        .on_add(move |pod| {
            let before = adds
                .0
                .lock()
                .unwrap()
                .insert(pod.key(), pod.resource_version().to_owned());
            check(&adds.1, before.is_none());
        })
        .on_update(move |old, new| {
            let version = new.resource_version().to_owned();
            let before = updates.0.lock().unwrap().insert(new.key(), version);
            check(
                &updates.1,
                before.as_deref() == Some(old.resource_version()),
            );
        })
        .on_delete(move |pod| {
            check(
                &deletes.1,
                deletes.0.lock().unwrap().remove(&pod.key()).is_some(),
            );
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_tasks_add_and_remove_handlers_under_load() {
    // client-go: TestSharedInformerHandlerAbuse, TestSharedInformerInitializationRace,
    // TestSharedInformerStartRace
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let (wrong, is_over) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let stays = pods.add_handler(checking(&wrong)).unwrap();
    let abuser = |number: usize| {
        let (pods, wrong, is_over) = (pods.clone(), Arc::clone(&wrong), Arc::clone(&is_over));
        async move {
            let mut rounds = 0;
            while !is_over.load(Ordering::Relaxed) || rounds == 0 {
                let registration = pods.add_handler(checking(&wrong)).unwrap();
                if (number + rounds).is_multiple_of(3) {
                    registration.synced().await;
                }
                match (number + rounds) % 4 {
                    0 => registration.cancel(),
                    1 => registration.drain().await,
                    _ => registration.remove().await,
                }
                tokio::task::yield_now().await;
                rounds += 1;
            }
        }
    };
    let abusers: Vec<_> = (0..100)
        .map(|number| tokio::spawn(abuser(number)))
        .collect();
    factory.start().unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("p0", 1, "n1")], 5).await;
    for version in 6..306 {
        let name = format!("p{}", version % 20);
        let kind = match (version / 20) % 3 {
            0 => "ADDED",
            1 => "MODIFIED",
            _ => "DELETED",
        };
        watch.event(kind, &pod(&name, version, "n1"));
        if version % 20 == 0 {
            tokio::task::yield_now().await;
        }
    }
    // What was applied before the handler looked is heard as one: its count says nothing.
    until(|| pods.snapshot().versions().next() == Some("305")).await;
    is_over.store(true, Ordering::Relaxed);
    for abuser in abusers {
        abuser.await.unwrap();
    }
    factory.shutdown().await;
    assert_eq!(
        wrong.load(Ordering::Relaxed),
        0,
        "what a handler hears fits together"
    );
    assert_eq!(stays.panics(), 0);
    assert_eq!(factory.task_count(), 0);
}

/// Handlers of which one callback panics over an object named `bad`.
fn fragile(kind: &str, heard: &Heard) -> Handlers<Pod> {
    let bad = |pod: &kinform::Obj<Pod>| assert_ne!(pod.name(), "bad", "part of the test");
    let handlers = heard.handlers();
    match kind {
        "filter" => handlers.filtered(move |pod| {
            bad(pod);
            true
        }),
        "add" => handlers.on_add(move |pod| bad(pod)),
        "update" => handlers.on_update(move |pod, _| bad(pod)),
        "delete" => handlers.on_delete(move |pod| bad(pod)),
        "resync" => handlers
            .on_resync(move |pod| bad(pod))
            .resync_period(SECOND),
        "synced" => handlers.on_synced(|| panic!("part of the test")),
        "call" => Handlers::new().on_event_async(move |told: Notification<Pod>| {
            told.object().map(bad);
            std::future::ready(())
        }),
        _ => Handlers::new().on_event_async(move |told: Notification<Pod>| async move {
            told.object().map(bad);
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_any_callback_touches_that_item_only_and_synced_still_comes() {
    // client-go: TestEventPanics
    for kind in [
        "add", "update", "delete", "resync", "synced", "filter", "call", "future",
    ] {
        let (factory, mut script) = factory();
        let pods = factory.informer::<Pod>();
        let (heard, other) = (Heard::default(), Heard::default());
        let registration = pods.add_handler(fragile(kind, &heard)).unwrap();
        pods.add_handler(other.handlers()).unwrap();
        factory.start().unwrap();
        let watch = first_list(&mut script, &[pod("bad", 1, "n1"), pod("good", 2, "n1")], 5).await;
        assert!(registration.synced().await, "{kind}");
        tokio::time::sleep(2 * SECOND).await;
        watch.event("MODIFIED", &pod("bad", 6, "n1"));
        watch.event("DELETED", &pod("bad", 7, "n1"));
        watch.event("ADDED", &pod("last", 8, "n1"));
        settle().await;
        assert!(registration.panics() > 0, "{kind}");
        assert_eq!(pods.stats().handler_panics, registration.panics(), "{kind}");
        let (mine, theirs) = (registration.heard(), other.take());
        assert!(mine >= 5, "{kind}: the last object is told, too");
        assert_eq!(theirs.last().unwrap(), "add last@8", "{kind}");
        assert_eq!(names(&pods), ["good", "last"], "{kind}");
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_index_or_a_transform_touches_that_object_only() {
    let (factory, mut script) = factory();
    let transform = Transform::typed(|pod: Pod| {
        assert_ne!(
            pod.metadata.name.as_deref(),
            Some("odd"),
            "part of the test"
        );
        pod
    });
    let pods = factory
        .select(Target::<Pod>::new())
        .transform(transform)
        .build();
    let by = pods
        .add_index(Index::by("name", |pod: &Pod| {
            let name = pod.metadata.name.clone().unwrap();
            assert_ne!(name, "bad", "part of the test");
            [name]
        }))
        .unwrap();
    factory.start().unwrap();
    let sent = [
        pod("bad", 1, "n1"),
        pod("good", 2, "n1"),
        pod("odd", 3, "n1"),
    ];
    let watch = first_list(&mut script, &sent, 5).await;
    pods.synced().await.unwrap();
    assert_eq!(names(&pods), ["bad", "good"]);
    assert_eq!((by.get("bad").len(), by.get("good").len()), (0, 1));
    assert_eq!((pods.stats().unindexed, pods.stats().quarantined), (1, 1));
    watch.event("ADDED", &pod("last", 6, "n1"));
    settle().await;
    assert_eq!(by.get("last").len(), 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_handler_tells_how_long_its_changes_took() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    pods.add_handler(slow(&heard).named("slow")).unwrap();
    pods.add_handler(heard.handlers().named("quick")).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    tokio::time::sleep(10 * SECOND).await;
    for version in 6..9 {
        watch.event("MODIFIED", &pod("a", version, "n1"));
        settle().await;
    }
    tokio::time::sleep(20 * SECOND).await;
    let mut told = pods.handlers();
    told.sort_by(|a, b| a.name.cmp(&b.name));
    let [quick, slow] = &told[..] else {
        panic!("two handlers: {told:?}");
    };
    assert_eq!((&*quick.name, &*slow.name), ("quick", "slow"));
    assert_eq!((quick.heard, slow.heard), (4, 4));
    assert!(quick.has_synced && slow.has_synced);
    // Samples: the quick one is done at once each time; the slow one was still at work.
    assert_eq!(quick.latency.count(), 3);
    assert!(quick.latency.max() < SECOND / 10);
    assert!(slow.latency.max() >= 5 * SECOND, "{:?}", slow.latency);
    assert!(slow.latency.max() <= 15 * SECOND, "{:?}", slow.latency);
    let age = pods.stats().watch_age.unwrap();
    assert!(age >= 30 * SECOND, "{age:?}");
    factory.shutdown().await;
}
