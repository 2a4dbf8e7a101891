//! The readers of protobuf: lists, watches, and messages of some types.
//!
//! ```text
//! bytes ──▶ ListReader, WatchReader, however they are cut ──▶ the same
//!     └──▶ Object::from_protobuf, by the table ──▶ its JSON ──▶ the same object
//! ```
//!
//! An input that begins as a list or a watch is read as one, too; as a message of each type it is
//! read always, alone and as an item of a list.

use std::sync::LazyLock;

use kinform_api::FieldPath;
use kinform_core::{
    Encoding, FrameKind, Item, ListMeta, ListPart, ListReader, Object, Projection, Unreadable,
    WatchReader, WireError,
};
use kinform_schema::{Type, builtin, kinds};

use crate::heap::Mark;
use crate::shape::Shape;
use crate::{baseline, cuts, neighbours, twin};

/// Pieces of which messages are made: tags, lengths, broken numbers, texts of envelopes.
pub const WORDS: &[&[u8]] = &[
    b"k8s\0",
    b"\x0a",
    b"\x12",
    b"\x1a",
    b"\x22",
    b"\x2a",
    b"\x32",
    b"\x3a",
    b"\x42",
    b"\x4a",
    b"\x5a",
    b"\x62",
    b"\x6a",
    b"\x08\x01",
    b"\x10\x00",
    b"\x18\xff\x01",
    b"\x12\x00",
    b"\x0a\x00",
    b"\x0b",
    b"\x0c",
    b"\x07",
    b"\x06",
    b"\x82\x01\x00",
    b"\x8a\x01\x00",
    b"\x8a\x01\x04\x3a\x02\x0a\x00",
    b"\xf8\x06\x01",
    b"\xc2\x0c\x01x",
    b"\xf9\x06\0\0\0\0\0\0\xf0\x7f",
    b"\xfd\x06\0\0\0\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\x80\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x80\x80\x80\x80\x08",
    b"\0\0\0\x10",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\0",
    b"\x0a\x01a",
    b"\x1a\x01n",
    b"\x2a\x01u",
    b"\x32\x017",
    b"\x5a\x0a\x0a\x03app\x12\x03web",
    b"\x4a\x02\x08\x01",
    b"\x4a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x0a\x05ADDED",
    b"\x0a\x08BOOKMARK",
    b"\x0a\x05ERROR",
    b"\x0a\x02v1",
    b"\x12\x03Pod",
    b"\x12\x07PodList",
    b"\x12\x06Status",
    b"\x12\x05Table",
    b"\x12\x0dConfigMapList",
    b"\x0a\x02{}",
    b"\x0a\x02{]",
    b"\x0a\x04null",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
];

const LIMITS: [usize; 2] = [1 << 24, 40];

/// Types that between them have every form of field of the table.
static TYPES: LazyLock<Vec<&'static Type>> = LazyLock::new(|| {
    let kinds = [
        ("", "v1", "Pod"),
        ("", "v1", "ConfigMap"),
        ("", "v1", "Event"),
        ("apps", "v1", "Deployment"),
        ("apps", "v1", "ControllerRevision"),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        ("coordination.k8s.io", "v1", "Lease"),
    ];
    let known = |(group, version, kind)| builtin(group, version, kind).expect("it is built in");
    kinds.map(known).to_vec()
});

/// Reads the bytes as a list, a watch or a message, wherever they begin as one.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    if bytes.starts_with(b"k8s\0") {
        list(bytes, &mut shape);
    } else if matches!(bytes.get(4), Some(0x0a | 0x12)) || bytes.len() < 5 {
        watch(bytes, &mut shape);
    }
    for of in TYPES.iter() {
        message(of, bytes, &mut shape);
    }
    // A different type each time, chosen by the bytes.
    let digest = bytes.iter().fold(0, |sum, byte| sum + usize::from(*byte));
    neighbours::of_message(TYPES[digest % TYPES.len()], bytes);
    list(&listed(bytes), &mut shape);
    shape
}

type Listed = (Vec<String>, Result<ListMeta, WireError>);
type Watched = (Vec<(FrameKind, Vec<u8>)>, Result<(), WireError>);

fn list(body: &[u8], shape: &mut Shape) {
    let mark = Mark::new(body.len());
    let mut splitter = ListReader::new(Encoding::Protobuf);
    for chunk in body.chunks(64) {
        let fed = splitter.feed(chunk, &mut |_| mark.check());
        mark.check();
        if fed.is_err() {
            break;
        }
    }
    drop((splitter, mark));
    baseline::is_as_alone(Encoding::Protobuf, body, shape);
    for limit in LIMITS {
        let whole = split(&[body], limit);
        for way in cuts::ways(body) {
            assert_eq!(split(&way, limit), whole, "cut another way");
        }
        shape.count(whole.0.len());
        match &whole.1 {
            Ok(meta) => shape.text(&meta.kind),
            Err(error) => shape.text(&error.to_string()),
        }
    }
}

fn split(chunks: &[&[u8]], limit: usize) -> Listed {
    let mut splitter = ListReader::with_max_item_bytes(Encoding::Protobuf, limit);
    let mut parts = Vec::new();
    for chunk in chunks {
        let fed = splitter.feed(chunk, &mut |part| {
            parts.push(match part {
                ListPart::Item(item) => read(&item),
                ListPart::Unreadable(why) => why.to_string(),
            });
        });
        if fed.is_err() {
            break;
        }
    }
    (parts, splitter.finish())
}

/// Describes an item's object, checked on the way or not.
fn read(item: &Item<'_>) -> String {
    let object = Object::from_item(item, &Projection::new());
    if let Ok(object) = &object {
        // U+FFFD for a byte that is not UTF-8 is three; lengths around it may grow, too.
        assert!(
            object.bytes().len() <= 4 * item.bytes().len() + 16,
            "it grew"
        );
    }
    describe(object)
}

/// Describes an object, or the reason that there is none.
#[must_use]
pub fn describe(object: Result<Object, Unreadable>) -> String {
    match object {
        Ok(object) => format!(
            "{} {} {:?}",
            object.key(),
            object.resource_version(),
            object.bytes()
        ),
        Err(why) => why.to_string(),
    }
}

fn watch(body: &[u8], shape: &mut Shape) {
    let mark = Mark::new(body.len());
    let mut framer = WatchReader::new(Encoding::Protobuf);
    for chunk in body.chunks(64) {
        let fed = framer.feed(chunk, &mut |_| mark.check());
        mark.check();
        if fed.is_err() {
            break;
        }
    }
    drop((framer, mark));
    for limit in LIMITS {
        let whole = frames(&[body], limit);
        for way in cuts::ways(body) {
            assert_eq!(frames(&way, limit), whole, "cut another way");
        }
        shape.count(whole.0.len());
        whole
            .0
            .iter()
            .for_each(|(kind, _)| shape.text(&format!("{kind:?}")));
        shape.text(&format!("{:?}", whole.1));
    }
}

fn frames(chunks: &[&[u8]], limit: usize) -> Watched {
    let mut framer = WatchReader::with_max_item_bytes(Encoding::Protobuf, limit);
    let mut frames = Vec::new();
    for chunk in chunks {
        let fed = framer.feed(chunk, &mut |frame| {
            if !matches!(frame.kind, FrameKind::Malformed(_)) {
                let _ = (frame.object.bookmark(), frame.object.status());
                let _ = read(&frame.object);
            }
            frames.push((frame.kind, frame.object.bytes().to_vec()));
        });
        if fed.is_err() {
            break;
        }
    }
    (frames, framer.finish())
}

/// Asserts that a message that passes the check is valid throughout, and that its projection is
/// projected to itself.
fn message(of: &'static Type, bytes: &[u8], shape: &mut Shape) {
    let projection = Projection::new();
    match Object::from_protobuf(of, bytes, &projection) {
        Ok(object) => {
            shape.saw((
                of.number(),
                object.labels().count(),
                object.is_terminating(),
            ));
            assert!(object.heap_size() <= 2 * bytes.len() + 256, "heap");
            let again = Object::from_protobuf(of, object.bytes(), &projection);
            let again = again.expect("what was kept is a message");
            assert_eq!(again.bytes(), object.bytes());
            twin::is_the_same(&object);
            let path: FieldPath = "spec".parse().expect("a path");
            for projection in [
                projection.clone().drop_path(path.clone()),
                projection.keep_only([path]),
            ] {
                let less = Object::from_protobuf(of, bytes, &projection);
                let less = less.expect("it was read before");
                assert_eq!((less.key(), less.uid()), (object.key(), object.uid()));
                twin::is_json(&less);
            }
        }
        Err(why) => {
            shape.saw(of.number());
            shape.text(&why.reason);
        }
    }
}

/// A list of pods with the bytes as its item, between two valid items.
fn listed(item: &[u8]) -> Vec<u8> {
    let sound = field(1, &field(1, b"a"));
    list_of(TYPES[0], [&sound[..], item, &sound])
}

/// A list of these objects of one type.
pub fn list_of<'a>(of: &Type, items: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let is_it = |(.., known): &(_, _, _, &Type)| known.number() == of.number();
    let (group, version, kind, _) = kinds().find(is_it).expect("it is a kind");
    let api_version = format!("{group}/{version}");
    let api_version = api_version.trim_start_matches('/').as_bytes();
    let kind = format!("{kind}List");
    let meta = [field(1, api_version), field(2, kind.as_bytes())].concat();
    let raw: Vec<u8> = items.into_iter().flat_map(|item| field(2, item)).collect();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, &raw)].concat()
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}
