//! Controllers that work on a share of the keys.

use kinform_core::shards::{ShardId, Shards};
use tokio::sync::Notify;

use super::*;
use crate::share::Share;

fn object(namespace: &str, name: &str, version: u32) -> serde_json::Value {
    let mut object = map(name, version);
    object["metadata"]["namespace"] = namespace.into();
    object["metadata"]["uid"] = format!("{namespace}-{name}").into();
    object
}

/// A share by namespace, and namespaces of its shards 0 and 1.
fn halves() -> (Share, String, String) {
    let shards = Shards::by_namespace(2).unwrap();
    let names = |shard| {
        let mut names = (0..).map(|number| format!("ns-{number}"));
        names
            .find(|name| shards.shard_of(name) == ShardId(shard))
            .unwrap()
    };
    (Share::new(shards), names(0), names(1))
}

#[tokio::test(start_paused = true)]
async fn only_keys_of_open_shards_are_reconciled_and_all_of_them_when_one_is_opened() {
    let (maps, seen) = (maps(), Seen::default());
    let (share, a, b) = halves();
    maps.put(&object(&a, "x", 1));
    maps.put(&object(&b, "y", 2));
    let controller = controller(&maps).sharded(&share);
    let running = tokio::spawn(controller.run(see(&seen)));
    assert!(seen.take().await.is_empty(), "it has no shard");
    share.open(ShardId(0));
    assert_eq!(seen.take().await, [format!("{a}/x 1")]);
    maps.put(&object(&a, "x", 3));
    maps.put(&object(&b, "y", 4));
    assert_eq!(seen.take().await, [format!("{a}/x 3")]);
    share.open(ShardId(1));
    assert_eq!(seen.take().await, [format!("{b}/y 4")]);
    share.close(ShardId(0));
    maps.put(&object(&a, "x", 5));
    maps.put(&object(&b, "y", 6));
    assert_eq!(seen.take().await, [format!("{b}/y 6")]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_or_is_to_be_retried_is_dropped_with_its_shard() {
    let (maps, seen) = (maps(), Seen::default());
    let (share, a, _) = halves();
    share.open(ShardId(0));
    let controller = controller(&maps).sharded(&share);
    let metrics = controller.metrics();
    let told = seen.clone();
    let running = tokio::spawn(controller.run(move |object: Arc<ConfigMap>, ctx: Ctx<()>| {
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        told.add(format!("{} {version}", ctx.key()));
        std::future::ready(Ok::<_, std::convert::Infallible>(Action::requeue(
            MS * 1000,
        )))
    }));
    maps.put(&object(&a, "x", 1));
    assert_eq!(seen.take().await, [format!("{a}/x 1")]);
    share.close(ShardId(0));
    tokio::time::sleep(MS * 5000).await;
    assert!(seen.take().await.is_empty());
    assert_eq!(metrics.snapshot().elsewhere, 1);
    assert_eq!(metrics.snapshot().queue.known, 0, "nothing of it is kept");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_in_peace_when_its_shard_is_closed_and_at_once_when_it_is_aborted() {
    let maps = maps();
    let (share, a, _) = halves();
    share.open(ShardId(0));
    let (goes_on, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let controller = controller(&maps).sharded(&share).workers(2);
    let metrics = controller.metrics();
    let (wait, count) = (Arc::clone(&goes_on), Arc::clone(&ended));
    let running = tokio::spawn(controller.run(move |_: Arc<ConfigMap>, _: Ctx<()>| {
        let (wait, count) = (Arc::clone(&wait), Arc::clone(&count));
        async move {
            wait.notified().await;
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(Action::await_change())
        }
    }));
    maps.put(&object(&a, "x", 1));
    tokio::time::sleep(MS).await;
    assert_eq!(share.running(ShardId(0)), 1);
    share.close(ShardId(0));
    goes_on.notify_one();
    share.drained(ShardId(0)).await;
    assert_eq!(ended.load(Ordering::Relaxed), 1);

    share.open(ShardId(0));
    tokio::time::sleep(MS).await;
    assert_eq!(share.running(ShardId(0)), 1, "it begins with all objects");
    share.abort(ShardId(0));
    share.drained(ShardId(0)).await;
    assert_eq!(ended.load(Ordering::Relaxed), 1, "it was dropped");
    assert_eq!(metrics.snapshot().elsewhere, 1);
    assert_eq!(metrics.snapshot().failed, 0);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn by_uid_the_stored_object_decides() {
    let (maps, seen) = (maps(), Seen::default());
    let share = Share::new(Shards::by_uid(64).unwrap());
    // Hashes of texts that differ in their last letters alone are close.
    for name in ["one", "y", "another"] {
        maps.put(&object("a", name, 1));
    }
    share.open(share.shards().shard_of("a-y"));
    let running = tokio::spawn(controller(&maps).sharded(&share).run(see(&seen)));
    assert_eq!(seen.take().await, ["a/y 1"]);
    maps.remove("a/y");
    assert!(seen.take().await.is_empty());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_divided_is_refused() {
    let by_uid = Share::new(Shards::by_uid(2).unwrap());
    let gone = |_, _: Ctx<()>| {
        std::future::ready(Ok::<_, std::convert::Infallible>(Action::await_change()))
    };
    let refused = controller(&maps()).on_gone(gone).sharded(&by_uid);
    let error = refused.run(see(&Seen::default())).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let (by_namespace, ..) = halves();
    let nodes: Arc<Script<ConfigMap>> = Script::scoped("", "nodes", "Node", Scope::Cluster);
    let refused = controller(&nodes).sharded(&by_namespace);
    let error = refused.run(see(&Seen::default())).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
}
