//! Snapshots on disk: a file is refused or read whole, and whatever is read of it can be used.
//!
//! ```text
//! bytes ──▶ a file ──▶ Reading, however it is cut ──▶ the same refusal, or the same objects
//!      └──▶ edits of a sound file ──▶ the same ──▶ every lens ──▶ a store ──▶ written, read: equal
//! ```
//!
//! The edits are behind the checksums: see [`frames`]. An object of such a file may be any bytes, so
//! that every lens must bear them.
//! Upstream: none; client-go keeps nothing on disk.

use std::sync::OnceLock;

use k8s_openapi::api::core::v1::Pod;
use kinform_api::{FieldPath, TypeMeta};
use kinform_core::informer::applier::Applier;
use kinform_core::snapshot::{Reading, Refused, Snapshot, Writing};
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::Edit;
use kinform_core::store::root::Root;
use kinform_core::{Object, Projection, TypedCache};

use crate::draw::Draw;
use crate::heap::Mark;
use crate::shape::Shape;
use crate::{cuts, frames};

/// Pieces of files.
pub const WORDS: &[&[u8]] = &[
    b"kinform\x01",
    b"kinform\x02",
    b"\x01\x00\x00",
    b"\x02\x10\x00",
    b"\x03\x08\x00",
    b"\xff\xff\xff\xff",
    b"\x00\x03",
    b"\x04\x05\x06",
];

const IDENTITY: &str = "server: https://a\nuser: b\nresource: pods";

/// Objects with escapes, owners, no version, and of the cluster.
const OBJECTS: [&str; 4] = [
    r#"{"metadata":{"name":"a","namespace":"s","uid":"1","resourceVersion":"7","labels":{"x":"y","e\n":"\u00e9"},"annotations":{"n":"{\"a\":1}"},"ownerReferences":[{"apiVersion":"v1","kind":"ReplicaSet","name":"r","uid":"2","controller":true}]},"spec":{"nodeName":"node-1","containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}"#,
    r#"{"metadata":{"name":"\u0062","namespace":"s","uid":"3","resourceVersion":"8"},"spec":{"nodeName":null}}"#,
    r#"{"metadata":{"name":"c"},"spec":{}}"#,
    r#"{"metadata":{"name":"d","resourceVersion":"x","deletionTimestamp":"2026-01-02T03:04:05Z"}}"#,
];

/// Reads the bytes as a file, and as edits of one.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    read_however_cut(bytes, &mut shape);
    let (mark, mut parts) = frames::taken_apart(sound());
    frames::changed(&mut Draw::new(bytes), &mut parts);
    if let Some(snapshot) = read_however_cut(&frames::file(mark, &parts), &mut shape) {
        is_written_again(snapshot, &mut shape);
    }
    shape
}

/// A file of objects in JSON and in protobuf.
fn sound() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let mut edit = Edit::new(&Root::empty(Seed(7)));
        for json in OBJECTS {
            let object = Object::from_json(json.as_bytes(), &Projection::default());
            edit.insert(object.expect("an object"));
        }
        let of = kinform_schema::builtin("", "v1", "Pod").expect("a built-in type");
        // metadata { name: "e", namespace: "s", resourceVersion: "9", labels { k: v } }, spec { nodeName: "n" }
        let message =
            b"\x0a\x11\x0a\x01e\x1a\x01s\x32\x019\x5a\x06\x0a\x01k\x12\x01v\x12\x03\x52\x01n";
        let object = Object::from_protobuf(of, message, &Projection::default());
        edit.insert(object.expect("a message"));
        edit.reach("9");
        written(&edit.commit(0))
    })
}

fn written(root: &Root) -> Vec<u8> {
    let mut writing = Writing::new(root.clone(), IDENTITY);
    let mut file = Vec::new();
    while writing.next_piece(&mut file) {}
    file
}

fn read(pieces: &[&[u8]]) -> Result<Snapshot, Refused> {
    let mut reading = Reading::new(IDENTITY);
    for piece in pieces {
        reading.feed(piece)?;
    }
    reading.finish()
}

fn read_however_cut(file: &[u8], shape: &mut Shape) -> Option<Snapshot> {
    let mark = Mark::new(file.len());
    let whole = read(&[file]);
    mark.check();
    drop(mark);
    let said = said(&whole);
    for way in cuts::ways(file) {
        assert_eq!(self::said(&read(&way)), said, "cut another way");
    }
    match &whole {
        Err(_) => shape.text(&said),
        Ok(snapshot) => snapshot
            .objects
            .iter()
            .for_each(|object| shape.text(&look(object))),
    }
    whole.ok()
}

/// A reading as a text, with all that is read of each object.
fn said(read: &Result<Snapshot, Refused>) -> String {
    match read {
        Err(refused) => refused.to_string(),
        Ok(snapshot) => {
            let looks: Vec<String> = snapshot.objects.iter().map(look).collect();
            let Snapshot {
                version,
                quarantined,
                ..
            } = snapshot;
            format!("{version} {looks:?} {quarantined:?}")
        }
    }
}

/// All that can be asked of an object.
fn look(object: &Object) -> String {
    let meta = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    };
    let paths = [
        "spec.nodeName",
        "metadata.labels.x",
        "spec.containers[*].image",
    ];
    let paths = paths.map(|path| path.parse::<FieldPath>().expect("a path"));
    let found: Vec<_> = paths.iter().map(|path| object.at(path)).collect();
    let typed = object.typed::<Pod>(&meta, TypedCache::Never);
    let narrowed = object.narrowed(&Projection::default());
    format!(
        "{} {} {} {:?} {:?} {:?} {:?} {found:?} {:?} {:?} {}",
        object.key(),
        object.uid(),
        object.resource_version(),
        object.is_terminating(),
        object.labels().collect::<Vec<_>>(),
        object.annotations().collect::<Vec<_>>(),
        object.owner_references(),
        typed
            .map(|pod| pod.spec.is_some())
            .map_err(|e| e.to_string()),
        narrowed
            .map(|object| object.key())
            .map_err(|e| e.to_string()),
        String::from_utf8_lossy(&object.to_json(&meta)),
    )
}

/// Asserts that a store which began from the snapshot writes one with the same objects.
fn is_written_again(snapshot: Snapshot, shape: &mut Shape) {
    let mut looks: Vec<_> = snapshot.objects.iter().map(look).collect();
    let mut keys: Vec<_> = snapshot.objects.iter().map(Object::key).collect();
    shape.count(looks.len());
    let mut applier = Applier::new(Root::empty(Seed(5)), usize::MAX);
    let file = written(&applier.restore(snapshot));
    let again = read(&[&file]).expect("it was written here");
    let mut again: Vec<_> = again.objects.iter().map(look).collect();
    keys.sort();
    keys.dedup();
    // Of two objects with one key, a store holds the last.
    assert_eq!(again.len(), keys.len());
    if keys.len() == looks.len() {
        looks.sort();
        again.sort();
        assert_eq!(again, looks, "written and read again");
    }
}
