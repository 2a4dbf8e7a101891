//! Changes as handlers hear them: one test a promise.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kinform_core::Object;
use kinform_core::delta::{Change, Delta, Quarantine, QuarantineOrigin};
use kinform_core::fifo::{DeltaFifo, FifoPolicy};
use kinform_core::informer::delivery::{Delivery, Next};
use kinform_core::informer::report::ApplyEvent;
use kinform_core::informer::ring::RingLimits;
use kinform_core::store::edit::BuiltIndex;
use kinform_core::store::index::Index;

use crate::listeners::{Listener, stored, writer};
use crate::objects::Pod;

pub(crate) fn named(name: u8, uid: u8, version: u64) -> Object {
    Pod {
        namespace: 0,
        name,
        uid,
        version,
        node: 0,
        owners: vec![],
    }
    .object()
}

pub(crate) fn list(items: impl IntoIterator<Item = Object>, version: &str) -> Vec<Delta> {
    let items = items.into_iter().map(Delta::Replaced);
    let end = Delta::ListEnd {
        version: version.into(),
    };
    [Delta::ListBegin]
        .into_iter()
        .chain(items)
        .chain([end])
        .collect()
}

pub(crate) fn lines(delivery: &mut Delivery) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match delivery.next() {
            Next::Idle => return lines,
            Next::Synced => lines.push("synced".into()),
            Next::Changes(changes) => lines.extend(changes.iter().map(line)),
        }
    }
}

pub(crate) fn line(change: &Change) -> String {
    let at = |object: &Object| {
        format!(
            "{} {}@{}",
            object.name(),
            object.uid(),
            object.resource_version()
        )
    };
    match change {
        Change::Added {
            object,
            initial: true,
        } => format!("initial {}", at(object)),
        Change::Added { object, .. } => format!("add {}", at(object)),
        Change::Updated { old, new } => {
            format!("update {} from {}", at(new), old.resource_version())
        }
        Change::Deleted {
            object,
            final_state_unknown: true,
        } => format!("gone {}", at(object)),
        Change::Deleted { object, .. } => format!("delete {}", at(object)),
        Change::Sync(object) => format!("sync {}", at(object)),
    }
}

#[test]
fn late_handler_hears_every_stored_object_then_the_stream() {
    // client-go: TestAddWhileActive
    let mut writer = writer(RingLimits::default());
    let mut early = writer.reader().deliver();
    assert_eq!(lines(&mut early), [""; 0]);
    writer.apply(list([named(1, 0, 1), named(2, 0, 2)], "2"));
    writer.apply([Delta::Updated(named(1, 0, 3))]);
    let mut late = writer.reader().deliver();
    writer.apply([Delta::Deleted(named(2, 0, 4))]);
    assert_eq!(
        lines(&mut early),
        ["initial pod1 u0@3", "synced"],
        "it had heard nothing when the list was stored, so it begins where the store is now"
    );
    assert_eq!(lines(&mut late), ["initial pod1 u0@3", "synced"]);
    writer.apply([Delta::Added(named(2, 1, 5))]);
    for delivery in [&mut early, &mut late] {
        assert_eq!(lines(delivery), ["add pod2 u1@5"]);
    }
}

#[test]
fn a_relist_is_heard_as_what_changed_deletes_first() {
    let mut writer = writer(RingLimits::default());
    let mut delivery = writer.reader().deliver();
    writer.apply(list(
        [
            named(1, 0, 1),
            named(2, 0, 2),
            named(3, 0, 3),
            named(4, 0, 4),
        ],
        "4",
    ));
    lines(&mut delivery);
    // 1 is unchanged, 2 changed, 3 was recreated, 4 is gone, 5 is new.
    writer.apply(list(
        [
            named(1, 0, 1),
            named(2, 0, 6),
            named(3, 1, 7),
            named(5, 0, 8),
        ],
        "9",
    ));
    let heard = lines(&mut delivery);
    let expected = [
        "gone pod4 u0@4",
        "update pod2 u0@6 from 2",
        "gone pod3 u0@3",
        "add pod3 u1@7",
        "add pod5 u0@8",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_handler_that_fell_behind_hears_the_difference_from_what_it_was_told() {
    let mut writer = writer(RingLimits {
        changes: 2,
        ..RingLimits::default()
    });
    let mut delivery = writer.reader().deliver();
    writer.apply(list([named(1, 0, 1), named(2, 0, 2)], "2"));
    lines(&mut delivery);
    for version in 3..10 {
        writer.apply([Delta::Updated(named(1, 0, version))]);
    }
    writer.apply([
        Delta::Deleted(named(2, 0, 10)),
        Delta::Added(named(3, 0, 11)),
    ]);
    assert!(delivery.pinned_bytes() > 0);
    assert_eq!(
        lines(&mut delivery),
        [
            "update pod1 u0@9 from 1",
            "gone pod2 u0@2",
            "add pod3 u0@11"
        ]
    );
    assert_eq!((delivery.times_behind(), delivery.pinned_bytes()), (1, 0));
}

#[test]
fn a_deletion_of_the_stored_uid_is_believed_whatever_its_version() {
    let mut writer = writer(RingLimits::default());
    writer.apply([
        Delta::Added(named(1, 1, 20)),
        Delta::Added(named(2, 1, 20)),
        Delta::Deleted(named(1, 0, 10)),
        Delta::Deleted(named(2, 1, 10)),
    ]);
    let root = writer.reader().root();
    assert!(
        root.get(named(1, 1, 20).key_ref()).is_some(),
        "that one had another uid"
    );
    assert!(root.get(named(2, 1, 20).key_ref()).is_none());
}

#[test]
fn an_unreadable_item_without_a_name_withholds_the_deletes_of_its_list() {
    let mut writer = writer(RingLimits::default());
    let unreadable = |key| Quarantine {
        key,
        version: None,
        path: String::new(),
        reason: "cut".into(),
        origin: QuarantineOrigin::List,
    };
    let mut events = |items: Vec<Delta>, version: &str| {
        let mut deltas = vec![Delta::ListBegin];
        deltas.extend(items);
        deltas.push(Delta::ListEnd {
            version: version.into(),
        });
        let events = writer.apply(deltas).events;
        let listed = events.into_iter().find_map(|event| match event {
            ApplyEvent::Listed(listed) => Some(listed),
            _ => None,
        });
        (listed.unwrap(), writer.reader().root())
    };
    events(
        vec![
            Delta::Replaced(named(1, 0, 1)),
            Delta::Replaced(named(2, 0, 2)),
        ],
        "2",
    );
    let (listed, root) = events(vec![Delta::Quarantined(unreadable(None))], "3");
    assert_eq!(
        (
            listed.withheld,
            listed.deleted,
            listed.quarantined,
            root.len()
        ),
        (2, 0, 1, 2)
    );
    // With a name, only the one it names stays.
    let key = named(1, 0, 1).key();
    let (listed, root) = events(vec![Delta::Quarantined(unreadable(Some(key.clone())))], "4");
    assert_eq!((listed.withheld, listed.deleted, root.len()), (0, 1, 1));
    assert!(root.quarantined().contains_key(&key));
    // An item that was read, and has no name, hides nothing.
    let nameless = Quarantine {
        path: "metadata.name".to_owned(),
        reason: "is missing".to_owned(),
        ..unreadable(None)
    };
    let items = vec![
        Delta::Quarantined(nameless),
        Delta::Quarantined(unreadable(Some(key.clone()))),
    ];
    let (listed, root) = events(items, "5");
    assert_eq!((listed.withheld, listed.quarantined, root.len()), (0, 2, 1));
    let healed = writer.apply([Delta::Updated(named(1, 0, 5))]).events;
    assert_eq!(healed, [ApplyEvent::Healed(key)]);
    assert!(writer.reader().root().quarantined().is_empty());
}

#[test]
fn k16_a_second_item_of_one_name_is_left_out_and_told() {
    let mut writer = writer(RingLimits::default());
    let mut delivery = writer.reader().deliver();
    let mut relist = |deltas: Vec<Delta>| {
        let end = Delta::ListEnd {
            version: "9".into(),
        };
        let deltas = [Delta::ListBegin].into_iter().chain(deltas).chain([end]);
        let events = writer.apply(deltas).events;
        let told = events.iter().filter_map(|event| match event {
            ApplyEvent::Quarantined(apart) => {
                assert_eq!(apart.origin, QuarantineOrigin::Duplicate);
                Some(apart.to_string())
            }
            _ => None,
        });
        let root = writer.reader().root();
        let apart = root.quarantined().len();
        (told.collect::<Vec<_>>(), apart, lines(&mut delivery))
    };
    let item = |uid, version| Delta::Replaced(named(1, uid, version));
    let other = || Delta::Replaced(named(2, 5, 1));
    let first = |version| {
        format!("ns0/pod1 at version {version}: came twice in one list; the first is kept")
    };
    let newer = |version| {
        format!("ns0/pod1 at version {version}: came twice in one list; the newer is kept")
    };
    let heard = |lines: &[&str]| {
        lines
            .iter()
            .map(|&line| line.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        relist(vec![
            item(0, 3),
            item(1, 4),
            other(),
            item(2, 2),
            item(0, 3)
        ]),
        (
            vec![first(4), first(2), first(3)],
            1,
            heard(&["initial pod1 u0@3", "initial pod2 u5@1", "synced"])
        )
    );
    // The same again: what is stored is still what came first.
    assert_eq!(
        relist(vec![item(0, 3), other(), item(1, 4)]),
        (vec![first(4)], 1, vec![])
    );
    assert_eq!(
        relist(vec![item(0, 3), item(0, 5), other()]),
        (vec![newer(3)], 0, heard(&["update pod1 u0@5 from 3"]))
    );
    // A stream tells changes of what it has named.
    let changed = vec![
        item(0, 5),
        Delta::Updated(named(1, 0, 6)),
        other(),
        Delta::Deleted(named(2, 5, 7)),
        Delta::Replaced(named(2, 6, 8)),
    ];
    let (told, apart, _) = relist(changed);
    assert_eq!((told, apart), (vec![], 0));
    assert_eq!(writer.counts().quarantined, 5);
}

#[test]
fn a_server_that_went_back_is_believed_and_reported() {
    let mut writer = writer(RingLimits::default());
    let mut delivery = writer.reader().deliver();
    writer.apply(list([named(1, 0, 50)], "60"));
    lines(&mut delivery);
    let stale = writer.apply([Delta::Updated(named(1, 0, 40))]);
    assert!(!stale.is_news);
    assert_eq!((writer.counts().stale, lines(&mut delivery).len()), (1, 0));
    let events = writer.apply(list([named(1, 0, 40)], "45")).events;
    assert!(events.contains(&ApplyEvent::WentBack {
        from: "60".into(),
        to: "45".into()
    }));
    assert_eq!(lines(&mut delivery), ["update pod1 u0@40 from 50"]);
    assert_eq!(writer.reader().root().version().to_string(), "45");
}

/// An item that cannot be read, at the key and version of `object`.
fn apart(object: &Object) -> Delta {
    Delta::Quarantined(Quarantine {
        key: Some(object.key()),
        version: Some(object.resource_version().to_owned()),
        path: String::new(),
        reason: "cut".into(),
        origin: QuarantineOrigin::List,
    })
}

#[test]
fn k24_an_object_that_could_not_be_read_when_a_server_went_back_takes_its_next_change() {
    let end = |version: &str| Delta::ListEnd {
        version: version.into(),
    };
    let change = || Delta::Updated(named(1, 1, 42));
    let gone = || Delta::Deleted(named(1, 1, 42));
    // The change comes after the list that went back, or in it.
    for (in_list, ended, after, expected) in [
        (None, "41", Some(change()), "add pod1 u1@42"),
        (None, "41", Some(gone()), "gone pod1 u0@50"),
        (Some(change()), "42", None, "add pod1 u1@42"),
        (Some(gone()), "42", None, "gone pod1 u0@50"),
    ] {
        let mut writer = writer(RingLimits::default());
        let mut delivery = writer.reader().deliver();
        writer.apply(list([named(1, 0, 50)], "60"));
        lines(&mut delivery);
        let first = [Delta::ListBegin, apart(&named(1, 1, 40))];
        writer.apply(first.into_iter().chain(in_list).chain([end(ended)]));
        writer.apply(after);
        let heard = lines(&mut delivery);
        assert_eq!(
            heard.last().map(String::as_str),
            Some(expected),
            "{heard:?}"
        );
        assert_eq!(writer.counts().stale, 0);
        // What is said again is not believed again.
        let again = writer.apply([Delta::Updated(named(1, 1, 41))]);
        assert_eq!(again.is_news, expected.starts_with("gone"), "{expected}");
    }
}

#[test]
fn an_index_built_beside_the_writer_is_caught_up_also_in_a_list_that_runs() {
    let mut writer = writer(RingLimits::default());
    writer.apply(list((0..9).map(|name| named(name, 0, 1)), "1"));
    let built = BuiltIndex::build(
        writer.reader().root(),
        Index::label("app").with_name("late"),
    );
    writer.apply([
        Delta::Deleted(named(0, 0, 2)),
        Delta::Added(named(10, 0, 3)),
        Delta::ListBegin,
    ]);
    writer.apply([Delta::Replaced(named(11, 0, 4))]);
    let (id, _) = writer.install(built).unwrap();
    assert_eq!(writer.reader().root().by(id, "a0").len(), 9);
    writer.apply([
        Delta::Replaced(named(12, 0, 5)),
        Delta::ListEnd {
            version: "6".into(),
        },
    ]);
    let listed = writer.reader().root().by(id, "a0");
    assert_eq!(
        listed.iter().map(Object::name).collect::<BTreeSet<_>>(),
        ["pod11", "pod12"].into()
    );
}

#[test]
fn a_handler_is_synced_only_after_it_returned_from_its_last_initial_add() {
    let mut writer = writer(RingLimits::default());
    writer.apply(list((0..5).map(|name| named(name, 0, 1)), "1"));
    let mut delivery = writer.reader().deliver();
    assert!(matches!(delivery.next(), Next::Changes(changes) if changes.len() == 5));
    assert!(!delivery.has_synced());
    assert!(matches!(delivery.next(), Next::Synced));
    assert!(delivery.has_synced());
}

#[test]
fn readers_on_other_threads_hear_everything() {
    let mut writer = writer(RingLimits {
        batches: 8,
        ..RingLimits::default()
    });
    writer.apply(list([], "1"));
    let reader = writer.reader();
    let is_over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (reader, is_over) = (reader.clone(), Arc::clone(&is_over));
            scope.spawn(move || {
                let mut listener = Listener::new(&reader);
                loop {
                    let was_over = is_over.load(Ordering::Acquire);
                    if !listener.hear(&reader) && was_over {
                        break;
                    }
                }
                assert_eq!(listener.heard, stored(&reader));
            });
        }
        for version in 2..5_000u64 {
            let name = (version % 7) as u8;
            writer.apply([match version % 3 {
                0 => Delta::Deleted(named(name, 0, version)),
                _ => Delta::Added(named(name, 0, version)),
            }]);
        }
        is_over.store(true, Ordering::Release);
    });
}

#[test]
fn a_coalescing_fifo_holds_the_version_back_until_nothing_older_waits() {
    let mut writer = writer(RingLimits::default());
    let mut fifo = DeltaFifo::new(FifoPolicy::Coalescing, 100);
    let mut push = |delta| assert!(fifo.push(delta).is_ok());
    list([named(1, 0, 1)], "10").into_iter().for_each(&mut push);
    push(Delta::Updated(named(1, 0, 11)));
    push(Delta::Added(named(2, 0, 12)));
    push(Delta::Updated(named(1, 0, 13)));
    let mut versions = Vec::new();
    loop {
        let batch = fifo.pop_batch(1);
        if batch.deltas.is_empty() {
            break;
        }
        writer.apply_batch(batch);
        versions.push(writer.reader().root().version().to_string());
    }
    // Both updates of pod1 came out at once, while pod2 at 12 was waiting.
    assert_eq!(versions, ["", "", "10", "11", "13"]);
}
