//! Reading a part of a cache: by labels, in pages, by a prefix of names, by keys of bytes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kinform::{Index, IndexKey, Informer, InformerFactory, KeyRef, ObjectKey};
use kinform_testkit::{Script, Sending};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::fixture::{factory, first_list, pod, settle};

fn labelled(namespace: &str, name: &str, version: u64, labels: &[(&str, &str)]) -> Value {
    let mut pod = pod(name, version, "n1");
    pod["metadata"]["namespace"] = namespace.into();
    pod["metadata"]["uid"] = format!("{namespace}-{name}").into();
    let labels = labels.iter().map(|(key, value)| (*key, *value));
    pod["metadata"]["labels"] =
        serde_json::to_value(labels.collect::<std::collections::BTreeMap<_, _>>()).unwrap();
    pod
}

async fn synced(pods: &[Value]) -> (InformerFactory, Script, Sending, Informer<Pod>) {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, pods, 1_000).await;
    informer.synced().await.unwrap();
    (factory, script, watch, informer)
}

fn keys(found: Vec<kinform::Obj<Pod>>) -> BTreeSet<ObjectKey> {
    let count = found.len();
    let keys: BTreeSet<_> = found.iter().map(kinform::Obj::key).collect();
    assert_eq!(keys.len(), count, "each once");
    keys
}

#[tokio::test(start_paused = true)]
async fn a_label_selector_selects_the_same_with_and_without_an_index_of_its_label() {
    let mut random = SmallRng::seed_from_u64(5);
    let sent: Vec<Value> = (0..300)
        .map(|at| {
            let mut labels = Vec::new();
            if random.random_bool(0.8) {
                labels.push(("app", ["web", "db", "cache"][random.random_range(0..3)]));
            }
            if random.random_bool(0.5) {
                labels.push(("tier", ["front", "back"][random.random_range(0..2)]));
            }
            labelled(
                ["a", "b"][at % 2],
                &format!("p{at}"),
                at as u64 + 1,
                &labels,
            )
        })
        .collect();
    let (factory, _script, _watch, informer) = synced(&sent).await;
    let selectors = [
        "",
        "app=web",
        "app==db",
        "app in (web,cache)",
        "app in (web),tier=back",
        "app!=web",
        "app notin (web)",
        "!app",
        "app",
        "tier=front,app",
        "app=nobody",
        "app in (web,nobody),!tier",
    ];
    let store = informer.store();
    let read = || {
        selectors.map(|text| {
            let selector = text.parse().unwrap();
            let lister = informer.lister();
            let all = keys(store.matching(&selector));
            assert_eq!(keys(lister.list(&selector)), all, "{text}");
            let [a, b] = ["a", "b"].map(|ns| keys(lister.namespace(ns).list(&selector)));
            assert_eq!(a.union(&b).cloned().collect::<BTreeSet<_>>(), all, "{text}");
            assert!(a.is_disjoint(&b));
            all
        })
    };
    let walked = read();
    informer.add_index(Index::label("app")).unwrap();
    // While it is built, and after it.
    assert_eq!(read(), walked);
    settle().await;
    informer
        .add_index(Index::label("tier").named("by tier"))
        .unwrap();
    settle().await;
    assert_eq!(read(), walked);
    assert_eq!((walked[0].len(), walked[10].len()), (300, 0));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_cache_that_changes_are_in_order_and_each_page_is_of_its_snapshot() {
    let mut random = SmallRng::seed_from_u64(9);
    let name = |at: u32| format!("p{at}");
    let sent: Vec<Value> = (0..200)
        .map(|at| {
            labelled(
                ["a", "b"][at as usize % 2],
                &name(at),
                u64::from(at) + 1,
                &[],
            )
        })
        .collect();
    let (factory, _script, watch, informer) = synced(&sent).await;
    let mut version = 1_000;
    let mut was = informer.snapshot();
    for _ in 0..20 {
        for snapshot in [informer.snapshot(), was.clone()] {
            let mut all = snapshot.list().keys();
            all.sort_unstable();
            let (mut paged, mut after) = (Vec::new(), None);
            loop {
                let page = snapshot.page(after.as_ref(), 7);
                let Some(last) = page.last() else { break };
                assert!(page.len() <= 7);
                after = Some(last.key());
                paged.extend(page.iter().map(kinform::Obj::key));
            }
            assert_eq!(paged, all);
            let prefix = KeyRef {
                namespace: "b",
                name: "p1",
            };
            let expected: Vec<_> = all
                .iter()
                .filter(|key| key.namespace() == Some("b") && key.name().starts_with("p1"))
                .cloned()
                .collect();
            let first = snapshot.page_with_prefix(prefix, None, 5);
            let after = first.last().map(kinform::Obj::key);
            let rest = snapshot.page_with_prefix(prefix, after.as_ref(), 1_000);
            let found: Vec<_> = first.iter().chain(&rest).map(kinform::Obj::key).collect();
            assert_eq!(found, expected);
        }
        was = informer.snapshot();
        for _ in 0..random.random_range(1..20) {
            version += 1;
            let at = random.random_range(0..300);
            let pod = labelled(["a", "b"][at as usize % 2], &name(at), version, &[]);
            let kind = ["ADDED", "DELETED"][random.random_range(0..2)];
            watch.event(kind, &pod);
        }
        settle().await;
    }
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn index_keys_are_texts_or_bytes() {
    let sent: Vec<Value> = (1..=300)
        .map(|at| pod(&format!("p{at}"), at, "n1"))
        .collect();
    let (factory, _script, _watch, informer) = synced(&sent).await;
    let number = |pod: &Pod| -> u32 {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        name[1..].parse().unwrap()
    };
    let by_number = Index::by("number", move |pod: &Pod| [number(pod).to_be_bytes()]);
    let by_number = informer.add_index(by_number).unwrap();
    let by_node = informer.add_index(Index::path("spec.nodeName")).unwrap();
    settle().await;
    assert_eq!(
        by_number.get(258_u32.to_be_bytes()).keys()[0].name(),
        "p258"
    );
    assert_eq!(by_node.get("n1").len(), 300);
    assert_eq!(by_node.get(String::from("n1")).len(), 300);
    let values = by_number.values();
    let ordered: Vec<_> = values.keys().map(|key| key.as_bytes().to_vec()).collect();
    let expected: Vec<_> = (1..=300_u32).map(|at| at.to_be_bytes().to_vec()).collect();
    assert_eq!(ordered, expected, "numbers in their order");
    let (key, count) = by_node.values().pop_first().unwrap();
    assert_eq!((key.as_str(), count), (Some("n1"), 300));
    assert_eq!(IndexKey::from("n1"), key);
    factory.shutdown().await;
}
