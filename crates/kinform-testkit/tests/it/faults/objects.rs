//! F23, F24 and F27: objects that cannot be read, that come back under their name, or on which a
//! user's function fails.
//!
//! ```text
//! Tamper { damages one object } │ delete and create in a gap │ transform, index ──▶ one object, no other
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Index, ReportEvent, Transform};
use kinform_testkit::Fault;

use super::{BACKOFF, Frames, SECOND, Setup, Stand, check, each};

fn quarantines(event: &ReportEvent) -> bool {
    match event {
        ReportEvent::Quarantined(what) => {
            let key = what.key.as_ref().map(ToString::to_string);
            key.is_none_or(|key| key == "apple/poison")
        }
        _ => false,
    }
}

#[test]
fn f23_an_object_that_cannot_be_read_costs_itself_until_its_next_version() {
    let line = "F23 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        // In the first list: pages, or initial events.
        let mut stand = Setup::of(cell).prepare().await?;
        stand.put("poison", 1).await?;
        stand.tamper.set(Frames::Corrupt("number"));
        stand.factory.start()?;
        tokio::time::sleep(BACKOFF).await;
        let stats = stand.stats();
        check(stats.quarantined_now == 1 && stats.objects > 5, || {
            format!("{stats:?}, {:?}", stand.reported)
        })?;
        // Its next version, and that of any other object, is read.
        stand.change(150).await?;
        stand.put("poison", 2).await?;
        stand.informer.relist();
        stand.recovers(BACKOFF).await?;

        // In the watch.
        let lists = stand.stats().lists;
        stand.tamper.set(Frames::Corrupt("number"));
        stand.put("poison", 3).await?;
        stand.put("other", 3).await?;
        tokio::time::sleep(SECOND).await;
        check(stand.reports(quarantines) >= 1, || {
            format!("{:?}", stand.reported)
        })?;
        check(stand.has("other"), || "the others do not flow".to_owned())?;
        stand.put("poison", 4).await?;
        stand.recovers(SECOND).await?;
        check(stand.stats().lists == lists, || {
            format!("{:?}", stand.stats())
        })?;

        // A body that ends in an object: the watch goes on where it was whole.
        stand.meets(Fault::TruncateAfter(100), "watch", 1);
        stand.server().cut_watches();
        stand.change(5).await?;
        stand.recovers(BACKOFF).await?;
        check(stand.stats().lists == lists, || {
            format!("{:?}", stand.stats())
        })?;
        stand.end().await
    });
}

#[test]
fn f24_a_namesake_that_came_in_a_gap_is_a_delete_and_an_add() {
    let line = "F24 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.put("twice", 1).await?;
        stand.agrees(SECOND).await?;
        stand.outage();
        stand
            .delete("/api/v1/namespaces/apple/configmaps/twice")
            .await?;
        stand.put("twice", 1).await?;
        stand.server().expire_history();
        stand.heal();
        // The checker fails on an update from one uid to another, and on an add without a delete.
        stand.recovers(BACKOFF).await?;
        stand.relisted("expired")?;
        stand.end().await
    });
}

fn is_named(map: &ConfigMap, name: &str) -> bool {
    map.metadata.name.as_deref() == Some(name)
}

#[test]
fn f27_a_transform_or_an_index_that_fails_costs_its_object_until_the_function_works() {
    let line = "F27 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let fails = Arc::new(AtomicBool::new(true));
        let is_failing = Arc::clone(&fails);
        let transform = Transform::typed(move |map: ConfigMap| {
            let fails = is_named(&map, "poison") && is_failing.load(Ordering::Relaxed);
            assert!(!fails, "this panic is part of the test");
            map
        });
        let mut stand = Setup::of(cell).transform(transform).start().await?;
        let is_failing = Arc::clone(&fails);
        let index = stand
            .informer
            .add_index(Index::by("name", move |map: &ConfigMap| {
                let fails = is_named(map, "thorn") && is_failing.load(Ordering::Relaxed);
                assert!(!fails, "this panic is part of the test");
                map.metadata.name.clone()
            }))?;
        for name in ["poison", "thorn", "other"] {
            stand.put(name, 1).await?;
        }
        tokio::time::sleep(SECOND).await;
        let stats = stand.stats();
        check(stats.quarantined_now == 1 && stats.unindexed == 1, || {
            format!("{stats:?}")
        })?;
        check(stand.reports(quarantines) == 1, || {
            format!("{:?}", stand.reported)
        })?;
        let found = |name: &str| index.get(name).len();
        check((found("thorn"), found("other")) == (0, 1), || {
            "an index holds what it should not".to_owned()
        })?;
        check(stand.has("thorn"), || {
            "what is not indexed is not stored".to_owned()
        })?;
        fails.store(false, Ordering::Relaxed);
        for name in ["poison", "thorn"] {
            stand.put(name, 2).await?;
        }
        stand.recovers(SECOND).await?;
        check((found("thorn"), found("poison")) == (1, 1), || {
            "it did not heal".to_owned()
        })?;
        stand.end().await
    });
}
