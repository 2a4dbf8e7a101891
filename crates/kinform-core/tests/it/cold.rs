//! A cold object is the object: in every respect that a reader can ask about.

use std::sync::Arc;

use kinform_api::{FieldPath, TypeMeta};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::tier::Tier;
use kinform_core::object::cold::Press;
use kinform_core::object::dictionary::Dictionary;
use kinform_core::store::index::Index;
use kinform_core::{Encoding, Object, Projection, TypedBudget, TypedCache};
use serde_json::Value;

use crate::cluster::object;
use crate::golden::objects;
use crate::listeners::{Listener, stored, writer};
use crate::protobuf::{recorded, split};
use kinform_core::delta::Delta;
use kinform_core::store::edit::BuiltIndex;

/// Every recorded object, in the encodings that it was recorded in.
fn golden() -> Vec<Object> {
    let projection = Projection::new();
    let json = objects().into_iter().map(|(_, original)| {
        let body = original.to_string();
        Object::from_json(body.as_bytes(), &projection).unwrap()
    });
    let mut all: Vec<_> = json.collect();
    for list in recorded() {
        if list.status != 200 || !list.file.starts_with("list/") {
            continue;
        }
        let body = &mut std::iter::once(&*list.bytes);
        // Some are tables or of one object: what of them is a list counts.
        let _ = split(Encoding::Protobuf, body, |item| {
            let item = item.checked().unwrap();
            all.push(Object::from_item(&item, &projection).unwrap());
        });
    }
    all
}

fn press(samples: &[Object]) -> Press {
    Press::new(Arc::new(Dictionary::train(samples).unwrap()))
}

fn meta() -> TypeMeta {
    TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
    }
}

#[track_caller]
fn check(object: &Object, cold: &Object) {
    let at = format!("{object:?}");
    assert!(cold.is_cold() && !object.is_cold(), "{at}");
    assert!(cold.heap_size() < object.heap_size(), "{at}");
    // Accessors that do not inflate.
    assert_eq!(cold.key(), object.key());
    assert_eq!(
        (cold.namespace(), cold.name()),
        (object.namespace(), object.name())
    );
    assert_eq!(
        (cold.uid(), cold.resource_version()),
        (object.uid(), object.resource_version())
    );
    assert_eq!(
        (cold.revision(), cold.key_hash()),
        (object.revision(), object.key_hash())
    );
    assert_eq!(
        (cold.encoding(), cold.byte_len()),
        (object.encoding(), object.byte_len())
    );
    assert_eq!(cold.is_terminating(), object.is_terminating());
    assert_eq!(cold.is_projected(), object.is_projected());
    assert!(cold.has_key(object.key_ref()));
    // Its twin.
    let thawed = cold.thawed();
    assert!(
        !thawed.is_cold() && thawed.heap_size() == object.heap_size(),
        "{at}"
    );
    assert_eq!(thawed.bytes(), object.bytes(), "{at}");
    assert!(thawed.labels().eq(object.labels()) && thawed.annotations().eq(object.annotations()));
    assert_eq!(thawed.owner_references(), object.owner_references());
    assert_eq!((thawed.name(), thawed.uid()), (object.name(), object.uid()));
    // Comparisons and copies of the cold one itself.
    assert!(
        cold.same_content(object) && object.same_content(cold),
        "{at}"
    );
    assert!(
        cold.same_but_version(object) && object.same_but_version(cold),
        "{at}"
    );
    assert_eq!(cold.to_json(&meta()), object.to_json(&meta()), "{at}");
    let value = cold.typed::<Value>(&meta(), TypedCache::Never).unwrap();
    assert_eq!(
        value,
        object.typed::<Value>(&meta(), TypedCache::Never).unwrap()
    );
    let path: FieldPath = "metadata.labels".parse().unwrap();
    let less = Projection::new().drop_path(path);
    let (mine, theirs) = (
        cold.narrowed(&less).unwrap(),
        object.narrowed(&less).unwrap(),
    );
    assert!(mine.same_content(&theirs) && !mine.is_cold(), "{at}");
    let other = br#"{"metadata":{"name":"other"},"data":1}"#;
    let (mine, theirs) = (
        cold.with_payload(other).unwrap(),
        object.with_payload(other).unwrap(),
    );
    assert_eq!(
        (mine.key(), mine.uid(), mine.bytes()),
        (theirs.key(), theirs.uid(), theirs.bytes())
    );
    // In place, as every lens does it.
    assert_eq!(cold.clone().bytes(), object.bytes(), "{at}");
    assert!(cold.labels().eq(object.labels()));
    assert!(
        cold.thawed().ptr_eq(&cold.thawed()),
        "what was read in place is kept"
    );
}

#[test]
fn every_recorded_object_is_the_same_when_cold() {
    let all = golden();
    same_when_cold(&all, press(&all));
}

#[test]
fn every_recorded_object_is_the_same_when_cold_without_zstd() {
    let all = golden();
    let dictionary = Dictionary::for_lz4(&all).unwrap();
    same_when_cold(&all, Press::new(Arc::new(dictionary)));
}

fn same_when_cold(all: &[Object], mut press: Press) {
    let mut encodings = [0, 0];
    for object in all {
        // What would not be smaller stays as it is.
        if let Some(cold) = press.pack(object) {
            check(object, &cold);
            assert!(press.pack(&cold).is_none(), "it is cold already");
            encodings[usize::from(object.encoding() == Encoding::Protobuf)] += 1;
        }
    }
    assert!(encodings.iter().all(|packed| *packed > 20), "{encodings:?}");
}

#[test]
fn strings_that_the_bytes_do_not_hold_as_they_are_stay_known() {
    let samples: Vec<_> = (0..40).map(|version| object("a", 1, version)).collect();
    let mut press = press(&samples);
    let text = "what all of them say ".repeat(20);
    let escaped = format!(
        r#"{{"metadata":{{"name":"\u0061-0","namespace":"sh\u006fp","uid":"\u0075","resourceVersion":"1\u0032"}},"data":"{text}"}}"#
    );
    let escaped = Object::from_json(escaped.as_bytes(), &Projection::new()).unwrap();
    check(&escaped, &press.pack(&escaped).unwrap());
    let dropped = Projection::new().drop_path("metadata".parse().unwrap());
    let projected = escaped.narrowed(&Projection::new()).unwrap();
    let projected = Object::from_json(projected.bytes(), &dropped).unwrap();
    assert_eq!(projected.key().as_str(), "shop/a-0");
    let cold = press.pack(&projected).unwrap();
    assert_eq!(
        (cold.key().as_str(), cold.uid(), cold.revision()),
        ("shop/a-0", "u", Some(12))
    );
    assert_eq!(cold.thawed().key().as_str(), "shop/a-0");
    assert_eq!(cold.thawed().bytes(), projected.bytes());
}

#[test]
fn what_is_decoded_is_remembered_beside_compressed_bytes() {
    let samples: Vec<_> = (0..40).map(|version| object("a", 1, version)).collect();
    let cold = press(&samples).pack(&samples[0]).unwrap();
    let budget = TypedBudget::new(1 << 20);
    let first = budget.typed::<Value>(&cold, &meta()).unwrap();
    let again = budget.typed::<Value>(&cold, &meta()).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert!(budget.used() > cold.byte_len());
    assert!(!cold.thawed().has_typed(), "nothing was inflated in place");
}

#[test]
fn k5_a_store_turns_cold_at_a_training_and_nobody_hears_of_it() {
    let limits = RingLimits::default();
    let (mut writer, mut plain) = (writer(limits).with_tier(Tier::new()), writer(limits));
    let mut listener = Listener::new(&writer.reader());
    let list = |count: u64, version: u64| {
        let items = (0..count).map(move |n| Delta::Replaced(object(&format!("o{n}"), n, version)));
        let version = version.to_string();
        let items = [Delta::ListBegin].into_iter().chain(items);
        items.chain([Delta::ListEnd { version }])
    };
    writer.apply(list(300, 1));
    plain.apply(list(300, 1));
    while listener.hear(&writer.reader()) {}
    assert!(
        writer
            .reader()
            .root()
            .list()
            .iter()
            .all(|object| !object.is_cold())
    );
    let before = writer.reader().root();
    let training = writer.training().unwrap();
    writer.trained(training.run());
    let root = writer.reader().root();
    assert!(root.list().iter().all(Object::is_cold));
    assert!(root.heap_size() < before.heap_size() * 3 / 4);
    assert_eq!(root.position(), before.position());
    assert!(!listener.hear(&writer.reader()));
    assert_eq!(stored(&writer.reader()), stored(&plain.reader()));
    // Updates, deletes, lists and late indexes find cold objects like any others.
    for writer in [&mut writer, &mut plain] {
        writer.apply([
            Delta::Updated(object("o1", 1, 5)),
            Delta::Added(object("o1", 1, 5)),
            Delta::Deleted(object("o2", 2, 6)),
        ]);
        writer.apply(list(200, 6));
        let index = Index::path("data".parse().unwrap());
        let built = BuiltIndex::build(writer.reader().root(), index);
        writer.install(built).unwrap();
    }
    assert_eq!(stored(&writer.reader()), stored(&plain.reader()));
    let (root, other) = (writer.reader().root(), plain.reader().root());
    assert!(root.list().iter().all(Object::is_cold));
    let value = other
        .list()
        .iter()
        .next()
        .unwrap()
        .at(&"data".parse().unwrap())[0]
        .to_string();
    let id = root.index("data").unwrap();
    assert_eq!((root.by(id, &value).len(), root.len()), (200, 200));
    let warm = root
        .list()
        .iter()
        .filter(|object| matches!(object.thawed(), std::borrow::Cow::Borrowed(_)))
        .count();
    assert_eq!(warm, 0, "nothing stays inflated");
    while listener.hear(&writer.reader()) {}
}
