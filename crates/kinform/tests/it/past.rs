//! Reads of the past.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::{Notification, ObjectKey, PastLimits, Snapshot};

use crate::fixture::{factory, first_list, pod, settle};

/// The names and versions of a state.
fn told(snapshot: &Snapshot<Pod>) -> String {
    let mut all: Vec<String> = snapshot
        .list()
        .to_objs()
        .iter()
        .map(|pod| format!("{}@{}", pod.name(), pod.resource_version()))
        .collect();
    all.sort_unstable();
    all.join(" ")
}

fn heard(changes: impl Iterator<Item = Notification<Pod>>) -> String {
    let mut all: Vec<String> = changes
        .map(|change| match change {
            Notification::Added(added) => format!("+{}", added.name()),
            Notification::Updated { old, new } => {
                let (old, new) = (old.resource_version(), new.resource_version());
                format!("{old}>{new}")
            }
            Notification::Deleted(gone) => format!("-{}", gone.name()),
            other => format!("{other:?}"),
        })
        .collect();
    all.sort_unstable();
    all.join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_over_is_read_by_its_version() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    pods.keep_past(PastLimits::default());
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n"), pod("b", 2, "n")], 5).await;
    pods.synced().await.unwrap();
    for (kind, object) in [
        ("MODIFIED", pod("a", 7, "n")),
        ("ADDED", pod("c", 9, "n")),
        ("DELETED", pod("b", 11, "n")),
    ] {
        watch.event(kind, &object);
        settle().await;
    }
    watch.bookmark("Pod", "20");
    settle().await;

    let store = pods.store();
    let states = [
        (5, "a@1 b@2"),
        (6, "a@1 b@2"),
        (7, "a@7 b@2"),
        (9, "a@7 b@2 c@9"),
        (10, "a@7 b@2 c@9"),
        (11, "a@7 c@9"),
        (20, "a@7 c@9"),
    ];
    for (version, expected) in states {
        assert_eq!(told(&store.at(version).unwrap()), expected, "at {version}");
    }
    let before = store.at(4).unwrap_err();
    assert!(
        before.is_expired() && before.to_string().contains("of 5"),
        "{before}"
    );
    assert!(store.at(21).unwrap_err().is_stale());

    let changes = [
        ((5, 11), "+c -b 1>7"),
        ((11, 5), "+b -c 7>1"),
        ((7, 7), ""),
        ((11, 20), ""),
    ];
    for ((from, to), expected) in changes {
        let found = heard(store.changes_between(from, to).unwrap());
        assert_eq!(found, expected, "from {from} to {to}");
    }
    // An old snapshot has its indexes, too, and stays as it is.
    let old = store.at(5).unwrap();
    watch.event("DELETED", &pod("a", 21, "n"));
    settle().await;
    assert_eq!(old.in_namespace("default").len(), 2);
    assert!(old.get(&ObjectKey::new(Some("default"), "a")).is_some());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_before_it_is_asked_for_nor_for_longer_than_its_age() {
    let (factory, mut script) = factory();
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    let watch = first_list(&mut script, &[pod("a", 1, "n")], 5).await;
    pods.synced().await.unwrap();
    assert!(pods.store().at(5).unwrap_err().is_expired());
    pods.keep_past(PastLimits {
        age: Duration::from_secs(60),
        ..PastLimits::default()
    });
    watch.event("MODIFIED", &pod("a", 6, "n"));
    settle().await;
    assert_eq!(told(&pods.store().at(5).unwrap()), "a@1");
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(pods.store().at(5).unwrap_err().is_expired());
    assert_eq!(
        told(&pods.store().at(6).unwrap()),
        "a@6",
        "the present state stays"
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn snapshots_of_two_informers_have_no_difference() {
    let (one, _script) = factory();
    let (other, _other_script) = factory();
    let snapshots = [one, other].map(|factory| factory.informer::<Pod>().snapshot());
    let error = snapshots[0].changes_to(&snapshots[1]).unwrap_err();
    assert!(error.is_invalid(), "{error}");
    assert_eq!(heard(snapshots[0].changes_to(&snapshots[0]).unwrap()), "");
}
