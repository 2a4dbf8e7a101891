//! Protobuf recorded from a real API server, and its twin in JSON: the same objects in every
//! respect.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kinform_api::{FieldPath, PathSegment, TypeMeta};
use kinform_core::{
    Encoding, FrameKind, Item, ListMeta, ListPart, ListReader, Object, OwnerReference, Projection,
    TypedCache, WatchReader, WireError,
};
use serde_json::Value;

use crate::golden::{every_cut, exchanges, expected_view, recordings};
use crate::golden_types::is_checked;
use crate::messages::{envelope_of, field, list_message};

/// One body in protobuf.
pub(crate) struct Recorded {
    pub(crate) file: String,
    pub(crate) status: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Every recorded body in protobuf.
pub(crate) fn recorded() -> Vec<Recorded> {
    let mut found = Vec::new();
    recordings(|line| {
        let is_protobuf = line["file"].as_str().unwrap().ends_with(".pb");
        let body = line["bodyBase64"].as_str();
        // One short list is all ASCII.
        let text = line["body"].as_str().filter(|text| text.starts_with("k8s"));
        let bytes = body
            .map(|body| STANDARD.decode(body).unwrap())
            .or(text.map(|text| text.as_bytes().to_vec()));
        if let Some(bytes) = bytes.filter(|_| is_protobuf) {
            found.push(Recorded {
                file: line["file"].as_str().unwrap().to_owned(),
                status: line["status"].as_u64().unwrap(),
                bytes,
            });
        }
    });
    found
}

/// The bodies of the twins in JSON, by the name of the recording in protobuf.
pub(crate) fn twins() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for exchange in exchanges() {
        let name = exchange.file.as_str();
        let twin = match name {
            "watch/story.all.jsonl" => "watch/story.pb-plain.pb".to_owned(),
            "watch/sie.json.jsonl" => "watch/sie.pb".to_owned(),
            name if name.starts_with("kinds/") => name.replace(".create.json", ".get.pb"),
            name => name
                .replace("pages-json", "pages-pb")
                .replace(".jsonl", ".pb")
                .replace(".json", ".pb"),
        };
        if name == "watch/story.all.jsonl" {
            found.insert("watch/story.all.pb".to_owned(), exchange.body.clone());
        }
        found.entry(twin).or_insert(exchange.body);
    }
    found
}

/// The recorded lists in protobuf, each with its twin in JSON.
pub(crate) fn list_twins() -> Vec<(Recorded, String)> {
    let mut twins = twins();
    let is_list = |recorded: &Recorded| {
        recorded.file.starts_with("list/")
            && recorded.status == 200
            && recorded.bytes.starts_with(b"k8s\0")
    };
    let lists = recorded().into_iter().filter(is_list);
    lists
        .filter_map(|recorded| twins.remove(&recorded.file).map(|twin| (recorded, twin)))
        .collect()
}

/// Without the type that JSON gives to an object inside of another one: protobuf has no room for it.
pub(crate) fn untyped_claims(value: &Value) -> Value {
    let mut value = value.clone();
    let claims = value.pointer_mut("/spec/volumeClaimTemplates");
    for claim in claims.and_then(Value::as_array_mut).into_iter().flatten() {
        let claim = claim.as_object_mut().unwrap();
        claim.retain(|name, _| name != "kind" && name != "apiVersion");
    }
    value
}

pub(crate) fn split(
    encoding: Encoding,
    chunks: &mut dyn Iterator<Item = &[u8]>,
    mut item: impl FnMut(Item<'_>),
) -> Result<ListMeta, WireError> {
    let mut reader = ListReader::new(encoding);
    for chunk in chunks {
        reader.feed(chunk, &mut |part| match part {
            ListPart::Item(found) => item(found),
            ListPart::Unreadable(unreadable) => panic!("{unreadable}"),
        })?;
    }
    reader.finish()
}

pub(crate) fn listed(
    encoding: Encoding,
    body: &[u8],
    projection: &Projection,
) -> (Vec<Object>, ListMeta) {
    let mut objects = Vec::new();
    let meta = split(encoding, &mut std::iter::once(body), |item| {
        let item = item.checked().unwrap();
        objects.push(Object::from_item(&item, projection).unwrap());
    });
    (objects, meta.unwrap())
}

/// All paths to scalars.
fn paths(value: &Value, path: &mut Vec<PathSegment>, found: &mut Vec<Vec<PathSegment>>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                path.push(PathSegment::Field(key.clone()));
                paths(value, path, found);
                path.pop();
            }
        }
        Value::Array(elements) => {
            for (segment, value) in elements.iter().enumerate().flat_map(|(index, value)| {
                [
                    (PathSegment::Index(index), value),
                    (PathSegment::Each, value),
                ]
            }) {
                // Each of the first is enough: it finds those of all.
                if segment == PathSegment::Each && path.contains(&PathSegment::Each) {
                    continue;
                }
                path.push(segment);
                paths(value, path, found);
                path.pop();
            }
        }
        _ => found.push(path.clone()),
    }
}

/// The object that a message became against the JSON that the server sent for it.
#[track_caller]
fn check_twins(meta: &TypeMeta, object: &Object, twin: &Object, original: &Value, file: &str) {
    let untyped = untyped_claims(original);
    let (original, is_same) = (&untyped, untyped == *original);
    let owned = |(key, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        (key.into_owned(), value.into_owned())
    };
    type Head<'a> = (
        &'a str,
        Option<&'a str>,
        &'a str,
        &'a str,
        Option<u64>,
        u64,
        bool,
    );
    fn head(object: &Object) -> Head<'_> {
        (
            object.name(),
            object.namespace(),
            object.uid(),
            object.resource_version(),
            object.revision(),
            object.key_hash(),
            object.is_terminating(),
        )
    }
    assert_eq!(object.encoding(), Encoding::Protobuf);
    assert_eq!(head(object), head(twin), "{file}");
    let labels = |object: &Object| object.labels().map(owned).collect::<BTreeMap<_, _>>();
    let annotations = |object: &Object| object.annotations().map(owned).collect::<BTreeMap<_, _>>();
    assert_eq!(labels(object), labels(twin), "{file}");
    assert_eq!(annotations(object), annotations(twin), "{file}");
    for (key, value) in twin.labels() {
        assert_eq!(object.label(&key), Some(value), "{file}");
    }
    let owners: Vec<OwnerReference> = object.owner_references();
    assert_eq!(owners, twin.owner_references(), "{file}");

    let expected = expected_view(meta, original);
    let view: Value = serde_json::from_slice(&object.to_json(meta)).unwrap();
    assert_eq!(view, expected, "{file} {}", object.name());
    let value = object.typed::<Value>(meta, TypedCache::Never).unwrap();
    assert_eq!(*value, expected, "{file} {}", object.name());
    assert_eq!(object.same_content(twin), is_same, "{file}");
    assert_eq!(twin.same_content(object), is_same, "{file}");
    is_checked(meta, original, object);

    if !is_same {
        return;
    }
    let mut all = Vec::new();
    paths(&expected, &mut Vec::new(), &mut all);
    // Objects of a list are alike: every seventh path of each is a dozen times all paths.
    let skipped = object.key_hash() as usize % 7;
    for path in all.into_iter().skip(skipped).step_by(7) {
        let path = FieldPath::new(path).unwrap();
        assert_eq!(object.at(&path), twin.at(&path), "{file} {path}");
    }
}

#[test]
fn recorded_lists_are_the_same_in_both_encodings() {
    let (mut lists, mut kinds) = (0, BTreeSet::new());
    for (recorded, json) in list_twins() {
        let original: Value = serde_json::from_str(&json).unwrap();
        for projection in [Projection::new(), Projection::new().keep_managed_fields()] {
            let (objects, meta) = listed(Encoding::Protobuf, &recorded.bytes, &projection);
            let (expected, expected_meta) = listed(Encoding::Json, json.as_bytes(), &projection);
            assert_eq!(objects.len(), expected.len(), "{}", recorded.file);
            assert_eq!(meta.kind, expected_meta.kind);
            assert_eq!(meta.api_version, expected_meta.api_version);
            assert_eq!(meta.remaining, expected_meta.remaining, "{}", recorded.file);
            assert_eq!(
                meta.continue_token.is_empty(),
                expected_meta.continue_token.is_empty()
            );
            assert!(!meta.resource_version.is_empty());
            let type_meta = TypeMeta {
                api_version: meta.api_version.clone(),
                kind: meta.kind.trim_end_matches("List").to_owned(),
            };
            kinds.insert(type_meta.kind.clone());
            for (index, (object, twin)) in objects.iter().zip(&expected).enumerate() {
                if projection == Projection::new() {
                    let item = &original["items"][index];
                    check_twins(&type_meta, object, twin, item, &recorded.file);
                } else {
                    let value = |object: &Object| -> Value {
                        serde_json::from_slice(&object.to_json(&type_meta)).unwrap()
                    };
                    assert_eq!(value(object), value(twin), "{}", recorded.file);
                    assert!(object.heap_size() > objects[index].key().as_str().len());
                }
            }
        }
        lists += 1;
    }
    assert!(lists >= 20 && kinds.len() >= 14, "{lists} {kinds:?}");
}

#[test]
fn recorded_lists_in_protobuf_split_the_same_way_however_they_are_cut() {
    for recorded in recorded() {
        if !recorded.file.starts_with("list/") || !recorded.bytes.starts_with(b"k8s\0") {
            continue;
        }
        let mut items: Vec<Vec<u8>> = Vec::new();
        let mut whole = std::iter::once(&recorded.bytes[..]);
        let meta = split(Encoding::Protobuf, &mut whole, |item| {
            items.push(item.bytes().to_vec())
        });
        every_cut(&recorded.bytes, |chunks| {
            let mut next = 0;
            let found = split(Encoding::Protobuf, chunks, |item| {
                assert!(items[next] == item.bytes(), "{} {next}", recorded.file);
                next += 1;
            });
            assert_eq!((&found, next), (&meta, items.len()), "{}", recorded.file);
        });
        // A body that breaks off is never taken for a whole one.
        let step = recorded.bytes.len() / 500 + 1;
        let end = recorded.bytes.len() - 4;
        for cut in (0..end).step_by(step) {
            let found = split(
                Encoding::Protobuf,
                &mut std::iter::once(&recorded.bytes[..cut]),
                |_| {},
            );
            assert_eq!(found, Err(WireError::Truncated), "{} {cut}", recorded.file);
        }
    }
}

type Frames = Vec<(FrameKind, Value, Option<String>)>;

/// The frames of a stream: what they are, their objects as JSON, and the versions of bookmarks.
fn frames(encoding: Encoding, body: &[u8], longest: usize) -> Frames {
    let mut reader = WatchReader::new(encoding);
    let mut found = Vec::new();
    for chunk in body.chunks(longest) {
        let fed = reader.feed(chunk, &mut |frame| {
            let is_bookmark = matches!(
                frame.kind,
                FrameKind::Known(kinform_api::WatchEventKind::Bookmark)
            );
            if let Some(status) = frame.object.status() {
                found.push((frame.kind, serde_json::to_value(status).unwrap(), None));
                return;
            }
            let item = frame.object.checked().unwrap();
            let meta = TypeMeta {
                api_version: item.api_version().into_owned(),
                kind: item.kind().into_owned(),
            };
            let (value, version) = if is_bookmark {
                let bookmark = item.bookmark().unwrap();
                (
                    bookmark.initial_events_end.into(),
                    Some(bookmark.resource_version),
                )
            } else {
                let object = Object::from_item(&item, &Projection::new()).unwrap();
                assert_eq!(object.encoding(), encoding);
                let json = object.to_json(&meta);
                (serde_json::from_slice(&json).unwrap(), None)
            };
            found.push((frame.kind, value, version));
        });
        fed.unwrap();
    }
    reader.finish().unwrap();
    found
}

#[test]
fn recorded_watches_are_the_same_in_both_encodings() {
    let twins = twins();
    let mut events = 0;
    for recorded in recorded() {
        if !recorded.file.starts_with("watch/") {
            continue;
        }
        let json = &twins[&recorded.file];
        let expected = frames(Encoding::Json, json.as_bytes(), usize::MAX);
        events += expected.len();
        for longest in [usize::MAX, 1, 3, 17, 4099] {
            let found = frames(Encoding::Protobuf, &recorded.bytes, longest);
            let kinds = |frames: &Frames| frames.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
            // The recordings ended at moments of their own: the last bookmark may be missing in one.
            let common = found.len().min(expected.len());
            assert!(common + 1 >= expected.len(), "{:?}", kinds(&found));
            assert_eq!(found[..common], expected[..common], "{}", recorded.file);
        }
    }
    assert!(events > 50, "{events}");
}

#[test]
fn a_recorded_error_in_a_watch_is_its_status() {
    let recorded = recorded();
    let gone = recorded
        .iter()
        .find(|recorded| recorded.file == "error/410-watch-pb.pb")
        .unwrap();
    for longest in [1, 1000] {
        let found = frames(Encoding::Protobuf, &gone.bytes, longest);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].1["code"], &found[0].1["reason"]),
            (&410.into(), &"Expired".into())
        );
    }
}

/// An object out of a body: `k8s\0`, the type, the message.
fn body(bytes: &[u8]) -> (TypeMeta, Object) {
    // A watch frames such a body as an event's object.
    let mut raw = vec![0x0a];
    put_length(&mut raw, bytes.len());
    raw.extend_from_slice(bytes);
    let mut event = b"\x0a\x05ADDED\x12".to_vec();
    put_length(&mut event, raw.len());
    event.extend(raw);
    let mut stream = (event.len() as u32).to_be_bytes().to_vec();
    stream.extend(event);
    let mut found = None;
    let mut reader = WatchReader::new(Encoding::Protobuf);
    let fed = reader.feed(&stream, &mut |frame| {
        let item = frame.object.checked().unwrap();
        let meta = TypeMeta {
            api_version: item.api_version().into_owned(),
            kind: item.kind().into_owned(),
        };
        found = Some((meta, Object::from_item(&item, &Projection::new()).unwrap()));
    });
    fed.unwrap();
    found.unwrap()
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

#[test]
fn every_recorded_kind_is_the_same_in_both_encodings() {
    let twins = twins();
    let mut kinds = BTreeSet::new();
    for recorded in recorded() {
        let is_object = recorded.file.starts_with("kinds/") || recorded.file == "get/pod.pb";
        let Some(json) = twins.get(&recorded.file).filter(|_| is_object) else {
            continue;
        };
        let original: Value = serde_json::from_str(json).unwrap();
        let (meta, object) = body(&recorded.bytes);
        let twin = Object::from_json(json.as_bytes(), &Projection::new()).unwrap();
        // A controller of the server's was faster than the recorder.
        if object.resource_version() != twin.resource_version() {
            continue;
        }
        check_twins(&meta, &object, &twin, &original, &recorded.file);
        kinds.insert(meta.kind);
    }
    assert!(kinds.len() >= 40, "{} {kinds:?}", kinds.len());
}

/// Without what projections of the two encodings may leave behind in different ways: nothing at all.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (key, without_empty(value)))
            .filter(|(_, value)| !value.is_null() && *value != Value::Array(Vec::new()))
            .filter(|(_, value)| *value != Value::Object(serde_json::Map::new()))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(elements) => elements.into_iter().map(without_empty).collect(),
        value => value,
    }
}

#[test]
fn projections_leave_the_same_in_both_encodings() {
    let path = |text: &str| text.parse::<FieldPath>().unwrap();
    let twins = twins();
    let pods = recorded()
        .into_iter()
        .find(|recorded| recorded.file == "list/pages-pb/page-0.pb")
        .unwrap();
    let json = &twins["list/pages-pb/page-0.pb"];
    let meta = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    };
    for projection in [
        Projection::new().drop_path(path("status")),
        Projection::new().drop_path(path("spec.containers[*].env")),
        Projection::new().drop_path(path("spec.containers[0]")),
        Projection::new().drop_path(path("spec.containers")),
        Projection::new().drop_path(path("metadata.labels.app")),
        Projection::new().drop_path(path("metadata.annotations")),
        Projection::new().drop_path(path("spec.volumes[*].projected.sources")),
        Projection::new().drop_path(path("spec.containers[*].resources.requests.cpu")),
        Projection::new().drop_path(path("spec.containers[*].livenessProbe.httpGet")),
        Projection::new().drop_path(path("metadata")),
        Projection::new().keep_only([]),
        Projection::new().keep_only([path("metadata.labels"), path("spec.nodeName")]),
        Projection::new()
            .keep_only([
                path("spec.containers[*].image"),
                path("spec.volumes[*].name"),
            ])
            .drop_path(path("spec.volumes[1]")),
        Projection::new().keep_only([path("spec.volumes[*].configMap.name"), path("status.phase")]),
        Projection::new().drop_path(path("nothing.here")),
    ] {
        let (objects, _) = listed(Encoding::Protobuf, &pods.bytes, &projection);
        let (expected, _) = listed(Encoding::Json, json.as_bytes(), &projection);
        for (object, twin) in objects.iter().zip(&expected) {
            let value = |object: &Object| -> Value {
                without_empty(serde_json::from_slice(&object.to_json(&meta)).unwrap())
            };
            assert_eq!(value(object), value(twin), "{projection:?}");
            assert_eq!(object.key(), twin.key());
            assert_eq!(object.is_projected(), twin.is_projected(), "{projection:?}");
            assert_eq!(
                (object.uid(), object.revision()),
                (twin.uid(), twin.revision())
            );
            assert_eq!(object.label("app"), twin.label("app"), "{projection:?}");
        }
    }
}

/// A user's own type, with structs, lists and maps in the place of any JSON.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct OwnRevision {
    revision: i64,
    data: OwnData,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct OwnData {
    names: Vec<String>,
    counts: BTreeMap<String, u64>,
    nested: Option<Box<Self>>,
}

#[test]
fn json_inside_a_message_is_read_as_a_type_of_ones_own() {
    let json = r#" { "counts" : {"a": 1}, "names":["x","\u00e9"],
        "nested": {"names":[],"counts":{},"nested":null} } "#;
    let named = field(1, &[field(1, b"r"), field(3, b"n")].concat());
    let message = [named, field(2, &field(1, json.as_bytes())), vec![0x18, 7]].concat();
    let body = envelope_of(
        "apps/v1",
        "ControllerRevisionList",
        &list_message(&[message]),
    );
    let (objects, _) = listed(Encoding::Protobuf, &body, &Projection::new());
    let meta = TypeMeta {
        api_version: "apps/v1".to_owned(),
        kind: "ControllerRevision".to_owned(),
    };
    let own = objects[0].typed::<OwnRevision>(&meta, TypedCache::Never);
    let any = objects[0].typed::<Value>(&meta, TypedCache::Never).unwrap();
    let expected: Value = serde_json::from_str(json).unwrap();
    assert_eq!(any["data"], expected);
    assert_eq!(
        *own.unwrap(),
        serde_json::from_value::<OwnRevision>((*any).clone()).unwrap()
    );
    let error = objects[0].typed::<Wrong>(&meta, TypedCache::Never);
    assert_eq!(error.unwrap_err().path(), "data.counts.a");
}

/// A type that the JSON inside does not fit.
#[derive(Debug, serde::Deserialize)]
struct Wrong {
    #[expect(dead_code, reason = "it is never read")]
    data: BTreeMap<String, BTreeMap<String, String>>,
}
