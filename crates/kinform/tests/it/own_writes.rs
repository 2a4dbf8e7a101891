//! Reading one's own writes: the overlay, the gate, and waiting for a version.

use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kinform::{Index, Informer, InformerFactory, ObjectKey, Overlay, OwnWrites};
use kinform_testkit::{Script, Sending};
use serde_json::Value;

use crate::fixture::{Heard, factory, first_list, pod, settle};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

fn typed(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// Of another uid than [`pod`] makes.
fn recreated(name: &str, version: u64, node: &str) -> Value {
    let mut pod = pod(name, version, node);
    pod["metadata"]["uid"] = format!("uid-{name}-again").into();
    pod
}

/// The result of a task, within a minute.
async fn soon<T>(task: tokio::task::JoinHandle<T>) -> T {
    let within = tokio::time::timeout(Duration::from_secs(60), task);
    within.await.expect("it waits in vain").unwrap()
}

/// A cache that a watch goes on to feed.
struct Cached {
    factory: InformerFactory,
    script: Script,
    watch: Sending,
    pods: Informer<Pod>,
    overlay: Overlay<Pod>,
}

/// With the pod `a` at version 1 on node n1, up to version 5.
async fn cached() -> Cached {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    pods.add_index(Index::path("spec.nodeName")).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    pods.synced().await.unwrap();
    Cached {
        overlay: Overlay::new(&pods),
        factory,
        script,
        watch,
        pods,
    }
}

impl Cached {
    fn wrote(&self, pod: &Value) {
        self.overlay.wrote(&typed(pod)).unwrap();
    }

    async fn hears(&self, kind: &str, pod: &Value) {
        self.watch.event(kind, pod);
        settle().await;
    }

    fn read(&self, name: &str) -> Option<String> {
        let found = self.overlay.get(&key(name))?;
        Some(format!("{}@{}", found.uid(), found.resource_version()))
    }

    fn on_node(&self, node: &str) -> Vec<String> {
        let found = self.overlay.by_index("spec.nodeName", node).unwrap();
        let mut names: Vec<_> = found.iter().map(|pod| pod.name().to_owned()).collect();
        names.sort_unstable();
        names
    }
}

#[tokio::test(start_paused = true)]
async fn k3_a_write_is_read_at_once_and_until_the_cache_has_reached_it() {
    // client-go: TestMutationCacheOnAddOrUpdate
    let cached = cached().await;
    cached.wrote(&pod("a", 8, "n2"));
    assert_eq!(cached.read("a").as_deref(), Some("uid-a@8"));
    assert_eq!(cached.pods.get(&key("a")).unwrap().resource_version(), "1");
    assert_eq!(
        (cached.on_node("n1").len(), cached.on_node("n2")),
        (0, vec!["a".to_owned()])
    );
    // An older state of somebody else leaves it, an equal or newer one ends it.
    cached.hears("MODIFIED", &pod("a", 7, "n1")).await;
    assert_eq!(cached.read("a").as_deref(), Some("uid-a@8"));
    cached.hears("MODIFIED", &pod("a", 8, "n2")).await;
    assert_eq!(
        (cached.read("a").as_deref(), cached.overlay.unseen()),
        (Some("uid-a@8"), 0)
    );
    cached.wrote(&pod("a", 9, "n3"));
    cached.hears("MODIFIED", &pod("a", 10, "n4")).await;
    assert_eq!(
        (cached.read("a").as_deref(), cached.overlay.unseen()),
        (Some("uid-a@10"), 0)
    );
    cached.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_created_object_is_read_before_its_add_is_heard() {
    let cached = cached().await;
    cached.wrote(&pod("b", 6, "n1"));
    assert_eq!(cached.read("b").as_deref(), Some("uid-b@6"));
    assert_eq!(cached.on_node("n1"), ["a", "b"]);
    assert_eq!(
        (
            cached.overlay.list().len(),
            cached.overlay.in_namespace("default").len()
        ),
        (2, 2)
    );
    assert!(cached.overlay.in_namespace("other").is_empty());
    // It need not come as an event: a bookmark says as well that the cache has passed it.
    cached.watch.bookmark("Pod", "6");
    settle().await;
    assert_eq!(
        (cached.read("b"), cached.on_node("n1")),
        (None, vec!["a".to_owned()])
    );
    cached.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_ends_an_overlay_and_a_late_write_of_it_is_not_shown() {
    // client-go: TestMutationCacheOnDelete, TestMutationCacheUpdateConcurrentDelete,
    // TestMutationCacheOnDeleteClearsStaleMutation
    let cached = cached().await;
    cached.wrote(&pod("a", 6, "n2"));
    cached.hears("DELETED", &pod("a", 7, "n2")).await;
    assert_eq!((cached.read("a"), cached.on_node("n2").len()), (None, 0));
    // The answer to an update that came before the deletion is handled after it.
    cached.wrote(&pod("a", 6, "n2"));
    assert_eq!((cached.read("a"), cached.on_node("n2").len()), (None, 0));
    assert_eq!(cached.overlay.unseen(), 0);
    cached.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_wins_over_a_late_write_of_the_one_before() {
    // client-go: TestMutationCacheUpdateConcurrentRecreate, TestMutationCacheOnDelete
    let cached = cached().await;
    cached.hears("DELETED", &pod("a", 7, "n1")).await;
    cached.hears("ADDED", &recreated("a", 8, "n3")).await;
    cached.wrote(&pod("a", 6, "n2"));
    assert_eq!(cached.read("a").as_deref(), Some("uid-a-again@8"));
    // Our own recreation is newer than what the cache still has of the one before.
    cached.wrote(&pod("a", 12, "n2"));
    cached.hears("DELETED", &recreated("a", 11, "n3")).await;
    assert_eq!(cached.read("a").as_deref(), Some("uid-a@12"));
    cached.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn versions_without_an_order_are_laid_over_until_something_changes() {
    // client-go panics on a version that is no integer.
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let mut first = pod("a", 1, "n1");
    first["metadata"]["resourceVersion"] = "x-1".into();
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    watch.event("ADDED", &first);
    watch.initial_events_end("Pod", "x-1");
    pods.synced().await.unwrap();
    let overlay = Overlay::new(&pods);
    let mut written = first.clone();
    written["metadata"]["resourceVersion"] = "x-2".into();
    written["spec"]["nodeName"] = "n2".into();
    overlay.wrote(&typed(&written)).unwrap();
    assert_eq!(overlay.get(&key("a")).unwrap().resource_version(), "x-2");
    watch.event("MODIFIED", &written);
    settle().await;
    assert_eq!(
        (
            overlay.get(&key("a")).unwrap().resource_version(),
            overlay.unseen()
        ),
        ("x-2", 0)
    );
    let error = pods.reached("x-3").await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn writes_laid_over_are_bounded_in_number_and_age() {
    let cached = cached().await;
    let overlay = cached
        .overlay
        .clone()
        .with_bounds(2, Duration::from_secs(60));
    for (name, version) in [("b", 6), ("c", 7), ("d", 8), ("d", 7)] {
        overlay.wrote(&typed(&pod(name, version, "n1"))).unwrap();
    }
    assert_eq!(cached.read("b"), None, "the oldest gives way");
    assert_eq!(
        cached.read("d").as_deref(),
        Some("uid-d@8"),
        "the later write counts"
    );
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!((overlay.unseen(), overlay.list().len()), (0, 1));
    let nameless = overlay.wrote(&Pod::default()).unwrap_err();
    assert!(nameless.is_invalid(), "{nameless}");
    cached.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_is_waited_for_until_the_cache_has_reached_it() {
    let mut cached = cached().await;
    assert!(cached.pods.reached("5").now_or_never().is_some());
    let pods = cached.pods.clone();
    let waiting = tokio::spawn(async move { pods.reached(9u64).await });
    cached.hears("MODIFIED", &pod("a", 8, "n1")).await;
    assert!(!waiting.is_finished());
    cached.watch.bookmark("Pod", "9");
    soon(waiting).await.unwrap();
    // A relist brings it, too.
    let pods = cached.pods.clone();
    let waiting = tokio::spawn(async move { pods.reached("99").await });
    settle().await;
    cached.pods.relist();
    let _watch = first_list(&mut cached.script, &[pod("a", 50, "n1")], 100).await;
    soon(waiting).await.unwrap();
    let pods = cached.pods.clone();
    let waiting = tokio::spawn(async move { pods.reached("1000").await });
    settle().await;
    cached.factory.shutdown().await;
    let stopped = soon(waiting).await.unwrap_err();
    assert!(stopped.is_stopped(), "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn a_version_is_not_waited_for_if_those_of_the_server_have_no_order() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    // The first wait begins before the server has shown a version.
    let early = tokio::spawn({
        let pods = pods.clone();
        async move { pods.reached(9u64).await }
    });
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    settle().await;
    assert!(!early.is_finished());
    watch.initial_events_end("Pod", "a1");
    script.confirm_empty("a1").await;
    let error = soon(early).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let late = pods.reached(9u64).now_or_never();
    assert!(late.unwrap().unwrap_err().is_invalid());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn k4_a_key_waits_until_the_cache_has_seen_what_was_written_for_it() {
    let cached = cached().await;
    let (writes, foo, bar) = (OwnWrites::new(), key("foo"), key("bar"));
    assert!(writes.has_seen(&foo), "nothing was written");
    // Two requests at the same time: the reply to the later write is handled first.
    writes.wrote(&foo, &cached.pods, &typed(&pod("b", 8, "n1")));
    writes.wrote(&foo, &cached.pods, &typed(&pod("a", 6, "n1")));
    writes.wrote(&bar, &cached.pods, &typed(&pod("a", 3, "n1")));
    assert!(
        !writes.has_seen(&foo) && writes.has_seen(&bar),
        "version 3 is in the cache"
    );
    let gate = writes.clone();
    let waiting = tokio::spawn({
        let foo = foo.clone();
        async move { gate.seen(&foo).await }
    });
    cached.hears("MODIFIED", &pod("a", 6, "n1")).await;
    assert!(!waiting.is_finished(), "one of two");
    cached.hears("ADDED", &pod("b", 8, "n1")).await;
    soon(waiting).await.unwrap();
    assert_eq!((writes.has_seen(&foo), writes.unseen()), (true, 0));
    // Of an informer that is stopped, nothing is seen any more.
    writes.wrote(&foo, &cached.pods, &typed(&pod("a", 30, "n1")));
    cached.factory.shutdown().await;
    assert!(writes.seen(&foo).await.unwrap_err().is_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_waited_for_may_be_written_to_another_cache() {
    let (first, second) = (cached().await, cached().await);
    let (writes, foo) = (OwnWrites::new(), key("foo"));
    writes.wrote(&foo, &first.pods, &typed(&pod("a", 6, "n1")));
    let waiting = tokio::spawn({
        let (writes, foo) = (writes.clone(), foo.clone());
        async move { writes.seen(&foo).await }
    });
    settle().await;
    writes.wrote(&foo, &second.pods, &typed(&pod("a", 7, "n1")));
    first.hears("MODIFIED", &pod("a", 6, "n1")).await;
    assert!(!waiting.is_finished(), "the second cache lags behind");
    second.hears("MODIFIED", &pod("a", 7, "n1")).await;
    soon(waiting).await.unwrap();
    // The end of the second cache is noticed as well.
    writes.wrote(&foo, &first.pods, &typed(&pod("a", 16, "n1")));
    let waiting = tokio::spawn({
        let (writes, foo) = (writes.clone(), foo.clone());
        async move { writes.seen(&foo).await }
    });
    settle().await;
    writes.wrote(&foo, &second.pods, &typed(&pod("a", 17, "n1")));
    settle().await;
    second.factory.shutdown().await;
    assert!(soon(waiting).await.unwrap_err().is_stopped());
    first.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn seen_writes_are_swept_when_the_number_of_keys_has_doubled() {
    const KEYS: usize = 128;
    let cached = cached().await;
    let writes = OwnWrites::new();
    let wrote = |foo: usize, version| {
        let written = typed(&pod("a", version, "n1"));
        writes.wrote(&key(&format!("foo-{foo}")), &cached.pods, &written);
    };
    (0..KEYS).for_each(|foo| wrote(foo, 6));
    cached.watch.bookmark("Pod", "6");
    settle().await;
    // All are seen, and none is looked at: there are no more keys than before.
    wrote(0, 7);
    assert_eq!(writes.unseen(), KEYS);
    wrote(KEYS, 7);
    assert_eq!(writes.unseen(), 2);
    cached.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lost_the_write_is_not_waited_for() {
    let mut cached = cached().await;
    let (writes, foo) = (OwnWrites::new(), key("foo"));
    cached.hears("MODIFIED", &pod("a", 60, "n1")).await;
    writes.wrote(&foo, &cached.pods, &typed(&pod("a", 70, "n2")));
    cached.wrote(&pod("a", 70, "n2"));
    assert!(writes.seen(&foo).now_or_never().is_none());
    assert_eq!(cached.read("a").as_deref(), Some("uid-a@70"));
    // Restored from what it was before: its present lies behind what the cache had seen, though not
    // behind what it had seen when the write was noted.
    cached.hears("ADDED", &pod("b", 65, "n1")).await;
    cached.pods.relist();
    let _older = first_list(&mut cached.script, &[pod("a", 40, "n1")], 62).await;
    // It asks once more before it believes that.
    let _watch = first_list(&mut cached.script, &[pod("a", 40, "n1")], 62).await;
    settle().await;
    assert_eq!(cached.pods.get(&key("a")).unwrap().resource_version(), "40");
    assert!(writes.has_seen(&foo));
    assert_eq!(cached.read("a").as_deref(), Some("uid-a@40"));
    cached.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_believed_about_versions_that_it_uses_again() {
    let mut cached = cached().await;
    let heard = Heard::default();
    cached.pods.add_handler(heard.handlers()).unwrap();
    cached.hears("MODIFIED", &pod("a", 40, "n1")).await;
    cached.hears("MODIFIED", &pod("b", 60, "n1")).await;
    heard.take();
    // Restored, and written to again: version 40 of the same object is another state now.
    cached.pods.relist();
    for _ in 0..2 {
        // It asks once more before it believes that the server went back.
        let watch = first_list(&mut cached.script, &[pod("a", 40, "n2")], 50).await;
        cached.watch = watch;
    }
    settle().await;
    assert_eq!(heard.take(), ["lost b@60", "update a@40 a@40"]);
    assert_eq!(
        (cached.on_node("n1").len(), cached.on_node("n2").len()),
        (0, 1)
    );
    cached.factory.shutdown().await;
}
