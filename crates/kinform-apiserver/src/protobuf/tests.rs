//! The codec against bytes of a real server.
//!
//! ```text
//! recorded bytes ──decode──▶ the recorded JSON ──encode──▶ the recorded bytes
//! ```

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::object::typed;

/// The exchanges of a folder.
fn lines(folder: &str) -> Vec<Value> {
    let path = format!(
        "{}/../../testdata/golden/{folder}.jsonl.gz",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut lines = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_string(&mut lines)
        .unwrap();
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The recorded bodies of a folder: (file, bytes, text).
fn recorded(folder: &str) -> Vec<(String, Vec<u8>, String)> {
    let body = |line: Value| {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let bytes = match line["bodyBase64"].as_str() {
            Some(encoded) => STANDARD.decode(encoded).unwrap(),
            None => text("body").into_bytes(),
        };
        (text("file"), bytes, text("body"))
    };
    lines(folder).into_iter().map(body).collect()
}

fn whole(bytes: &[u8]) -> Value {
    let Value::Object(mut object) = read_body(bytes).unwrap() else {
        panic!("no object")
    };
    let (version, kind) = (object["apiVersion"].clone(), object["kind"].clone());
    let of = message_of(version.as_str().unwrap(), kind.as_str().unwrap()).unwrap();
    object.remove("apiVersion");
    object.remove("kind");
    let mut read = typed::read(of, Value::Object(object), &mut Vec::new()).unwrap();
    read["apiVersion"] = version;
    read["kind"] = kind;
    read
}

#[test]
fn recorded_bodies_decode_to_the_recorded_json() {
    let exchanges = recorded("list");
    let mut compared = 0;
    for (file, bytes, _) in exchanges
        .iter()
        .filter(|(_, bytes, _)| bytes.starts_with(MAGIC))
    {
        let twin = file.replace(".pb", ".json");
        let Some((_, _, body)) = exchanges
            .iter()
            .find(|(name, ..)| *name == twin && name != file)
        else {
            continue;
        };
        let mut expected: Value = serde_json::from_str(body).unwrap();
        let mut read = whole(bytes);
        // Lists are not read twice by a server: an empty one has items in JSON only.
        for list in [&mut expected, &mut read] {
            list["metadata"]["resourceVersion"] = Value::Null;
            if list["items"].is_null() {
                list["items"] = json!([]);
            }
            if list["items"] == json!([]) {
                list["items"] = Value::Null;
            }
        }
        if file != "list/pods.meta.pb" {
            assert_eq!(read, expected, "{file}");
        }
        compared += 1;
    }
    assert!(compared >= 14, "{compared}");
}

#[test]
fn recorded_bodies_are_encoded_to_the_recorded_bytes() {
    let mut compared = 0;
    for folder in ["kinds", "get", "list", "crd", "error"] {
        for (file, bytes, _) in recorded(folder) {
            // Upstream keeps the spaces inside of the data of a revision.
            if !bytes.starts_with(MAGIC) || file.contains("controllerrevision") {
                continue;
            }
            let Value::Object(object) = whole(&bytes) else {
                panic!("{file}")
            };
            let ours = body(&object).unwrap();
            if ours != bytes {
                let at = ours.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
                let near = |bytes: &[u8]| {
                    let part = &bytes[at.saturating_sub(60)..bytes.len().min(at + 60)];
                    String::from_utf8_lossy(part).into_owned()
                };
                panic!(
                    "{file} differs at {at}:\n{:?}\n{:?}",
                    near(&bytes),
                    near(&ours)
                );
            }
            compared += 1;
        }
    }
    assert!(compared >= 70, "{compared}");
}

#[test]
fn a_list_begins_with_its_metadata_and_its_items_are_second() {
    for (group, version, kind, of) in kinform_schema::kinds() {
        let is_list = kind.ends_with("List") && of.field("items").is_some();
        let numbers = of
            .fields_by_number()
            .map(|field| (field.name(), field.number()));
        if is_list {
            let numbers: Vec<_> = numbers.collect();
            assert_eq!(
                numbers,
                [("metadata", 1), ("items", 2)],
                "{group}/{version} {kind}"
            );
        }
    }
}

#[test]
fn broken_bytes_are_errors_in_upstreams_words() {
    let error = |bytes: &[u8]| read_body(bytes).unwrap_err().0;
    assert!(error(b"{}").starts_with("provided data does not appear to be a protobuf message"));
    let pod = |raw: &[u8]| {
        let mut out = BytesMut::new();
        seal(&mut out, "v1", "Pod", raw);
        out
    };
    assert!(error(&pod(b"")[..8]).contains("unexpected EOF"));
    assert_eq!(error(&pod(b"\x0a\x05x")), "unexpected EOF");
    assert_eq!(
        error(&pod(b"\x08\x01")),
        "proto: wrong wireType = 0 for field metadata"
    );
    assert_eq!(
        error(&pod(b"\x00\x01")),
        "proto: Pod: illegal tag 0 (wire type 0)"
    );
    assert_eq!(error(&pod(b"\x0f")), "proto: illegal wireType 7");
    assert_eq!(
        error(&pod(b"\x0c")),
        "proto: Pod: wiretype end group for non-group"
    );
    assert_eq!(error(&pod(&[0xff; 11])), "proto: integer overflow");
    let negative = b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(
        error(&pod(negative)),
        "proto: negative length found during unmarshaling"
    );
    // Unknown fields are skipped, groups included.
    let unknown = b"\xf8\x07\x01\xf2\x07\x01x\xf3\x07\x08\x01\xf3\x07\xf4\x07\xf4\x07";
    assert_eq!(
        read_body(&pod(unknown)).unwrap(),
        json!({"apiVersion": "v1", "kind": "Pod"})
    );
    let mut nope = BytesMut::new();
    seal(&mut nope, "v1", "Nope", b"");
    assert!(error(&nope).contains("no kind \"Nope\" is registered"));
}

#[test]
fn a_body_can_be_neither_deep_nor_made_of_too_many_values() {
    let definition = |raw: &[u8]| {
        const PACKAGE: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
        decode(
            kinform_schema::named_type(PACKAGE, "JSONSchemaProps").unwrap(),
            raw,
        )
    };
    // `not` holds a schema, number 28.
    let mut deep = Vec::new();
    for _ in 0..MANY {
        let mut outer = vec![0xe2, 0x01];
        let (bytes, length) = wire::varint_bytes(deep.len() as u64);
        outer.extend(&bytes[..length]);
        outer.extend(&deep);
        deep = outer;
    }
    assert_eq!(definition(&deep).unwrap_err().0, "exceeded max depth");
    let raw = format!("{}{}", "[".repeat(110), "]".repeat(110));
    let mut default = vec![0x0a];
    let (bytes, length) = wire::varint_bytes(raw.len() as u64);
    default.extend(&bytes[..length]);
    default.extend(raw.as_bytes());
    let mut schema = vec![0x42];
    let (bytes, length) = wire::varint_bytes(default.len() as u64);
    schema.extend(&bytes[..length]);
    schema.extend(&default);
    assert_eq!(definition(&schema).unwrap_err().0, "exceeded max depth");
    // `allOf` holds schemas, number 25.
    let many = [0xca, 0x01, 0x00].repeat(1_000_001);
    assert!(definition(&many).unwrap_err().0.contains("too many values"));
}

const MANY: usize = 150;

proptest::proptest! {
    /// Recorded bodies with bytes changed, cut or put in.
    #[test]
    fn no_bytes_make_it_panic(at in 0_usize..4096, byte: u8, cut in 0_usize..4096, seed in 0_usize..40) {
        use std::sync::OnceLock;
        static BODIES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
        let bodies = BODIES.get_or_init(|| {
            let all = recorded("kinds").into_iter().map(|(_, bytes, _)| bytes);
            all.filter(|bytes| bytes.starts_with(MAGIC)).collect()
        });
        let mut bytes = bodies[seed % bodies.len()].clone();
        let length = bytes.len();
        bytes[at % length] = byte;
        if cut < length {
            bytes.truncate(cut);
        }
        if let Ok(Value::Object(object)) = read_body(&bytes) {
            let again = body(&object).unwrap();
            proptest::prop_assert!(read_body(&again).is_ok());
        }
    }
}

/// The recorded requests of a folder: (file, (path, object)).
pub(super) fn recorded_requests(folder: &str) -> Vec<(String, (String, Value))> {
    let request = |line: Value| {
        let text = |name: &str| Some(line[name].as_str()?.to_owned());
        let mut object: Value = serde_json::from_str(&text("request")?).ok()?;
        let reply: Value = serde_json::from_str(&text("body")?).ok()?;
        // The recorder left out the members that the path implies.
        for name in ["apiVersion", "kind"] {
            object[name] = reply[name].clone();
        }
        Some((text("file")?, (text("path")?, object)))
    };
    lines(folder).into_iter().filter_map(request).collect()
}
