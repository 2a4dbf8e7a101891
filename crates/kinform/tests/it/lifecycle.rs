//! Starting, waiting, stopping, resyncing: what holds over the whole life of an informer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use kinform::env::Env;
use kinform::source::{SourceError, SourceErrorKind};
use kinform::{Handlers, InformerFactory, InformerState, Lifetime, ReportEvent, Target, Transform};
use kinform_testkit::{Request, Script, scripted};

use crate::fixture::{Heard, factory, first_list, names, pod, settle};

const SECOND: Duration = Duration::from_secs(1);

/// A factory with a script for each watch, by its description.
fn factory_of_many() -> (InformerFactory, impl FnMut(&str) -> Script) {
    let scripts: Arc<Mutex<HashMap<String, Script>>> = Arc::default();
    let made = Arc::clone(&scripts);
    let factory = InformerFactory::with_sources(move |info, _| {
        let name = info.to_string();
        let (source, script) = scripted(info);
        let before = made.lock().unwrap().insert(name, script);
        assert!(before.is_none(), "one source for what is the same");
        source
    })
    .env(Env::seeded(7))
    .build();
    let take = move |name: &str| {
        scripts
            .lock()
            .unwrap()
            .remove(name)
            .expect("it was asked for")
    };
    (factory, take)
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_names_who_is_late_and_why() {
    // client-go: TestWaitFor, TestSyncResult
    let (factory, mut script_of) = factory_of_many();
    let pods = factory.informer::<Pod>();
    factory.informer::<Secret>();
    factory.informer::<Service>();
    let nodes = factory.informer::<Node>();
    factory.start().unwrap();
    let _never_started = factory.informer::<ConfigMap>();
    let _watch = first_list(&mut script_of("pods"), &[], 5).await;
    let answers = [
        ("secrets", Some((403, "Forbidden", "secrets is forbidden"))),
        ("services", Some((404, "NotFound", "404 page not found"))),
        ("nodes", None),
    ];
    for (name, answer) in answers {
        let mut script = script_of(name);
        tokio::spawn(async move {
            loop {
                let ask = script.next().await;
                match answer {
                    Some((code, reason, message)) => ask.refuse_status(code, reason, message),
                    None => {
                        let refused = SourceErrorKind::Refused;
                        ask.refuse(SourceError::new(refused, "connection refused"));
                    }
                }
            }
        });
    }
    let start = tokio::time::Instant::now();
    let late = factory.synced_within(20 * SECOND).await.unwrap_err();
    assert_eq!(start.elapsed(), 20 * SECOND);
    assert!(late.is_timeout());
    let told = late.to_string();
    assert!(
        told.starts_with("4 of 5 informers are not synced after 20s: "),
        "{told}"
    );
    for part in [
        "configmaps: not started",
        "secrets: forbidden: ",
        "services: no such kind: ",
        "nodes: cannot list: ",
        "connection refused",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("pods"), "{told}");
    assert!(pods.synced_within(SECOND).await.is_ok());
    let late = nodes.synced_within(SECOND).await.unwrap_err();
    assert!(late.is_timeout());
    let told = late.to_string();
    assert!(
        told.starts_with("nodes: not synced after 1s: cannot list: "),
        "{told}"
    );
    factory.shutdown().await;
    let stopped = nodes.synced_within(SECOND).await.unwrap_err();
    assert!(stopped.is_stopped());
    assert!(
        factory
            .synced_within(SECOND)
            .await
            .unwrap_err()
            .is_stopped()
    );
}

#[tokio::test(start_paused = true)]
async fn states_are_read_at_any_time_and_come_as_a_stream() {
    // client-go: TestStateSharedInformer, TestSharedInformerErrorHandling
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let reports = pods.reports();
    assert_eq!(pods.state(), InformerState::Pending);
    factory.start().unwrap();
    let (_, ask) = script.next_watch().await;
    ask.refuse_status(403, "Forbidden", "no streaming");
    let (_, ask) = script.next_list().await;
    ask.refuse_status(403, "Forbidden", "no listing either");
    settle().await;
    assert!(
        matches!(pods.state(), InformerState::Forbidden(_)),
        "{}",
        pods.state()
    );
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    assert_eq!(
        pods.state(),
        InformerState::Synced {
            version: "5".into()
        }
    );
    watch.cut();
    let (_, ask) = script.next_list().await;
    ask.refuse(SourceError::new(SourceErrorKind::Refused, "nobody there"));
    settle().await;
    assert!(
        matches!(pods.state(), InformerState::Stale { .. }),
        "{}",
        pods.state()
    );
    factory.shutdown().await;
    assert_eq!(pods.state(), InformerState::Stopped);
    drop((pods, factory));
    let told: Vec<_> = reports
        .filter_map(|report| {
            std::future::ready(match report.event {
                ReportEvent::State(state) => Some(match state {
                    InformerState::Listing { .. } => "listing".to_owned(),
                    InformerState::Forbidden(_) => "forbidden".to_owned(),
                    InformerState::Synced { version } => format!("synced at {version}"),
                    InformerState::Stale { .. } => "stale".to_owned(),
                    other => other.to_string(),
                }),
                ReportEvent::Failed(trouble) => {
                    assert!(trouble.retry_in.is_some());
                    Some(trouble.reason)
                }
                _ => None,
            })
        })
        .collect()
        .await;
    let mut told: Vec<&str> = told.iter().map(String::as_str).collect();
    told.dedup();
    let order = [
        "listing",
        "Forbidden",
        "forbidden",
        "listing",
        "synced at 5",
        "stale",
        "stopped",
    ];
    let mut told_of = told.iter();
    for wanted in order {
        assert!(told_of.any(|line| *line == wanted), "{wanted} in {told:?}");
    }
    assert!(told.contains(&"ConnectionRefused"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_leaves_no_task_and_no_callback_whatever_came_first() {
    // client-go: TestShutdown, TestMain
    for order in ["add start", "start add", "add", "start", ""] {
        let (factory, mut script) = factory();
        let pods = factory.informer::<Pod>();
        let heard = Heard::default();
        let mut watch = None;
        let mut registrations = Vec::new();
        for step in order.split_whitespace() {
            if step == "add" {
                registrations.push(pods.add_handler(heard.handlers()).unwrap());
            } else {
                factory.start().unwrap();
                watch = Some(first_list(&mut script, &[pod("a", 1, "n1")], 5).await);
                settle().await;
            }
        }
        if let Some(watch) = &watch {
            watch.event("ADDED", &pod("b", 6, "n1"));
        }
        factory.shutdown().await;
        assert_eq!(factory.task_count(), 0, "{order:?}");
        heard.take();
        if let Some(watch) = &watch {
            watch.event("ADDED", &pod("c", 7, "n1"));
            assert!(watch.is_given_up(), "{order:?}");
        }
        tokio::time::sleep(60 * SECOND).await;
        assert!(heard.take().is_empty(), "{order:?}");
        assert!(
            registrations
                .iter()
                .all(|registration| registration.is_ended()),
            "{order:?}"
        );
        assert_eq!(pods.state(), InformerState::Stopped, "{order:?}");
        assert!(factory.start().unwrap_err().is_stopped(), "{order:?}");
        assert!(
            pods.synced().await.is_ok() == order.contains("start"),
            "{order:?}"
        );
        // A late caller receives an error, and never hangs.
        let late = factory.informer::<Node>();
        assert_eq!(late.state(), InformerState::Stopped);
        assert!(late.synced().await.unwrap_err().is_stopped());
        assert!(late.add_handler(Handlers::new()).unwrap_err().is_stopped());
    }
}

#[tokio::test(start_paused = true)]
async fn starting_again_starts_only_what_was_asked_for_since() {
    let (factory, mut script_of) = factory_of_many();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let mut of_pods = script_of("pods");
    let _watch = first_list(&mut of_pods, &[], 5).await;
    let nodes = factory.informer::<Node>();
    let mut of_nodes = script_of("nodes");
    settle().await;
    assert!(of_nodes.is_quiet());
    assert_eq!(nodes.state(), InformerState::Pending);
    factory.start().unwrap();
    let _nodes = first_list(&mut of_nodes, &[], 5).await;
    factory.synced_within(SECOND).await.unwrap();
    assert!(of_pods.is_quiet(), "what runs is left alone");
    assert!(pods.state().is_synced());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn another_selector_is_another_watch_and_the_same_is_the_same() {
    // client-go: TestFilteredDynamicSharedInformerFactory
    let (factory, mut script_of) = factory_of_many();
    let web = || {
        factory
            .select(Target::<Pod>::new())
            .namespaces(["default"])
            .labels("app=web")
    };
    let (one, same) = (web().build(), web().build());
    let other = factory
        .select(Target::<Pod>::new())
        .namespaces(["default"])
        .fields("spec.nodeName=n1")
        .build();
    let all = factory.informer::<Pod>();
    assert_eq!(factory.informers().len(), 3);
    factory.start().unwrap();
    let mut lists = Vec::new();
    for (name, found) in [
        (
            "pods in namespace \"default\" with labels app=web",
            vec![pod("w", 1, "n2")],
        ),
        (
            "pods in namespace \"default\" with fields spec.nodeName=n1",
            vec![pod("f", 2, "n1")],
        ),
        ("pods", vec![pod("w", 1, "n2"), pod("f", 2, "n1")]),
    ] {
        let mut script = script_of(name);
        lists.push((first_list(&mut script, &found, 5).await, script));
    }
    factory.synced_within(SECOND).await.unwrap();
    assert_eq!(
        (names(&one), names(&same)),
        (vec!["w".into()], vec!["w".into()])
    );
    assert_eq!((names(&other), all.list().len()), (vec!["f".into()], 2));
    assert_eq!(one.resource().label_selector.as_deref(), Some("app=web"));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_at_its_own_period() {
    // client-go: TestListenerResyncPeriods, TestListenerResyncPeriodsDelayed, TestResyncCheckPeriod
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let [two, three, never, tiny, late] = [(); 5].map(|()| Heard::default());
    let add = |heard: &Heard, period: Option<Duration>| {
        let handlers = heard.handlers();
        let handlers = match period {
            Some(period) => handlers.resync_period(period),
            None => handlers,
        };
        pods.add_handler(handlers).unwrap()
    };
    add(&two, Some(2 * SECOND));
    add(&three, Some(3 * SECOND));
    add(&never, None);
    add(&tiny, Some(Duration::from_millis(1)));
    // Long before the start: periods count from there.
    tokio::time::sleep(60 * SECOND).await;
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    tokio::time::sleep(SECOND / 2).await;
    // After the start a handler has its own period, too; upstream raises it to the informer's.
    add(&late, Some(2 * SECOND));
    settle().await;
    drop([&two, &three, &never, &tiny, &late].map(Heard::take));
    let mut resyncs = [0; 5];
    for _ in 0..12 {
        tokio::time::sleep(SECOND).await;
        for (count, heard) in resyncs.iter_mut().zip([&two, &three, &never, &tiny, &late]) {
            let lines = heard.take();
            assert!(
                lines.iter().all(|line| line == "update a@1 a@1"),
                "{lines:?}"
            );
            *count += lines.len();
        }
    }
    assert_eq!(
        resyncs[..4],
        [6, 4, 0, 12],
        "at least a second, whatever was asked for"
    );
    assert!((5..=6).contains(&resyncs[4]), "{resyncs:?}");
    assert!(script.is_quiet(), "a resync asks no server");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_an_object_and_cannot_hide_a_change() {
    // client-go: TestSharedInformerTransformer, TestTransformingInformer, TestTransformingInformerRace
    let (factory, mut script) = factory();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let transform = Transform::typed(move |mut pod: Pod| {
        count.fetch_add(1, Ordering::Relaxed);
        pod.metadata.resource_version = None;
        pod.metadata.labels = Some([("changed".to_owned(), "yes".to_owned())].into());
        pod
    });
    let pods = factory
        .select(Target::<Pod>::new())
        .transform(transform)
        .build();
    let (plain, resynced, labels) = (Heard::default(), Heard::default(), Heard::default());
    pods.add_handler(plain.handlers()).unwrap();
    pods.add_handler(resynced.handlers().resync_period(SECOND))
        .unwrap();
    let told = labels.clone();
    let label = move |pod: &kinform::Added<Pod>| {
        told.line(pod.label("changed").unwrap_or_default().into_owned());
    };
    pods.add_handler(Handlers::new().on_add(label)).unwrap();
    factory.start().unwrap();
    let sent = [pod("a", 1, "n1"), pod("b", 2, "n1"), pod("c", 3, "n1")];
    let watch = first_list(&mut script, &sent, 5).await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(
        calls.load(Ordering::Relaxed),
        3,
        "also in a streaming list, and not by resyncs"
    );
    assert_eq!(labels.take(), ["yes"; 3]);
    plain.take();
    // The same content at another version is a change, the same version again is none.
    watch.event("MODIFIED", &pod("a", 6, "n1"));
    watch.event("MODIFIED", &pod("a", 6, "n1"));
    settle().await;
    assert_eq!(plain.take(), ["update a@1 a@6"]);
    factory.shutdown().await;
}

// fault: F3
#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_reopened_at_its_version_without_a_list() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    watch.bookmark("Pod", "9");
    settle().await;
    let heard_last = tokio::time::Instant::now();
    // One small question first: has the server gone back?
    let (options, ask) = script.next_list().await;
    let quiet = heard_last.elapsed();
    assert!((89 * SECOND..=91 * SECOND).contains(&quiet), "{quiet:?}");
    assert_eq!(options.limit, Some(1));
    assert!(watch.is_given_up());
    ask.reply(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}"#,
    );
    let (options, ask) = script.next_watch().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "9");
    assert_eq!(options.send_initial_events, None);
    let _watch = ask.stream();
    settle().await;
    let stats = pods.stats();
    assert_eq!((stats.silences, stats.reopens, stats.relists), (1, 1, 0));
    assert!(pods.state().is_synced());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_last_of_those_that_hold_it() {
    let (factory, mut script_of) = factory_of_many();
    let select = || {
        factory
            .select(Target::<Pod>::new())
            .lifetime(Lifetime::WhileUsed)
            .build()
    };
    let holders = [select(), select(), select()];
    let mut held: Vec<_> = holders.iter().map(|pods| pods.changes().unwrap()).collect();
    let registration = holders[0].add_handler(Handlers::new()).unwrap();
    factory.start().unwrap();
    let mut script = script_of("pods");
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    for stream in &mut held {
        stream.next().await.unwrap();
    }
    held.truncate(1);
    registration.remove().await;
    settle().await;
    assert!(holders[2].state().is_synced(), "one stream still holds it");
    assert!(!watch.is_given_up());
    drop(held);
    settle().await;
    assert!(watch.is_given_up());
    assert!(holders.iter().all(|pods| pods.state().is_stopped()));
    assert!(holders[1].changes().unwrap_err().is_stopped());
    let again = select();
    let mut changes = again.changes().unwrap();
    factory.start().unwrap();
    let mut script = script_of("pods");
    let _watch = first_list(&mut script, &[pod("b", 6, "n1")], 7).await;
    assert_eq!(changes.next().await.unwrap().object().unwrap().name(), "b");
    assert_eq!(names(&again), ["b"]);
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_asked_for_finds_what_a_watch_lost() {
    // client-go: TestSharedInformerWatchDisruption
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let (heard, resynced) = (Heard::default(), Heard::default());
    pods.add_handler(heard.handlers()).unwrap();
    pods.add_handler(resynced.handlers().resync_period(100 * SECOND))
        .unwrap();
    factory.start().unwrap();
    let sent = [pod("a", 1, "n1"), pod("b", 2, "n1"), pod("c", 3, "n1")];
    let _watch = first_list(&mut script, &sent, 5).await;
    settle().await;
    heard.take();
    resynced.take();
    tokio::time::sleep(10 * SECOND).await;
    pods.relist();
    let now = [pod("a", 1, "n1"), pod("b", 7, "n1"), pod("d", 8, "n1")];
    loop {
        let ask = script.next().await;
        if let Request::Watch(options) = ask.request()
            && options.send_initial_events == Some(true)
        {
            let watch = ask.stream();
            now.iter().for_each(|pod| watch.event("ADDED", pod));
            watch.initial_events_end("Pod", "9");
            settle().await;
            break std::mem::forget(watch);
        }
    }
    let mut lines = heard.take();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["add d@8", "lost c@3", "update b@2 b@7"],
        "a did not change"
    );
    let mut lines = resynced.take();
    lines.sort_unstable();
    assert_eq!(lines, ["add d@8", "lost c@3", "update b@2 b@7"]);
    factory.shutdown().await;
}
