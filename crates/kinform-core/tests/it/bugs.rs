//! Bugs that informers shipped with: one test a bug, named after it, that fails if it is back.
//!
//! ```text
//! deltas, as a server or a slow queue would say them ──▶ fifo, applier, store, deliveries ──▶ what is heard
//! ```
//!
//! Each names where the bug was seen; `cargo xtask mutants` puts most of them back.

use std::collections::BTreeSet;
use std::sync::Arc;

use kinform_core::delta::{Delta, Quarantine, QuarantineOrigin};
use kinform_core::fifo::{DeltaFifo, FifoPolicy};
use kinform_core::informer::delivery::{Delivery, Next, Origin};
use kinform_core::informer::report::ApplyEvent;
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::{BuiltIndex, Edit};
use kinform_core::store::index::{Index, IndexError};
use kinform_core::store::root::Root;
use kinform_core::{Object, TypedCache};

use crate::informer::{lines, list, named};
use crate::listeners::{Listener, stored, writer};
use crate::objects::Pod;

const POLICIES: [FifoPolicy; 2] = [FifoPolicy::InOrder, FifoPolicy::Coalescing];

/// An informer whose queue is emptied only when the test says so.
struct Slow {
    fifo: DeltaFifo,
    writer: Writer,
    delivery: Delivery,
}

impl Slow {
    /// One whose first list was heard.
    fn new(policy: FifoPolicy, first: impl IntoIterator<Item = Object>) -> Self {
        let writer = writer(RingLimits::default());
        let mut slow = Self {
            fifo: DeltaFifo::new(policy, 10_000),
            delivery: writer.reader().deliver(),
            writer,
        };
        slow.say(list(first, "4"));
        slow.hear();
        slow
    }

    fn say(&mut self, deltas: impl IntoIterator<Item = Delta>) {
        let mut all = deltas.into_iter();
        assert!(all.all(|delta| self.fifo.push(delta).is_ok()));
    }

    /// Applies what waits; what the handler hears of it.
    fn hear(&mut self) -> Vec<String> {
        loop {
            let batch = self.fifo.pop_batch(256);
            if batch.is_empty() {
                return lines(&mut self.delivery);
            }
            self.writer.apply_batch(batch);
        }
    }

    fn root(&self) -> Root {
        self.writer.reader().root()
    }
}

// kubernetes#27004: the delete was dropped since the store did not know the object yet.
#[test]
fn b1_a_delete_is_kept_while_the_add_waits_in_the_queue() {
    for policy in POLICIES {
        let mut slow = Slow::new(policy, []);
        slow.say([Delta::Added(named(1, 0, 5)), Delta::Deleted(named(1, 0, 6))]);
        assert_eq!(slow.hear(), ["add pod1 u0@5", "delete pod1 u0@6"]);
        assert!(slow.root().is_empty());
    }
}

// kubernetes#83810: an item of a list was skipped since a delete of it waited.
#[test]
fn b2_an_object_that_a_list_names_is_added_although_its_delete_waits() {
    for policy in POLICIES {
        let mut slow = Slow::new(policy, [named(1, 0, 1)]);
        slow.say([Delta::Deleted(named(1, 0, 5))]);
        slow.say(list([named(1, 1, 7)], "8"));
        assert_eq!(slow.hear(), ["delete pod1 u0@5", "add pod1 u1@7"]);
        assert_eq!(slow.root().len(), 1);
    }
}

// kubernetes#115658: what was only in the queue when a list came without it was never deleted.
#[test]
fn b3_what_was_only_in_the_queue_at_a_relist_is_deleted_with_it() {
    for policy in POLICIES {
        let mut slow = Slow::new(policy, [named(1, 0, 1)]);
        slow.say((2..100).map(|name| Delta::Added(named(name, 0, 5))));
        slow.say(list([named(1, 0, 1)], "6"));
        let heard = slow.hear();
        let count = |word: &str| heard.iter().filter(|line| line.starts_with(word)).count();
        assert_eq!((count("add"), count("gone"), heard.len()), (98, 98, 196));
        assert_eq!(slow.root().len(), 1);
    }
}

// kubernetes#133565: a name that came back under another uid between two lists was an update.
#[test]
fn b4_a_new_uid_under_the_same_name_is_a_delete_and_an_add() {
    let expected = ["gone pod1 u0@1", "add pod1 u1@7"];
    for policy in POLICIES {
        let mut slow = Slow::new(policy, [named(1, 0, 1)]);
        slow.say(list([named(1, 1, 7)], "8"));
        assert_eq!(slow.hear(), expected, "by a list");
        let mut slow = Slow::new(policy, [named(1, 0, 1)]);
        slow.say([Delta::Updated(named(1, 1, 7))]);
        assert_eq!(slow.hear(), expected, "by a watch");
    }
    // Also for a handler that fell behind and hears the difference only.
    let mut writer = writer(RingLimits {
        changes: 1,
        ..RingLimits::default()
    });
    let mut delivery = writer.reader().deliver();
    writer.apply(list([named(1, 0, 1)], "4"));
    lines(&mut delivery);
    writer.apply([Delta::Deleted(named(1, 0, 6)), Delta::Added(named(1, 1, 7))]);
    assert_eq!(lines(&mut delivery), expected);
}

// kube's watcher: deletions that a relist found were only implied, so that subscribers heard none.
#[test]
fn b5_each_handler_hears_one_delete_for_each_object_that_a_relist_lacks() {
    let mut slow = Slow::new(FifoPolicy::InOrder, (1..6).map(|name| named(name, 0, 1)));
    let mut other = slow.writer.reader().deliver();
    assert_eq!(lines(&mut other).len(), 6);
    slow.say(list([named(2, 0, 1), named(4, 0, 1)], "9"));
    let expected = ["gone pod1 u0@1", "gone pod3 u0@1", "gone pod5 u0@1"];
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(slow.hear()), expected);
    assert_eq!(sorted(lines(&mut other)), expected);
    slow.say(list([named(2, 0, 1), named(4, 0, 1)], "10"));
    assert_eq!(slow.hear(), [""; 0], "and only one");
}

// fabric8 kubernetes-client#3318: changes that a relist found were taken for resyncs and filtered;
// #3969: updates of the same version were delivered.
#[test]
fn b7_a_relist_tells_every_change_and_nothing_that_did_not_change() {
    for policy in POLICIES {
        let mut slow = Slow::new(policy, (1..5).map(|name| named(name, 0, 1)));
        let version = |name| if name % 2 == 0 { 7 } else { 1 };
        slow.say(list((1..5).map(|name| named(name, 0, version(name))), "8"));
        let expected = ["update pod2 u0@7 from 1", "update pod4 u0@7 from 1"];
        assert_eq!(slow.hear(), expected);
        slow.say([Delta::Updated(named(2, 0, 7)), Delta::Added(named(1, 0, 1))]);
        assert_eq!(slow.hear(), [""; 0], "the same again is no change");
    }
}

// falcosecurity k8s-metacollector#188: a transform blanked the version, so that every update looked like
// a resync (client-go's isSync) and was dropped.
#[test]
fn b8_a_change_is_seen_whatever_a_transform_erases() {
    let bare = |version| named(1, 0, version).with_payload(b"{}").unwrap();
    let mut slow = Slow::new(FifoPolicy::InOrder, [bare(1)]);
    slow.say([Delta::Updated(bare(5))]);
    assert_eq!(slow.hear(), ["update pod1 u0@5 from 1"]);
    slow.say(list([bare(6)], "7"));
    assert_eq!(slow.hear(), ["update pod1 u0@6 from 5"]);
    slow.say(list([bare(6)], "8"));
    assert_eq!(slow.hear(), [""; 0]);
}

// kubernetes#134928: the error of a delta was ignored and the version moved on, in silence.
#[test]
fn b9_the_version_passes_a_failed_object_only_when_it_is_set_apart_and_told() {
    let failed = |name, version: &str, origin| Quarantine {
        key: Some(named(name, 0, 1).key()),
        version: Some(version.into()),
        path: "spec".into(),
        reason: "the transform failed".into(),
        origin,
    };
    let mut writer = writer(RingLimits::default());
    writer.apply(list([named(1, 0, 1), named(2, 0, 2)], "4"));
    let lost = failed(1, "5", QuarantineOrigin::Watch);
    let published = writer.apply([Delta::Quarantined(lost.clone())]);
    assert_eq!(published.events, [ApplyEvent::Quarantined(lost.clone())]);
    let root = writer.reader().root();
    assert_eq!(root.version().to_string(), "5");
    assert_eq!(root.quarantined().get(&named(1, 0, 1).key()), Some(&lost));
    assert_eq!(root.len(), 2, "what is stored stays");
    // In a list, what failed is not taken for gone.
    let mut deltas = list([], "6");
    deltas.insert(
        1,
        Delta::Quarantined(failed(1, "5", QuarantineOrigin::List)),
    );
    writer.apply(deltas);
    assert_eq!(writer.reader().root().len(), 1);
    let healed = writer.apply([Delta::Updated(named(1, 0, 7))]).events;
    assert_eq!(healed, [ApplyEvent::Healed(named(1, 0, 1).key())]);
    assert_eq!(writer.counts().quarantined, 2);
}

// kubernetes#116122, kubernetes#123072: the server's cache lost events, and informers never recovered.
#[test]
fn b12_what_the_server_forgot_to_tell_is_healed_by_the_next_list() {
    for policy in POLICIES {
        let mut slow = Slow::new(policy, (1..5).map(|name| named(name, 0, 1)));
        // Of the delete of 1, the update of 2, and the recreation of 3, nothing was said.
        slow.say([Delta::Updated(named(4, 0, 9))]);
        assert_eq!(slow.hear(), ["update pod4 u0@9 from 1"]);
        slow.say(list([named(2, 0, 6), named(3, 1, 8), named(4, 0, 9)], "10"));
        let expected = [
            "gone pod1 u0@1",
            "update pod2 u0@6 from 1",
            "gone pod3 u0@1",
            "add pod3 u1@8",
        ];
        assert_eq!(slow.hear(), expected);
    }
}

// kubernetes#73845, etcd#15271, etcd#20221: a watch said again what it had said: back in time.
// fault: F18
#[test]
fn b13_a_replayed_window_is_not_heard_again() {
    let window = || {
        [
            Delta::Updated(named(1, 0, 11)),
            Delta::Updated(named(1, 0, 12)),
            Delta::Updated(named(2, 0, 13)),
            Delta::Deleted(named(2, 0, 14)),
            Delta::Added(named(2, 1, 15)),
        ]
    };
    for policy in POLICIES {
        let mut slow = Slow::new(policy, [named(1, 0, 1), named(2, 0, 2)]);
        slow.say(window());
        assert_eq!(slow.hear().len(), 5);
        slow.say(window());
        slow.say([Delta::Bookmark {
            version: "13".into(),
        }]);
        assert_eq!(slow.hear(), [""; 0], "{policy:?}");
        assert_eq!(slow.root().version().to_string(), "15");
        slow.say([Delta::Updated(named(2, 1, 16))]);
        assert_eq!(slow.hear(), ["update pod2 u1@16 from 15"]);
    }
}

// kubernetes#68179: a resync of everything was told before what had just happened.
#[test]
fn b30_what_happens_is_heard_in_the_middle_of_a_resync_of_everything() {
    let all = || (0..10).flat_map(|ns| (0..200).map(move |name| (ns, name)));
    let pod = |namespace, name, version| {
        let pod = Pod {
            namespace,
            name,
            uid: 0,
            version,
            node: 0,
            owners: vec![],
        };
        pod.object()
    };
    let mut slow = Slow::new(
        FifoPolicy::InOrder,
        all().map(|(ns, name)| pod(ns, name, 1)),
    );
    let due = [slow.delivery.id()].into();
    slow.writer.apply([Delta::Sync { due }]);
    let mut synced = 0;
    let mut hot = 10;
    loop {
        hot += 1;
        slow.writer.apply([Delta::Updated(pod(0, 0, hot))]);
        let mut pieces = Vec::new();
        for _ in 0..2 {
            if let Next::Changes(changes) = slow.delivery.next() {
                let syncs = usize::from(changes.origin() == Origin::Resync) * changes.len();
                synced += syncs;
                pieces.push(changes.origin());
            }
        }
        assert!(
            pieces.contains(&Origin::Live),
            "fresh news wait: {pieces:?}"
        );
        if !pieces.contains(&Origin::Resync) {
            break;
        }
    }
    assert_eq!(synced, 2_000, "nor does the resync starve");
}

/// Names the node; fails for node 9.
fn by_node() -> Index {
    let function = |object: &Object| {
        let node = object.at(&"spec.nodeName".parse().unwrap())[0].to_string();
        match &*node {
            "node9" => Err(IndexError("no such node".into())),
            _ => Ok(vec![node.into_bytes()]),
        }
    };
    Index::function("node", Arc::new(function))
}

// kubernetes#43605: a deleted object stayed in the index whose function had failed for it;
// kubernetes#109115: an update lost a value that was still valid.
#[test]
fn b31_an_index_is_what_its_function_says_of_what_is_stored() {
    let empty = Root::empty(Seed(1));
    let mut edit = Edit::new(&empty);
    let built = BuiltIndex::build(empty, by_node());
    let id = edit.install(built).unwrap();
    let on = |node, version| {
        let pod = Pod {
            namespace: 0,
            name: 1,
            uid: 0,
            version,
            node,
            owners: vec![],
        };
        pod.object()
    };
    let mut expect = |write: &mut dyn FnMut(&mut Edit), expected: &[(&str, usize)]| {
        write(&mut edit);
        let root = edit.fork().commit(0);
        let values = root.index_values(id);
        let values: BTreeSet<_> = values.map(|(value, count)| (&**value, count)).collect();
        let expected_values = expected
            .iter()
            .map(|(value, count)| (value.as_bytes(), *count));
        assert_eq!(values, expected_values.collect());
        for (value, count) in expected {
            assert_eq!(root.by(id, value).iter().count(), *count);
        }
    };
    expect(&mut |edit| _ = edit.insert(on(1, 1)), &[("node1", 1)]);
    expect(&mut |edit| _ = edit.insert(on(1, 2)), &[("node1", 1)]);
    expect(&mut |edit| _ = edit.insert(on(9, 3)), &[]);
    expect(&mut |edit| _ = edit.insert(on(2, 4)), &[("node2", 1)]);
    expect(&mut |edit| _ = edit.insert(on(9, 5)), &[]);
    let gone = on(9, 6);
    expect(&mut |edit| _ = edit.remove(gone.key_ref()), &[]);
}

// client-go's pendingNotifications: what a slow handler has not heard grows without a bound.
#[test]
fn b33_a_stalled_handler_costs_no_more_than_the_ring() {
    let limits = RingLimits {
        changes: 64,
        ..RingLimits::default()
    };
    let mut writer = writer(limits);
    let mut stalled = writer.reader().deliver();
    writer.apply(list((0..10).map(|name| named(name, 0, 1)), "1"));
    lines(&mut stalled);
    for version in 2..5_000 {
        writer.apply([Delta::Updated(named((version % 10) as u8, 0, version))]);
        assert!(writer.reader().ring().kept_changes() <= 64);
    }
    // At most what it was told and what is stored now.
    let one = named(0, 0, 1).heap_size();
    assert!(stalled.pinned_bytes() <= 10 * one);
    assert_eq!(lines(&mut stalled).len(), 10, "one difference a key");
}

// kubernetes#130767: readers that listed held the lock which the writer needed.
#[test]
fn b34_a_reader_in_the_middle_of_a_list_delays_no_write() {
    let mut slow = Slow::new(FifoPolicy::InOrder, (0..100).map(|name| named(name, 0, 1)));
    let snapshot = slow.root();
    let view = snapshot.list();
    let mut reading = view.iter();
    for version in 5..55 {
        assert_eq!(reading.next().map(Object::resource_version), Some("1"));
        slow.writer.apply([Delta::Updated(named(99, 0, version))]);
        let newest = slow.root();
        let written = newest.get(named(99, 0, 1).key_ref());
        assert_eq!(written.and_then(Object::revision), Some(version));
    }
    assert_eq!(
        reading.count(),
        50,
        "and the reader goes on in its snapshot"
    );
}

// kube#1630: a late subscriber could not get what is stored and what changes without a gap or a repeat.
#[test]
fn b43_a_handler_may_come_at_every_step_and_misses_nothing() {
    let mut writer = writer(RingLimits::default());
    let reader = writer.reader();
    let mut listeners = Vec::new();
    let script = |version: u64| {
        let name = (version * 7 % 200) as u8;
        match version % 5 {
            0 => vec![Delta::Deleted(named(name, 0, version))],
            1 => list((0..190).map(|name| named(name, 0, 1)), &version.to_string()),
            _ => vec![Delta::Updated(named(name, 0, version))],
        }
    };
    for version in 1..150 {
        writer.apply(script(version));
        listeners.push(Listener::new(&reader));
        // Each hears one piece a step: many are in the middle of what was stored when they came.
        for listener in &mut listeners {
            listener.hear(&reader);
        }
    }
    for listener in &mut listeners {
        while listener.hear(&reader) {}
        assert_eq!(listener.heard, stored(&reader));
    }
}

/// A decoded value whose end reads the store, as a destructor of the user's might.
#[derive(serde::Deserialize)]
struct Curious {}

static STORE: std::sync::OnceLock<kinform_core::informer::writer::Reader> =
    std::sync::OnceLock::new();
static READ: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

impl Drop for Curious {
    fn drop(&mut self) {
        if let Some(store) = STORE.get() {
            let stored = store.root().list().iter().count();
            READ.fetch_add(stored, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

// kube's reflector store: a relist freed the whole old map while it held the lock for writing.
#[test]
fn d12_old_objects_are_freed_where_no_reader_waits() {
    let mut writer = writer(RingLimits {
        changes: 0,
        ..RingLimits::default()
    });
    let meta = kinform_api::TypeMeta {
        api_version: "v1".into(),
        kind: "Pod".into(),
    };
    let decoded = (0..100).map(|name| {
        let object = named(name, 0, 1);
        assert!(object.typed::<Curious>(&meta, TypedCache::Always).is_ok());
        object
    });
    writer.apply(list(decoded, "1"));
    assert!(STORE.set(writer.reader()).is_ok());
    // While each old object is freed, the store is read: what is stored then is all new.
    writer.apply(list((0..100).map(|name| named(name, 1, 2)), "2"));
    assert_eq!(READ.load(std::sync::atomic::Ordering::Relaxed), 100 * 100);
}
