//! Broken, odd and hostile objects: what we accept is what serde_json accepts, what we read of it
//! is what serde_json reads, and nothing panics.

use kinform_api::TypeMeta;
use kinform_core::wire::item::Item;
use kinform_core::{Encoding, ListPart, ListReader, Object, Projection, TypedCache, WatchReader};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"shop","uid":"u-1","resourceVersion":"42","labels":{"app":"web","é":"\u0063\n"},"annotations":{"note":"x\\y"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u-2","controller":true}],"deletionTimestamp":null,"managedFields":[{"manager":"kubelet","fieldsV1":{"f:spec":{"k:{\"name\":\"c\"}":{}}}}]},"spec":{"containers":[{"image":"nginx","n":-1.5e3},{"image":"envoy","n":0}],"on":true}}"#;

/// A byte put in place of some others.
#[derive(Clone, Debug)]
struct Edit {
    at: prop::sample::Index,
    remove: usize,
    insert: Vec<u8>,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let pieces = [
        "",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "0",
        "-",
        "e9",
        ".",
        "null",
        "true",
        " ",
        "\n",
        "\"name\":\"z\",",
        "\"metadata\":{\"name\":\"q\"},",
        "\"kind\":1,",
        "\\ud800",
        "\\u00e9",
        "\u{1}",
        "é",
        "\"managedFields\":[],",
        "/",
        "\"uid\":null,",
        "x",
    ];
    let insert = prop_oneof![
        9 => prop::sample::select(pieces.map(|piece| piece.as_bytes().to_vec()).to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let edit = (any::<prop::sample::Index>(), 0usize..4, insert)
        .prop_map(|(at, remove, insert)| Edit { at, remove, insert });
    prop::collection::vec(edit, 0..4)
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    edits().prop_map(|edits| {
        let mut bytes = POD.as_bytes().to_vec();
        for Edit { at, remove, insert } in edits {
            let from = at.index(bytes.len() + 1);
            let to = (from + remove).min(bytes.len());
            bytes.splice(from..to, insert);
        }
        bytes
    })
}

/// Returns whether serde_json's reading of the object has a valid head.
fn has_head(json: &Value) -> bool {
    let metadata = &json["metadata"];
    let text_or_null = |name: &str| metadata[name].is_string() || metadata[name].is_null();
    let name = metadata["name"].as_str().unwrap_or_default();
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    metadata.is_object()
        && !name.is_empty()
        && !name.contains('/')
        && !namespace.contains('/')
        && ["namespace", "uid", "resourceVersion"]
            .into_iter()
            .all(text_or_null)
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let ours = Object::from_json(bytes, &Projection::new());
    let text = std::str::from_utf8(bytes);
    let accepted = text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    prop_assert!(accepted || ours.is_err());
    let meta = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    };
    // A lone surrogate or a number out of range: we read them, a `Value` does not hold them.
    let Ok(theirs) = serde_json::from_slice::<Value>(bytes) else {
        if let Ok(object) = ours {
            let _ = object.typed::<Value>(&meta, TypedCache::Never);
            let _ = (object.labels().count(), object.owner_references());
        }
        return Ok(());
    };
    let Ok(object) = ours else {
        // A repeated key may have been wrong before the last one was right.
        let repeated = bytes
            .windows(4)
            .filter(|w| w == b"\"nam" || w == b"\"uid")
            .count()
            > 4
            || bytes.windows(9).filter(|w| w == b"\"metadata").count() > 1;
        prop_assert!(!has_head(&theirs) || repeated, "{:?}", ours);
        return Ok(());
    };
    prop_assert!(has_head(&theirs));
    let text = |name: &str| theirs["metadata"][name].as_str().unwrap_or_default();
    prop_assert_eq!(object.name(), text("name"));
    prop_assert_eq!(object.namespace().unwrap_or_default(), text("namespace"));
    prop_assert_eq!(object.uid(), text("uid"));
    prop_assert_eq!(object.resource_version(), text("resourceVersion"));
    if let Some(app) = theirs["metadata"]["labels"]["app"].as_str() {
        prop_assert_eq!(object.label("app").unwrap_or_default(), app);
    }
    let mut expected = theirs;
    expected["kind"] = "Pod".into();
    expected["apiVersion"] = "v1".into();
    if let Some(metadata) = expected["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let found = object.typed::<Value>(&meta, TypedCache::Never).unwrap();
    prop_assert_eq!(rounded(&found), rounded(&expected));
    Ok(())
}

/// Of some floats with many digits serde_json, as it is built here, is off by the last bit.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            format!("{:.12e}", number.as_f64().unwrap()).into()
        }
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(members) => {
            let rounded = |(key, value): (&String, &Value)| (key.clone(), rounded(value));
            members.iter().map(rounded).collect()
        }
        other => other.clone(),
    }
}

/// However an item was cut out, the object is the one that its bytes make.
fn same_object(item: &Item<'_>) {
    let projection = Projection::new();
    let expected = Object::from_json(item.bytes(), &projection);
    match (Object::from_item(item, &projection), expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!((found.key(), found.uid()), (expected.key(), expected.uid()));
            assert!(found.same_content(&expected));
        }
        (found, expected) => assert_eq!(found.err(), expected.err()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn mutated_objects_are_read_as_serde_json_reads_them(bytes in mutated()) {
        check(&bytes)?;
    }

    #[test]
    fn mutated_bodies_never_panic(bytes in mutated(), cut in any::<prop::sample::Index>()) {
        let frames = [b"{\"type\":\"ADDED\",\"object\":".as_slice(), &bytes, b"}\n"].concat();
        let list = [b"{\"items\":[".as_slice(), &bytes, b"]}"].concat();
        let (mut framer, mut splitter) = (WatchReader::new(Encoding::Json), ListReader::new(Encoding::Json));
        for body in [&frames, &list] {
            let (head, tail) = body.split_at(cut.index(body.len()));
            for chunk in [head, tail] {
                let _ = framer.feed(chunk, &mut |frame| {
                    same_object(&frame.object);
                });
                let _ = splitter.feed(chunk, &mut |part| {
                    if let ListPart::Item(item) = part {
                        same_object(&item);
                    }
                });
            }
        }
        let _ = (framer.finish(), splitter.finish());
    }
}

#[test]
fn the_object_itself_is_read() {
    check(POD.as_bytes()).unwrap();
}
