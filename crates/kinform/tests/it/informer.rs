//! One informer against a script: sync, handlers, restarts, refusals, the end.

use kube_core::DynamicObject;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinform::source::{SourceError, SourceErrorKind};
use kinform::{Handlers, Index, InformerState, Notification, ReportEvent};

use crate::fixture::{Heard, factory, first_list, names, pod, settle};

#[tokio::test(start_paused = true)]
async fn a_cache_is_synced_and_typed() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    assert_eq!(pods.state(), InformerState::Pending);
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n2")], 5).await;
    factory.synced_within(Duration::from_secs(1)).await.unwrap();
    assert_eq!(names(&pods), ["a", "b"]);
    let lister = pods.lister().namespace("default");
    let a = lister.get("a").unwrap();
    assert_eq!(
        a.typed()
            .unwrap()
            .spec
            .as_ref()
            .unwrap()
            .node_name
            .as_deref(),
        Some("n1")
    );
    let missing = lister.get("c").unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert_eq!(missing.to_string(), "pods \"c\" not found");
    assert_eq!(
        pods.state(),
        InformerState::Synced {
            version: "5".into()
        }
    );
    assert_eq!(pods.stats().objects, 2);
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
    assert_eq!(pods.state(), InformerState::Stopped);
    assert_eq!(names(&pods), ["a", "b"], "a cache stays readable");
}

#[tokio::test(start_paused = true)]
async fn handlers_hear_initial_adds_then_every_change() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    let registration = pods.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    assert!(registration.synced().await);
    assert_eq!(heard.take(), ["initial a@1", "synced"]);
    watch.event("ADDED", &pod("b", 6, "n1"));
    watch.event("MODIFIED", &pod("a", 7, "n2"));
    watch.event("DELETED", &pod("b", 8, "n1"));
    settle().await;
    assert_eq!(heard.take(), ["add b@6", "update a@1 a@7", "delete b@8"]);
    assert_eq!(registration.heard(), 4);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn late_handler_hears_every_stored_object() {
    // client-go: TestAddWhileActive
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    watch.event("ADDED", &pod("b", 6, "n1"));
    settle().await;
    let heard = Heard::default();
    let registration = pods.add_handler(heard.handlers()).unwrap();
    registration.synced().await;
    watch.event("DELETED", &pod("a", 7, "n1"));
    settle().await;
    assert_eq!(
        heard.take(),
        ["initial a@1", "initial b@6", "synced", "delete a@7"]
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_hears_nothing_more() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[], 5).await;
    let (heard, other) = (Heard::default(), Heard::default());
    let removed = pods.add_handler(heard.handlers()).unwrap();
    pods.add_handler(other.handlers()).unwrap();
    settle().await;
    let tasks = factory.task_count();
    removed.remove().await;
    watch.event("ADDED", &pod("a", 6, "n1"));
    settle().await;
    assert_eq!(heard.take(), ["synced"]);
    assert_eq!(other.take(), ["synced", "add a@6"]);
    assert_eq!(factory.task_count(), tasks - 1);
    assert_eq!(pods.stats().handlers, 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_notification() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let mut reports = pods.reports();
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let registration = pods
        .add_handler(Handlers::new().named("fragile").on_add(move |pod| {
            count.fetch_add(1, Ordering::Relaxed);
            assert_ne!(pod.name(), "b", "this panic is part of the test");
        }))
        .unwrap();
    factory.start().unwrap();
    let pods_sent = [pod("a", 1, "n1"), pod("b", 2, "n1"), pod("c", 3, "n1")];
    let _watch = first_list(&mut script, &pods_sent, 5).await;
    assert!(registration.synced().await, "a panic counts as delivered");
    assert_eq!(heard.load(Ordering::Relaxed), 3);
    assert_eq!(registration.panics(), 1);
    let panicked = loop {
        if let ReportEvent::HandlerPanicked { handler, key } = reports.next().await.unwrap().event {
            break (handler, key.unwrap().to_string());
        }
    };
    assert_eq!(panicked, ("fragile".to_owned(), "default/b".to_owned()));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn resync_tells_everything_again_without_a_list() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let (heard, quiet) = (Heard::default(), Heard::default());
    pods.add_handler(heard.handlers().resync_period(Duration::from_secs(20)))
        .unwrap();
    pods.add_handler(quiet.handlers()).unwrap();
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    heard.take();
    quiet.take();
    tokio::time::sleep(Duration::from_secs(22)).await;
    assert_eq!(heard.take(), ["update a@1 a@1"]);
    assert!(quiet.take().is_empty());
    assert!(script.is_quiet());
    factory.shutdown().await;
}

// fault: F2
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_stopped() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    pods.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    watch.event("ADDED", &pod("b", 6, "n1"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    watch.end();
    let (options, ask) = script.next_watch().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "6");
    assert_eq!(options.send_initial_events, None);
    let watch = ask.stream();
    watch.event("DELETED", &pod("a", 7, "n1"));
    settle().await;
    assert_eq!(
        heard.take(),
        ["initial a@1", "synced", "add b@6", "delete a@7"]
    );
    assert_eq!(pods.stats().relists, 0);
    assert_eq!(pods.stats().reopens, 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn expired_history_is_listed_again_and_heard_as_differences() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    pods.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    let sent = [pod("a", 1, "n1"), pod("b", 2, "n1"), pod("c", 3, "n1")];
    let watch = first_list(&mut script, &sent, 5).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    heard.take();
    watch.event(
        "ERROR",
        &serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
            "message": "too old resource version", "code": 410,
        }),
    );
    let _watch = first_list(
        &mut script,
        &[pod("a", 1, "n1"), pod("b", 9, "n1"), pod("d", 10, "n1")],
        11,
    )
    .await;
    settle().await;
    let mut lines = heard.take();
    lines.sort_unstable();
    assert_eq!(lines, ["add d@10", "lost c@3", "update b@2 b@9"]);
    assert_eq!(names(&pods), ["a", "b", "d"]);
    assert_eq!(pods.stats().relists, 1);
    factory.shutdown().await;
}

// fault: F14
#[tokio::test(start_paused = true)]
async fn forbidden_is_a_state_that_heals() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let refuse = async {
        loop {
            let ask = script.next().await;
            ask.refuse_status(403, "Forbidden", "pods is forbidden: no");
        }
    };
    let late = tokio::select! {
        biased;
        () = refuse => unreachable!("it refuses for ever"),
        late = factory.synced_within(Duration::from_secs(60)) => late.unwrap_err(),
    };
    assert!(late.is_timeout());
    assert!(late.to_string().contains("pods: forbidden: "), "{late}");
    assert!(late.to_string().contains("pods is forbidden: no"), "{late}");
    let InformerState::Forbidden(trouble) = pods.state() else {
        panic!("{:?}", pods.state());
    };
    assert_eq!(trouble.reason, "Forbidden");
    assert!(trouble.retry_in.is_some());
    // Access is granted: the next attempt syncs.
    loop {
        let ask = script.next().await;
        match ask.request() {
            kinform_testkit::Request::Watch(_) => {
                let watch = ask.stream();
                watch.event("ADDED", &pod("a", 1, "n1"));
                watch.initial_events_end("Pod", "5");
                pods.synced().await.unwrap();
                break factory.shutdown().await;
            }
            kinform_testkit::Request::List(_) => {
                ask.refuse_status(403, "Forbidden", "not yet");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_a_listing_with_its_trouble() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let refused = || SourceError::new(SourceErrorKind::Refused, "connection refused");
    script.next().await.refuse(refused());
    let state = pods.state_when(|state| state.trouble().is_some()).await;
    assert!(matches!(state, InformerState::Listing { .. }), "{state}");
    assert_eq!(state.trouble().unwrap().reason, "ConnectionRefused");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn indexes_are_kept_and_can_come_late() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let by_node = pods.add_index(Index::path("spec.nodeName")).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n2")], 5).await;
    pods.synced().await.unwrap();
    assert_eq!(by_node.get("n1").len(), 1);
    let by_image = pods
        .add_index(Index::by("image", |pod: &Pod| {
            let spec = pod.spec.iter();
            let images = spec
                .flat_map(|spec| &spec.containers)
                .filter_map(|c| c.image.clone());
            images.collect::<Vec<_>>()
        }))
        .unwrap();
    assert_eq!(by_image.get("i").len(), 2, "readable before it is built");
    watch.event("MODIFIED", &pod("b", 6, "n1"));
    settle().await;
    assert_eq!(by_node.get("n1").keys().len(), 2);
    assert_eq!(by_image.get("i").typed().count(), 2);
    let values = by_node.values();
    assert_eq!(values.len(), 1);
    assert_eq!(values[&b"n1"[..]], 2);
    // The same again is the same; another of that name is not.
    assert!(pods.add_index(Index::path("spec.nodeName")).is_ok());
    let conflict = pods
        .add_index(Index::label("app").named("spec.nodeName"))
        .unwrap_err();
    assert!(conflict.is_name_taken(), "{conflict}");
    let invalid = pods.add_index(Index::path("spec.nodeNam")).unwrap_err();
    assert!(invalid.is_invalid(), "{invalid}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_replays_then_follows_then_ends() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    let mut changes = pods.changes().unwrap();
    let first = changes.next().await.unwrap();
    assert!(matches!(&first, Notification::Added(pod) if pod.is_initial() && pod.name() == "a"));
    assert!(matches!(
        changes.next().await.unwrap(),
        Notification::Synced
    ));
    watch.event("DELETED", &pod("a", 7, "n1"));
    let gone = changes.next().await.unwrap();
    assert!(matches!(&gone, Notification::Deleted(deleted) if !deleted.is_final_state_unknown()));
    factory.shutdown().await;
    assert!(changes.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_same_asked_for_twice_is_one_watch() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let again = factory
        .select::<DynamicObject>(crate::fixture::pods())
        .build();
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    pods.synced().await.unwrap();
    assert_eq!(again.list().len(), 1);
    let object = again.list().iter().next().unwrap().typed().unwrap();
    assert_eq!(object.data["spec"]["nodeName"], "n1");
    assert!(script.is_quiet());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_set_apart() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let broken = serde_json::json!({ "metadata": { "name": 7, "resourceVersion": "2" } });
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), broken], 5).await;
    pods.synced().await.unwrap();
    assert_eq!(names(&pods), ["a"]);
    assert_eq!(pods.stats().quarantined, 1);
    // What fits no Pod is stored; the typed view leaves it out.
    let mut odd = pod("odd", 6, "n1");
    odd["spec"] = serde_json::json!("a string");
    watch.event("ADDED", &odd);
    settle().await;
    assert_eq!(names(&pods), ["a", "odd"]);
    assert_eq!(pods.list().typed().count(), 1);
    assert_eq!(pods.stats().undecodable, 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_factory_ends_everything() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let registration = pods.add_handler(Heard::default().handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[], 5).await;
    pods.synced().await.unwrap();
    drop(factory);
    settle().await;
    assert_eq!(pods.state(), InformerState::Stopped);
    assert!(watch.is_given_up());
    assert!(registration.is_ended());
    assert!(
        pods.add_handler(Heard::default().handlers())
            .unwrap_err()
            .is_stopped()
    );
}
