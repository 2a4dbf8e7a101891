//! Manifests: the documents of a file are those that its author wrote, in order.
//!
//! ```text
//! bytes ─┬─ as text ──▶ documents ──▶ each object, in order │ an error with a line
//!        └─ drawn ──▶ documents, lists in lists ──▶ text with separators ──▶ these documents, these objects
//! ```
//!
//! Lists are taken apart by `kinform-cli/src/manifest/`, compiled here: the command is a binary, with
//! an allocator of its own. The parser is the server's.
//! Upstream: `apimachinery:pkg/util/yaml`, `cli-runtime:pkg/resource`.

use kinform_apiserver::parse_documents;
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::shape::Shape;
use crate::yaml;

#[path = "../../crates/kinform-cli/src/manifest/list.rs"]
mod list;

/// The effect of a document, as in the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    Create,
    Restore,
    Remove,
}

/// Pieces of manifests.
pub const WORDS: &[&[u8]] = &[
    b"---\n",
    b"--- # c\n",
    b"---\r\n",
    b"...\n",
    b"--- {}\n",
    b"kind: A\n",
    b"kind: List\nitems:\n",
    b"- ",
    b"  ",
    b"{\"kind\":\"A\"}",
    b"{",
    b"}",
    b"[",
    b"]",
    b"items:",
    b"metadata: {name: a, uid: u}\n",
    b"type: ADDED\n",
    b"object:",
    b"|\n",
    b"# c\n",
    b"a: &a b\n",
    b"*a",
    b"apiVersion: kustomize.config.k8s.io/v1\n",
    b"\t",
    b"\r\n",
];

/// BOUND: the depth of a list in a list that is made.
const LISTS: usize = 3;

/// Reads the bytes as a manifest.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let text = String::from_utf8_lossy(bytes);
    match parse_documents(&text) {
        Ok(documents) => {
            let lines = text.lines().count() as u64;
            let doubled = documents.iter().filter_map(|one| one.duplicate.as_ref());
            for key in doubled {
                assert!((1..=lines).contains(&key.line), "{key} of {text:?}");
            }
            shape.count(documents.len());
            let separators = text.lines().filter(|line| line.starts_with("---")).count();
            if !text.trim_start().starts_with('{') {
                assert!(documents.len() <= separators + 1, "{text:?}");
            }
            for document in documents {
                shape.saw(list::is_kustomization(&document.value));
                of_document(document.value, &mut shape);
            }
        }
        Err(why) => shape.text(&why.detail),
    }
    drawn(&mut Draw::new(bytes), &mut shape);
    shape
}

fn of_document(document: Value, shape: &mut Shape) {
    let weight = document.to_string().len();
    let steps = list::steps(document);
    let found: usize = steps
        .iter()
        .map(|(_, object)| object.to_string().len())
        .sum();
    shape.count(steps.len());
    shape.saw(steps.first().map(|(act, _)| *act));
    // Items get a kind and a version of their list, and nothing else is added.
    assert!(
        found <= weight * 2 + steps.len() * (weight + 64),
        "objects of a document"
    );
}

fn drawn(draw: &mut Draw<'_>, shape: &mut Shape) {
    let length = draw.below(4);
    let documents: Vec<Value> = (0..length).map(|at| document(draw, (at, LISTS))).collect();
    let is_json = draw.one_in(3);
    let mut text = String::new();
    for document in &documents {
        if is_json {
            text.push_str(&document.to_string());
            text.push_str(draw.pick(&["\n", "", " \r\n"]));
            continue;
        }
        text.push_str(draw.pick(&["---\n", "--- # comment\n", "---   \r\n", "# c\n---\n"]));
        text.push_str(&yaml::printed(document, draw));
    }
    let found = parse_documents(&text).unwrap_or_else(|why| panic!("{why} of {text:?}"));
    let doubled = found.iter().find_map(|one| one.duplicate.as_ref());
    assert!(doubled.is_none(), "{doubled:?} of {text:?}");
    let mut found: Vec<Value> = found.into_iter().map(|one| one.value).collect();
    // A comment before the first separator is a document without content.
    found.retain(|it| !it.is_null());
    assert_eq!(found, documents, "{text:?}");
    for document in documents {
        let mut expected = Vec::new();
        flat(&document, None, &mut expected);
        let steps: Vec<Value> = list::steps(document)
            .into_iter()
            .map(|(_, object)| object)
            .collect();
        shape.count(steps.len());
        assert_eq!(steps, expected, "{text:?}");
    }
}

/// An object, or a list of objects and lists.
fn document(draw: &mut Draw<'_>, (name, depth): (usize, usize)) -> Value {
    let kind = draw.pick(&["A", "List", "ThingList", "B"]);
    let mut document = json!({"kind": kind, "apiVersion": "e.com/v1"});
    if kind.ends_with("List") && depth > 0 {
        let length = draw.below(4);
        let items: Vec<Value> = (0..length)
            .map(|at| document_in(draw, (at, depth - 1)))
            .collect();
        document["items"] = items.into();
        document["metadata"] = json!({});
        // A list with a name is an object.
        if draw.one_in(4) {
            document["metadata"]["name"] = "n".into();
        }
    } else {
        document["metadata"] = json!({"name": format!("n{name}")});
        document["data"] = draw.json(3);
    }
    document
}

/// An item, which may leave its kind to the list.
fn document_in(draw: &mut Draw<'_>, at: (usize, usize)) -> Value {
    let mut item = document(draw, at);
    let is_object = item.get("items").is_none();
    if let Some(members) = item.as_object_mut().filter(|_| is_object && draw.one_in(3)) {
        members.remove("kind");
        members.remove("apiVersion");
    }
    item
}

/// The objects of a document, list in list.
fn flat(value: &Value, of: Option<(&str, &Value)>, found: &mut Vec<Value>) {
    let mut value = value.clone();
    if let Some((kind, version)) = of.filter(|_| value.get("kind").is_none()) {
        value["kind"] = kind.into();
        value["apiVersion"] = version.clone();
    }
    let kind = value["kind"].as_str().unwrap_or_default();
    let (Some(kind), Some(items), None) = (
        kind.strip_suffix("List"),
        value["items"].as_array(),
        value["metadata"].get("name"),
    ) else {
        return found.push(value);
    };
    let of = (!kind.is_empty()).then_some((kind, &value["apiVersion"]));
    for item in items {
        flat(item, of, found);
    }
}
