//! The reader of an object's head, and the lenses on its bytes.
//!
//! ```text
//! bytes ──▶ Object::from_json ──▶ key, version, labels, paths, JSON
//!     └──▶ serde_json ──▶ the same, and refused where it refuses
//! ```

use kinform_api::{FieldPath, PathSegment, TypeMeta};
use kinform_core::{Item, Object, Projection, TypedCache};
use serde_json::Value;

use crate::json::{Members, is_deep, is_valid};
use crate::neighbours;
use crate::shape::Shape;

/// The type of all objects here.
#[must_use]
pub fn meta() -> TypeMeta {
    TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    }
}

/// Reads the bytes as an object.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let ours = Object::from_json(bytes, &Projection::new());
    let keeps = Projection::new().keep_managed_fields();
    let full = Object::from_json(bytes, &keeps);
    assert_eq!(
        ours.is_ok(),
        full.is_ok(),
        "what is left out is checked, too"
    );
    shape.text(&look(bytes));
    if ours.is_ok() {
        assert!(is_valid(bytes) || is_deep(bytes), "taken, and no JSON");
    }
    if !is_deep(bytes) {
        is_as_serde_reads(bytes, ours.as_ref().ok());
    }
    if let (Ok(object), Ok(full)) = (&ours, &full) {
        shape.saw((object.labels().count(), object.owner_references().len()));
        shape.saw((object.is_terminating(), object.revision().is_some()));
        shape.saw((
            object.annotations().count(),
            full.bytes().len() > object.bytes().len(),
        ));
        let head = object.heap_size() - object.bytes().len();
        // Copies of escaped strings lie behind the bytes.
        shape.count(head / 8);
        shape.count(bytes.len() / 16);
        is_itself(object, bytes);
        neighbours::of_json(bytes);
        projects(bytes, object, full);
    }
    shape
}

/// Describes an object in short: its refusal, or which of its parts are present.
#[must_use]
pub fn look(bytes: &[u8]) -> String {
    match Object::from_json(bytes, &Projection::new()) {
        Ok(object) => format!(
            "{} {} {}",
            object.namespace().is_some(),
            object.uid().is_empty(),
            object.resource_version().is_empty()
        ),
        Err(why) => format!("{} {}", why.path, why.reason),
    }
}

/// However an item was cut out, the object is the one that its bytes make.
pub fn is_what_its_bytes_make(item: &Item<'_>) {
    let projection = Projection::new();
    let expected = Object::from_json(item.bytes(), &projection);
    match (Object::from_item(item, &projection), expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!((found.key(), found.uid()), (expected.key(), expected.uid()));
            assert!(found.same_content(&expected));
            let managed = Projection::new().keep_managed_fields();
            let with = Object::from_item(item, &managed).expect("it was read before");
            assert!(with.bytes().len() <= item.bytes().len());
            assert!(with.bytes().len() - found.bytes().len() <= item.managed_fields_bytes());
        }
        (found, expected) => assert_eq!(found.err(), expected.err()),
    }
}

/// Asserts that a head is accepted exactly if each of its parts, the repeated ones too, is valid.
fn is_as_serde_reads(bytes: &[u8], ours: Option<&Object>) {
    if !is_valid(bytes) {
        assert!(ours.is_none());
        return;
    }
    let Some(members) = Members::of(bytes) else {
        return;
    };
    let parts: Option<Vec<Option<Members>>> = members
        .all("metadata")
        .map(|text| match text {
            "null" => Some(None),
            text if text.starts_with('{') => Members::of(text.as_bytes()).map(Some),
            _ => None,
        })
        .collect();
    let Some(parts) = parts else {
        // No object, or a key in it that is no `String`.
        let is_odd = bytes.windows(2).any(|two| two == b"\\u");
        assert!(ours.is_none() || is_odd);
        return;
    };
    let texts = ["name", "namespace", "uid", "resourceVersion"];
    let is_text = |text: &str| text.starts_with('"') || text == "null";
    let is_sound = parts
        .iter()
        .flatten()
        .all(|part| texts.iter().all(|key| part.all(key).all(is_text)));
    let own = parts.last().and_then(Option::as_ref);
    let text = |key| {
        let text = own.and_then(|own| own.last(key)).unwrap_or("null");
        serde_json::from_str::<Option<String>>(text).map(Option::unwrap_or_default)
    };
    let (Ok(name), Ok(namespace), Ok(uid), Ok(version)) = (
        text(texts[0]),
        text(texts[1]),
        text(texts[2]),
        text(texts[3]),
    ) else {
        return;
    };
    let is_named = !name.is_empty() && !name.contains('/') && !namespace.contains('/');
    assert_eq!(ours.is_some(), is_sound && is_named, "head");
    if let Some(object) = ours {
        assert_eq!(object.name(), name);
        assert_eq!(object.namespace().unwrap_or_default(), namespace);
        assert_eq!(object.uid(), uid);
        assert_eq!(object.resource_version(), version);
    }
}

/// Asserts that its JSON is that of the bytes, and that its lenses read the same values.
fn is_itself(object: &Object, bytes: &[u8]) {
    assert!(object.heap_size() <= 2 * bytes.len() + 256, "heap");
    let json = object.to_json(&meta());
    assert!(is_valid(&json) || is_deep(&json));
    let typed = object.typed::<Value>(&meta(), TypedCache::Never).ok();
    let Ok(mut expected) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    expected["kind"] = "Pod".into();
    expected["apiVersion"] = "v1".into();
    if let Some(metadata) = expected["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(typed) = typed {
        assert_eq!(*typed, expected);
    }
    for key in ["app", "tier"] {
        let label = expected["metadata"]["labels"][key].as_str();
        assert_eq!(object.label(key).as_deref(), label);
    }
    let mut path = Vec::new();
    walk(object, &expected, &mut path, &mut 64);
}

/// Some of the scalars, each at its path.
fn walk(object: &Object, value: &Value, path: &mut Vec<PathSegment>, left: &mut u32) {
    let Some(less) = left.checked_sub(1) else {
        return;
    };
    *left = less;
    let expected = match value {
        Value::Object(members) => {
            for (key, value) in members {
                path.push(PathSegment::Field(key.clone()));
                walk(object, value, path, left);
                path.pop();
            }
            return;
        }
        Value::Array(elements) => {
            for (index, value) in elements.iter().enumerate() {
                path.push(PathSegment::Index(index));
                walk(object, value, path, left);
                path.pop();
            }
            return;
        }
        Value::String(text) => text.clone(),
        Value::Bool(truth) => truth.to_string(),
        // As it is written, which a `Value` does not know.
        Value::Number(_) | Value::Null => return,
    };
    let is_type =
        matches!(&path[..], [PathSegment::Field(key)] if key == "kind" || key == "apiVersion");
    if let Some(path) = path_of(path).filter(|_| !is_type) {
        let found = object.at(&path);
        assert_eq!(found.first().map(AsRef::as_ref), Some(&*expected), "{path}");
    }
}

fn path_of(segments: &[PathSegment]) -> Option<FieldPath> {
    let mut text = String::new();
    for segment in segments {
        match segment {
            PathSegment::Field(key) => {
                if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric()) {
                    return None;
                }
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            PathSegment::Index(index) => text.push_str(&format!("[{index}]")),
            PathSegment::Each => text.push_str("[*]"),
        }
    }
    text.parse().ok()
}

/// Asserts that dropped members are gone, kept ones stay, and the key is the wire's.
fn projects(bytes: &[u8], object: &Object, full: &Object) {
    let path = |text: &str| text.parse::<FieldPath>().expect("a path");
    let dropped = Projection::new()
        .drop_path(path("spec"))
        .drop_path(path("metadata.labels"));
    let kept = Projection::new().keep_only([path("spec")]);
    for projection in [dropped, kept] {
        let less = Object::from_json(bytes, &projection).expect("it was read before");
        assert_eq!((less.key(), less.uid()), (object.key(), object.uid()));
        assert_eq!(less.resource_version(), object.resource_version());
        assert!(is_valid(less.bytes()) || is_deep(bytes));
        assert!(less.bytes().len() <= object.bytes().len());
        let again = less.with_payload(less.bytes()).expect("it is an object");
        assert_eq!((again.key(), again.uid()), (object.key(), object.uid()));
    }
    assert!(full.bytes().len() >= object.bytes().len());
}
