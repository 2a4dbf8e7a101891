//! A store that changes the form of its objects while it runs is the same store to its readers.

use kinform_core::budget::Form;
use kinform_core::delta::Delta;
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::object::Object;
use kinform_core::store::edit::BuiltIndex;
use kinform_core::store::index::Index;
use proptest::prelude::*;

use crate::cluster::object;
use crate::listeners::{Listener, stored, writer};

fn items(count: u64, version: u64) -> impl Iterator<Item = Delta> {
    (0..count).map(move |n| Delta::Replaced(object(&format!("o{n}"), n, version)))
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

fn learn(writer: &mut Writer) {
    let training = writer.training().unwrap();
    writer.trained(training.run());
}

/// Changes everything; the number of pieces that it took.
fn reform(writer: &mut Writer, count: usize) -> usize {
    let mut pieces = 1;
    while writer.reform(count) {
        pieces += 1;
    }
    pieces
}

fn cold(writer: &Writer) -> usize {
    let root = writer.reader().root();
    root.list().iter().filter(|object| object.is_cold()).count()
}

#[test]
fn a_store_is_compressed_and_expanded_in_pieces_and_nobody_hears_of_it() {
    let limits = RingLimits::default();
    let (mut writer, mut plain) = (writer(limits), writer(limits));
    let mut listener = Listener::new(&writer.reader());
    for writer in [&mut writer, &mut plain] {
        writer.apply(list(1_000, 1));
    }
    while listener.hear(&writer.reader()) {}
    let before = writer.reader().root();
    let whole = writer.holds();
    assert_eq!((whole.held, whole.form), (whole.plain, Some(Form::Whole)));
    assert!(whole.compressed.is_some());

    writer.compress();
    assert_eq!(writer.holds().form, None);
    assert_eq!(cold(&writer), 0, "there is no dictionary yet");
    learn(&mut writer);
    assert_eq!(writer.holds().form, None);
    assert!(writer.reform(100));
    assert!((100..200).contains(&cold(&writer)));
    // What comes meanwhile has the new form.
    for writer in [&mut writer, &mut plain] {
        writer.apply([
            Delta::Updated(object("o900", 900, 5)),
            Delta::Deleted(object("o1", 1, 6)),
        ]);
    }
    assert!(reform(&mut writer, 100) >= 8);
    assert_eq!(cold(&writer), 999);
    let packed = writer.holds();
    assert_eq!(packed.form, Some(Form::Compressed));
    assert_eq!(packed.compressed, Some(packed.held));
    let overhead = packed.plain.abs_diff(plain.holds().held);
    assert!(
        overhead < 2_000,
        "what it would hold as it came: {overhead}"
    );
    assert!(before.list().iter().all(|object| !object.is_cold()));
    assert_eq!(stored(&writer.reader()), stored(&plain.reader()));

    writer.expand();
    assert_eq!(writer.holds().form, None);
    assert!(reform(&mut writer, 300) >= 3);
    assert_eq!(cold(&writer), 0);
    let (expanded, never) = (writer.holds(), plain.holds());
    assert_eq!((expanded.held, expanded.plain), (never.held, never.plain));
    assert_eq!(expanded.form, Some(Form::Whole));
    assert_eq!(stored(&writer.reader()), stored(&plain.reader()));
    let mut heard = 0;
    while listener.hear(&writer.reader()) {
        heard += 1;
    }
    assert_eq!(heard, 1, "the batch of two changes alone");
}

#[test]
fn a_change_that_was_heard_takes_no_memory_although_nothing_follows() {
    let mut writer = writer(RingLimits::default());
    let reader = writer.reader();
    let mut listener = Listener::new(&reader);
    writer.apply(list(10, 1));
    while listener.hear(&reader) {}
    writer.apply([Delta::Updated(object("o1", 1, 5))]);
    writer.forget_heard();
    assert!(reader.ring().kept_bytes() > 0, "nobody has heard it");
    while listener.hear(&reader) {}
    writer.forget_heard();
    assert_eq!(reader.ring().kept_bytes(), 0);
}

#[test]
fn a_first_list_is_compressed_while_it_runs() {
    let (mut writer, mut plain) = (writer(RingLimits::default()), writer(RingLimits::default()));
    writer.apply([Delta::ListBegin].into_iter().chain(items(400, 1)));
    let whole = writer.holds();
    let bytes: usize = (0..400)
        .map(|n| object(&format!("o{n}"), n, 1).heap_size())
        .sum();
    assert!(whole.held > bytes, "a list that runs counts");
    writer.compress();
    learn(&mut writer);
    reform(&mut writer, 150);
    assert_eq!(writer.holds().form, Some(Form::Compressed));
    let rest = (400..600).map(|n| Delta::Replaced(object(&format!("o{n}"), n, 1)));
    writer.apply(rest.chain([end(1)]));
    plain.apply(list(600, 1));
    assert_eq!(cold(&writer), 600);
    assert_eq!(writer.holds().form, Some(Form::Compressed));
    assert_eq!(stored(&writer.reader()), stored(&plain.reader()));
}

#[test]
fn what_has_nothing_in_common_or_is_too_little_is_not_compressible() {
    let mut writer = writer(RingLimits::default());
    writer.apply(list(31, 1));
    assert_eq!(writer.holds().compressed, None);
    // It is asked for in vain, not for ever on its way.
    writer.compress();
    assert_eq!(writer.holds().form, Some(Form::Whole));
    assert!(!writer.reform(100));
    writer.expand();
    let small = |n: u64| {
        let json = format!(r#"{{"metadata":{{"name":"o{n}","resourceVersion":"2"}}}}"#);
        Delta::Replaced(Object::from_json(json.as_bytes(), &Default::default()).unwrap())
    };
    let all = (0..300).map(small);
    writer.apply([Delta::ListBegin].into_iter().chain(all).chain([end(2)]));
    assert!(writer.holds().compressed.is_some(), "as far as is known");
    writer.compress();
    learn(&mut writer);
    let holds = writer.holds();
    if holds.compressed.is_none() {
        assert_eq!(holds.form, Some(Form::Whole));
    }
    reform(&mut writer, 100);
    assert_eq!(cold(&writer), 0, "none would be smaller");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Against a store that keeps everything as it came: whatever is listed, changed and indexed while forms
    /// change, the two hold the same.
    #[test]
    fn forms_change_under_lists_changes_and_indexes(
        steps in prop::collection::vec((0u8..9, 0u64..120, 1usize..80), 1..40),
    ) {
        let limits = RingLimits::default();
        let (mut writer, mut plain) = (writer(limits), writer(limits));
        let mut version = 1;
        for writer in [&mut writer, &mut plain] {
            writer.apply(list(100, 1));
        }
        for (step, n, count) in steps {
            version += 1;
            let name = format!("o{n}");
            let deltas: Vec<Delta> = match step {
                0 | 1 => vec![Delta::Updated(object(&name, n, version))],
                2 => vec![Delta::Deleted(object(&name, n, version))],
                3 => list(n, version).collect(),
                4 => [Delta::ListBegin].into_iter().chain(items(n, version)).collect(),
                5 => vec![Delta::ListAbort],
                6 => {
                    writer.compress();
                    if let Some(training) = writer.training() {
                        writer.trained(training.run());
                    }
                    vec![]
                }
                7 => {
                    writer.expand();
                    vec![]
                }
                _ => {
                    let name = format!("by{version}");
                    let index = Index::path("data".parse().unwrap()).with_name(&name);
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
            prop_assert_eq!(stored(&writer.reader()), stored(&plain.reader()));
        }
        writer.apply(list(90, version + 1));
        plain.apply(list(90, version + 1));
        reform(&mut writer, 50);
        prop_assert_eq!(stored(&writer.reader()), stored(&plain.reader()));
        match writer.holds().form {
            Some(Form::Whole) => prop_assert!(cold(&writer) == 0),
            Some(_) => prop_assert!(cold(&writer) == 90),
            None => {}
        }
        let (holds, never) = (writer.holds(), plain.holds());
        prop_assert!(holds.plain.abs_diff(never.plain) < 100, "{holds:?} {never:?}");
    }
}
