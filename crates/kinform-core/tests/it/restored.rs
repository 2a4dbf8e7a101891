//! A store that was read from a snapshot: what handlers hear, and what is believed.

use std::collections::BTreeMap;

use kinform_core::Object;
use kinform_core::delta::{Change, Delta};
use kinform_core::informer::delivery::{Delivery, Next};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::object::projection::Projection;
use kinform_core::snapshot::Snapshot;
use kinform_core::store::directory::Seed;

fn object(name: &str, version: u64, data: &str) -> Object {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"{version}"}},"data":"{data}"}}"#
    );
    Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
}

fn restored(objects: Vec<Object>) -> Writer {
    let mut writer = Writer::new([], Seed(7), RingLimits::default()).unwrap();
    writer.restore(Snapshot {
        version: "100".to_owned(),
        objects,
        quarantined: BTreeMap::new(),
    });
    writer
}

/// The words of everything that a handler hears now.
fn heard(delivery: &mut Delivery) -> Vec<String> {
    let mut words = Vec::new();
    loop {
        match delivery.next() {
            Next::Idle => return words,
            Next::Synced => words.push("synced".to_owned()),
            Next::Changes(changes) => words.extend(changes.iter().map(|change| {
                let name = change.object().name().to_owned();
                match change {
                    Change::Added { initial: true, .. } => format!("initial {name}"),
                    Change::Added { .. } => format!("add {name}"),
                    Change::Updated { .. } => format!("update {name}"),
                    Change::Deleted { .. } => format!("delete {name}"),
                    Change::Sync(_) => format!("sync {name}"),
                }
            })),
        }
    }
}

fn list(objects: Vec<Object>, version: &str) -> Vec<Delta> {
    let items = objects.into_iter().map(Delta::Replaced);
    let end = Delta::ListEnd {
        version: version.to_owned(),
    };
    [Delta::ListBegin]
        .into_iter()
        .chain(items)
        .chain([end])
        .collect()
}

#[test]
fn handlers_hear_what_was_restored_then_changes_then_that_it_is_synced() {
    let mut writer = restored(vec![object("a", 90, ""), object("b", 91, "")]);
    let mut early = writer.reader().deliver();
    assert_eq!(heard(&mut early), ["initial a", "initial b"]);
    assert!(!early.has_synced() && !writer.reader().root().has_synced());
    writer.apply([
        Delta::Updated(object("a", 110, "")),
        Delta::Deleted(object("b", 111, "")),
    ]);
    assert_eq!(heard(&mut early), ["update a", "delete b"]);
    let mut late = writer.reader().deliver();
    assert_eq!(heard(&mut late), ["initial a"]);
    assert!(writer.apply([Delta::CaughtUp]).is_news);
    assert_eq!(heard(&mut early), ["synced"]);
    assert_eq!(heard(&mut late), ["synced"]);
    assert!(early.has_synced() && writer.reader().root().has_synced());
    assert_eq!(
        heard(&mut writer.reader().deliver()),
        ["initial a", "synced"]
    );
}

#[test]
fn a_list_is_heard_as_differences_from_what_was_restored() {
    let mut writer = restored(vec![object("a", 90, ""), object("b", 91, "")]);
    let mut delivery = writer.reader().deliver();
    heard(&mut delivery);
    writer.apply(list(
        vec![object("a", 120, ""), object("c", 121, "")],
        "130",
    ));
    let mut words = heard(&mut delivery);
    assert_eq!(words.pop().unwrap(), "synced");
    words.sort_unstable();
    assert_eq!(words, ["add c", "delete b", "update a"]);
}

#[test]
fn the_first_list_has_the_last_word_also_under_a_known_version() {
    // The server decodes its objects in another way than when the snapshot was taken.
    let mut writer = restored(vec![object("a", 90, "old"), object("b", 91, "old")]);
    let mut delivery = writer.reader().deliver();
    heard(&mut delivery);
    writer.apply(list(
        vec![object("a", 90, "new"), object("b", 91, "old")],
        "130",
    ));
    assert_eq!(heard(&mut delivery), ["update a", "synced"]);
    let stored = writer.reader().root();
    let a = stored.get(object("a", 90, "").key_ref()).unwrap().clone();
    assert!(a.same_content(&object("a", 90, "new")));
}

#[test]
fn objects_that_are_forgotten_are_heard_as_deleted() {
    let mut writer = restored(vec![object("a", 90, ""), object("b", 91, "")]);
    let mut delivery = writer.reader().deliver();
    heard(&mut delivery);
    writer.apply([Delta::Forget]);
    let mut words = heard(&mut delivery);
    words.sort_unstable();
    assert_eq!(words, ["delete a", "delete b"]);
    let root = writer.reader().root();
    assert!(root.is_empty() && !root.has_synced());
    writer.apply(list(vec![object("a", 200, "")], "210"));
    assert_eq!(heard(&mut delivery), ["add a", "synced"]);
}
