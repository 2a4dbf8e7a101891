//! A factory with a memory budget gives up memory, and never an answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kinform::env::Env;
use kinform::{
    DecodedValues, Handlers, Index, Informer, InformerFactory, MemoryStep, Obj, ReportEvent, Target,
};
use kinform_testkit::{Script, scripted};
use serde_json::Value;

use crate::fixture::{Heard, factory, first_list, pod, pods, settle};

/// The time after which a step that has room returns.
const CALM: Duration = Duration::from_secs(31);

fn budgeted(bytes: u64) -> (InformerFactory, Script) {
    let (source, script) = scripted(pods());
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
        .env(Env::seeded(7))
        .memory_budget(bytes)
        .build();
    (factory, script)
}

/// A pod of some 6 KB, most of which it has in common with others.
fn wordy(n: usize, version: u64) -> Value {
    let mut pod = pod(&format!("web-{n}"), version, &format!("node-{}", n % 3));
    pod["metadata"]["annotations"]["about"] = format!("the pod of number {n}").into();
    let option = |at: usize| format!("--an-option-that-all-of-them-have-{at}={}", n * at % 7);
    pod["spec"]["containers"][0]["args"] = (0..120).map(option).collect();
    pod
}

fn sent(count: usize, version: u64) -> Vec<Value> {
    (0..count).map(|n| wordy(n, version)).collect()
}

/// Every key, its content and its typed value.
fn answers(pods: &Informer<Pod>) -> Vec<(String, Vec<u8>, String)> {
    let listing = pods.list();
    let mut found: Vec<_> = listing
        .iter()
        .map(|pod| {
            let typed = serde_json::to_string(&*pod.typed().unwrap()).unwrap();
            (pod.key().to_string(), pod.to_json(), typed)
        })
        .collect();
    found.sort();
    found
}

fn cold(pods: &Informer<Pod>) -> usize {
    let listing = pods.list();
    listing.objects().filter(|object| object.is_cold()).count()
}

const PODS: usize = 2_000;
/// Some 12 MB as they came.
const NEEDED: u64 = 13_000_000;

#[tokio::test(start_paused = true)]
async fn half_of_the_needed_budget_has_the_answers_of_an_unbounded_cache() {
    let (unbounded, mut script) = factory();
    let all = unbounded.informer::<Pod>();
    unbounded.start().unwrap();
    let _watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    all.synced().await.unwrap();
    let needed = all.stats().held_bytes;
    assert!(needed > NEEDED / 2 && needed < NEEDED, "{needed}");
    assert_eq!(unbounded.memory(), None);

    let (factory, mut script) = budgeted(needed / 2);
    let pods = factory.informer::<Pod>();
    let by_node = pods.add_index(Index::path("spec.nodeName")).unwrap();
    let mut reports = pods.reports();
    let heard = Heard::default();
    let _heard = pods.add_handler(heard.handlers());
    factory.start().unwrap();
    let watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    let usage = factory.memory().unwrap();
    assert!(usage.held <= usage.budget && !usage.is_over, "{usage}");
    assert!(!usage.keeps_decoded);
    assert_eq!(pods.stats().memory, MemoryStep::Compressed);
    assert_eq!(cold(&pods), PODS);
    assert_eq!(answers(&pods), answers(&all));
    assert_eq!(by_node.get("node-1").len(), PODS / 3 + 1);
    assert_eq!(heard.take().len(), PODS + 1);
    let mut steps = Vec::new();
    while let Some(Some(report)) = reports.next().now_or_never() {
        if let ReportEvent::Memory { step, usage } = report.event {
            steps.push(step);
            assert!(usage.to_string().contains("the budget is"), "{usage}");
        }
    }
    assert_eq!(steps.last(), Some(&MemoryStep::Compressed));

    // Most objects go: there is room for the rest as it came, and after a while it has it.
    for n in 200..PODS {
        watch.event("DELETED", &wordy(n, n as u64 + 10));
    }
    settle().await;
    assert_eq!(pods.stats().memory, MemoryStep::Compressed, "not at once");
    tokio::time::sleep(CALM).await;
    assert_eq!(cold(&pods), 0);
    assert_eq!(pods.stats().memory, MemoryStep::NoDecodedValues);
    tokio::time::sleep(CALM).await;
    assert_eq!(pods.stats().memory, MemoryStep::Normal);
    assert!(factory.memory().unwrap().keeps_decoded);
    assert_eq!(
        answers(&pods),
        answers(&all)[..]
            .iter()
            .filter(|(key, ..)| {
                let number = key.rsplit('-').next().unwrap();
                number.parse::<usize>().unwrap() < 200
            })
            .cloned()
            .collect::<Vec<_>>()
    );
    factory.shutdown().await;
    unbounded.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_first_list_that_does_not_fit_is_compressed_while_it_comes_in() {
    let (factory, mut script) = budgeted(NEEDED / 2);
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    let mut most = 0;
    for (n, pod) in sent(PODS, 1).iter().enumerate() {
        watch.event("ADDED", pod);
        if n % 100 == 0 {
            settle().await;
            most = most.max(factory.memory().unwrap().held);
        }
    }
    assert!(!pods.has_synced());
    assert!(most <= NEEDED / 2, "{most}");
    watch.initial_events_end("Pod", "5");
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!((cold(&pods), pods.list().len()), (PODS, PODS));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn handlers_relists_and_late_indexes_are_right_under_a_budget() {
    let (factory, mut script) = budgeted(NEEDED / 2);
    let pods = factory.informer::<Pod>();
    let nodes = Arc::new(Mutex::new(Vec::new()));
    let node = |pod: &Obj<Pod>| pod.at(&"spec.nodeName".parse().unwrap()).unwrap()[0].to_string();
    let told = Arc::clone(&nodes);
    let _nodes = pods.add_handler(Handlers::new().on_update(move |old, new| {
        let number = |pod: &Obj<Pod>| pod.annotation("about").unwrap().into_owned();
        told.lock()
            .unwrap()
            .push((node(old), node(new), number(old)));
    }));
    let heard = Heard::default();
    let _heard = pods.add_handler(heard.handlers());
    factory.start().unwrap();
    let watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(cold(&pods), PODS);
    heard.take();

    let mut moved = wordy(7, 6);
    moved["spec"]["nodeName"] = "node-9".into();
    watch.event("MODIFIED", &moved);
    settle().await;
    let before = (
        "node-1".to_owned(),
        "node-9".to_owned(),
        "the pod of number 7".to_owned(),
    );
    assert_eq!(*nodes.lock().unwrap(), [before]);
    assert_eq!(heard.take(), ["update web-7@1 web-7@6"]);

    let by_node = pods.add_index(Index::path("spec.nodeName")).unwrap();
    let by_name = pods.add_index(Index::label("app")).unwrap();
    assert_eq!(by_node.get("node-9").len(), 1, "before it is built");
    settle().await;
    assert_eq!(by_node.get("node-1").len(), PODS / 3);
    assert_eq!(
        (by_node.get("node-9").len(), by_name.get("web-8").len()),
        (1, 1)
    );

    // A list in which one changed, one is gone and the rest is the same.
    pods.relist();
    let mut listed = sent(PODS, 1);
    listed[7] = moved;
    listed[9] = wordy(9, 8);
    listed.remove(8);
    let _watch = first_list(&mut script, &listed, 9).await;
    settle().await;
    assert_eq!(heard.take(), ["lost web-8@1", "update web-9@1 web-9@8"]);
    assert_eq!(pods.stats().memory, MemoryStep::Compressed);
    assert_eq!((cold(&pods), by_name.get("web-8").len()), (PODS - 1, 0));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn decoded_values_are_given_up_before_anything_else() {
    for keeps in [DecodedValues::Within(64 << 20), DecodedValues::All] {
        let (factory, mut script) = budgeted(NEEDED * 2);
        let pods = factory
            .select(Target::<Pod>::new())
            .decoded_values(keeps)
            .build();
        factory.start().unwrap();
        let _watch = first_list(&mut script, &sent(PODS, 1), 5).await;
        pods.synced().await.unwrap();
        settle().await;
        let pod = pods.list().iter().next().unwrap().to_obj();
        let first = pod.typed().unwrap();
        assert!(Arc::ptr_eq(&first, &pod.typed().unwrap()), "it is kept");
        let before = factory.memory().unwrap();
        assert!(before.keeps_decoded);
        assert_eq!(pods.list().typed().count(), PODS);
        // They are counted every few seconds.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let usage = factory.memory().unwrap();
        assert!(!usage.keeps_decoded, "{keeps:?}: {usage}");
        tokio::time::sleep(Duration::from_secs(6)).await;
        let usage = factory.memory().unwrap();
        assert_eq!(usage.decoded, 0);
        assert!(usage.held <= usage.budget);
        assert_eq!(pods.stats().memory, MemoryStep::NoDecodedValues);
        assert_eq!(cold(&pods), 0);
        let again = pod.typed().unwrap();
        assert_eq!(again, first);
        assert!(
            !Arc::ptr_eq(&again, &pod.typed().unwrap()),
            "it is not kept"
        );
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_held_is_said_and_every_answer_is_right() {
    let (factory, mut script) = budgeted(100_000);
    let pods = factory.informer::<Pod>();
    let mut reports = pods.reports();
    factory.start().unwrap();
    let watch = first_list(&mut script, &sent(PODS, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    let usage = factory.memory().unwrap();
    assert!(usage.is_over && usage.held > usage.budget, "{usage}");
    assert!(usage.to_string().ends_with("nothing is left to give up"));
    assert_eq!(cold(&pods), PODS, "what can be given up is");
    for expected in sent(PODS, 1).iter().step_by(100) {
        let name = expected["metadata"]["name"].as_str().unwrap();
        let key = format!("default/{name}").parse().unwrap();
        let typed = pods.get(&key).unwrap().typed().unwrap();
        assert_eq!(serde_json::to_value(&*typed).unwrap(), *expected);
    }
    let mut was_over = false;
    while let Some(Some(report)) = reports.next().now_or_never() {
        if let ReportEvent::Memory { usage, .. } = report.event {
            was_over |= usage.is_over;
        }
    }
    assert!(was_over, "it is reported");
    watch.event("MODIFIED", &wordy(3, 9));
    settle().await;
    let key = "default/web-3".parse().unwrap();
    assert_eq!(pods.get(&key).unwrap().resource_version(), "9");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_counts_until_it_is_dropped() {
    let (factory, mut script) = budgeted(NEEDED * 2);
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let _watch = first_list(&mut script, &sent(100, 1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    let held = factory.memory().unwrap().held;
    assert!(held > pods.stats().heap_bytes);
    pods.stop();
    settle().await;
    assert!(factory.memory().unwrap().held.abs_diff(held) < held / 10);
    assert_eq!(pods.list().typed().count(), 100);
    factory.shutdown().await;
}
