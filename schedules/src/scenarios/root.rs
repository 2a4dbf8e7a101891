//! Readers of a store while its writer replaces the root.
//!
//! ```text
//! writer: list, updates, deletes, an index that was built meanwhile ──▶ root, ring
//! readers: end of the ring, root, root.. ──▶ a root of one moment, never an older one
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use kinform_api::KeyRef;
use kinform_core::delta::Delta;
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::{Reader, Writer};
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::BuiltIndex;
use kinform_core::store::index::Index;
use kinform_core::store::root::Root;
use shuttle::thread;

use super::object;

/// Looks of each reader.
const LOOKS: usize = 4;

/// Two readers, a writer, and a task that builds an index of a root of some moment.
///
/// # Panics
/// A root is not of one moment, is older than one that the reader had, or lacks a change that the
/// ring shows.
pub fn readers_of_a_root() {
    let writer = Writer::new([Index::label("of")], Seed(7), RingLimits::default());
    let writer = writer.expect("there is one index");
    let built = Arc::new(Mutex::new(None));
    let readers = (0..2).map(|_| {
        let reader = writer.reader();
        thread::spawn(move || read(&reader))
    });
    let readers: Vec<_> = readers.collect();
    let builder = {
        let (reader, built) = (writer.reader(), Arc::clone(&built));
        thread::spawn(move || {
            let index = Index::label("of").with_name("late");
            let index = BuiltIndex::build(reader.root(), index);
            *built.lock().expect("no holder panics") = Some(index);
        })
    };
    write(writer, &built);
    for task in readers.into_iter().chain([builder]) {
        task.join().expect("the task ended well");
    }
}

fn write(mut writer: Writer, built: &Mutex<Option<BuiltIndex>>) {
    writer.apply([
        Delta::ListBegin,
        Delta::Replaced(object("a", 1, 0)),
        Delta::Replaced(object("b", 2, 0)),
        Delta::ListEnd {
            version: "2".to_owned(),
        },
    ]);
    for version in 1..5 {
        let version = version * 10;
        writer.apply([
            Delta::Updated(object("a", version, version)),
            match version % 20 {
                0 => Delta::Added(object("b", version + 1, 0)),
                _ => Delta::Deleted(object("b", version + 1, 0)),
            },
        ]);
        let late = built.lock().expect("no holder panics").take();
        if let Some(late) = late {
            writer.install(late).expect("there is none of that name");
        }
    }
}

fn read(reader: &Reader) {
    let mut last = (0, 0, false, 0);
    for _ in 0..LOOKS {
        let end = reader.ring().end();
        let root = reader.root();
        let now = (
            number(root.version()),
            root.position(),
            root.has_synced(),
            root.indexes().count(),
        );
        assert!(root.position() >= end, "a change of the ring is not stored");
        assert!(now.0 >= last.0, "the version went back: {last:?}, {now:?}");
        assert!(now.1 >= last.1, "the position went back: {last:?}, {now:?}");
        assert!(now.2 >= last.2, "it is no longer synced");
        assert!(now.3 >= last.3, "an index is gone");
        last = now;
        check_indexes(&root);
        let key = KeyRef {
            namespace: "n",
            name: "a",
        };
        let before = root
            .get(key)
            .map(|object| number(object.resource_version()));
        let later = reader.get(key).map(|o| number(o.resource_version()));
        assert!(later >= before, "a later look found an older object");
    }
}

/// Each index of a root is what its objects say.
fn check_indexes(root: &Root) {
    for index in root.indexes() {
        let mut expected: BTreeMap<Vec<u8>, BTreeSet<String>> = BTreeMap::new();
        for object in root.list().iter() {
            for value in index.extract(object).expect("it has that label") {
                let names = expected.entry(value.into_owned()).or_default();
                names.insert(object.name().to_owned());
            }
        }
        let id = root.index(index.name()).expect("it is listed");
        let values = root.index_values(id);
        let found: BTreeMap<Vec<u8>, BTreeSet<String>> = values
            .map(|(value, _)| {
                let view = root.by(id, value);
                let names = view.iter().map(|object| object.name().to_owned());
                (value.to_vec(), names.collect())
            })
            .collect();
        assert_eq!(found, expected, "index {} of {root:?}", index.name());
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}
