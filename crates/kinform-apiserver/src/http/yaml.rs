//! Reads and writes YAML as Kubernetes does: as another notation of JSON.
//!
//! ```text
//! bytes ──first document, within bounds──▶ Parsed { value, duplicate }       Value ──▶ text
//! ```
//!
//! Features that JSON lacks are read as upstream's parser reads them: `yes` and `on` are
//! booleans, `017` is fifteen, merge keys merge, and the last of two equal keys wins and is
//! reported. Documents after the first are ignored. Errors name a line and never quote its text,
//! which may be a secret. The writer quotes every text that a reader of any version of YAML might
//! take for another value.
//!
//! BOUND: depth, nodes, aliases and the size of their expansion; the size of a body is bounded
//! earlier.
//!
//! Upstream: `sigs.k8s.io/yaml`, `apimachinery:pkg/runtime/serializer/json`.

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Options};

use crate::object::number::whole_numbers;

/// The media type of YAML.
pub(crate) const MEDIA_TYPE: &str = "application/yaml";

/// Every level costs the parser kilobytes of stack; JSON may be deeper.
const MAX_DEPTH: usize = 64;
/// A body of the largest size with a list of the shortest items stays below this limit.
const MAX_NODES: usize = 2_000_000;
/// The number of parser events that the expansion of aliases may add.
const MAX_REPLAYED: usize = 100_000;

/// The first document of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    /// Null for an empty text.
    pub(crate) value: Value,
    /// The error of strict validation: the first key that occurs twice.
    pub(crate) duplicate: Option<String>,
}

/// A text that is not YAML or exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(String);

/// Parses the first document.
///
/// # Errors
/// The text is not YAML, is nested too deeply, or grows too large by its aliases.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let mut duplicate = None;
    let mut value = match first_document(bytes, DuplicateKeyPolicy::Error) {
        Err(error) => match error.without_snippet() {
            Error::DuplicateMappingKey { key, location } => {
                let key = key.as_deref().unwrap_or_default();
                let line = location.line();
                duplicate = Some(format!("line {line}: key {key:?} already set in map"));
                first_document(bytes, DuplicateKeyPolicy::LastWins)
            }
            _ => Err(error),
        },
        done => done,
    }
    .map_err(|error| malformed(&error))?;
    whole_numbers(&mut value);
    Ok(Parsed { value, duplicate })
}

fn first_document(mut bytes: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Error> {
    let options: Options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES
        },
        duplicate_keys: duplicate_keys,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        legacy_octal_numbers: true,
        with_snippet: false
    };
    let mut documents = serde_saphyr::read_with_options::<_, Value>(&mut bytes, options);
    documents.next().unwrap_or(Ok(Value::Null))
}

fn malformed(error: &Error) -> Malformed {
    let place = error
        .location()
        .map_or_else(String::new, |at| format!("line {}: ", at.line()));
    let what = match error.without_snippet() {
        Error::Budget { .. } => "the document is nested too deep or too large",
        _ => "the document is malformed",
    };
    Malformed(format!("yaml: {place}{what}"))
}

/// Writes a value as a document.
pub(crate) fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => mapping(&mut out, members, Indent::at(0)),
        Value::Array(items) if !items.is_empty() => sequence(&mut out, items, Indent::at(0)),
        scalar => {
            put_scalar(&mut out, scalar);
            out.push('\n');
        }
    }
    out
}

/// Writes an item of a list that is in the members of a document.
pub(crate) fn item(out: &mut String, value: &Value) {
    sequence(out, std::slice::from_ref(value), Indent::at(0));
}

/// Writes a member of a document.
pub(crate) fn member(out: &mut String, name: &str, value: &Value) {
    let mut members = Map::new();
    members.insert(name.to_owned(), value.clone());
    mapping(out, &members, Indent::at(0));
}

/// The columns where lines begin. The first line may begin after a dash.
#[derive(Clone, Copy)]
struct Indent {
    first: usize,
    rest: usize,
}

impl Indent {
    fn at(column: usize) -> Self {
        Self {
            first: column,
            rest: column,
        }
    }

    fn behind_dash(self) -> Self {
        Self {
            first: 0,
            rest: self.rest + 2,
        }
    }

    fn put(self, out: &mut String, line: usize) {
        let column = if line == 0 { self.first } else { self.rest };
        out.extend(std::iter::repeat_n(' ', column));
    }
}

fn mapping(out: &mut String, members: &Map<String, Value>, indent: Indent) {
    for (line, (name, value)) in members.iter().enumerate() {
        indent.put(out, line);
        put_text(out, name);
        out.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                mapping(out, inner, Indent::at(indent.rest + 2));
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                sequence(out, items, Indent::at(indent.rest));
            }
            scalar => {
                out.push(' ');
                put_scalar(out, scalar);
                out.push('\n');
            }
        }
    }
}

fn sequence(out: &mut String, items: &[Value], indent: Indent) {
    for (line, item) in items.iter().enumerate() {
        indent.put(out, line);
        out.push_str("- ");
        match item {
            Value::Object(inner) if !inner.is_empty() => mapping(out, inner, indent.behind_dash()),
            Value::Array(inner) if !inner.is_empty() => sequence(out, inner, indent.behind_dash()),
            scalar => {
                put_scalar(out, scalar);
                out.push('\n');
            }
        }
    }
}

fn put_scalar(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => put_text(out, text),
        // An empty list or map is written as in JSON.
        other => out.push_str(&other.to_string()),
    }
}

fn put_text(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Controls, and letters that some readers take for an end of line or a byte order mark.
            '\0'..='\x1f' | '\x7f'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Returns whether every reader takes the unquoted text for this text.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity",
    ];
    let is_harmless = |letter: char| letter.is_ascii_alphanumeric() || "_./-".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text
            .split(' ')
            .all(|word| !word.is_empty() && word.chars().all(is_harmless))
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(parse(text.as_bytes()).unwrap().value, expected, "{text}");
    }

    #[test]
    fn documents_are_read_as_upstream_reads_them() {
        check(
            "a: yes\nb: off\nc: y\nd: \"yes\"\n",
            json!({"a": true, "b": false, "c": true, "d": "yes"}),
        );
        check(
            "a: 017\nb: 0o17\nc: 0x1f\nd: 1e3\ne: 1.5\n",
            json!({"a": 15, "b": 15, "c": 31, "d": 1000, "e": 1.5}),
        );
        check(
            "a: ~\nb: null\nc:\nd: 2020-01-01\n",
            json!({"a": null, "b": null, "c": null, "d": "2020-01-01"}),
        );
        check(
            "{1: b, true: c, 1.5: d}",
            json!({"1": "b", "true": "c", "1.5": "d"}),
        );
        check(
            "x: &x {a: b}\ny:\n  <<: *x\n  c: d\n",
            json!({"x": {"a": "b"}, "y": {"a": "b", "c": "d"}}),
        );
        check(
            "a: !!binary aGVsbG8=\nb: !foo x\n",
            json!({"a": "hello", "b": "x"}),
        );
        check("a: b\n---\nc: [\n", json!({"a": "b"}));
        check(
            "{\"a\": [1, {\"b\": \"\\u00e9\\/\"}]}",
            json!({"a": [1, {"b": "é/"}]}),
        );
        check("", Value::Null);
        check("hello", json!("hello"));
        check("a: |\n  b\n  c\n", json!({"a": "b\nc\n"}));
    }

    #[test]
    fn the_last_of_two_equal_keys_wins_and_is_reported() {
        let parsed = parse(b"a: 1\nb: {c: secret, c: d}\n").unwrap();
        assert_eq!(parsed.value, json!({"a": 1, "b": {"c": "d"}}));
        assert_eq!(
            parsed.duplicate.as_deref(),
            Some("line 2: key \"c\" already set in map")
        );
    }

    #[test]
    fn hostile_documents_are_refused_without_being_repeated() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let nested = (0..400)
            .map(|at| " ".repeat(at) + "a:\n")
            .collect::<String>();
        let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for at in 1..12 {
            let aliases = vec![format!("*a{}", at - 1); 9].join(", ");
            bomb.push_str(&format!("a{at}: &a{at} [{aliases}]\n"));
        }
        for text in [
            &*deep,
            &nested,
            &bomb,
            "secret: [",
            "a: \"secret",
            "secret: b: c",
            "a: *secret",
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("yaml: "), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(parse(b"a: \xff").is_err());
        let allowed = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        // Three quarters of the stack that a thread of a runtime has, without optimisation.
        let thread = std::thread::Builder::new().stack_size(3 << 19);
        let parsed = thread.spawn(move || parse(allowed.as_bytes()).is_ok());
        assert!(parsed.unwrap().join().unwrap());
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let words = [
            "",
            " ",
            "yes",
            "Y",
            "~",
            "null",
            "017",
            "1e3",
            "-1",
            "a: b",
            "a #b",
            "- a",
            "a\nb\n",
            "\u{85}\u{2028}\u{feff}\0",
            "é",
            "\"",
            "'",
            "\\",
            "{",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "a ",
            "2020-01-01",
            "0x1f",
            ".5",
            "<<",
            "=",
            "a\tb",
            "NaN",
            "a  b",
            "nginx 1.0-x/y_z",
        ];
        let value = json!({
            "words": &words[..],
            "keys": words.iter().map(|word| ((*word).to_owned(), json!(1))).collect::<Map<_, _>>(),
            "nested": [[1, [2, {}], []], {"a": [{"b": {"c": [null, true, 1.5, -3, u64::MAX]}}]}],
            "empty": {}, "none": [],
        });
        let text = document(&value);
        assert_eq!(parse(text.as_bytes()).unwrap().value, value, "{text}");
        for scalar in [
            json!("a b"),
            json!(null),
            json!([]),
            json!([1, 2]),
            json!(7),
        ] {
            assert_eq!(parse(document(&scalar).as_bytes()).unwrap().value, scalar);
        }
        let text = document(&json!({"items": [{"a": 1, "b": ["x"]}], "kind": "List"}));
        assert_eq!(text, "items:\n- a: 1\n  b:\n  - x\nkind: List\n");
    }
}
