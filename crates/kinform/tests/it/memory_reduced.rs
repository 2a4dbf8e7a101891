//! The last step of a memory budget: fields that an informer can do without. Whatever is read is right, or an
//! error.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::env::Env;
use kinform::{
    Action, Controller, Error, Handlers, Index, Informer, InformerFactory, MemoryStep, ReportEvent,
    Target,
};
use kinform_api::FieldPath;
use kinform_testkit::{Request, Script, Sending, scripted};
use serde_json::{Value, json};

use crate::fixture::{Heard, first_list, pod, pods, settle};

/// The time after which a step that has room returns.
const CALM: Duration = Duration::from_secs(31);
const PODS: usize = 400;

fn path(text: &str) -> FieldPath {
    text.parse().unwrap()
}

/// A pod of some 5 KB that have nothing in common with others: it does not compress.
fn odd(n: usize, version: u64) -> Value {
    let mut pod = pod(&format!("web-{n}"), version, &format!("node-{}", n % 3));
    pod["status"] = json!({"phase": "Running"});
    let mut state = n as u64 + 1;
    let mut word = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        format!("{:x}", state >> 8)
    };
    pod["spec"]["containers"][0]["args"] = (0..320).map(|_| word()).collect();
    pod
}

fn sent(count: usize, version: u64) -> Vec<Value> {
    (0..count).map(|n| odd(n, version)).collect()
}

fn reducible(bytes: u64) -> (InformerFactory, Informer<Pod>, Script) {
    let (source, script) = scripted(pods());
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
        .env(Env::seeded(7))
        .memory_budget(bytes)
        .build();
    let selection = factory.select(Target::<Pod>::new());
    let pods = selection.reducible_to([path("spec.nodeName")]).build();
    (factory, pods, script)
}

/// The list that brings fields back: an idle watch is asked for its version meanwhile, and opened again.
async fn next_list(script: &mut Script, pods: &[Value], version: u64) -> Sending {
    let mut open = Vec::new();
    let ask = loop {
        let ask = script.next().await;
        match ask.request() {
            Request::Watch(options) if options.send_initial_events == Some(true) => break ask,
            Request::Watch(_) => open.push(ask.stream()),
            Request::List(options) => {
                assert_eq!(options.limit, Some(1));
                // Nothing happened since the last delete.
                let metadata =
                    json!({"resourceVersion": (PODS + 9).to_string(), "remainingItemCount": 9});
                let list = json!({
                    "kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [],
                });
                ask.reply(list.to_string());
            }
        }
    };
    let watch = ask.stream();
    pods.iter().for_each(|pod| watch.event("ADDED", pod));
    watch.initial_events_end("Pod", &version.to_string());
    watch
}

fn reduced(pods: &Informer<Pod>) -> usize {
    pods.list().iter().filter(|pod| pod.is_reduced()).count()
}

/// The bytes that are needed without a budget.
async fn needed() -> u64 {
    let (factory, pods, mut script) = reducible(u64::MAX);
    factory.start().unwrap();
    let _watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    let held = factory.memory().unwrap().held;
    factory.shutdown().await;
    held
}

#[tokio::test(start_paused = true)]
async fn fields_are_given_up_and_come_back_and_no_handler_hears_of_it() {
    let (factory, pods, mut script) = reducible(needed().await / 3);
    let by_phase = pods.add_index(Index::path("status.phase")).unwrap();
    let mut reports = pods.reports();
    let heard = Heard::default();
    let _heard = pods.add_handler(heard.handlers());
    factory.start().unwrap();
    let watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    let usage = factory.memory().unwrap();
    assert!(usage.held <= usage.budget && !usage.is_over, "{usage}");
    assert_eq!(pods.stats().memory, MemoryStep::Reduced);
    assert_eq!(reduced(&pods), PODS);
    assert_eq!(heard.take().len(), PODS + 1);

    // What is left is read as before; the rest is an error that says so.
    for pod in &pods.list() {
        let number: usize = pod.name()[4..].parse().unwrap();
        assert_eq!(
            pod.at(&path("spec.nodeName")).unwrap(),
            [format!("node-{}", number % 3)]
        );
        assert_eq!(pod.at(&path("metadata.name")).unwrap(), [pod.name()]);
        assert_eq!(pod.label("app").unwrap(), pod.name());
        let error = pod.at(&path("status.phase")).unwrap_err();
        assert!(error.is_given_up(), "{error}");
        assert!(error.to_string().contains("reducible_to"), "{error}");
        assert!(pod.typed().unwrap_err().is_given_up());
    }
    assert_eq!(pods.list().typed().count(), 0);
    // A handle that the factory makes knows what is left, too.
    let view = &factory.informers()[0];
    for pod in &view.list() {
        assert!(pod.at(&path("spec.nodeName")).is_ok() && pod.at(&path("status.phase")).is_err());
    }
    assert_eq!(
        by_phase.get("Running").len(),
        PODS,
        "it was there from the start"
    );
    assert_eq!(
        pods.add_index(Index::path("spec.nodeName"))
            .unwrap()
            .get("node-0")
            .len(),
        PODS / 3 + 1
    );
    let error = pods.add_index(Index::path("spec.hostname")).unwrap_err();
    assert!(error.to_string().contains("before the start"), "{error}");

    // A change is heard whole, with what is left of the state before.
    let states = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&states);
    let _states = pods.add_handler(Handlers::new().on_update(move |old, new| {
        let state = (old.is_reduced(), new.is_reduced(), new.typed().is_ok());
        told.lock().unwrap().push(state);
    }));
    settle().await;
    watch.event("MODIFIED", &odd(7, 6));
    settle().await;
    assert_eq!(*states.lock().unwrap(), [(true, false, true)]);
    assert_eq!(heard.take(), ["update web-7@1 web-7@6"]);
    assert_eq!(reduced(&pods), PODS);

    // Most objects go: there is room for the rest, which a list brings back.
    for n in 50..PODS {
        watch.event("DELETED", &odd(n, n as u64 + 10));
    }
    settle().await;
    heard.take();
    tokio::time::sleep(CALM).await;
    assert_eq!(reduced(&pods), 50, "no list has come yet");
    let mut rest = sent(50, 1);
    rest[7] = odd(7, 6);
    let _watch = next_list(&mut script, &rest, PODS as u64 + 20).await;
    settle().await;
    assert_eq!((reduced(&pods), pods.list().typed().count()), (0, 50));
    assert_eq!(by_phase.get("Running").len(), 50);
    assert_eq!(heard.take(), Vec::<String>::new());
    for expected in &rest {
        let name = expected["metadata"]["name"].as_str().unwrap();
        let found = pods
            .get(&format!("default/{name}").parse().unwrap())
            .unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&found.to_json()).unwrap(),
            *expected
        );
    }
    tokio::time::sleep(3 * CALM).await;
    assert_eq!(pods.stats().memory, MemoryStep::Normal);
    let mut steps = Vec::new();
    while let Some(Some(report)) = reports.next().now_or_never() {
        if let ReportEvent::Memory { step, .. } = report.event {
            steps.push(step);
        }
    }
    assert!(steps.contains(&MemoryStep::Reduced), "{steps:?}");
    assert_eq!(steps.last(), Some(&MemoryStep::Normal));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_list_cannot_bring_back_is_not_waited_for() {
    let (factory, pods, mut script) = reducible(needed().await / 3);
    factory.start().unwrap();
    let watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(reduced(&pods), PODS);
    for n in 50..PODS {
        watch.event("DELETED", &odd(n, n as u64 + 10));
    }
    settle().await;
    tokio::time::sleep(CALM).await;
    // An object cannot be read: the one that is stored stays, and is not waited for.
    let mut unreadable = sent(50, 1);
    unreadable[3]["metadata"]["resourceVersion"] = json!(7);
    let _watch = next_list(&mut script, &unreadable, 900).await;
    settle().await;
    assert_eq!(reduced(&pods), 1);
    tokio::time::sleep(3 * CALM).await;
    assert_eq!(pods.stats().memory, MemoryStep::Normal);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_join_reads_only_what_is_never_given_up() {
    let (factory, pods, _script) = reducible(1 << 30);
    let nodes = factory.select(Target::<Node>::new()).build();
    assert!(pods.join(&nodes, Index::path("spec.nodeName")).is_ok());
    let Err(error) = pods.join(&nodes, Index::path("spec.hostname")) else {
        panic!("its rows would be without names");
    };
    assert!(error.to_string().contains("reducible_to"), "{error}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_retries_what_it_cannot_decode_until_it_can() {
    let (factory, pods, mut script) = reducible(needed().await / 3);
    factory.start().unwrap();
    let watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(reduced(&pods), PODS);
    let done = Arc::new(Mutex::new(BTreeSet::new()));
    let reconciled = Arc::clone(&done);
    let controller = Controller::of(&pods);
    let _running = tokio::spawn(controller.run(move |pod: Arc<Pod>, _| {
        assert!(pod.status.is_some(), "of a whole pod only");
        reconciled.lock().unwrap().extend(pod.metadata.name.clone());
        std::future::ready(Ok::<_, Error>(Action::await_change()))
    }));
    for n in 20..PODS {
        watch.event("DELETED", &odd(n, n as u64 + 10));
    }
    settle().await;
    tokio::time::sleep(CALM).await;
    assert_eq!(done.lock().unwrap().len(), 0);
    let _watch = next_list(&mut script, &sent(20, 1), 900).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let found = (reduced(&pods), pods.list().len());
    assert_eq!(found, (0, 20), "{:?} {:?}", pods.stats(), factory.memory());
    // The longest wait between two tries.
    tokio::time::sleep(Duration::from_secs(1_001)).await;
    assert_eq!(done.lock().unwrap().len(), 20);
    factory.shutdown().await;
}
