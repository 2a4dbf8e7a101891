//! Protobuf that no Kubernetes writer makes: broken, endless, out of order. Nothing panics, one bad item
//! costs itself, and what is merely unusual reads as if it were not.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinform_api::{FieldPath, TypeMeta};
use kinform_core::{
    Encoding, FrameKind, ListMeta, ListPart, ListReader, Object, Projection, TypedCache,
    Unreadable, WatchReader, WireError,
};
use kinform_schema::builtin;
use proptest::prelude::*;
use serde_json::Value;

use crate::messages::{envelope, field, list_message, put_number};
use crate::protobuf::recorded;

fn named(name: &str) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(3, b"n")].concat())
}

pub(crate) fn list(items: &[Vec<u8>]) -> Vec<u8> {
    envelope("ConfigMapList", &list_message(items))
}

fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let message = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    frame(&message)
}

fn frame(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&length[..], message].concat()
}

type Outcome = (Vec<String>, Result<ListMeta, WireError>);

fn split(chunks: &[&[u8]], max_item_bytes: usize) -> Outcome {
    let mut splitter = ListReader::with_max_item_bytes(Encoding::Protobuf, max_item_bytes);
    let mut parts = Vec::new();
    for chunk in chunks {
        let fed = splitter.feed(chunk, &mut |part| {
            parts.push(match part {
                ListPart::Item(item) => match Object::from_item(&item, &Projection::new()) {
                    Ok(object) => object.key().to_string(),
                    Err(why) => format!("! {why}"),
                },
                ListPart::Unreadable(why) => format!("! {why}"),
            });
        });
        if fed.is_err() {
            break;
        }
    }
    (parts, splitter.finish())
}

/// Splits the body whole, byte by byte and at every single cut: always the same.
fn every_way(body: &[u8], max_item_bytes: usize) -> Outcome {
    let whole = split(&[body], max_item_bytes);
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(split(&bytes, max_item_bytes), whole);
    for cut in 0..=body.len() {
        let (head, tail) = body.split_at(cut);
        assert_eq!(split(&[head, tail], max_item_bytes), whole, "cut at {cut}");
    }
    whole
}

fn frames(chunks: &[&[u8]], max_item_bytes: usize) -> (Vec<String>, Result<(), WireError>) {
    let mut framer = WatchReader::with_max_item_bytes(Encoding::Protobuf, max_item_bytes);
    let mut found = Vec::new();
    for chunk in chunks {
        let fed = framer.feed(chunk, &mut |frame| {
            found.push(match &frame.kind {
                FrameKind::Malformed(why) => format!("! {why}"),
                kind => format!("{kind:?} {:?}", frame.object.bytes().len()),
            });
        });
        if fed.is_err() {
            break;
        }
    }
    (found, framer.finish())
}

fn every_way_watched(body: &[u8], max: usize) -> (Vec<String>, Result<(), WireError>) {
    let whole = frames(&[body], max);
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(frames(&bytes, max), whole);
    for cut in 0..=body.len() {
        let (head, tail) = body.split_at(cut);
        assert_eq!(frames(&[head, tail], max), whole, "cut at {cut}");
    }
    whole
}

#[test]
fn a_bad_item_costs_itself_only() {
    let check = |bad: Vec<u8>, expected: &str| {
        let (parts, meta) = every_way(&list(&[named("a"), bad, named("b")]), 1000);
        assert_eq!(parts, ["n/a", expected, "n/b"]);
        assert_eq!(meta.unwrap().resource_version, "7");
    };
    let with = |more: &[u8]| [named("x"), more.to_vec()].concat();
    let entry = |key: &[u8], value: &[u8]| field(2, &[field(1, key), field(2, value)].concat());
    check(
        Vec::new(),
        "! an object without a readable name cannot be read: metadata.name: is missing",
    );
    check(
        with(&[entry(b"k", b"\xff"), vec![0x12, 0xff]].concat()),
        "! n/x cannot be read: data.k: not UTF-8",
    );
    check(
        with(&[0x10, 1]),
        "! n/x cannot be read: data: a field has the wrong wire type",
    );
    check(
        with(&[0x0b, 0x0c]),
        "! n/x cannot be read: a field has no wire type",
    );
    check(
        with(&[0x12, 0x05]),
        "! n/x cannot be read: a length leads beyond its message",
    );
    check(
        with(&[0x12, 0xff]),
        "! n/x cannot be read: a number is broken",
    );
    check(
        field(1, &field(1, b"a/b")),
        "! an object without a readable name cannot be read: metadata.name: contains a slash",
    );
    check(
        field(1, &[field(1, b"\xff"), field(3, b"n")].concat()),
        "! an object without a readable name cannot be read: metadata.name: not UTF-8",
    );
    let no_time = field(
        1,
        &[
            field(1, b"x"),
            field(9, &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        ]
        .concat(),
    );
    check(
        no_time,
        "! x cannot be read: metadata.deletionTimestamp: the time has no text",
    );
}

#[test]
fn k18_texts_that_are_not_utf_8_cost_no_object() {
    let entry = |key: &[u8], value: &[u8]| field(2, &[field(1, key), field(2, value)].concat());
    // Annotations and labels are maps, too; field 3 are bytes, which are no text.
    let metadata = field(
        1,
        &[
            field(1, b"x"),
            field(3, b"n"),
            field(12, &[field(1, b"note"), field(2, b"gr\xfcn")].concat()),
        ]
        .concat(),
    );
    let data = [entry(b"a/b", b"\xe2\x82"), entry(b"k\xff", b"v")].concat();
    let bytes = field(3, &[field(1, b"raw"), field(2, b"\xff")].concat());
    let item = [metadata, data, bytes].concat();
    let (parts, meta) = every_way(&list(&[named("a"), item.clone(), named("b")]), 1000);
    assert_eq!(parts, ["n/a", "n/x", "n/b"]);
    assert_eq!(meta.unwrap().resource_version, "7");
    let mut first = Vec::new();
    let fed = ListReader::new(Encoding::Protobuf).feed(&list(&[named("a"), item]), &mut |part| {
        if let ListPart::Item(item) = part {
            let item = item.checked().unwrap();
            first.push(item.mended().map(|fault| fault.path.clone()));
            let object = Object::from_item(&item, &Projection::new()).unwrap();
            ask_everything(&object);
            if item.mended().is_some() {
                let meta = TypeMeta {
                    api_version: "v1".to_owned(),
                    kind: "ConfigMap".to_owned(),
                };
                let json: Value = serde_json::from_slice(&object.to_json(&meta)).unwrap();
                let data = serde_json::json!({ "a/b": "\u{fffd}\u{fffd}", "k\u{fffd}": "v" });
                assert_eq!(json["data"], data);
                assert_eq!(json["metadata"]["annotations"]["note"], "gr\u{fffd}n");
                assert_eq!(json["binaryData"]["raw"], "/w==");
            }
        }
    });
    assert!(fed.is_ok());
    assert_eq!(first, [None, Some("metadata.annotations.note".to_owned())]);
}

#[test]
fn k12_managed_fields_are_read_only_where_they_are_kept() {
    let of = builtin("", "v1", "ConfigMap").unwrap();
    let fields = field(17, &field(7, &field(1, b"{]")));
    // Of two managers.
    let item = field(1, &[field(1, b"x"), fields.clone(), fields].concat());
    let (parts, _) = every_way(&list(&[named("a"), item.clone(), named("b")]), 1000);
    assert_eq!(parts, ["n/a", "x", "n/b"]);
    let object = Object::from_protobuf(of, &item, &Projection::new()).unwrap();
    assert_eq!(object.bytes(), field(1, &field(1, b"x")));
    ask_everything(&object);
    let kept = Projection::new().keep_managed_fields();
    let expected = "x cannot be read: metadata.managedFields[0].fieldsV1: the JSON in it is broken";
    let error = Object::from_protobuf(of, &item, &kept).unwrap_err();
    assert_eq!(error.to_string(), expected);
    let mut found = Vec::new();
    let fed = ListReader::new(Encoding::Protobuf).feed(&list(&[item]), &mut |part| {
        if let ListPart::Item(item) = part {
            let item = item.checked().unwrap();
            found.push(Object::from_item(&item, &kept).unwrap_err().to_string());
        }
    });
    fed.unwrap();
    assert_eq!(found, [expected]);
    // Those of a template are no managedFields of the object.
    let template = builtin("", "v1", "PodTemplate").unwrap();
    let inner = field(17, &field(7, &field(1, b"{]")));
    let inner = field(2, &field(1, &[field(1, b"t"), inner].concat()));
    let bytes = [named("a"), inner].concat();
    assert!(Object::from_protobuf(template, &bytes, &Projection::new()).is_err());
}

#[test]
fn an_item_that_is_too_large_is_set_apart_with_its_name() {
    let large = [named("large"), field(2, &[b'x'; 300])].concat();
    let (parts, meta) = every_way(&list(&[named("a"), large, named("b")]), 64);
    assert_eq!(
        parts,
        ["n/a", "! n/large cannot be read: is too large", "n/b"]
    );
    assert!(meta.is_ok());
    // The length of a gigabyte, the bytes of a few: nothing is set aside for what was promised.
    let mut raw = field(1, &field(2, b"7"));
    raw.push(0x12);
    put_number(&mut raw, 1 << 30);
    raw.extend(named("a"));
    let mut body = envelope("ConfigMapList", b"");
    body.truncate(body.len() - 6);
    body.push(0x12);
    put_number(&mut body, 1 << 31);
    body.extend(raw);
    assert_eq!(every_way(&body, 1000), (vec![], Err(WireError::Truncated)));
}

#[test]
fn what_is_no_list_is_told_apart() {
    let check = |body: &[u8], expected: &str| {
        let error = every_way(body, 100).1.unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(b"", "the reply ended in the middle");
    check(
        b"<html>",
        "not a protobuf reply: it does not begin with the envelope at byte 0",
    );
    check(b"k8s\0", "the reply ended in the middle");
    check(
        &envelope("Pod", &named("a")),
        "the reply is not a list but of kind Pod",
    );
    check(
        &envelope("FooList", &named("a")),
        "the reply is not a list but of kind FooList",
    );
    check(
        &envelope("Table", b""),
        "the server answered with a Table in place of a list",
    );
    let status = [
        field(2, b"Failure"),
        field(3, b"no way"),
        vec![0x30, 0x93, 3],
    ]
    .concat();
    check(
        &envelope("Status", &status),
        "the server answered with a status in place of a list: no way",
    );
    check(
        &[b"k8s\0".to_vec(), field(2, b"x")].concat(),
        "not a protobuf reply: the type comes after the list at byte 5",
    );
    check(
        &[list(&[]), field(2, b"")].concat(),
        "not a protobuf reply: items come twice at byte 37",
    );
    check(
        b"k8s\0\x0b",
        "not a protobuf reply: a field has no wire type at byte 4",
    );
    check(
        b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        "not a protobuf reply: a number is broken at byte 14",
    );
    check(
        b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "the reply is too large outside its items",
    );
    let beyond = envelope("ConfigMapList", b"\x12\x05");
    check(
        &beyond,
        "not a protobuf reply: a length leads beyond its message at byte 28",
    );
}

#[test]
fn unknown_fields_are_stepped_over_everywhere() {
    let unknown = [
        vec![0xf8, 0x06, 1],
        field(200, b"x"),
        vec![0xf9, 6, 1, 2, 3, 4, 5, 6, 7, 8],
        vec![0xfd, 6, 1, 2, 3, 4],
    ]
    .concat();
    let item = [named("a"), unknown.clone()].concat();
    let raw = [
        unknown.clone(),
        field(1, &field(2, b"7")),
        field(2, &item),
        unknown.clone(),
    ]
    .concat();
    let mut body = envelope("ConfigMapList", &raw);
    body.extend(unknown);
    let (parts, meta) = every_way(&body, 1000);
    assert_eq!(
        (parts, meta.unwrap().resource_version),
        (vec!["n/a".to_owned()], "7".to_owned())
    );
}

#[test]
fn frames_that_are_no_events_are_handed_on_as_such() {
    let good = event("ADDED", &envelope("ConfigMap", &named("a")));
    let check = |bad: &[u8], expected: &str| {
        let (found, end) = every_way_watched(&[&good, bad, &good].concat(), 200);
        assert_eq!(end, Ok(()));
        assert_eq!(found, ["Known(Added) 8", expected, "Known(Added) 8"]);
    };
    let none = "! an object without a readable name cannot be read: ";
    check(&frame(b""), &format!("{none}type: is missing"));
    check(
        &frame(&field(1, b"ADDED")),
        &format!("{none}object: is missing"),
    );
    check(
        &event("", &envelope("Pod", b"")),
        &format!("{none}type: is missing"),
    );
    check(
        &event("ADDED", b"{}"),
        &format!("{none}object: does not begin with the envelope"),
    );
    check(
        &event("MOVED", &envelope("ConfigMap", &named("a"))),
        "Unknown(\"MOVED\") 8",
    );
    check(
        &frame(b"\x0a\x7f"),
        &format!("{none}a length leads beyond its message"),
    );
    // A length that leads beyond what it stands in: what is left is no smaller object.
    let whole = envelope("ConfigMap", &named("a"));
    let cut = &whole[..whole.len() - 5];
    check(
        &event("MODIFIED", cut),
        &format!("{none}object: does not begin with the envelope"),
    );
    let inside = [field(1, b"MODIFIED"), field(2, &field(1, &whole)[..20])].concat();
    check(
        &frame(&inside),
        &format!("{none}a length leads beyond its message"),
    );
    let large = [named("large"), field(2, &[b'x'; 2000])].concat();
    check(
        &event("ADDED", &envelope("ConfigMap", &large)),
        "! n/large cannot be read: is too large",
    );
    let (_, end) = every_way_watched(&good[..good.len() - 1], 100);
    assert_eq!(end, Err(WireError::Truncated));
    let (_, end) = every_way_watched(b"{\"type\":\"ADDED\"}", 100);
    let expected = "not a protobuf reply: expected a watch event at byte 4";
    assert_eq!(end.unwrap_err().to_string(), expected);
}

/// Everything that can be asked of an object.
pub(crate) fn ask_everything(object: &Object) {
    let meta = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    };
    let json = object.to_json(&meta);
    let value: Value = serde_json::from_slice(&json).unwrap();
    let typed = object.typed::<Value>(&meta, TypedCache::Never).unwrap();
    assert_eq!(*typed, value);
    let _ = object.typed::<k8s_openapi::api::core::v1::Pod>(&meta, TypedCache::Never);
    assert!(object.labels().count() + object.annotations().count() < 1000);
    assert!(
        object.owner_references().len() < 1000
            && object.label("app").is_none_or(|l| l.len() < 99999)
    );
    for path in [
        "spec.containers[*].ports[0].containerPort",
        "spec.volumes[*].name",
        "metadata.labels.app",
        "data.k",
        "status.startTime",
    ] {
        let path: FieldPath = path.parse().unwrap();
        assert!(object.at(&path).len() < 1000);
    }
    assert!(object.same_but_version(object) && object.same_content(&object.clone()));
}

#[test]
fn nesting_has_an_end() {
    // A schema in a schema in a schema: `not` is number 28.
    let of = builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let nested = |depth: usize| {
        let schema = (0..depth).fold(Vec::new(), |inside, _| field(28, &inside));
        let version = field(4, &field(1, &schema));
        let spec = field(2, &field(7, &version));
        Object::from_protobuf(of, &[named("a"), spec].concat(), &Projection::new())
    };
    ask_everything(&nested(100).unwrap());
    let error = nested(100_000).unwrap_err();
    assert_eq!(error.reason, "nested deeper than 128 levels");
    // Of 128 levels the outer ones and the inner ones are shown.
    let path = |levels: usize| {
        format!(
            "spec.versions[0].schema.openAPIV3Schema{}",
            ".not".repeat(levels)
        )
    };
    let shown = [&path(20), "….", &["not"; 8].join(".")].concat();
    assert_eq!(error.path, shown);
    // A fault that is 32 levels deep is shown with all of them, one more is not.
    let faulty = |depth: usize| {
        let schema = (0..depth).fold(b"\x10\x01".to_vec(), |inside, _| field(28, &inside));
        let version = field(4, &field(1, &schema));
        let spec = field(2, &field(7, &version));
        let bytes = [named("a"), spec].concat();
        Object::from_protobuf(of, &bytes, &Projection::new())
            .unwrap_err()
            .path
    };
    assert_eq!(faulty(27), format!("{}.$schema", path(27)));
    let shown = format!("{}….{}.$schema", path(20), ["not"; 7].join("."));
    assert_eq!(faulty(28), shown);
}

#[test]
fn the_deepest_object_that_is_accepted_fits_a_usual_stack_as_its_type() {
    let of = builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let meta = || TypeMeta {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
    };
    let is_typed = move |object: Result<Object, _>| -> Result<bool, Unreadable> {
        let typed = object?.typed::<CustomResourceDefinition>(&meta(), TypedCache::Never);
        Ok(typed.is_ok())
    };
    let read = move || {
        // Five levels lead to the schema; in JSON six, as versions are a list. Both readers accept 128.
        for (depth, message, json) in [(122, true, true), (123, true, false), (124, false, false)] {
            let schema = (0..depth).fold(field(1, b"id"), |inside, _| field(28, &inside));
            let spec = field(2, &field(7, &field(4, &field(1, &schema))));
            let definition = [named("a"), spec].concat();
            let object = Object::from_protobuf(of, &definition, &Projection::new());
            assert_eq!(
                is_typed(object.clone()).unwrap_or(false),
                message,
                "{depth}"
            );
            let Ok(object) = object else { continue };
            let again = Object::from_json(&object.to_json(&meta()), &Projection::new());
            assert_eq!(is_typed(again).unwrap_or(false), json, "{depth}");
        }
    };
    // What threads have whose makers do not say otherwise, those of tokio's workers too.
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(read).unwrap().join().unwrap();
}

#[test]
fn an_object_that_breaks_off_is_never_a_smaller_one_that_panics() {
    let of = builtin("", "v1", "Pod").unwrap();
    let recorded = recorded();
    let pods = recorded
        .iter()
        .find(|r| r.file == "list/pages-pb/page-0.pb")
        .unwrap();
    let mut item = Vec::new();
    let fed = ListReader::new(Encoding::Protobuf).feed(&pods.bytes, &mut |part| {
        if let ListPart::Item(found) = part {
            item = found.bytes().to_vec();
        }
    });
    fed.unwrap();
    for cut in 0..item.len() {
        match Object::from_protobuf(of, &item[..cut], &Projection::new()) {
            Ok(object) => ask_everything(&object),
            Err(unreadable) => assert!(!unreadable.reason.is_empty()),
        }
    }
}

proptest! {
    #[test]
    fn broken_lists_split_the_same_way_however_they_are_cut(
        flips in proptest::collection::vec((0usize..200, any::<u8>()), 0..4),
        cut in 0usize..300,
    ) {
        let with_data = [named("b"), field(2, &[field(1, b"k"), field(2, b"v")].concat())].concat();
        let mut body = list(&[named("a"), with_data, named("c")]);
        for (at, byte) in flips {
            let length = body.len();
            body[at % length] = byte;
        }
        body.truncate(cut);
        let _ = every_way(&body, 24);
    }

    #[test]
    fn broken_streams_split_the_same_way_however_they_are_cut(
        flips in proptest::collection::vec((0usize..200, any::<u8>()), 0..4),
        cut in 0usize..300,
    ) {
        let one = event("ADDED", &envelope("ConfigMap", &named("a")));
        let mut body = [&one[..], &one, &one].concat();
        for (at, byte) in flips {
            let length = body.len();
            body[at % length] = byte;
        }
        body.truncate(cut);
        let _ = every_way_watched(&body, 24);
    }

    #[test]
    fn whatever_passes_the_check_can_be_asked_everything(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        which in any::<prop::sample::Index>(),
        swap in any::<prop::sample::Index>(),
    ) {
        thread_local! {
            static ITEMS: Vec<Vec<u8>> = items();
        }
        let of = builtin("", "v1", "Pod").unwrap();
        let mut bytes = ITEMS.with(|items| which.get(items).clone());
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let at = swap.index(bytes.len());
        if at % 3 == 0 {
            bytes.drain(at..(at + at % 7).min(bytes.len()));
        }
        if let Ok(object) = Object::from_protobuf(of, &bytes, &Projection::new()) {
            ask_everything(&object);
            let drop = Projection::new().drop_path("spec.containers[*].env".parse().unwrap());
            if let Ok(object) = Object::from_protobuf(of, &bytes, &drop) {
                ask_everything(&object);
            }
        }
    }
}

fn items() -> Vec<Vec<u8>> {
    let recorded = recorded();
    let pods = recorded
        .iter()
        .find(|r| r.file == "list/pages-pb/page-0.pb")
        .unwrap();
    let mut items = Vec::new();
    let fed = ListReader::new(Encoding::Protobuf).feed(&pods.bytes, &mut |part| {
        if let ListPart::Item(found) = part {
            items.push(found.bytes().to_vec());
        }
    });
    fed.unwrap();
    items.truncate(8);
    items
}
