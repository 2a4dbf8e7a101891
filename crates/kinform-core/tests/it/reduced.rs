//! A store that gives up fields is the same store in every respect but those fields, and has them again after
//! a list.

use std::sync::Arc;

use kinform_api::FieldPath;
use kinform_core::budget::Form;
use kinform_core::delta::Delta;
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::{Reader, Writer};
use kinform_core::object::reduction::Reduction;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::BuiltIndex;
use kinform_core::store::index::Index;
use kinform_core::{Object, Projection};
use proptest::prelude::*;

use crate::listeners::{Listener, stored};

fn path(text: &str) -> FieldPath {
    text.parse().unwrap()
}

fn reduction() -> Arc<Reduction> {
    Arc::new(Reduction::keeping([path("spec.node")]))
}

fn thing(n: u64, version: u64) -> Object {
    let json = format!(
        r#"{{"metadata":{{"name":"o{n}","uid":"u{n}","resourceVersion":"{version}","labels":{{"app":"a{}"}}}},"spec":{{"node":"n{}","zone":"z{}","words":"{:400}"}}}}"#,
        n % 5,
        (n + version) % 3,
        version % 2,
        "what nobody reads"
    );
    Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
}

fn plain() -> Writer {
    let indexes = [Index::label("app"), Index::path(path("spec.zone"))];
    Writer::new(indexes, Seed(3), RingLimits::default()).unwrap()
}

fn reducible() -> Writer {
    plain().reducible_to(reduction())
}

fn items(count: u64, version: u64) -> impl Iterator<Item = Delta> {
    (0..count).map(move |n| Delta::Replaced(thing(n, version)))
}

fn end(version: u64) -> Delta {
    Delta::ListEnd {
        version: version.to_string(),
    }
}

fn list(count: u64, version: u64) -> impl Iterator<Item = Delta> {
    let items = items(count, version);
    [Delta::ListBegin]
        .into_iter()
        .chain(items)
        .chain([end(version)])
}

/// A list that says of each object what is stored.
fn same_list(reader: &Reader, version: u64) -> Vec<Delta> {
    let stored = stored(reader);
    let items = stored.iter().map(|(key, (_, version))| {
        let n = key.name()[1..].parse().unwrap();
        Delta::Replaced(thing(n, *version))
    });
    let begin = [Delta::ListBegin].into_iter();
    begin.chain(items).chain([end(version)]).collect()
}

fn reduced(writer: &Writer) -> usize {
    let root = writer.reader().root();
    let all = root.list();
    let count = all.iter().filter(|object| object.is_reduced()).count();
    assert_eq!(count, root.reduced().objects);
    count
}

fn hear_all(listener: &mut Listener, reader: &Reader) -> usize {
    std::iter::from_fn(|| listener.hear(reader).then_some(())).count()
}

/// Compares a reducible store with one that keeps everything.
#[track_caller]
fn check(writer: &Writer, plain: &Writer) {
    let (mine, whole) = (writer.reader().root(), plain.reader().root());
    assert_eq!(stored(&writer.reader()), stored(&plain.reader()));
    let reduction = reduction();
    for object in whole.list().iter() {
        let found = mine.get(object.key_ref()).unwrap();
        match found.is_reduced() {
            true => {
                let twin = reduction.reduce(object).unwrap();
                assert_eq!(found.thawed().bytes(), twin.bytes());
            }
            false => assert!(found.same_content(object), "{object:?}"),
        }
    }
    for index in whole.indexes() {
        let id = |root: &kinform_core::store::root::Root| root.index(index.name()).unwrap();
        let values = |root: &kinform_core::store::root::Root| {
            let mut values: Vec<_> = root
                .index_values(id(root))
                .map(|(value, count)| (value.clone(), count))
                .collect();
            values.sort();
            values
        };
        assert_eq!(values(&mine), values(&whole), "{}", index.name());
    }
}

#[test]
fn fields_are_given_up_in_pieces_and_a_list_brings_them_back_and_nobody_hears_of_it() {
    let (mut writer, mut plain) = (reducible(), plain());
    let reader = writer.reader();
    let mut listener = Listener::new(&reader);
    for writer in [&mut writer, &mut plain] {
        writer.apply(list(1_000, 1));
    }
    hear_all(&mut listener, &reader);
    let whole = writer.holds();
    assert_eq!(whole.form, Some(Form::Whole));
    let expected = whole.reduced.unwrap();
    assert!(expected < whole.held / 3 * 2, "{whole:?}");

    writer.reduce();
    assert_eq!(writer.holds().form, None);
    assert!(writer.reform(100));
    assert!((100..200).contains(&reduced(&writer)));
    check(&writer, &plain);
    // What comes meanwhile has the new form, and is heard whole.
    for writer in [&mut writer, &mut plain] {
        writer.apply([Delta::Updated(thing(900, 5)), Delta::Deleted(thing(1, 6))]);
    }
    while writer.reform(100) {}
    assert_eq!(reduced(&writer), 999);
    check(&writer, &plain);
    let holds = writer.holds();
    assert_eq!(
        (holds.form, holds.reduced),
        (Some(Form::Reduced), Some(holds.held))
    );
    let (held, whole) = (holds.held, plain.holds().held);
    assert!(held.abs_diff(expected) < expected / 5, "{held} {expected}");
    assert!(
        holds.plain.abs_diff(whole) < whole / 10,
        "{holds:?} {whole}"
    );
    assert_eq!(hear_all(&mut listener, &reader), 1, "the two changes");

    // A list says the same versions: of them, the fields are not stored again.
    writer.apply(same_list(&reader, 7));
    assert_eq!(
        (reduced(&writer), hear_all(&mut listener, &reader)),
        (999, 0)
    );
    writer.keep_whole();
    assert_eq!(writer.holds().form, None, "until a list has come");
    let mut late = Listener::new(&reader);
    assert!(late.hear(&reader));
    writer.apply(same_list(&reader, 8));
    assert_eq!(reduced(&writer), 0);
    assert_eq!(hear_all(&mut listener, &reader), 0);
    hear_all(&mut late, &reader);
    check(&writer, &plain);
    let (mine, whole) = (writer.holds(), plain.holds());
    assert_eq!(mine.form, Some(Form::Whole));
    assert_eq!((mine.held, mine.plain), (whole.held, whole.plain));
}

#[test]
fn a_list_that_brings_fields_back_counts_once_and_is_awaited_until_it_has_ended() {
    let mut writer = reducible();
    writer.apply(list(500, 1));
    let whole = writer.holds();
    writer.reduce();
    while writer.reform(100) {}
    // It began before they were wanted again: what it stored so far has lost them.
    writer.apply([Delta::ListBegin].into_iter().chain(items(10, 1)));
    writer.keep_whole();
    assert!(writer.awaits_list());
    writer.apply(items(500, 1).skip(10).chain([end(1)]));
    assert!(writer.awaits_list() && writer.holds().form.is_none());
    let items = [Delta::ListBegin].into_iter().chain(items(490, 1));
    writer.apply(items);
    let during = writer.holds();
    assert!(!writer.awaits_list() && during.form.is_none());
    assert!(during.plain < whole.plain / 10 * 11, "{during:?} {whole:?}");
    writer.apply([Delta::ListAbort]);
    assert!(writer.awaits_list());
    writer.apply(list(500, 1));
    assert!(!writer.awaits_list());
    assert_eq!(
        (writer.holds().form, reduced(&writer)),
        (Some(Form::Whole), 0)
    );
}

#[test]
fn an_object_is_compressed_and_reduced_at_once() {
    let (mut writer, mut plain) = (reducible(), plain());
    for writer in [&mut writer, &mut plain] {
        writer.apply(list(500, 1));
    }
    writer.compress();
    let training = writer.training().unwrap();
    writer.trained(training.run());
    while writer.reform(100) {}
    let packed = writer.holds();
    assert_eq!(packed.form, Some(Form::Compressed));
    writer.reduce();
    while writer.reform(100) {}
    let both = writer.holds();
    assert_eq!((both.form, reduced(&writer)), (Some(Form::Reduced), 500));
    assert!(both.held < packed.held, "{both:?} {packed:?}");
    check(&writer, &plain);
    writer.keep_whole();
    writer.apply(same_list(&writer.reader(), 2));
    plain.apply(same_list(&plain.reader(), 2));
    assert_eq!(reduced(&writer), 0);
    assert_eq!(writer.holds().form, Some(Form::Compressed));
    check(&writer, &plain);
}

#[test]
fn a_late_index_fails_where_the_fields_that_it_reads_are_gone() {
    let mut writer = reducible();
    writer.apply(list(50, 1));
    let before = writer.reader().root();
    writer.reduce();
    while writer.reform(100) {}
    let index = |name: &str, of: &str| Index::path(path(of)).with_name(name);
    let root = writer.reader().root();
    let built = BuiltIndex::build(root.clone(), index("kept", "spec.node"));
    let (_, events) = writer.install(built).unwrap();
    assert!(events.is_empty(), "{events:?}");
    let (_, events) = writer
        .install(BuiltIndex::build(root, index("gone", "spec.zone")))
        .unwrap();
    assert_eq!(events.len(), 50);
    assert!(
        format!("{:?}", events[0]).contains("given up"),
        "{events:?}"
    );
    // One that was built while they were there is whole.
    let built = BuiltIndex::build(before, index("built", "spec.zone"));
    let (_, events) = writer.install(built).unwrap();
    assert!(events.is_empty(), "{events:?}");
    let root = writer.reader().root();
    let found = |name: &str| -> usize {
        let id = root.index(name).unwrap();
        root.index_values(id).map(|(_, count)| count).sum()
    };
    assert_eq!([found("kept"), found("gone"), found("built")], [50, 0, 50]);
    assert_eq!(found("spec.zone"), 50, "it was there before");
}

#[test]
fn a_server_that_went_back_is_believed_where_the_difference_can_be_seen() {
    let mut writer = reducible();
    writer.apply(list(3, 9));
    writer.reduce();
    while writer.reform(100) {}
    // The same version with another node: another state.
    let json = String::from_utf8(thing(1, 9).bytes().to_vec()).unwrap();
    let other = json.replace("\"node\":\"n1\"", "\"node\":\"n7\"");
    assert_ne!(other, json);
    let other = Object::from_json(other.as_bytes(), &Projection::new()).unwrap();
    let items = [thing(0, 9), other.clone(), thing(2, 9)].map(Delta::Replaced);
    let list = [Delta::ListBegin, Delta::WentBack].into_iter();
    writer.apply(list.chain(items).chain([end(9)]));
    let root = writer.reader().root();
    let found = root.get(other.key_ref()).unwrap();
    assert_eq!(found.at(&path("spec.node")), ["n7"]);
    assert_eq!(reduced(&writer), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against a store that keeps everything: whatever is listed, changed and indexed while fields are given up
    /// and come back, both hold the same, and listeners can believe what they hear.
    #[test]
    fn fields_go_and_come_back_under_lists_changes_and_indexes(
        steps in prop::collection::vec((0u8..11, 0u64..60, 1usize..40), 1..50),
    ) {
        let (mut writer, mut plain) = (reducible(), plain());
        let reader = writer.reader();
        let mut listener = Listener::new(&reader);
        let mut version = 1;
        for writer in [&mut writer, &mut plain] {
            writer.apply(list(50, 1));
        }
        for (step, n, count) in steps {
            version += 1;
            let deltas: Vec<Delta> = match step {
                0 | 1 => vec![Delta::Updated(thing(n, version))],
                2 => vec![Delta::Deleted(thing(n, version))],
                3 => list(n, version).collect(),
                4 => same_list(&reader, version),
                5 => [Delta::ListBegin].into_iter().chain(items(n, version)).collect(),
                6 => vec![Delta::ListAbort],
                7 => {
                    writer.reduce();
                    vec![]
                }
                8 => {
                    writer.keep_whole();
                    vec![]
                }
                9 => {
                    match n % 2 {
                        0 => writer.compress(),
                        _ => writer.expand(),
                    }
                    if let Some(training) = writer.training() {
                        writer.trained(training.run());
                    }
                    vec![]
                }
                _ => {
                    let name = format!("by{version}");
                    let index = Index::path(path("spec.node")).with_name(&name);
                    for writer in [&mut writer, &mut plain] {
                        let root = writer.reader().root();
                        writer.install(BuiltIndex::build(root, index.clone())).unwrap();
                    }
                    vec![]
                }
            };
            writer.reform(count);
            writer.apply(deltas.clone());
            plain.apply(deltas);
            writer.reform(count);
            check(&writer, &plain);
            if n % 3 == 0 {
                hear_all(&mut listener, &reader);
            }
        }
        writer.keep_whole();
        for writer in [&mut writer, &mut plain] {
            writer.apply([Delta::ListAbort]);
            let list = same_list(&writer.reader(), version + 1);
            writer.apply(list);
        }
        while writer.reform(50) {}
        check(&writer, &plain);
        prop_assert_eq!(reduced(&writer), 0);
        hear_all(&mut listener, &reader);
        prop_assert_eq!(&listener.heard, &stored(&reader));
        let (holds, never) = (writer.holds(), plain.holds());
        prop_assert!(holds.plain.abs_diff(never.plain) < 100, "{holds:?} {never:?}");
    }
}
