//! The cost of malformed lists compared with good ones:
//! `cargo bench -p kinform-core --bench malformed [NAME]`.
//!
//! ```text
//! recorded items, each broken in one way ──▶ body ──▶ ListReader, item by item, as an informer ──▶ instructions a byte, beside the good body's
//! ```
//!
//! Bodies of a kind are equally long. Instructions are counted by valgrind, so that they are the same on a busy
//! machine. Under `cargo test` each body is read once, a small one, and what it yields is checked, and that no memory
//! is held for what it only promises.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that measures, or breaks"
)]

#[path = "../tests/it/messages.rs"]
mod messages;
mod support;

use std::alloc::System;
use std::cell::Cell;
use std::hint::black_box;

use cap::Cap;
use kinform_core::{Encoding, ListPart, ListReader, Object, Projection};

use self::messages::{envelope, envelope_of, field, list_message, put_number};
use self::support::{counted, recorded};

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

const CHUNK: usize = 64 << 10;
/// As a test: little work, all of it checked.
const SMALL: usize = 256 << 10;
/// Counted under valgrind, which is fifty times slower.
const COUNTED: usize = 2 << 20;
/// BOUND: what a reader may keep that no input pays for.
const FREE: usize = 256 << 10;

/// One way in which a list can be broken.
struct Case {
    name: &'static str,
    encoding: Encoding,
    body: fn(usize) -> Body,
    yields: Yields,
}

/// A list and how many items are in it.
struct Body {
    bytes: Vec<u8>,
    items: usize,
}

/// The outcome of all of its items.
#[derive(Clone, Copy)]
enum Yields {
    Objects,
    /// Unreadable, as this says of the first.
    Unreadable(&'static str),
    /// Every other one, from the first on.
    Others(&'static str),
    /// Whatever comes of them, the list ends so.
    Error(&'static str),
}

use Encoding::{Json, Protobuf};
use Yields::{Error, Objects, Others, Unreadable};

const CUT: &str = "the reply ended in the middle";
const DEEP: &str = "nested deeper than 128 levels";
const BEYOND: &str = "a length leads beyond its message";
const NUMBER: &str = "a number is broken";

/// Each is measured beside the last one before it whose name says that it is good.
#[rustfmt::skip]
const CASES: [Case; 54] = [
    Case { name: "json-good", encoding: Json, body: |size| json(size, <[u8]>::to_vec), yields: Objects },
    Case { name: "json-cut", encoding: Json, body: |size| cut(json(size, <[u8]>::to_vec)), yields: Error(CUT) },
    Case { name: "json-no-end", encoding: Json, body: |size| json(size, |item| end(item, b"")), yields: Error(CUT) },
    Case { name: "json-wrong-end", encoding: Json, body: |size| json(size, |item| end(item, b"]")), yields: Unreadable("comma or a closing") },
    Case { name: "json-no-comma", encoding: Json, body: |size| json(size, |item| end(item, b" {}}")), yields: Unreadable("comma or a closing") },
    Case { name: "json-others", encoding: Json, body: |size| json(size, others(|item| end(item, b"]"))), yields: Others("comma or a closing") },
    Case { name: "json-item-list", encoding: Json, body: |size| json(size, |item| [b"[", item, b"]"].concat()), yields: Unreadable("is not a JSON object") },
    Case { name: "json-items-object", encoding: Json, body: |size| items_are(size, b"{\"x\":[", b"]}"), yields: Error("the reply is") },
    Case { name: "json-name-number", encoding: Json, body: |size| json(size, |item| put(item, b"\"name\":", b"\"name\":7,\"n\":")), yields: Unreadable("is not a string") },
    Case { name: "json-metadata-list", encoding: Json, body: |size| json(size, |item| put(item, b"\"metadata\":{", b"\"metadata\":[],\"m\":{")), yields: Unreadable("is not a JSON object") },
    Case { name: "json-nameless", encoding: Json, body: |size| json(size, |item| put(item, b"\"name\":", b"\"nome\":")), yields: Unreadable("missing") },
    Case { name: "json-utf8-ends", encoding: Json, body: |size| json(size, |item| each(item, b"\",\"", b"\xff\",\"")), yields: Unreadable("not UTF-8") },
    Case { name: "json-utf8-end", encoding: Json, body: |size| json(size, |item| end(item, b",\"x\":\"\xff\"}")), yields: Unreadable("not UTF-8") },
    Case { name: "json-utf8-all", encoding: Json, body: |size| json(size, |item| each(item, b"o", b"\xff")), yields: Unreadable("not UTF-8") },
    Case { name: "json-good-one", encoding: Json, body: |size| one(long_pod(size, b"")), yields: Objects },
    Case { name: "json-one-end", encoding: Json, body: |size| one(long_pod(size, b",{\"name\":}")), yields: Unreadable("expected a JSON value") },
    Case { name: "json-one-text", encoding: Json, body: |size| one(long_pod(size, b",{\"name\":\"\xff\"}")), yields: Unreadable("not UTF-8") },
    Case { name: "json-good-deep", encoding: Json, body: |size| json(size, |_| deep(120, b"")), yields: Objects },
    Case { name: "json-deep-small", encoding: Json, body: |size| json(size, |_| deep(130, b"")), yields: Unreadable(DEEP) },
    Case { name: "json-deep", encoding: Json, body: |size| json(size, |_| deep(4_000, b"")), yields: Unreadable(DEEP) },
    Case { name: "json-deep-one", encoding: Json, body: |size| one(deep(size / 2, b"")), yields: Unreadable(DEEP) },
    Case { name: "json-good-numbers", encoding: Json, body: |size| one(deep(120, &[&b"0,".repeat(size / 2)[..], b"0"].concat())), yields: Objects },
    Case { name: "json-deep-end", encoding: Json, body: |size| one(deep(120, &[&b"0,".repeat(size / 2)[..], b"x"].concat())), yields: Unreadable("expected a JSON value") },
    Case { name: "json-good-text", encoding: Json, body: |size| one(text(&b"x".repeat(size))), yields: Objects },
    Case { name: "json-string-open", encoding: Json, body: |size| one(text(&[&b"x".repeat(size)[..], b"\\"].concat())), yields: Error(CUT) },
    Case { name: "json-string-end", encoding: Json, body: |size| one(text(&[&b"x".repeat(size)[..], b"\\q"].concat())), yields: Unreadable("bad escape") },
    Case { name: "json-item-text", encoding: Json, body: |size| one([b"\"", &b"x".repeat(size)[..], b"\""].concat()), yields: Unreadable("is not a JSON object") },
    Case { name: "json-item-number", encoding: Json, body: |size| one(b"1".repeat(size)), yields: Unreadable("is not a JSON object") },
    Case { name: "json-good-escapes", encoding: Json, body: |size| one(text(&b"\\n".repeat(size / 2))), yields: Objects },
    Case { name: "json-escapes-end", encoding: Json, body: |size| one(text(&[&b"\\n".repeat(size / 2)[..], b"\\q"].concat())), yields: Unreadable("bad escape") },
    Case { name: "json-good-key", encoding: Json, body: |size| one(named(b"x", &[b"\"", &b"\\n".repeat(size / 2)[..], b"\":0"].concat())), yields: Objects },
    Case { name: "json-key", encoding: Json, body: |size| one(named(b"x", &[b"\"", &b"\\n".repeat(size / 2)[..], b"\":x"].concat())), yields: Unreadable("expected a JSON value") },
    Case { name: "json-good-surrogates", encoding: Json, body: |size| one(text(&b"\\ud800".repeat(size / 6))), yields: Objects },
    Case { name: "json-name", encoding: Json, body: |size| one(named(&b"\\ud800".repeat(size / 6), b"\"x\":1")), yields: Objects },
    Case { name: "pb-good", encoding: Protobuf, body: |size| protobuf(size, <[u8]>::to_vec), yields: Objects },
    Case { name: "pb-cut", encoding: Protobuf, body: |size| cut(protobuf(size, <[u8]>::to_vec)), yields: Error(CUT) },
    Case { name: "pb-no-end", encoding: Protobuf, body: |size| protobuf(size, |item| item[..item.len() - 9].to_vec()), yields: Unreadable(BEYOND) },
    Case { name: "pb-string-end", encoding: Protobuf, body: |size| pods([more(b"", 3, &field(3, &[&b"x".repeat(size)[..], b"\xff"].concat()))]), yields: Unreadable("not UTF-8") },
    Case { name: "pb-name-number", encoding: Protobuf, body: |size| protobuf(size, |item| more(item, 1, b"\x08\x01")), yields: Unreadable("wrong wire type") },
    Case { name: "pb-metadata-number", encoding: Protobuf, body: |size| protobuf(size, |item| [item, b"\x08\x01"].concat()), yields: Unreadable("wrong wire type") },
    Case { name: "pb-utf8-end", encoding: Protobuf, body: |size| protobuf(size, |item| more(item, 3, &field(3, b"\xff"))), yields: Objects },
    Case { name: "pb-others", encoding: Protobuf, body: |size| protobuf(size, others(|item| more(item, 1, b"\x08\x01"))), yields: Others("wrong wire type") },
    Case { name: "pb-2^31", encoding: Protobuf, body: |size| protobuf(size, |item| long(item, 1 << 31)), yields: Unreadable(BEYOND) },
    Case { name: "pb-2^63", encoding: Protobuf, body: |size| protobuf(size, |item| long(item, 1 << 63)), yields: Unreadable(BEYOND) },
    Case { name: "pb-overlong", encoding: Protobuf, body: |size| protobuf(size, |item| [item, &b"\x1a"[..], &[0x80; 11]].concat()), yields: Unreadable(NUMBER) },
    Case { name: "pb-item-2^31", encoding: Protobuf, body: |size| promised(size, 1 << 31), yields: Error(BEYOND) },
    Case { name: "pb-list-2^63", encoding: Protobuf, body: |size| promised(size, 1 << 63), yields: Error(CUT) },
    Case { name: "pb-good-one", encoding: Protobuf, body: |size| pods([long_message(size, b"\x0a\x01x")]), yields: Objects },
    Case { name: "pb-one-end", encoding: Protobuf, body: |size| pods([long_message(size, b"\x08\x01")]), yields: Unreadable("wrong wire type") },
    Case { name: "pb-one-text", encoding: Protobuf, body: |size| pods([long_message(size, b"\x0a\x01\xff")]), yields: Objects },
    Case { name: "pb-good-deep", encoding: Protobuf, body: |size| schemas(size, 110), yields: Objects },
    Case { name: "pb-deep-small", encoding: Protobuf, body: |size| schemas(size, 130), yields: Unreadable(DEEP) },
    Case { name: "pb-deep", encoding: Protobuf, body: |size| schemas(size, 1_000), yields: Unreadable(DEEP) },
    Case { name: "pb-deep-one", encoding: Protobuf, body: |size| schemas(size, size / 6), yields: Unreadable(DEEP) },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if let Some(at) = words.iter().position(|word| word == "--rounds") {
        let case = CASES.iter().find(|case| has(case.name)).unwrap();
        let body = (case.body)(COUNTED);
        let rounds: usize = words[at + 1].parse().unwrap();
        (0..rounds).for_each(|_| check(case, &body, usize::MAX));
        println!("{}", body.bytes.len() * rounds);
        return;
    }
    let names: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_asked =
        |case: &&Case| names.is_empty() || names.iter().any(|name| case.name.contains(&**name));
    let mut good = None;
    for case in CASES.iter().filter(is_asked) {
        match (has("--list"), has("--bench")) {
            (true, _) => println!("{}: test", case.name),
            (false, false) => {
                check(case, &(case.body)(SMALL), FREE);
                println!("test {} ... ok", case.name);
            }
            (false, true) => measure(case, &mut good),
        }
    }
}

/// Instructions a byte, beside those of the last good body before.
fn measure(case: &Case, good: &mut Option<f64>) {
    let Some(((one, bytes), (two, _))) = counted(case.name, 1).zip(counted(case.name, 2)) else {
        println!("{:<20} no valgrind", case.name);
        return;
    };
    let each = two.saturating_sub(one) as f64 / bytes as f64;
    if case.name.contains("good") {
        *good = Some(each);
    }
    let ratio = each / good.unwrap_or(f64::NAN);
    println!(
        "{:<20} {each:>7.2} instructions a byte {ratio:>7.2} of the good one's",
        case.name
    );
}

/// Reads a list as an informer does, and checks what it yields. What is kept at the end of a chunk is no more than a
/// few times what was read, and `free`.
fn check(case: &Case, body: &Body, free: usize) {
    let (mut objects, mut broken, mut first, mut read) = (0, 0, None, 0);
    let before = HEAP.allocated();
    let projection = Projection::new();
    let mut reader = ListReader::new(case.encoding);
    for chunk in body.bytes.chunks(CHUNK) {
        let fed = reader.feed(chunk, &mut |part| {
            let found = match part {
                ListPart::Item(item) => item.checked().and_then(|item| {
                    black_box((item.kind(), item.api_version()));
                    let object = Object::from_item(&item, &projection)?;
                    black_box(item.managed_fields_bytes());
                    Ok(object)
                }),
                ListPart::Unreadable(why) => Err(why),
            };
            match black_box(found) {
                Ok(_) => objects += 1,
                Err(why) => {
                    broken += 1;
                    first.get_or_insert(why);
                }
            }
        });
        read += chunk.len();
        let kept = HEAP.allocated().saturating_sub(before);
        assert!(
            kept <= (3 * read).saturating_add(free),
            "{}: {kept}",
            case.name
        );
        if fed.is_err() {
            break;
        }
    }
    let end = reader.finish().err().map(|error| error.to_string());
    let told = first.map_or(String::new(), |why| why.to_string());
    let found = format!("{}: {objects}, {broken} as {told}; {end:?}", case.name);
    match case.yields {
        Objects => assert!(
            (objects, broken) == (body.items, 0) && end.is_none(),
            "{found}"
        ),
        Unreadable(why) => {
            assert!(
                (objects, broken) == (0, body.items) && end.is_none(),
                "{found}"
            );
            assert!(told.contains(why), "{found}");
        }
        Others(why) => {
            let half = body.items / 2;
            assert!(
                (objects, broken) == (half, body.items - half) && end.is_none(),
                "{found}"
            );
            assert!(told.contains(why), "{found}");
        }
        Error(why) => assert!(end.is_some_and(|end| end.contains(why)), "{found}"),
    }
}

/// The items of a recorded list.
fn items(encoding: Encoding) -> Vec<Vec<u8>> {
    let body = recorded(match encoding {
        Protobuf => "list/pods.pb",
        _ => "list/pods.json",
    });
    let mut items = Vec::new();
    let fed = ListReader::new(encoding).feed(&body, &mut |part| {
        if let ListPart::Item(item) = part {
            items.push(item.bytes().to_vec());
        }
    });
    fed.unwrap();
    items
}

/// Returns about `size` bytes of recorded items, each changed.
fn changed(encoding: Encoding, size: usize, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut left = size;
    let items = items(encoding);
    let changed = items.iter().cycle().map(|item| change(item));
    let fits = |item: &Vec<u8>| {
        let has_room = left > 0;
        left = left.saturating_sub(item.len());
        has_room
    };
    changed.take_while(fits).collect()
}

/// Changes the first one, and every other one behind it.
fn others(change: fn(&[u8]) -> Vec<u8>) -> impl Fn(&[u8]) -> Vec<u8> {
    let is_next = Cell::new(true);
    move |item| match is_next.replace(!is_next.get()) {
        true => change(item),
        false => item.to_vec(),
    }
}

fn list_of(items: &[Vec<u8>]) -> Body {
    let head =
        br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":["#;
    Body {
        bytes: [&head[..], &items.join(&b","[..]), b"]}"].concat(),
        items: items.len(),
    }
}

fn json(size: usize, change: impl Fn(&[u8]) -> Vec<u8>) -> Body {
    list_of(&changed(Json, size, change))
}

fn one(item: Vec<u8>) -> Body {
    list_of(&[item])
}

/// The list breaks off in the middle of its last item.
fn cut(mut body: Body) -> Body {
    body.bytes.truncate(body.bytes.len() - 1_000);
    body
}

/// A list whose `items` is not an array.
fn items_are(size: usize, open: &[u8], close: &[u8]) -> Body {
    let items = changed(Json, size, <[u8]>::to_vec).join(&b","[..]);
    Body {
        bytes: [b"{\"items\":", open, &items, close, b"}"].concat(),
        items: 0,
    }
}

/// The item, its last bracket replaced.
fn end(item: &[u8], by: &[u8]) -> Vec<u8> {
    [&item[..item.len() - 1], by].concat()
}

fn named(name: &[u8], more: &[u8]) -> Vec<u8> {
    [b"{\"metadata\":{\"name\":\"", name, b"\"},", more, b"}"].concat()
}

/// An object with this text.
fn text(text: &[u8]) -> Vec<u8> {
    named(b"x", &[b"\"data\":\"", text, b"\""].concat())
}

/// An object with lists in lists.
fn deep(levels: usize, inside: &[u8]) -> Vec<u8> {
    let lists = [&b"[".repeat(levels)[..], inside, &b"]".repeat(levels)];
    named(b"x", &[b"\"data\":", &lists.concat()[..]].concat())
}

/// A pod of many containers, and more behind them.
fn long_pod(size: usize, more: &[u8]) -> Vec<u8> {
    let item = items(Json).swap_remove(0);
    let item: serde_json::Value = serde_json::from_slice(&item).unwrap();
    let container = item["spec"]["containers"][0].to_string();
    let containers = vec![container.as_bytes(); size / container.len()].join(&b","[..]);
    let list = [&b"\"spec\":{\"containers\":["[..], &containers, more, b"]}"].concat();
    named(b"x", &list)
}

/// The same as a message; what the last container is stands at the end.
fn long_message(size: usize, last: &[u8]) -> Vec<u8> {
    let requests = field(
        2,
        &[field(1, b"cpu"), field(2, &field(1, b"250m"))].concat(),
    );
    let container = [
        field(1, b"app"),
        field(2, b"registry/app:1.27"),
        field(4, b"--port=80"),
        field(5, b"/work"),
        field(7, &[field(1, b"NAME"), field(2, b"value")].concat()),
        field(8, &requests),
    ];
    let container = field(2, &container.concat());
    let spec = [container.repeat(size / container.len()), field(2, last)].concat();
    [field(1, &field(1, b"x")), field(2, &spec)].concat()
}

/// The first of some bytes replaced.
fn put(item: &[u8], bytes: &[u8], by: &[u8]) -> Vec<u8> {
    let at = item
        .windows(bytes.len())
        .position(|at| at == bytes)
        .unwrap();
    [&item[..at], by, &item[at + bytes.len()..]].concat()
}

/// All of them replaced.
fn each(item: &[u8], bytes: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = item;
    while let Some(at) = rest.windows(bytes.len()).position(|at| at == bytes) {
        out.extend([&rest[..at], by].concat());
        rest = &rest[at + bytes.len()..];
    }
    [&out, rest].concat()
}

fn pods(items: impl IntoIterator<Item = Vec<u8>>) -> Body {
    let items: Vec<_> = items.into_iter().collect();
    Body {
        bytes: envelope("PodList", &list_message(&items)),
        items: items.len(),
    }
}

fn protobuf(size: usize, change: impl Fn(&[u8]) -> Vec<u8>) -> Body {
    pods(changed(Protobuf, size, change))
}

/// A message with a field more.
fn more(item: &[u8], number: u64, value: &[u8]) -> Vec<u8> {
    [item, &field(number, value)].concat()
}

/// A status that claims to be that long, at the end of a message.
fn long(item: &[u8], length: u64) -> Vec<u8> {
    let mut out = [item, b"\x1a"].concat();
    put_number(&mut out, length);
    out.extend(b"\x0a\x01x");
    out
}

/// A list whose last item claims to be that long; longer than 2^32, so does the list.
fn promised(size: usize, length: u64) -> Body {
    let items = changed(Protobuf, size, <[u8]>::to_vec);
    let mut raw = list_message(&items);
    raw.push(0x12);
    put_number(&mut raw, length >> 1);
    raw.extend(b"\x0a\x01x");
    let mut bytes = envelope("PodList", b"");
    bytes.truncate(bytes.len() - 6);
    bytes.push(0x12);
    let is_all = length > 1 << 32;
    put_number(&mut bytes, if is_all { length } else { raw.len() as u64 });
    bytes.extend(raw);
    let items = items.len();
    Body { bytes, items }
}

/// Definitions of types with schemas in schemas, which are so deep.
fn schemas(size: usize, levels: usize) -> Body {
    // Made from its end: `not` is number 28, and each holds all that is behind it.
    let mut reversed = Vec::new();
    let wrap = |reversed: &mut Vec<u8>, number: u64| {
        let mut head = Vec::new();
        put_number(&mut head, number << 3 | 2);
        put_number(&mut head, reversed.len() as u64);
        reversed.extend(head.iter().rev());
    };
    (0..levels).for_each(|_| wrap(&mut reversed, 28));
    [1, 4, 7, 2]
        .into_iter()
        .for_each(|number| wrap(&mut reversed, number));
    reversed.reverse();
    let item = [field(1, &field(1, b"x")), reversed].concat();
    let items = vec![item.clone(); (size / item.len()).max(1)];
    let (version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinitionList");
    Body {
        bytes: envelope_of(version, kind, &list_message(&items)),
        items: items.len(),
    }
}
