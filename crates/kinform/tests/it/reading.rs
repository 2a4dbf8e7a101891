//! Reading a cache: listers, selectors, pages in order, what a transform was asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::{
    DecodedValues, Handlers, Index, LabelSelector, Obj, ObjRef, ObjectKey, Storage, Target,
    Transform,
};
use serde_json::Value;

use crate::fixture::{factory, first_list, pod, settle};

fn in_namespace(namespace: &str, name: &str, version: u64) -> Value {
    let mut pod = pod(name, version, "n1");
    pod["metadata"]["namespace"] = namespace.into();
    pod["metadata"]["uid"] = format!("{namespace}-{name}").into();
    pod
}

#[tokio::test(start_paused = true)]
async fn a_lister_selects_everything_nothing_or_by_labels() {
    // client-go: TestListAll
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let mut bare = in_namespace("x", "bare", 3);
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    let sent = [in_namespace("x", "a", 1), in_namespace("y", "b", 2), bare];
    let _watch = first_list(&mut script, &sent, 5).await;
    pods.synced().await.unwrap();
    let lister = pods.lister();
    let table = [
        ("", "a b bare"),
        ("app", "a b"),
        ("!app", "bare"),
        ("app=a", "a"),
        ("app!=a", "b bare"),
        ("app in (a,b),app notin (b)", "a"),
        ("app=nobody", ""),
    ];
    for (selector, expected) in table {
        let selector: LabelSelector = selector.parse().unwrap();
        let mut found: Vec<String> = lister
            .list(&selector)
            .iter()
            .map(|pod| pod.name().to_owned())
            .collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), expected, "{selector}");
        // The empty namespace is all of them.
        let all = lister.namespace("").list(&selector).len();
        let parts = ["x", "y", "z"].map(|name| lister.namespace(name).list(&selector).len());
        assert_eq!(
            (all, parts.iter().sum::<usize>()),
            (found.len(), found.len()),
            "{selector}"
        );
    }
    assert!(lister.namespace("x").get("b").unwrap_err().is_not_found());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_read_in_pages_in_the_order_of_keys() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let sent: Vec<Value> = (0..50)
        .map(|n| {
            in_namespace(
                ["y", "x"][n % 2],
                &format!("web-{}", n * 7 % 50),
                n as u64 + 1,
            )
        })
        .collect();
    let watch = first_list(&mut script, &sent, 60).await;
    pods.synced().await.unwrap();
    let snapshot = pods.snapshot();
    // What changes meanwhile is in no page.
    watch.event("ADDED", &in_namespace("x", "web-100", 61));
    settle().await;
    let (mut read, mut after) = (Vec::new(), None::<ObjectKey>);
    loop {
        let page = snapshot.list().page(after.as_ref(), 8);
        assert!(page.len() == 8 || read.len() + page.len() == 50);
        let Some(last) = page.last() else { break };
        after = Some(last.key());
        read.extend(page.iter().map(|pod| pod.key()));
    }
    let listing = snapshot.list();
    assert_eq!(read, listing.keys());
    let in_place = listing.iter().zip(listing.objects());
    let same = in_place.filter(|(pod, object)| pod.raw().ptr_eq(object));
    assert_eq!((same.count(), listing.objects().count()), (50, 50));
    assert_eq!(
        (read.len(), read[0].to_string()),
        (50, "x/web-1".to_owned())
    );
    assert!(snapshot.list().page(None, 0).is_empty());
    // All of a prefix, by beginning at it.
    let start = ObjectKey::new(Some("x"), "web-4");
    let of_prefix = snapshot.list().page(Some(&start), 100);
    let of_prefix = of_prefix
        .iter()
        .take_while(|pod| pod.name().starts_with("web-4"));
    assert_eq!(of_prefix.count(), 5, "41, 43, 45, 47, 49");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_borrowed_handle_tells_what_a_held_one_does() {
    let (factory, mut script) = factory();
    let plain = factory.informer::<Pod>();
    let compressed = factory
        .select(Target::<Pod>::new())
        .storage(Storage::Compressed)
        .build();
    factory.start().unwrap();
    let sent: Vec<Value> = (0..300).map(|n| of_team(n, ["a", "b"][n % 2])).collect();
    for _ in 0..2 {
        first_list(&mut script, &sent, 300).await;
    }
    let by_team = [&plain, &compressed].map(|pods| pods.add_index(Index::label("team")).unwrap());
    for (pods, by_team) in [&plain, &compressed].into_iter().zip(by_team) {
        pods.synced().await.unwrap();
        settle().await;
        let listing = by_team.get("a");
        let names: BTreeSet<&str> = listing.iter().map(|pod| pod.name()).collect();
        assert_eq!((names.len(), names.first()), (150, Some(&"web-0")));
        for (borrowed, held) in listing.iter().zip(listing.to_objs()) {
            check(&borrowed, &held);
            check(&held.obj_ref(), &borrowed.to_obj());
            check(&borrowed.cast::<Pod>().clone(), &held.cast());
        }
        // What is held stays when the listing is gone, and when the object is.
        let held = listing.iter().next().unwrap().to_obj();
        let (json, version) = (held.to_json(), held.resource_version().to_owned());
        drop(listing);
        assert_eq!((held.to_json(), held.resource_version()), (json, &*version));
    }
    factory.shutdown().await;
}

fn of_team(n: usize, team: &str) -> Value {
    let mut pod = pod(&format!("web-{n}"), n as u64 + 1, "n1");
    pod["metadata"]["labels"]["team"] = team.into();
    pod["metadata"]["ownerReferences"] = serde_json::json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true,
    }]);
    pod["spec"]["containers"][0]["args"] = (0..20).map(|n| format!("--option-{n}=on")).collect();
    pod
}

fn check(borrowed: &ObjRef<'_, Pod>, held: &Obj<Pod>) {
    let path = "spec.containers[*].args[*]".parse().unwrap();
    assert_eq!(borrowed.key(), held.key());
    assert_eq!(borrowed.key_ref(), held.key_ref());
    assert_eq!(borrowed.namespace(), held.namespace());
    assert_eq!(borrowed.name(), held.name());
    assert_eq!(borrowed.uid(), held.uid());
    assert_eq!(borrowed.resource_version(), held.resource_version());
    assert_eq!(borrowed.is_terminating(), held.is_terminating());
    assert!(borrowed.labels().eq(held.labels()) && borrowed.labels().count() == 2);
    assert_eq!(borrowed.label("team").as_deref(), Some("a"));
    assert_eq!(held.label("team").as_deref(), Some("a"));
    assert!(borrowed.annotations().eq(held.annotations()));
    assert_eq!(borrowed.annotation("x"), held.annotation("x"));
    assert_eq!(borrowed.owner_references(), held.owner_references());
    assert_eq!(borrowed.owner_references().len(), 1);
    assert_eq!(borrowed.at(&path).unwrap(), held.at(&path).unwrap());
    assert_eq!(borrowed.at(&path).unwrap().len(), 20);
    assert_eq!(borrowed.is_projected(), held.is_projected());
    assert_eq!(borrowed.type_meta(), held.type_meta());
    assert_eq!(borrowed.to_json(), held.to_json());
    assert_eq!(borrowed.raw().bytes(), held.raw().bytes());
    assert_eq!(borrowed.typed().unwrap(), held.typed().unwrap());
    assert_eq!(format!("{borrowed:?}"), format!("{held:?}"));
}

#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_for_each_state_that_comes_and_never_for_a_resync() {
    // client-go: TestRealFIFO_transformer, TestDeltaFIFO_transformer, TestTransformingInformer,
    // TestTransformingInformerRace, TestCacheWithTransformer
    let (factory, mut script) = factory();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let transform = Transform::typed(move |mut pod: Pod| {
        count.fetch_add(1, Ordering::Relaxed);
        let labels = pod.metadata.labels.get_or_insert_default();
        assert!(
            labels.insert("seen".into(), "once".into()).is_none(),
            "transformed twice"
        );
        pod
    });
    let pods = factory
        .select(Target::<Pod>::new())
        .transform(transform)
        .build();
    let (told, resynced) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (tell, resync) = (Arc::clone(&told), Arc::clone(&resynced));
    let handlers = Handlers::new()
        .on_add(|pod| assert_eq!(pod.label("seen").as_deref(), Some("once")))
        .on_update(move |old, new| {
            let both = [old, new].map(|pod| pod.label("seen").is_some());
            assert_eq!(both, [true, true]);
            if old.resource_version() == new.resource_version() {
                resync.fetch_add(1, Ordering::Relaxed);
            } else {
                tell.fetch_add(1, Ordering::Relaxed);
            }
        })
        .on_delete(move |pod| assert!(pod.label("seen").is_some()))
        .resync_period(Duration::from_secs(5));
    let registration = pods.add_handler(handlers).unwrap();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n1")], 5).await;
    settle().await;
    assert_eq!(
        runs.load(Ordering::Relaxed),
        2,
        "once each in a streaming list"
    );
    watch.event("MODIFIED", &pod("a", 6, "n2"));
    settle().await;
    assert_eq!(
        (runs.load(Ordering::Relaxed), told.load(Ordering::Relaxed)),
        (3, 1)
    );
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert!(
        resynced.load(Ordering::Relaxed) >= 6,
        "two objects, some resyncs"
    );
    assert_eq!(
        runs.load(Ordering::Relaxed),
        3,
        "a resync tells what is stored"
    );
    watch.event("DELETED", &pod("b", 9, "n1"));
    settle().await;
    assert_eq!((pods.list().len(), registration.panics()), (1, 0));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_decoded_is_kept_as_far_as_the_informer_was_told() {
    let (factory, mut script) = factory();
    let none = factory.informer::<Pod>();
    let some = factory
        .select(Target::<Pod>::new())
        .decoded_values(DecodedValues::Within(16 << 10))
        .build();
    factory.start().unwrap();
    let sent: Vec<Value> = (0..40)
        .map(|n| pod(&format!("p{n}"), n + 1, "n1"))
        .collect();
    first_list(&mut script, &sent, 50).await;
    some.synced().await.unwrap();
    let kept = || {
        some.list()
            .iter()
            .filter(|pod| pod.raw().has_typed())
            .count()
    };
    // They share one watch, and what one keeps the other is given.
    none.list()
        .iter()
        .for_each(|pod| drop(pod.typed().unwrap()));
    assert_eq!(kept(), 0);
    some.list()
        .iter()
        .for_each(|pod| drop(pod.typed().unwrap()));
    let (first, all) = (kept(), some.list().len());
    assert!(first > 0 && first < all, "{first} of {all}");
    for _ in 0..3 {
        some.list()
            .iter()
            .for_each(|pod| drop(pod.typed().unwrap()));
        assert!(kept() <= first + 2, "{} after {first}", kept());
    }
    let listing = some.list();
    let last = listing.iter().find(|pod| pod.raw().has_typed()).unwrap();
    assert!(Arc::ptr_eq(&last.typed().unwrap(), &last.typed().unwrap()));
    factory.shutdown().await;
}
