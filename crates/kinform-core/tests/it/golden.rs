//! Responses of a real API server, read by us and by serde_json.
//!
//! Every recorded JSON list and watch stream that is no Table: cut in every way the same events,
//! and heads, keys, versions, labels and owners equal those that serde_json reads.

use std::io::Read as _;
use std::path::Path;

use kinform_api::{Status, TypeMeta, WatchEventKind};
use kinform_core::wire::item::Item;
use kinform_core::wire::json::event_object::bookmark;
use kinform_core::{
    Encoding, FrameKind, ListMeta, ListPart, ListReader, Object, OwnerReference, Projection,
    WatchReader, WireError,
};
use serde_json::{Map, Value};

/// One recorded exchange with a body that is UTF-8.
pub(crate) struct Exchange {
    pub(crate) file: String,
    pub(crate) path: String,
    pub(crate) status: u64,
    pub(crate) is_watch: bool,
    pub(crate) body: String,
}

const FOLDERS: [&str; 9] = [
    "crd",
    "discovery",
    "error",
    "get",
    "kinds",
    "list",
    "restart",
    "watch",
    "write",
];

/// Every line of the recordings, as it is.
pub(crate) fn recordings(each: impl FnMut(Value)) {
    recordings_in(&FOLDERS, each);
}

/// Every line of some of them.
pub(crate) fn recordings_in(folders: &[&str], mut each: impl FnMut(Value)) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    for folder in folders {
        let file = std::fs::File::open(golden.join(format!("{folder}.jsonl.gz"))).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        for line in text.lines() {
            each(serde_json::from_str(line).unwrap());
        }
    }
}

pub(crate) fn exchanges() -> Vec<Exchange> {
    let mut found = Vec::new();
    recordings(|mut line| {
        let Value::String(body) = line["body"].take() else {
            return;
        };
        found.push(Exchange {
            file: line["file"].as_str().unwrap().to_owned(),
            path: line["path"].as_str().unwrap_or_default().to_owned(),
            status: line["status"].as_u64().unwrap(),
            is_watch: line.get("ended").is_some(),
            body,
        });
    });
    found
}

/// The lists: `(exchange, list)`.
fn lists() -> Vec<(Exchange, Value)> {
    let lists = exchanges().into_iter().filter_map(|exchange| {
        let body: Value = serde_json::from_str(&exchange.body).ok()?;
        let is_list = body["kind"].as_str()?.ends_with("List") && body.get("items").is_some();
        is_list.then_some((exchange, body))
    });
    lists.collect()
}

/// The watch streams that are no Tables: `(exchange, events)`.
fn streams() -> Vec<(Exchange, Vec<Value>)> {
    let streams = exchanges().into_iter().filter_map(|exchange| {
        let events = serde_json::Deserializer::from_str(&exchange.body).into_iter::<Value>();
        let events = events.collect::<Result<Vec<Value>, _>>().ok()?;
        let is_table = |event: &Value| event["object"]["kind"] == "Table";
        let is_stream = exchange.is_watch && exchange.status == 200;
        (is_stream && !events.iter().any(is_table)).then_some((exchange, events))
    });
    streams.collect()
}

/// All objects with a name, with the type that they or their list name.
pub(crate) fn objects() -> Vec<(TypeMeta, Value)> {
    let mut found = Vec::new();
    for exchange in exchanges() {
        let bodies = serde_json::Deserializer::from_str(&exchange.body).into_iter::<Value>();
        for mut body in bodies.map_while(Result::ok) {
            if !body["object"].is_null() && body["type"].is_string() {
                body = body["object"].take();
            }
            let kind = body["kind"].as_str().unwrap_or_default().to_owned();
            let version = body["apiVersion"].as_str().unwrap_or_default().to_owned();
            let items = match body.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                _ => vec![body],
            };
            for item in items
                .into_iter()
                .filter(|item| item["metadata"]["name"].is_string())
            {
                let kind = item["kind"]
                    .as_str()
                    .unwrap_or(kind.trim_end_matches("List"));
                let version = item["apiVersion"].as_str().unwrap_or(&version);
                let meta = TypeMeta {
                    api_version: version.to_owned(),
                    kind: kind.to_owned(),
                };
                found.push((meta, item));
            }
        }
    }
    found
}

/// Ways to cut a body: by bytes, at every place if it is small, at seeded places if it is large.
pub(crate) fn every_cut(body: &[u8], mut check: impl FnMut(&mut dyn Iterator<Item = &[u8]>)) {
    check(&mut body.chunks(1));
    if body.len() <= 4096 {
        for cut in 0..=body.len() {
            let (head, tail) = body.split_at(cut);
            check(&mut [head, tail].into_iter());
        }
        return;
    }
    let mut seed = body.len() as u64 | 1;
    for round in 0..12 {
        let longest = 1 << (round + 4);
        let mut rest = body;
        check(&mut std::iter::from_fn(|| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let cut = (seed as usize % longest).min(rest.len());
            let (head, tail) = rest.split_at(cut);
            rest = tail;
            (!head.is_empty() || !tail.is_empty()).then_some(head)
        }));
    }
}

fn split_list(
    chunks: &mut dyn Iterator<Item = &[u8]>,
    mut item: impl FnMut(Item<'_>),
) -> Result<ListMeta, WireError> {
    let mut splitter = ListReader::new(Encoding::Json);
    for chunk in chunks {
        splitter.feed(chunk, &mut |part| match part {
            ListPart::Item(found) => item(found),
            ListPart::Unreadable(unreadable) => panic!("{unreadable}"),
        })?;
    }
    splitter.finish()
}

fn split_watch(
    chunks: &mut dyn Iterator<Item = &[u8]>,
    mut frame: impl FnMut(FrameKind, Item<'_>),
) -> Result<(), WireError> {
    let mut framer = WatchReader::new(Encoding::Json);
    for chunk in chunks {
        framer.feed(chunk, &mut |event| frame(event.kind, event.object))?;
    }
    framer.finish()
}

/// The object as a view must give it.
pub(crate) fn expected_view(meta: &TypeMeta, original: &Value) -> Value {
    let mut expected = original.clone();
    expected["apiVersion"] = meta.api_version.clone().into();
    expected["kind"] = meta.kind.clone().into();
    if let Some(metadata) = expected["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    expected
}

fn check_object(bytes: &[u8], original: &Value, meta: &TypeMeta) -> Object {
    let object = Object::from_json(bytes, &Projection::new()).unwrap();
    let metadata = &original["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default();
    assert_eq!(object.name(), text("name"));
    assert_eq!(object.namespace().unwrap_or_default(), text("namespace"));
    assert_eq!(object.uid(), text("uid"));
    assert_eq!(object.resource_version(), text("resourceVersion"));
    assert_eq!(object.revision(), text("resourceVersion").parse().ok());
    assert_eq!(
        object.is_terminating(),
        !metadata["deletionTimestamp"].is_null()
    );
    let key = match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    };
    assert_eq!(object.key().as_str(), key);
    assert_eq!(object.key_hash(), object.key().key_ref().hash64());
    let map = |pairs: &mut dyn Iterator<Item = (String, String)>| -> Value {
        pairs
            .map(|(key, value)| (key, value.into()))
            .collect::<Map<_, _>>()
            .into()
    };
    let or_empty = |value: &Value| {
        if value.is_null() {
            Map::new().into()
        } else {
            value.clone()
        }
    };
    let owned = |(key, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        (key.into_owned(), value.into_owned())
    };
    assert_eq!(
        map(&mut object.labels().map(owned)),
        or_empty(&metadata["labels"])
    );
    assert_eq!(
        map(&mut object.annotations().map(owned)),
        or_empty(&metadata["annotations"])
    );
    let no_owners = Vec::new();
    let owners = metadata["ownerReferences"].as_array().unwrap_or(&no_owners);
    assert_eq!(
        object.owner_references(),
        owners.iter().map(owner).collect::<Vec<_>>()
    );
    let view: Value = serde_json::from_slice(&object.to_json(meta)).unwrap();
    assert_eq!(view, expected_view(meta, original));
    object
}

fn owner(value: &Value) -> OwnerReference {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    OwnerReference {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: text("name"),
        uid: text("uid"),
        controller: value["controller"] == true,
        block_owner_deletion: value["blockOwnerDeletion"] == true,
    }
}

#[test]
fn recorded_lists_split_the_same_way_however_they_are_cut() {
    let lists = lists();
    assert!(lists.len() >= 40, "{} lists", lists.len());
    for (exchange, list) in lists {
        let mut items: Vec<Vec<u8>> = Vec::new();
        let mut whole = std::iter::once(exchange.body.as_bytes());
        let meta = split_list(&mut whole, |item| items.push(item.bytes().to_vec()));
        let expected: Vec<Value> = items
            .iter()
            .map(|item| serde_json::from_slice(item).unwrap())
            .collect();
        let no_items = Vec::new();
        assert_eq!(
            &expected,
            list["items"].as_array().unwrap_or(&no_items),
            "{}",
            exchange.file
        );
        every_cut(exchange.body.as_bytes(), |chunks| {
            let mut next = 0;
            let found = split_list(chunks, |item| {
                assert!(
                    items[next] == item.bytes(),
                    "{}: item {next}",
                    exchange.file
                );
                next += 1;
            });
            assert_eq!((&found, next), (&meta, items.len()), "{}", exchange.file);
        });
        let meta = meta.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        assert_eq!(meta.kind, text(&list["kind"]));
        assert_eq!(meta.api_version, text(&list["apiVersion"]));
        assert_eq!(
            meta.resource_version,
            text(&list["metadata"]["resourceVersion"])
        );
        assert_eq!(meta.continue_token, text(&list["metadata"]["continue"]));
        assert_eq!(
            meta.remaining,
            list["metadata"]["remainingItemCount"].as_u64()
        );
        let meta = TypeMeta {
            api_version: meta.api_version,
            kind: meta.kind,
        };
        for (bytes, original) in items.iter().zip(&expected) {
            if original["metadata"]["name"].is_null() {
                // The core group in a list of API groups: no object of a store.
                let error = Object::from_json(bytes, &Projection::new()).unwrap_err();
                assert_eq!(error.path, "metadata.name", "{}", exchange.file);
                continue;
            }
            check_object(bytes, original, &meta);
        }
    }
}

#[test]
fn recorded_watches_split_the_same_way_however_they_are_cut() {
    let streams = streams();
    assert!(streams.len() >= 18, "{} streams", streams.len());
    let mut seen = [0; 5];
    for (exchange, events) in streams {
        let mut frames: Vec<(FrameKind, Vec<u8>)> = Vec::new();
        let mut whole = std::iter::once(exchange.body.as_bytes());
        let end = split_watch(&mut whole, |kind, object| {
            frames.push((kind, object.bytes().to_vec()))
        });
        assert_eq!(
            (end, frames.len()),
            (Ok(()), events.len()),
            "{}",
            exchange.file
        );
        every_cut(exchange.body.as_bytes(), |chunks| {
            let mut next = 0;
            let end = split_watch(chunks, |kind, object| {
                let (expected_kind, expected) = &frames[next];
                assert!(
                    *expected_kind == kind && expected == object.bytes(),
                    "{}",
                    exchange.file
                );
                next += 1;
            });
            assert_eq!((end, next), (Ok(()), frames.len()), "{}", exchange.file);
        });
        for ((kind, object), event) in frames.iter().zip(&events) {
            let FrameKind::Known(kind) = kind else {
                panic!("{}: {kind:?}", exchange.file)
            };
            assert_eq!(kind.as_str(), event["type"]);
            seen[*kind as usize] += 1;
            check_event(*kind, object, &event["object"]);
        }
    }
    assert!(
        seen.iter().filter(|count| **count > 0).count() >= 4,
        "{seen:?}"
    );
}

fn check_event(kind: WatchEventKind, bytes: &[u8], original: &Value) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match kind {
        WatchEventKind::Bookmark => {
            let found = bookmark(bytes).unwrap();
            assert_eq!(
                found.resource_version,
                text(&original["metadata"]["resourceVersion"])
            );
            let end = &original["metadata"]["annotations"]["k8s.io/initial-events-end"];
            assert_eq!(found.initial_events_end, end == "true");
        }
        WatchEventKind::Error => {
            let found = kinform_core::wire::json::event_object::status(bytes).unwrap();
            assert_eq!(
                found,
                serde_json::from_value::<Status>(original.clone()).unwrap()
            );
        }
        _ => {
            let meta = TypeMeta {
                api_version: text(&original["apiVersion"]),
                kind: text(&original["kind"]),
            };
            check_object(bytes, original, &meta);
        }
    }
}

#[test]
fn a_recorded_status_or_table_is_never_a_list() {
    let (mut statuses, mut tables) = (0, 0);
    for exchange in exchanges()
        .into_iter()
        .filter(|exchange| !exchange.is_watch)
    {
        let mut whole = std::iter::once(exchange.body.as_bytes());
        let Ok(body) = serde_json::from_str::<Value>(&exchange.body) else {
            assert!(split_list(&mut whole, |_| {}).is_err(), "{}", exchange.file);
            continue;
        };
        match body["kind"].as_str() {
            Some("Status") => {
                let Err(WireError::Status(found)) = split_list(&mut whole, |_| {}) else {
                    panic!("{}", exchange.file)
                };
                assert_eq!(*found, serde_json::from_value::<Status>(body).unwrap());
                statuses += 1;
            }
            Some("Table") => {
                assert_eq!(split_list(&mut whole, |_| {}), Err(WireError::Table));
                tables += 1;
            }
            _ if body.get("items").is_none() => {
                let found = split_list(&mut whole, |_| {});
                assert!(
                    matches!(found, Err(WireError::NotAList { .. })),
                    "{}",
                    exchange.file
                );
            }
            _ => {}
        }
    }
    assert!(statuses >= 100 && tables >= 40, "{statuses} {tables}");
}
