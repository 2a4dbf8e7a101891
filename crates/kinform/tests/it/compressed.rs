//! A cache that is kept compressed reads as any other.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kinform::{Handlers, Index, Obj, Storage, Target};
use serde_json::Value;

use crate::fixture::{Heard, factory, first_list, pod, settle};

fn wordy(name: &str, version: u64, node: &str) -> Value {
    let mut pod = pod(name, version, node);
    pod["metadata"]["annotations"]["about"] = "what all of these pods say of themselves".into();
    pod["spec"]["containers"][0]["args"] = (0..20).map(|n| format!("--option-{n}=on")).collect();
    pod
}

fn sent(version: u64) -> Vec<Value> {
    let pod = |n| wordy(&format!("web-{n}"), version, &format!("node-{}", n % 3));
    (0..300).map(pod).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_compressed_reads_as_it_was_sent() {
    let (factory, mut script) = factory();
    let pods = factory
        .select(Target::<Pod>::new())
        .storage(Storage::Compressed)
        .build();
    pods.add_index(Index::path("spec.nodeName")).unwrap();
    let heard = Heard::default();
    let _heard = pods.add_handler(heard.handlers());
    // What changed, as handlers see it: the state before is compressed, the new one is not.
    let nodes = Arc::new(Mutex::new(Vec::new()));
    let node = |pod: &Obj<Pod>| pod.at(&"spec.nodeName".parse().unwrap()).unwrap()[0].to_string();
    let told = Arc::clone(&nodes);
    let _nodes = pods.add_handler(Handlers::new().on_update(move |old, new| {
        told.lock().unwrap().push((node(old), node(new)));
    }));
    factory.start().unwrap();
    let watch = first_list(&mut script, &sent(1), 5).await;
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(heard.take().len(), 301);

    let listing = pods.list();
    assert!(listing.objects().all(|object| object.is_cold()));
    let plain: usize = listing.objects().map(|object| object.byte_len()).sum();
    let kept = pods.stats().heap_bytes as usize;
    assert!(kept < plain * 3 / 4, "{kept} of {plain}");
    for expected in sent(1) {
        let name = expected["metadata"]["name"].as_str().unwrap();
        let pod = pods
            .get(&format!("default/{name}").parse().unwrap())
            .unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&pod.to_json()).unwrap(),
            expected
        );
        assert_eq!(pod.label("app").as_deref(), Some(name));
        assert_eq!(pod.raw().bytes(), pod.clone().raw().bytes());
        let typed = pod.typed().unwrap();
        assert_eq!(serde_json::to_value(&*typed).unwrap(), expected);
    }
    let selector = "app in (web-7,web-8)".parse().unwrap();
    assert_eq!(pods.lister().list(&selector).len(), 2);
    assert_eq!(pods.list().typed().count(), 300);
    let inflated = |object: &&kinform_core::Object| object.thawed().ptr_eq(&object.thawed());
    assert_eq!(
        listing.objects().filter(inflated).count(),
        0,
        "handles inflate for themselves"
    );

    // Updates, deletes and an index that comes late.
    watch.event("MODIFIED", &wordy("web-7", 6, "node-9"));
    watch.event("DELETED", &wordy("web-8", 7, "node-2"));
    settle().await;
    assert_eq!(
        *nodes.lock().unwrap(),
        [("node-1".to_owned(), "node-9".to_owned())]
    );
    assert_eq!(heard.take(), ["update web-7@1 web-7@6", "delete web-8@7"]);
    let by_label = pods.add_index(Index::label("app")).unwrap();
    settle().await;
    assert_eq!(
        (by_label.get("web-7").len(), by_label.get("web-8").len()),
        (1, 0)
    );
    let by_node = pods.store().by_index("spec.nodeName", "node-1").unwrap();
    assert_eq!((by_node.len(), pods.list().len()), (99, 299));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn compressed_and_plain_are_two_watches() {
    let (factory, _script) = factory();
    let _plain = factory.informer::<Pod>();
    let _compressed = factory
        .select(Target::<Pod>::new())
        .storage(Storage::Compressed)
        .build();
    let _same = factory
        .select(Target::<Pod>::new())
        .storage(Storage::Compressed)
        .build();
    assert_eq!(factory.informers().len(), 2);
}
