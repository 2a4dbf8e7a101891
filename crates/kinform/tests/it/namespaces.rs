//! Namespaces that come and go while an informer runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinform::env::Env;
use kinform::{Changes, Index, InformerFactory, InformerState, Notification, ReportEvent, Target};
use kinform_testkit::{Script, Sending, scripted};
use serde_json::Value;

use crate::fixture::{Heard, first_list, pod, settle};

/// The scripts of the sources that a factory made, by namespace; the newest of each.
#[derive(Clone, Default)]
struct Scripts(Arc<Mutex<HashMap<String, Script>>>);

impl Scripts {
    fn factory(&self, namespaces: &[&str]) -> InformerFactory {
        let scripts = self.clone();
        InformerFactory::with_sources(move |info, _| {
            let namespace = info.namespace.clone().unwrap_or_default();
            let (source, script) = scripted(info);
            scripts.0.lock().unwrap().insert(namespace, script);
            source
        })
        .namespaces(namespaces.to_vec())
        .env(Env::seeded(7))
        .build()
    }

    fn take(&self, namespace: &str) -> Script {
        let taken = self.0.lock().unwrap().remove(namespace);
        taken.unwrap_or_else(|| panic!("no source was made for {namespace}"))
    }

    async fn list(&self, namespace: &str, names: &[&str]) -> (Script, Sending) {
        let mut script = self.take(namespace);
        let pods: Vec<_> = names
            .iter()
            .map(|name| pod_of(namespace, name, 1))
            .collect();
        let watch = first_list(&mut script, &pods, 5).await;
        (script, watch)
    }
}

fn pod_of(namespace: &str, name: &str, version: u64) -> Value {
    let mut pod = pod(name, version, "n1");
    pod["metadata"]["namespace"] = namespace.into();
    pod["metadata"]["uid"] = format!("{namespace}-{name}").into();
    pod
}

async fn hear(changes: &mut Changes<Pod>, count: usize) -> Vec<String> {
    let heard = changes.take(count).map(|notification| match notification {
        Notification::Added(added) => format!("{} {}", added.key(), added.is_initial()),
        other => format!("{other:?}"),
    });
    heard.collect().await
}

#[tokio::test(start_paused = true)]
async fn k6_a_namespace_that_comes_is_covered_by_everything_made_before() {
    let scripts = Scripts::default();
    let factory = scripts.factory(&["a"]);
    let pods = factory.informer::<Pod>();
    let by_node = pods.add_index(Index::path("spec.nodeName")).unwrap();
    let looks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looks);
    let counted = Index::by("counted", move |_: &Pod| {
        count.fetch_add(1, Ordering::Relaxed);
        ["all"]
    });
    let counted = pods.add_index(counted).unwrap();
    let (store, mut changes, heard) = (pods.store(), pods.changes().unwrap(), Heard::default());
    let registration = pods.add_handler(heard.handlers()).unwrap();
    let reports = pods.clone().reports();
    let listed = reports.filter(|report| {
        let is_list = matches!(report.event, ReportEvent::Listed { .. });
        std::future::ready(is_list)
    });
    let listed = tokio::spawn(listed.take(2).count());
    factory.start().unwrap();
    let _a = scripts.list("a", &["x"]).await;
    assert!(registration.synced().await);
    assert_eq!(heard.take(), ["initial x@1", "synced"]);
    assert_eq!(hear(&mut changes, 2).await, ["a/x true", "Synced"]);

    assert!(pods.add_namespace("b").unwrap());
    assert!(!pods.add_namespace("b").unwrap(), "it is watched already");
    assert_eq!(pods.namespaces(), ["a", "b"]);
    assert!(!pods.has_synced(), "the new one is not listed yet");
    assert!(matches!(
        pods.state(),
        InformerState::Pending | InformerState::Listing { .. }
    ));
    let (_b, watch) = scripts.list("b", &["y"]).await;
    factory.synced_within(Duration::from_secs(1)).await.unwrap();
    assert!(pods.state().is_synced());
    watch.event("ADDED", &pod_of("b", "z", 6));
    settle().await;
    assert_eq!(
        heard.take(),
        ["initial y@1", "add z@6"],
        "and synced comes once"
    );
    assert_eq!(store.len(), 3);
    assert_eq!(by_node.get("n1").len(), 3);
    assert_eq!(by_node.values()[&b"n1"[..]], 3);
    let built = looks.load(Ordering::Relaxed);
    assert_eq!(counted.get("all").len(), 3);
    let looked = looks.load(Ordering::Relaxed) - built;
    assert_eq!(
        looked, 0,
        "the new one has the index: no read looks at its objects"
    );
    assert_eq!(pods.snapshot().versions().count(), 2);
    assert_eq!(pods.stats().objects, 3);
    assert_eq!(hear(&mut changes, 2).await, ["b/y true", "b/z true"]);
    assert_eq!(listed.await.unwrap(), 2, "each namespace reports");
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

// fault: F31
#[tokio::test(start_paused = true)]
async fn k7_a_namespace_that_goes_is_heard_as_deleted_and_may_come_back() {
    let scripts = Scripts::default();
    let factory = scripts.factory(&["a", "b"]);
    let pods = factory.informer::<Pod>();
    let by_node = pods.add_index(Index::path("spec.nodeName")).unwrap();
    let heard = Heard::default();
    let registration = pods.add_handler(heard.handlers()).unwrap();
    let mut changes = pods.changes().unwrap();
    factory.start().unwrap();
    let (_a, in_a) = scripts.list("a", &["x"]).await;
    let (_b, in_b) = scripts.list("b", &["y"]).await;
    registration.synced().await;
    heard.take();
    let tasks = factory.task_count();

    assert!(pods.remove_namespace("b"));
    assert!(!pods.remove_namespace("b"), "it is not watched any more");
    assert_eq!(
        (pods.list().len(), by_node.get("n1").len()),
        (1, 1),
        "gone from reads at once"
    );
    settle().await;
    assert_eq!(heard.take(), ["lost y@1"]);
    assert!(in_b.is_given_up());
    assert_eq!(factory.task_count(), tasks - 1, "its loop has ended");
    assert_eq!(factory.informers().len(), 1);
    in_b.event("ADDED", &pod_of("b", "late", 6));
    in_a.event("MODIFIED", &pod_of("a", "x", 7));
    settle().await;
    assert_eq!(heard.take(), ["update x@1 x@7"]);
    assert!(pods.state().is_synced(), "what was removed counts no more");

    assert!(pods.add_namespace("b").unwrap());
    let _b = scripts.list("b", &["y", "z"]).await;
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(heard.take(), ["initial y@1", "initial z@1"]);
    // A stream that looks only now hears what there is, and nothing of what it was never told.
    let expected = ["a/x true", "b/y true", "b/z true", "Synced"];
    assert_eq!(hear(&mut changes, 4).await, expected);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_removed_before_it_was_listed_keeps_nobody_waiting() {
    let scripts = Scripts::default();
    let factory = scripts.factory(&["a", "slow"]);
    let pods = factory.informer::<Pod>();
    let heard = Heard::default();
    let registration = pods.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    let _a = scripts.list("a", &["x"]).await;
    settle().await;
    assert!(!registration.has_synced());
    let late = factory
        .synced_within(Duration::from_secs(3))
        .await
        .unwrap_err();
    assert!(
        late.to_string().contains("in namespace \"slow\": "),
        "{late}"
    );
    let waiting = tokio::spawn({
        let pods = pods.clone();
        async move { pods.synced().await.is_ok() }
    });
    settle().await;
    pods.remove_namespace("slow");
    assert!(waiting.await.unwrap());
    assert!(registration.synced().await);
    assert_eq!(heard.take(), ["initial x@1", "synced"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_another_informer_asked_for_goes_on() {
    let scripts = Scripts::default();
    let factory = scripts.factory(&["a", "b"]);
    let (mine, theirs) = (factory.informer::<Pod>(), factory.informer::<Pod>());
    factory.start().unwrap();
    let _a = scripts.list("a", &["x"]).await;
    let (_script, in_b) = scripts.list("b", &["y"]).await;
    theirs.synced().await.unwrap();
    mine.remove_namespace("b");
    settle().await;
    assert!(!in_b.is_given_up());
    assert_eq!((mine.list().len(), theirs.list().len()), (1, 2));
    // Back again, it is the same watch: nothing is listed anew.
    mine.add_namespace("b").unwrap();
    assert!(mine.has_synced());
    assert_eq!(mine.list().len(), 2);
    mine.remove_namespace("b");
    theirs.remove_namespace("b");
    settle().await;
    assert!(in_b.is_given_up(), "nobody needs it");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn without_any_namespace_an_informer_waits_for_one_and_still_ends() {
    let scripts = Scripts::default();
    let factory = scripts.factory(&["a"]);
    let pods = factory.informer::<Pod>();
    let (early, late) = (Heard::default(), Heard::default());
    pods.add_handler(early.handlers()).unwrap();
    factory.start().unwrap();
    let _a = scripts.list("a", &["x"]).await;
    settle().await;
    pods.remove_namespace("a");
    assert_eq!(pods.state(), InformerState::Pending);
    let registration = pods.add_handler(late.handlers()).unwrap();
    assert!(registration.synced().await, "nothing is stored");
    pods.add_namespace("b").unwrap();
    let _b = scripts.list("b", &["y"]).await;
    settle().await;
    assert_eq!(
        early.take(),
        ["initial x@1", "synced", "lost x@1", "initial y@1"]
    );
    assert_eq!(late.take(), ["synced", "initial y@1"]);
    pods.remove_namespace("b");
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
    assert_eq!(pods.state(), InformerState::Stopped);
    assert!(pods.add_namespace("c").unwrap_err().is_stopped());
}

#[tokio::test(start_paused = true)]
async fn namespaces_change_before_the_start_and_not_where_that_makes_no_sense() {
    let scripts = Scripts::default();
    let factory = scripts.factory(&["a"]);
    let pods = factory.informer::<Pod>();
    pods.add_namespace("b").unwrap();
    pods.remove_namespace("a");
    assert!(pods.add_namespace("").unwrap_err().is_invalid());
    factory.start().unwrap();
    let _b = scripts.list("b", &["y"]).await;
    pods.synced().await.unwrap();
    // Another index under the same name in a watch that somebody else has.
    let other = factory
        .select(Target::<Pod>::new())
        .namespaces(["c"])
        .build();
    other.add_index(Index::label("app").named("by")).unwrap();
    pods.add_index(Index::path("spec.nodeName").named("by"))
        .unwrap();
    assert!(pods.add_namespace("c").unwrap_err().is_name_taken());
    assert_eq!(pods.namespaces(), ["b"]);
    let all = Scripts::default().factory(&[]).informer::<Pod>();
    assert!(
        all.add_namespace("a").unwrap_err().is_stopped(),
        "its factory is gone"
    );
    let whole = Scripts::default().factory(&[]);
    let error = whole.informer::<Pod>().add_namespace("a").unwrap_err();
    assert!(error.is_invalid(), "{error}");
    assert!(!whole.informer::<Pod>().remove_namespace("a"));
    let nodes = whole.informer::<k8s_openapi::api::core::v1::Node>();
    assert!(nodes.add_namespace("a").unwrap_err().is_invalid());
    factory.shutdown().await;
}
