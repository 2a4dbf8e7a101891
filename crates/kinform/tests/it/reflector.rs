//! Reflectors inside of informers: their inputs, their memory, their end.

use kube_core::DynamicObject;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinform::env::Env;
use kinform::source::ResourceInfo;
use kinform::{
    BackoffPolicy, Informer, InformerFactory, InformerState, ReflectorOptions, ReportEvent,
    StreamingList, Target, Transform,
};
use kinform_testkit::{Request, Script, scripted};
use serde_json::json;

use crate::fixture::{Heard, factory, first_list, names, pod, settle};

const SECOND: Duration = Duration::from_secs(1);

/// Scripts of the sources that a factory made, in order.
pub(crate) type Scripts = Arc<Mutex<Vec<(ResourceInfo, Script)>>>;

/// A factory whose sources are scripts, one for each watch.
pub(crate) fn scripted_factory(config: ReflectorOptions) -> (InformerFactory, Scripts) {
    let scripts = Scripts::default();
    let made = Arc::clone(&scripts);
    let factory = InformerFactory::with_sources(move |info, _| {
        let (source, script) = scripted(info.clone());
        made.lock().unwrap().push((info, script));
        source
    });
    let factory = factory.env(Env::seeded(7)).reflector(config).build();
    (factory, scripts)
}

/// The script of the source that was made last.
pub(crate) fn newest(scripts: &Scripts) -> (ResourceInfo, Script) {
    scripts.lock().unwrap().pop().expect("a source was made")
}

/// A started informer of the pods of one namespace.
pub(crate) fn in_namespace(factory: &InformerFactory, namespace: &str) -> Informer<Pod> {
    let informer = factory
        .select(Target::<Pod>::new())
        .namespaces([namespace])
        .build();
    factory.start().unwrap();
    informer
}

fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": "no", "code": code,
    })
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_stalled_is_remembered_for_the_next_informer() {
    let (factory, scripts) = scripted_factory(ReflectorOptions::default());
    let _first = in_namespace(&factory, "a");
    let (_, mut script) = newest(&scripts);
    let (options, stalled) = script.next_watch().await;
    assert_eq!(options.send_initial_events, Some(true));
    // The server never answers: after 30 s it is asked for pages.
    let (_, pages) = script.next_list().await;
    assert!(stalled.is_given_up());
    drop(pages);
    let _second = in_namespace(&factory, "b");
    newest(&scripts).1.next_list().await;
    tokio::time::sleep(Duration::from_secs(601)).await;
    let _third = in_namespace(&factory, "c");
    newest(&scripts).1.next_watch().await;
    // What another resource does here is not known.
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_may_have_reflector_options_of_its_own() {
    let (factory, scripts) = scripted_factory(ReflectorOptions::default());
    let own = ReflectorOptions::new()
        .with_streaming_list(StreamingList::Never)
        .with_page_size(7)
        .with_backoff(BackoffPolicy {
            first: Duration::from_millis(10),
            jitter_factor: 0.0,
            ..BackoffPolicy::default()
        });
    let build = || {
        factory
            .select(Target::<Pod>::new())
            .reflector(own.clone())
            .build()
    };
    let (first, again) = (build(), build());
    let (_, mut script) = newest(&scripts);
    assert!(
        scripts.lock().unwrap().is_empty(),
        "equal options: one watch"
    );
    let _plain = factory.informer::<Pod>();
    let (_, mut plain) = newest(&scripts);
    factory.start().unwrap();
    let (options, ask) = script.next_list().await;
    assert_eq!(options.limit, Some(7));
    let failed_at = tokio::time::Instant::now();
    ask.refuse_status(500, "InternalError", "no");
    let (_, ask) = script.next_list().await;
    assert_eq!(failed_at.elapsed().as_millis(), 10);
    ask.reply(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}"#,
    );
    first.synced().await.unwrap();
    assert!(again.has_synced());
    plain.next_watch().await;
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn every_source_is_asked_with_the_selectors_of_its_informer() {
    let (factory, scripts) = scripted_factory(ReflectorOptions::new());
    let pods = factory
        .select(Target::<Pod>::new())
        .labels("app=web")
        .fields("spec.nodeName=n1");
    let _pods = pods.build();
    factory.start().unwrap();
    let (_, mut script) = newest(&scripts);
    let (options, _ask) = script.next_watch().await;
    assert_eq!(options.label_selector.as_deref(), Some("app=web"));
    assert_eq!(options.field_selector.as_deref(), Some("spec.nodeName=n1"));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_event_closes_its_stream() {
    // client-go: TestCloseWatchChannelOnError
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    pods.synced().await.unwrap();
    watch.event("ERROR", &status(500, "InternalError"));
    watch.event("DELETED", &pod("a", 6, "n1"));
    settle().await;
    assert!(watch.is_given_up());
    assert_eq!(names(&pods), ["a"], "what comes after an error is not read");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_server_cannot_read_is_gone_after_the_list() {
    // client-go: TestReflectorReplacesStoreOnUnsafeDelete
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    pods.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n1")], 5).await;
    pods.synced().await.unwrap();
    watch.event("ERROR", &status(500, "StoreReadError"));
    let _watch = first_list(&mut script, &[pod("b", 2, "n1")], 7).await;
    settle().await;
    assert_eq!(names(&pods), ["b"]);
    assert_eq!(heard.take().last().unwrap(), "lost a@1");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn every_wait_ends_at_once_when_the_informer_is_stopped() {
    // client-go waits up to a minute in a streaming list that was answered with 429
    type Until = fn(kinform_testkit::Ask);
    let cases: [(&str, Until); 4] = [
        ("not answered", |ask| std::mem::forget(ask)),
        ("refused", |ask| {
            ask.refuse_status(429, "TooManyRequests", "later");
        }),
        ("read", |ask| std::mem::forget(ask.stream())),
        ("broken", drop),
    ];
    for (case, answer) in cases {
        for streaming_list in [StreamingList::Preferred, StreamingList::Never] {
            let (factory, scripts) =
                scripted_factory(ReflectorOptions::new().with_streaming_list(streaming_list));
            let pods = in_namespace(&factory, "a");
            let (_, mut script) = newest(&scripts);
            answer(script.next().await);
            settle().await;
            let asked_to_stop = tokio::time::Instant::now();
            factory.shutdown().await;
            assert_eq!(asked_to_stop.elapsed(), Duration::ZERO, "{case}");
            assert_eq!(pods.state(), InformerState::Stopped, "{case}");
            assert_eq!(factory.task_count(), 0, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_credentials_are_a_state_and_are_tried_slowly() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let began = tokio::time::Instant::now();
    let mut asks = 0;
    while began.elapsed() < Duration::from_secs(600) {
        script
            .next()
            .await
            .refuse_status(401, "Unauthorized", "who?");
        asks += 1;
    }
    assert!((10..=30).contains(&asks), "{asks} in ten minutes");
    assert!(matches!(pods.state(), InformerState::Forbidden(_)));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_for_each_object_of_a_streaming_list() {
    // client-go: TestReflectorRespectStoreTransformer (five calls there for what are three here)
    let (factory, scripts) = scripted_factory(ReflectorOptions::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let count = Transform::typed(move |pod: Pod| {
        counted.fetch_add(1, Ordering::Relaxed);
        pod
    });
    let pods = factory
        .select(Target::<Pod>::new())
        .transform(count)
        .build();
    factory.start().unwrap();
    let (_, mut script) = newest(&scripts);
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n1")], 5).await;
    pods.synced().await.unwrap();
    watch.event("ADDED", &pod("c", 6, "n1"));
    settle().await;
    assert_eq!(pods.list().typed().count(), 3);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    factory.shutdown().await;
}

/// The next report that `wanted` makes something of.
pub(crate) async fn told<T>(
    reports: &mut kinform::Reports,
    wanted: impl Fn(&ReportEvent) -> Option<T>,
) -> T {
    loop {
        if let Some(found) = wanted(&reports.next().await.unwrap().event) {
            return found;
        }
    }
}

// fault: F20
#[tokio::test(start_paused = true)]
async fn k2_a_cache_that_lost_an_event_is_found_and_healed() {
    // client-go: TestReflectorDataConsistencyDetector; kubernetes#123072: a server lost a delete
    let (factory, scripts) =
        scripted_factory(ReflectorOptions::new().with_audit_period(60 * SECOND));
    let pods = in_namespace(&factory, "default");
    let (mut audit, mut script) = (newest(&scripts).1, newest(&scripts).1);
    let mut reports = pods.reports();
    let list = |version: &str, names: &[(&str, u64)], token: &str| {
        let items = names
            .iter()
            .map(|(name, version)| pod(name, *version, "n1"));
        json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": { "resourceVersion": version, "continue": token },
            "items": items.collect::<Vec<_>>(),
        })
        .to_string()
    };
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n1")], 5).await;
    pods.synced().await.unwrap();
    let compared = |event: &ReportEvent| match event {
        ReportEvent::Compared {
            version,
            divergence,
        } => Some((version.clone(), divergence.clone())),
        _ => None,
    };
    // All is well, in two pages.
    let (options, ask) = audit.next_list().await;
    let query = options.to_query();
    assert_eq!(
        query,
        "limit=500&resourceVersion=5&resourceVersionMatch=Exact"
    );
    ask.reply(list("5", &[("a", 1)], "next"));
    let (options, ask) = audit.next_list().await;
    assert_eq!(options.to_query(), "continue=next&limit=500");
    watch.event("MODIFIED", &pod("a", 6, "n1"));
    settle().await;
    ask.reply(list("5", &[("b", 2)], ""));
    assert_eq!(told(&mut reports, compared).await, ("5".to_owned(), None));
    // A server that knows the version no more is asked again later.
    let (options, ask) = audit.next_list().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "6");
    ask.refuse_status(410, "Expired", "too old");
    // The delete of b was lost.
    watch.bookmark("Pod", "9");
    let (options, ask) = audit.next_list().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "9");
    ask.reply(list("9", &[("a", 6)], ""));
    let (_, divergence) = told(&mut reports, compared).await;
    let divergence = divergence.unwrap();
    assert_eq!(
        (divergence.missing, divergence.different, divergence.extra),
        (0, 0, 1)
    );
    assert_eq!(divergence.example.unwrap().to_string(), "default/b");
    let (options, relist) = script.next_watch().await;
    assert_eq!(options.resource_version, None, "the most recent state");
    let watch = relist.stream();
    watch.event("ADDED", &pod("a", 6, "n1"));
    watch.initial_events_end("Pod", "9");
    settle().await;
    assert_eq!(names(&pods), ["a"]);
    // One that never answers is given up, and does not keep the informer from its end.
    let (_, _ask) = audit.next_list().await;
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn b11_an_object_whose_transform_fails_is_told_and_heals() {
    // kubernetes#130898: an event whose transform failed was lost for good
    let (factory, scripts) = scripted_factory(ReflectorOptions::default());
    let fussy = Transform::typed(|pod: Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        assert_ne!(node, Some("bad"), "this panic is part of the test");
        pod
    });
    let pods = factory
        .select(Target::<Pod>::new())
        .transform(fussy)
        .build();
    let mut reports = pods.reports();
    factory.start().unwrap();
    let (_, mut script) = newest(&scripts);
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "bad")], 5).await;
    pods.synced().await.unwrap();
    assert_eq!(names(&pods), ["a"], "one object costs a list itself only");
    watch.event("MODIFIED", &pod("a", 6, "bad"));
    watch.event("ADDED", &pod("c", 7, "n1"));
    settle().await;
    assert_eq!(names(&pods), ["a", "c"]);
    assert_eq!(pods.stats().quarantined, 2);
    let mut told = Vec::new();
    while told.len() < 2 {
        if let ReportEvent::Quarantined(object) = reports.next().await.unwrap().event {
            told.push(object.to_string());
        }
    }
    assert_eq!(
        told,
        [
            "default/b at version 2: the transform panicked",
            "default/a at version 6: the transform panicked"
        ]
    );
    watch.event("MODIFIED", &pod("a", 8, "n2"));
    watch.event("MODIFIED", &pod("b", 9, "n2"));
    settle().await;
    assert_eq!(names(&pods), ["a", "b", "c"]);
    let stored = pods.list();
    let mut versions: Vec<_> = stored
        .iter()
        .map(|pod| pod.resource_version().to_owned())
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, ["7", "8", "9"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn b21_an_informer_that_fails_for_ever_delays_no_other() {
    // stackabletech/trino-operator#936: one backoff for all watches of a controller
    let (factory, scripts) = scripted_factory(ReflectorOptions::default());
    let _broken = in_namespace(&factory, "broken");
    let (_, mut broken) = newest(&scripts);
    tokio::spawn(async move {
        loop {
            broken.next().await.refuse_status(403, "Forbidden", "no");
        }
    });
    tokio::time::sleep(Duration::from_secs(600)).await;
    let well = in_namespace(&factory, "default");
    let (_, mut script) = newest(&scripts);
    let asked = tokio::time::Instant::now();
    let mut watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    well.synced().await.unwrap();
    for _ in 0..7 {
        tokio::time::sleep(10 * SECOND).await;
        watch.end();
        watch = script.next_watch().await.1.stream();
    }
    assert_eq!(
        asked.elapsed(),
        70 * SECOND,
        "each watch was reopened at once"
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn d2_whoever_shares_an_informer_hears_everything() {
    // kube: `for_shared_stream` after `.reflect` compiles, and hears nothing
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let shared = factory
        .select::<DynamicObject>(crate::fixture::pods())
        .build();
    let heard = Heard::default();
    pods.clone().add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    let mut changes = shared.changes().unwrap();
    settle().await;
    watch.event("ADDED", &pod("b", 6, "n1"));
    settle().await;
    assert_eq!(heard.take(), ["initial a@1", "synced", "add b@6"]);
    for _ in 0..3 {
        changes.next().await.unwrap();
    }
    assert!(script.is_quiet());
    factory.shutdown().await;
}

/// Whatever is logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        *self.0.lock().unwrap() += &format!("{span:?}\n");
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        *self.0.lock().unwrap() += &format!("{values:?}\n");
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        *self.0.lock().unwrap() += &format!("{event:?}\n");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn d16_no_content_of_an_object_is_logged_or_reported() {
    // kube-client 5.0 logs a whole reply that does not decode
    let log = Log::default();
    // while a process has but one subscriber, tracing asks whichever thread comes to a line first, and another
    // test's thread, which listens to nothing, would turn the line off for all; with two it asks both
    let _second = tracing::Dispatch::new(Log::default());
    let _guard = tracing::subscriber::set_default(log.clone());
    tracing::callsite::rebuild_interest_cache();
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    let mut reports = pods.reports();
    factory.start().unwrap();
    let named = |name: &str| {
        json!({
            "metadata": { "name": name, "namespace": "default", "uid": 7, "resourceVersion": "2" },
            "data": { "password": "s3cret" },
        })
    };
    let watch = first_list(&mut script, &[named("a")], 5).await;
    pods.synced().await.unwrap();
    watch.event("MODIFIED", &named("b"));
    watch.event("ADDED", &json!({ "metadata": [], "data": "s3cret" }));
    watch.event("ODD", &named("c"));
    let mut odd = pod("odd", 6, "n1");
    odd["spec"] = json!("s3cret");
    watch.event("ADDED", &odd);
    settle().await;
    assert_eq!(pods.list().typed().count(), 0);
    watch.event("ERROR", &json!({ "kind": "Secret", "data": "s3cret" }));
    watch.send("s3cret");
    let (_, list) = loop {
        let ask = script.next().await;
        match ask.request().clone() {
            Request::List(options) => break (options, ask),
            Request::Watch(_) => ask.refuse_status(422, "Invalid", "no streams"),
        }
    };
    list.reply(r#"{"kind":"PodList","items":[{"s3cret"#);
    settle().await;
    factory.shutdown().await;
    let mut told = log.0.lock().unwrap().clone();
    assert!(told.contains("default/a at version 2"), "{told}");
    drop(factory);
    drop(pods);
    while let Some(report) = reports.next().await {
        told += &format!("{report:?}\n");
    }
    assert!(!told.contains("s3cret"), "{told}");
}
