//! The documents of a file, in YAML or JSON.
//!
//! ```text
//! text ─┬ begins with { : JSON values, one after the other ─┬─▶ [YamlDocument]
//!       └ else, or no JSON: parts between `---` ──reader of bodies──┘
//! ```
//!
//! The reader of request bodies parses each part, so that a file means what it means in a request:
//! octal modes, words that are booleans, the last of two equal keys.
//!
//! Upstream counterpart: `apimachinery:pkg/util/yaml` (`YAMLOrJSONDecoder`, `YAMLReader`).

use serde_json::Value;

use super::yaml::{YamlDocument, YamlError, parse_yaml};

/// Parses all documents of a file in YAML, or JSON values one after the other, of any size. Each of
/// up to 128 levels takes some 20 KB of stack without optimization. Lines are those of the text.
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
        // As the threads that read manifests.
        let thread = std::thread::Builder::new().stack_size(16 << 20);
        let deep = |levels| {
            (0..levels)
                .map(|at| " ".repeat(at) + "a:\n")
                .collect::<String>()
        };
        let read = thread.spawn(move || [120, 140].map(|it| parse_documents(&deep(it)).is_ok()));
        assert_eq!(read.unwrap().join().unwrap(), [true, false]);
    }
}
