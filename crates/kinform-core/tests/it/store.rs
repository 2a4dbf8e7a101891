//! The store against maps: contents, indexes and differences after each write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinform_api::ObjectKey;
use kinform_core::delta::Change;
use kinform_core::store::diff::Diff;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::{BuiltIndex, Edit, Seen};
use kinform_core::store::index::{Index, IndexError};
use kinform_core::store::root::Root;
use kinform_core::{Object, Projection};
use proptest::prelude::*;

use crate::objects::Pod;

type Model = BTreeMap<ObjectKey, Object>;
type Postings = BTreeMap<Vec<u8>, BTreeSet<ObjectKey>>;

#[derive(Debug, Clone)]
enum Op {
    Insert(Pod),
    Remove(u8, u8),
    /// Commit, and compare with the root before.
    Commit,
    /// Keep this root, to build an index from it.
    Keep,
    /// Install the next index, built from the kept root.
    Install,
    /// Mark these names, sweep the rest.
    Sweep(Vec<(u8, u8)>),
}

fn pod() -> impl Strategy<Value = Pod> {
    let owners = prop::collection::vec(0..3u8, 0..3);
    (0..3u8, 0..6u8, 0..2u8, 1..4u64, 0..5u8, owners).prop_map(
        |(namespace, name, uid, version, node, owners)| Pod {
            namespace,
            name,
            uid,
            version,
            node,
            owners,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => pod().prop_map(Op::Insert),
        4 => (0..3u8, 0..6u8).prop_map(|(ns, name)| Op::Remove(ns, name)),
        3 => Just(Op::Commit),
        1 => Just(Op::Keep),
        1 => Just(Op::Install),
        1 => prop::collection::vec((0..3u8, 0..6u8), 0..12).prop_map(Op::Sweep),
    ]
}

fn key(namespace: u8, name: u8) -> ObjectKey {
    ObjectKey::new(Some(&format!("ns{namespace}")), &format!("pod{name}"))
}

/// Fails for uid 1 on node 0, panics on node 1, else names node and owners.
fn moody() -> Index {
    let function = |object: &Object| {
        let node = object.at(&"spec.nodeName".parse().unwrap())[0].to_string();
        match (object.uid(), &*node) {
            ("u1", "node0") => Err(IndexError("moody".into())),
            ("u1", "node1") => std::panic::resume_unwind(Box::new("moody")),
            _ => Ok([&node, "all", &node]
                .map(|value| value.as_bytes().to_vec())
                .into()),
        }
    };
    Index::function("moody", Arc::new(function))
}

fn indexes() -> Vec<Index> {
    let path = "spec.nodeName".parse().unwrap();
    vec![
        moody(),
        Index::owner(),
        Index::path(path),
        Index::label("app"),
    ]
}

fn postings(index: &Index, model: &Model) -> Postings {
    let mut found = Postings::new();
    for (key, object) in model {
        for value in index.extract(object).unwrap_or_default() {
            found
                .entry(value.into_owned())
                .or_default()
                .insert(key.clone());
        }
    }
    found
}

fn check(root: &Root, model: &Model) {
    assert_eq!(root.len(), model.len());
    assert_eq!(
        root.heap_size(),
        model.values().map(Object::heap_size).sum::<usize>()
    );
    for (namespace, name) in (0..3).flat_map(|ns| (0..6).map(move |name| (ns, name))) {
        let key = key(namespace, name);
        let (found, expected) = (root.get(key.key_ref()), model.get(&key));
        assert_eq!(found.is_some(), expected.is_some());
        assert!(
            found
                .zip(expected)
                .is_none_or(|(found, expected)| found.ptr_eq(expected))
        );
    }
    let listed: BTreeSet<ObjectKey> = root.list().iter().map(Object::key).collect();
    assert_eq!(listed, model.keys().cloned().collect());
    for index in root.indexes() {
        let id = root.index(index.name()).unwrap();
        let expected = postings(index, model);
        let values = root.index_values(id);
        let counts: BTreeMap<Vec<u8>, usize> = values.map(|(v, n)| (v.to_vec(), n)).collect();
        assert_eq!(
            counts,
            expected
                .iter()
                .map(|(v, keys)| (v.clone(), keys.len()))
                .collect()
        );
        assert_eq!(root.index_len(id), expected.len());
        for (value, keys) in &expected {
            let view = root.by(id, value);
            assert_eq!(view.len(), keys.len());
            assert_eq!(&view.iter().map(Object::key).collect::<BTreeSet<_>>(), keys);
        }
        assert!(root.by(id, "nowhere").is_empty());
        let any = root.by_any(
            id,
            expected
                .keys()
                .map(Vec::as_slice)
                .take(2)
                .chain([&b"nowhere"[..]]),
        );
        let union: BTreeSet<_> = expected.values().take(2).flatten().cloned().collect();
        assert_eq!(any.len(), union.len());
        assert_eq!(any.iter().map(Object::key).collect::<BTreeSet<_>>(), union);
    }
}

fn text(object: &Object) -> String {
    format!("{}@{}", object.uid(), object.resource_version())
}

/// By key, what a handler hears.
fn heard(changes: &[Change]) -> BTreeMap<ObjectKey, Vec<String>> {
    let mut found: BTreeMap<ObjectKey, Vec<String>> = BTreeMap::new();
    for change in changes {
        let line = match change {
            Change::Added { object, initial } => format!("add {} {initial}", text(object)),
            Change::Updated { old, new } => format!("update {} {}", text(old), text(new)),
            Change::Deleted {
                object,
                final_state_unknown: true,
            } => format!("gone {}", text(object)),
            other => panic!("a difference says {other:?}"),
        };
        found.entry(change.key().to_key()).or_default().push(line);
    }
    found
}

fn naive(old: &Model, new: &Model) -> BTreeMap<ObjectKey, Vec<String>> {
    let keys: BTreeSet<&ObjectKey> = old.keys().chain(new.keys()).collect();
    let lines = |key: &ObjectKey| match (old.get(key), new.get(key)) {
        (Some(a), Some(b)) if text(a) == text(b) && a.same_content(b) => vec![],
        (Some(a), Some(b)) if a.uid() == b.uid() => vec![format!("update {} {}", text(a), text(b))],
        (a, b) => {
            let gone = a.map(|a| format!("gone {}", text(a)));
            gone.into_iter()
                .chain(b.map(|b| format!("add {} false", text(b))))
                .collect()
        }
    };
    let all = keys.into_iter().map(|key| (key.clone(), lines(key)));
    all.filter(|(_, lines)| !lines.is_empty()).collect()
}

fn all_of(mut diff: Diff, enough: usize) -> Vec<Change> {
    let mut all = Vec::new();
    while !diff.is_done() {
        let mut piece = Vec::new();
        diff.take_into(&mut piece, enough);
        all.extend(piece);
    }
    all
}

proptest! {
    #[test]
    fn a_store_and_its_indexes_are_what_a_rebuild_makes(ops in prop::collection::vec(op(), 1..80)) {
        let mut model = Model::new();
        let mut root = Root::empty(Seed(1));
        let (mut before, mut before_model) = (root.clone(), model.clone());
        let mut kept = root.clone();
        let mut waiting = indexes();
        let mut edit = Edit::new(&root);
        for op in ops {
            match op {
                Op::Insert(pod) => {
                    let object = pod.object();
                    let old = model.insert(object.key(), object.clone());
                    let replaced = edit.insert(object);
                    prop_assert_eq!(replaced.map(|o| text(&o)), old.map(|o| text(&o)));
                }
                Op::Remove(ns, name) => {
                    let removed = edit.remove(key(ns, name).key_ref());
                    let expected = model.remove(&key(ns, name));
                    prop_assert_eq!(removed.map(|o| text(&o)), expected.map(|o| text(&o)));
                }
                Op::Commit => {
                    root = edit.commit(0);
                    let changes = all_of(Diff::between(before.clone(), root.clone()), 3);
                    prop_assert_eq!(heard(&changes), naive(&before_model, &model));
                    // What was published stays what it was.
                    check(&before, &before_model);
                    (before, before_model) = (root.clone(), model.clone());
                    edit = Edit::new(&root);
                }
                Op::Keep => kept = root.clone(),
                Op::Install => {
                    if let Some(index) = waiting.pop() {
                        let built = BuiltIndex::build(kept.clone(), index);
                        edit.install(built.clone()).unwrap();
                        prop_assert!(edit.install(built).is_err());
                    }
                }
                Op::Sweep(names) => {
                    let mut seen = Seen::default();
                    let names: BTreeSet<ObjectKey> = names.iter().map(|(ns, n)| key(*ns, *n)).collect();
                    for key in &names {
                        edit.mark(key.key_ref(), &mut seen);
                    }
                    let count = edit.count_unseen(&seen);
                    let swept: BTreeSet<ObjectKey> = edit.sweep(&seen).iter().map(Object::key).collect();
                    prop_assert_eq!(count, swept.len());
                    let gone = model.keys().filter(|key| !names.contains(key)).cloned();
                    prop_assert_eq!(swept, gone.collect());
                    model.retain(|key, _| names.contains(key));
                }
            }
            check(&edit.fork().commit(0), &model);
        }
        let root = edit.commit(0);
        let initial = heard(&all_of(Diff::initial(root), 1));
        let expected = model.iter().map(|(key, o)| (key.clone(), vec![format!("add {} true", text(o))]));
        prop_assert_eq!(initial, expected.collect());
    }
}

#[test]
fn a_failing_index_function_leaves_the_object_stored_and_reported() {
    // client-go panics while it holds the lock.
    let mut edit = Edit::new(&Root::empty(Seed(1)));
    edit.install(BuiltIndex::build(Root::empty(Seed(1)), moody()))
        .unwrap();
    for node in 0..3 {
        let pod = Pod {
            namespace: 0,
            name: node,
            uid: 1,
            version: 1,
            node,
            owners: vec![],
        };
        edit.insert(pod.object());
    }
    let failures = edit.take_failures();
    let lines: Vec<String> = failures.first.iter().map(ToString::to_string).collect();
    assert_eq!(failures.count, 2);
    assert_eq!(
        lines,
        [
            "index moody leaves out ns0/pod0 at version 1: moody",
            "index moody leaves out ns0/pod1 at version 1: the index function panicked"
        ]
    );
    let root = edit.commit(0);
    assert_eq!(
        (
            root.len(),
            root.by(root.index("moody").unwrap(), "all").len()
        ),
        (3, 1)
    );
}

#[test]
fn an_object_with_too_many_values_is_left_out() {
    let labels: Vec<String> = (0..2_000).map(|i| format!("\"x{i}\"")).collect();
    let json = format!(
        r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"1"}},"spec":{{"all":[{}]}}}}"#,
        labels.join(",")
    );
    let object = Object::from_json(json.as_bytes(), &Projection::default()).unwrap();
    let index = Index::path("spec.all[*]".parse().unwrap());
    assert_eq!(
        index.extract(&object).unwrap_err().to_string(),
        "2000 values, at most 1024"
    );
}

#[test]
fn unknown_indexes_are_named() {
    let error = Root::empty(Seed(1)).index("nodes").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no index named nodes; every store has namespace"
    );
}
