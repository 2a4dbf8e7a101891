//! Documents of a text, in YAML or JSON.
//!
//! ```text
//! text ─┬ begins with { : JSON values, one after the other ─┬─▶ [Value]
//!       └ else, or no JSON: parts between `---` ──server's reader of YAML──┘   notes: doubled keys
//! ```
//!
//! The server's own reader parses each part, so that a file means what it means in a request:
//! octal modes, words that are booleans, the last of two equal keys.
//!
//! Upstream counterpart: `apimachinery:pkg/util/yaml` (`YAMLOrJSONDecoder`, `YAMLReader`).

use kinform_apiserver::parse_yaml;
use serde_json::Value;

/// Parses all documents; `note` receives what their author should know.
///
/// # Errors
/// A line and a cause: the text is neither YAML nor JSON.
pub(super) fn documents(text: &str, note: impl Fn(String)) -> Result<Vec<Value>, String> {
    if !text.trim_start().starts_with('{') {
        return yaml(text, note);
    }
    let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let json: Result<Vec<Value>, _> = stream.collect();
    // A map of YAML may begin with a brace, too, and documents of both kinds may be mixed.
    json.or_else(|error| yaml(text, note).map_err(|_| error.to_string()))
}

fn yaml(text: &str, note: impl Fn(String)) -> Result<Vec<Value>, String> {
    let mut values = Vec::new();
    for (before, part) in parts(text)? {
        let at = |line: u64| before + line;
        let document = parse_yaml(part.as_bytes()).map_err(|error| match error.line {
            Some(line) => format!("line {}: {}", at(line), error.detail),
            None => error.detail,
        })?;
        if let Some(doubled) = document.duplicate {
            let (line, key) = (at(doubled.line), doubled.key);
            note(format!(
                "line {line}: key {key:?} is there twice; the last one counts"
            ));
        }
        values.push(document.value);
    }
    Ok(values)
}

/// The parts between lines of three dashes, each with the number of lines before it.
///
/// # Errors
/// Behind the dashes is more than blanks and a comment: what follows would be lost.
fn parts(text: &str) -> Result<Vec<(u64, &str)>, String> {
    let (mut parts, mut from, mut from_line) = (Vec::new(), 0, 0);
    let (mut at, mut line_number) = (0, 0);
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---").map(str::trim) {
            if !rest.is_empty() && !rest.starts_with('#') {
                let number = line_number + 1;
                return Err(format!(
                    "line {number}: invalid Yaml document separator: {rest}"
                ));
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

    #[track_caller]
    fn check(text: &str, expected: &[Value]) {
        assert_eq!(documents(text, |_| {}).unwrap(), expected, "{text}");
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
        let notes = std::cell::RefCell::new(Vec::new());
        let text = "kind: A\n---\nkind: B\ndata:\n  a: 1\n  a: 2\n";
        let values = documents(text, |note| notes.borrow_mut().push(note)).unwrap();
        assert_eq!(values[1]["data"]["a"], 2);
        assert_eq!(
            notes.into_inner(),
            ["line 6: key \"a\" is there twice; the last one counts"]
        );
        let fault = documents("kind: A\n---\nkind: B\na: b: c\n", |_| {}).unwrap_err();
        assert!(fault.starts_with("line 4: "), "{fault}");
        // apimachinery: YAMLReader refuses such a line
        let fault = documents("kind: A\n--- {kind: B}\n", |_| {}).unwrap_err();
        assert_eq!(fault, "line 2: invalid Yaml document separator: {kind: B}");
        let fault = documents("{\"kind\":", |_| {}).unwrap_err();
        assert!(fault.contains("line 1"), "{fault}");
    }

    #[test]
    fn a_document_is_as_deep_as_in_json() {
        // As the thread that reads manifests.
        let thread = std::thread::Builder::new().stack_size(super::super::STACK);
        let deep = |levels| {
            (0..levels)
                .map(|at| " ".repeat(at) + "a:\n")
                .collect::<String>()
        };
        let read = thread.spawn(move || [120, 140].map(|it| documents(&deep(it), |_| {}).is_ok()));
        assert_eq!(read.unwrap().join().unwrap(), [true, false]);
    }
}
