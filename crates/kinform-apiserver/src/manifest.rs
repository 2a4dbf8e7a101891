//! Manifests: the objects of a file in YAML or JSON, and the order in which they are created.
//!
//! ```text
//! text ─┬ begins with { : JSON values, one after the other ─┬─▶ documents ──lists──▶ objects, in order
//!       └ else, or no JSON: parts between `---` ──reader of bodies──┘
//! ```
//!
//! The reader of request bodies parses each part, so that a file means what it means in a request:
//! octal modes, words that are booleans, the last of two equal keys.
//!
//! Upstream counterpart: `apimachinery:pkg/util/yaml` (`YAMLOrJSONDecoder`, `YAMLReader`),
//! `cli-runtime:pkg/resource`.

use serde_json::Value;

use crate::http::yaml::{YamlDocument, YamlError, parse_yaml};

/// BOUND: the stack of a thread that parses a file: 128 levels of YAML, each with up to 24 KB without
/// optimization.
pub const MANIFEST_STACK: usize = 16 << 20;

/// Parses all documents of a file in YAML, or JSON values one after the other, of any size. Lines
/// are those of the text. The thread needs [`MANIFEST_STACK`].
///
/// # Errors
/// The text is neither YAML nor JSON, or has more than a comment behind the dashes between documents.
pub fn parse_documents(text: &str) -> Result<Vec<YamlDocument>, YamlError> {
    if !text.trim_start().starts_with('{') {
        return yaml(text);
    }
    let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let plain = |value| YamlDocument {
        value,
        duplicate: None,
    };
    let json: Result<Vec<YamlDocument>, _> = stream.map(|value| value.map(plain)).collect();
    // A map of YAML may begin with a brace, too, and documents of both kinds may be mixed.
    json.or_else(|error| {
        yaml(text).map_err(|_| YamlError::new(None, "neither JSON nor YAML", error.to_string()))
    })
}

fn yaml(text: &str) -> Result<Vec<YamlDocument>, YamlError> {
    let mut documents = Vec::new();
    for (before, part) in parts(text)? {
        let mut document = parse_yaml(part.as_bytes()).map_err(|mut error| {
            error.line = error.line.map(|line| before + line);
            error
        })?;
        if let Some(doubled) = &mut document.duplicate {
            doubled.line += before;
        }
        documents.push(document);
    }
    Ok(documents)
}

/// The parts between lines of three dashes, each with the number of lines before it.
fn parts(text: &str) -> Result<Vec<(u64, &str)>, YamlError> {
    let (mut parts, mut from, mut from_line) = (Vec::new(), 0, 0);
    let (mut at, mut line_number) = (0, 0);
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---").map(str::trim) {
            if !rest.is_empty() && !rest.starts_with('#') {
                let detail = format!("invalid Yaml document separator: {rest}");
                let what = "invalid document separator";
                return Err(YamlError::new(Some(line_number + 1), what, detail));
            }
            parts.push((from_line, &text[from..at]));
            (from, from_line) = (at, line_number);
        }
        at += line.len();
        line_number += 1;
    }
    parts.push((from_line, &text[from..]));
    parts.retain(|(_, part)| !part.trim().is_empty());
    Ok(parts)
}

/// The objects of a document: itself, or the items of a list and of the lists in it, in order.
///
/// A list is a kind that ends in `List`, has items and, like every list, no name: an object of a kind
/// `GuestList` with a name and a field `items` stays whole, as does any other object with such a field.
///
/// Upstream: `cli-runtime:pkg/resource` (`FlattenListVisitor`).
pub fn flatten_lists(value: Value) -> Vec<Value> {
    let (mut objects, mut rest) = (Vec::new(), vec![value]);
    while let Some(value) = rest.pop() {
        match items(value) {
            Split::Object(object) => objects.push(object),
            Split::Items(items) => rest.extend(items.into_iter().rev()),
        }
    }
    objects
}

enum Split {
    Object(Value),
    Items(Vec<Value>),
}

/// The items of a list; `null` has none. Items of `PodList` do not state their kind, so it is derived
/// from the list's.
fn items(value: Value) -> Split {
    let Value::Object(mut list) = value else {
        return match value {
            Value::Null => Split::Items(Vec::new()),
            value => Split::Object(value),
        };
    };
    let text = |part: Option<&Value>| part.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = list.get("metadata");
    let is_named = ["name", "generateName"]
        .iter()
        .any(|name| !text(metadata.and_then(|it| it.get(name))).is_empty());
    let kind = text(list.get("kind"));
    let of = kind.strip_suffix("List").filter(|_| !is_named);
    let items = match (of, list.get("items")) {
        (Some(_), Some(Value::Array(_) | Value::Null)) => list.remove("items"),
        _ => return Split::Object(Value::Object(list)),
    };
    let (of, version) = (of.unwrap_or_default(), list.remove("apiVersion"));
    let Some(Value::Array(mut items)) = items else {
        return Split::Items(Vec::new());
    };
    items.retain(|item| !item.is_null());
    for item in items.iter_mut().filter(|_| !of.is_empty()) {
        if item.is_object() && item.get("kind").is_none() {
            item["kind"] = Value::from(of);
            item["apiVersion"] = version.clone().unwrap_or_default();
        }
    }
    Split::Items(items)
}

/// The place of an object in the order of creation: namespaces, definitions, everything else; last
/// the configurations of admission, which must not judge the objects that are created with them.
pub fn creation_order(object: &Value) -> u8 {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("kind") {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        _ if text("apiVersion").starts_with("admissionregistration.k8s.io/") => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(text: &str) -> Vec<Value> {
        let documents = parse_documents(text).unwrap();
        documents.into_iter().map(|one| one.value).collect()
    }

    fn fault(text: &str) -> (Option<u64>, String) {
        let error = parse_documents(text).unwrap_err();
        (error.line, error.detail)
    }

    #[track_caller]
    fn check(text: &str, expected: &[Value]) {
        assert_eq!(values(text), expected, "{text}");
    }

    #[test]
    fn documents_of_both_notations_are_read() {
        let (a, b) = (json!({"kind": "A"}), json!({"kind": "B"}));
        let both = [a.clone(), b];
        check("kind: A\n---\nkind: B\n", &both);
        check("kind: A\n--- # the second\nkind: B\n", &both);
        check("kind: A\n---  \r\nkind: B\n", &both);
        check("{\"kind\":\"A\"}\n{\"kind\":\"B\"}", &both);
        check("{\"kind\":\"A\"}\n---\n{\"kind\":\"B\"}\n", &both);
        check("{\"kind\":\"A\"}\n---\nkind: B\n", &both);
        check("{kind: A}\n---\n{kind: B}\n", &both);
        check("---\nkind: A\n---\n", &[a, Value::Null]);
        check("# nothing\n", &[Value::Null]);
        check("", &[]);
        // Only the first document of a part counts, as for kubectl.
        check("kind: A\n...\n---\nkind: B\n", &both);
        check("a: |\n  x\n  --- y\n", &[json!({"a": "x\n--- y\n"})]);
    }

    #[test]
    fn values_are_those_of_a_request() {
        check(
            "a: 0400\nb: yes\nc: 0o17\nd: 1e3\ne: \"0400\"\nf: 1_000\n",
            &[json!({"a": 256, "b": true, "c": 15, "d": 1000, "e": "0400", "f": 1000})],
        );
    }

    #[test]
    fn faults_and_doubled_keys_are_named_by_the_line_of_the_file() {
        let text = "kind: A\n---\nkind: B\ndata:\n  a: 1\n  a: 2\n";
        let documents = parse_documents(text).unwrap();
        assert_eq!(documents[1].value["data"]["a"], 2);
        let doubled = documents[1].duplicate.as_ref().unwrap();
        assert_eq!((doubled.line, &*doubled.key), (6, "a"));
        assert_eq!(fault("kind: A\n---\nkind: B\na: b: c\n").0, Some(4));
        // apimachinery: YAMLReader refuses such a line
        let (line, detail) = fault("kind: A\n--- {kind: B}\n");
        assert_eq!(line, Some(2));
        assert_eq!(detail, "invalid Yaml document separator: {kind: B}");
        let (line, detail) = fault("{\"kind\":");
        assert!(line.is_none() && detail.contains("line 1"), "{detail}");
    }

    #[test]
    fn a_document_is_as_deep_as_in_json() {
        let thread = std::thread::Builder::new().stack_size(MANIFEST_STACK);
        let deep = |levels| {
            (0..levels)
                .map(|at| " ".repeat(at) + "a:\n")
                .collect::<String>()
        };
        let read = thread.spawn(move || [120, 140].map(|it| parse_documents(&deep(it)).is_ok()));
        assert_eq!(read.unwrap().join().unwrap(), [true, false]);
    }
}
