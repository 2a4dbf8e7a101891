//! Reads and writes YAML as Kubernetes does: as another notation of JSON.
//!
//! ```text
//! body, or document of a file ──within bounds──▶ YamlDocument { value, duplicate }       Value ──▶ text
//! ```
//!
//! Features that JSON lacks are read as upstream's parser reads them: `yes` and `on` are
//! booleans, `017` is fifteen, merge keys merge, and the last of two equal keys wins and is
//! reported. Documents after the first are ignored. The message of an error names a line and never
//! quotes its text, which may be a secret. The writer quotes every text that a reader of any version
//! of YAML might take for another value.
//!
//! BOUND: depth, nodes, aliases and the size of their expansion; the size of a body is bounded
//! earlier. A file is its user's own: its size bounds its nodes.
//!
//! Upstream: `sigs.k8s.io/yaml`, `apimachinery:pkg/runtime/serializer/json`.

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Budget, Error, Options};

use super::yaml_value::{self, Counted};
use crate::object::number::whole_numbers;

/// The media type of YAML.
pub(crate) const MEDIA_TYPE: &str = "application/yaml";

/// Every level costs the parser kilobytes of stack; JSON may be deeper.
const MAX_DEPTH: usize = 64;
/// A body of the largest size with a list of the shortest items stays below this limit.
const MAX_NODES: usize = 2_000_000;
/// The number of parser events that the expansion of aliases may add.
const MAX_REPLAYED: usize = 100_000;
/// The words for a document that exceeds a limit.
const TOO_LARGE: &str = "the document is nested too deep or too large";
/// The bytes of text that the expansion of aliases may add.
const MAX_EXPANDED: usize = 16 << 20;
/// The length of a key, in bytes, above which it is written with a mark, as libyaml writes it.
const MARKED_KEY: usize = 128;
/// The depth of a document of a file, that of JSON.
const MAX_FILE_DEPTH: usize = 128;

/// The first document of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlDocument {
    /// The document as JSON; null for an empty text.
    pub value: Value,
    /// The first key that occurs twice, an error of strict validation.
    pub duplicate: Option<DuplicateKey>,
}

/// A key that occurs twice in a map. Its last value counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: key {key:?} already set in map")]
pub struct DuplicateKey {
    /// The line of the second one, from 1.
    pub line: u64,
    /// The key.
    pub key: String,
}

/// A text that is not YAML or exceeds a limit. Its message quotes nothing of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("yaml: {}{what}", line.map_or_else(String::new, |line| format!("line {line}: ")))]
pub struct YamlError {
    /// The line of the fault, from 1, if it is known.
    pub line: Option<u64>,
    what: &'static str,
    /// The parser's own words, which may quote the text.
    pub detail: String,
}

impl YamlError {
    pub(crate) fn new(line: Option<u64>, what: &'static str, detail: String) -> Self {
        Self { line, what, detail }
    }
}

/// Parses the first document of a request's body.
///
/// # Errors
/// The text is not YAML, is nested too deeply, or grows too large by its aliases.
pub(crate) fn parse(bytes: &[u8]) -> Result<YamlDocument, YamlError> {
    parse_within(
        bytes,
        serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES
        },
    )
}

/// Parses the first document of a part of a file, as the server reads bodies, but of any size. Each
/// of up to 128 levels takes some 20 KB of stack without optimization.
///
/// # Errors
/// The text is not YAML, is nested too deeply, or grows too large by its aliases.
///
/// Upstream: `sigs.k8s.io/yaml.YAMLToJSON`.
pub fn parse_yaml(bytes: &[u8]) -> Result<YamlDocument, YamlError> {
    parse_within(
        bytes,
        serde_saphyr::budget! {
            max_depth: MAX_FILE_DEPTH,
            max_nodes: usize::MAX,
            max_events: usize::MAX,
            max_total_scalar_bytes: usize::MAX
        },
    )
}

fn parse_within(bytes: &[u8], budget: Option<Budget>) -> Result<YamlDocument, YamlError> {
    let mut duplicate = None;
    let mut value = match first_document(bytes, budget.clone(), DuplicateKeyPolicy::Error) {
        Err(error) => match error.without_snippet() {
            Error::DuplicateMappingKey { key, location } => {
                duplicate = Some(DuplicateKey {
                    line: location.line(),
                    key: key.clone().unwrap_or_default(),
                });
                first_document(bytes, budget, DuplicateKeyPolicy::LastWins)
            }
            _ => Err(error),
        },
        done => done,
    }
    .map_err(|error| malformed(&error))?;
    whole_numbers(&mut value);
    Ok(YamlDocument { value, duplicate })
}

fn first_document(
    mut bytes: &[u8],
    budget: Option<Budget>,
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<Value, Error> {
    let options: Options = serde_saphyr::options! {
        budget: budget,
        duplicate_keys: duplicate_keys,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        legacy_octal_numbers: true,
        with_snippet: false
    };
    // A text in UTF-16 may be longer in UTF-8.
    let text = bytes.len().saturating_mul(2);
    yaml_value::within(text.saturating_add(MAX_EXPANDED), || {
        let mut documents = serde_saphyr::read_with_options::<_, Counted>(&mut bytes, options);
        let first = documents.next().unwrap_or(Ok(Counted(Value::Null)));
        first.map(|Counted(value)| value)
    })
}

fn malformed(error: &Error) -> YamlError {
    let detail = error.without_snippet().to_string();
    // An error within an alias has its places behind the words.
    let has_too_much_text = detail.starts_with(yaml_value::TOO_MUCH_TEXT);
    let what = match error.without_snippet() {
        Error::Budget { .. } => TOO_LARGE,
        _ if has_too_much_text => TOO_LARGE,
        _ => "the document is malformed",
    };
    YamlError {
        line: error.location().map(|at| at.line()),
        what,
        detail: detail.lines().next().unwrap_or_default().to_owned(),
    }
}

/// Writes a value as a document that every reader of YAML reads as the same value.
///
/// Upstream: `sigs.k8s.io/yaml.JSONToYAML`, which quotes less.
pub fn write_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => mapping(&mut out, members, Indent::at(0)),
        Value::Array(items) if !items.is_empty() => sequence(&mut out, items, Indent::at(0)),
        // A text alone has no lines to indent.
        Value::String(text) => {
            put_text(&mut out, text);
            out.push('\n');
        }
        scalar => put_scalar(&mut out, scalar, Indent::at(0)),
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
        put_key(out, name, indent);
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
                put_scalar(out, scalar, Indent::at(indent.rest + 2));
            }
        }
    }
}

/// Writes the key of a member. A long one is marked as a key: libyaml looks for the colon in the
/// first 1,024 letters alone.
fn put_key(out: &mut String, name: &str, indent: Indent) {
    let is_long = name.len() > MARKED_KEY;
    if is_long {
        out.push_str("? ");
    }
    put_text(out, name);
    if is_long {
        out.push('\n');
        indent.put(out, 1);
    }
}

fn sequence(out: &mut String, items: &[Value], indent: Indent) {
    for (line, item) in items.iter().enumerate() {
        indent.put(out, line);
        out.push_str("- ");
        match item {
            Value::Object(inner) if !inner.is_empty() => mapping(out, inner, indent.behind_dash()),
            Value::Array(inner) if !inner.is_empty() => sequence(out, inner, indent.behind_dash()),
            scalar => put_scalar(out, scalar, Indent::at(indent.rest + 2)),
        }
    }
}

/// Writes a scalar and ends its line. The lines of a text are indented.
fn put_scalar(out: &mut String, value: &Value, indent: Indent) {
    match value {
        Value::String(text) if is_block(text) => put_block(out, text, indent),
        Value::String(text) => {
            put_text(out, text);
            out.push('\n');
        }
        // An empty list or map is written as in JSON.
        other => out.push_str(&format!("{other}\n")),
    }
}

/// Returns whether a text of several lines can be read as it is: the first line shows the
/// indentation, and no letter needs an escape.
fn is_block(text: &str) -> bool {
    let is_shown = |letter: char| matches!(letter, '\n' | '\t') || !needs_escape(letter);
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(is_shown)
}

fn put_block(out: &mut String, text: &str, indent: Indent) {
    let lines = text.trim_end_matches('\n');
    out.push_str(match text.len() - lines.len() {
        0 => "|-\n",
        1 => "|\n",
        _ => "|+\n",
    });
    // The end of the last line is not the beginning of another one.
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if !line.is_empty() {
            indent.put(out, 1);
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// Controls, letters that some readers take for an end of line or a byte order mark, letters that
/// YAML does not allow, and marks that change the direction of text.
fn needs_escape(letter: char) -> bool {
    matches!(letter, '\0'..='\x1f' | '\x7f'..='\u{a0}' | '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
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
            letter if needs_escape(letter) => {
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
            parsed.duplicate.map(|it| it.to_string()).as_deref(),
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
    fn a_long_text_of_many_aliases_is_refused() {
        let document = |length: usize, aliases: usize| {
            let (long, aliases) = ("x".repeat(length), vec!["*a"; aliases].join(", "));
            format!("a: &a {long}\nb: [{aliases}]\nc: &c {{d: *a}}\ne: [*c, *c]\n")
        };
        assert!(parse(document(1000, 90).as_bytes()).is_ok());
        assert!(parse(document(1 << 20, 13).as_bytes()).is_ok());
        let error = parse(document(1 << 20, 20).as_bytes()).unwrap_err();
        assert!(error.to_string().ends_with(TOO_LARGE), "{}", error.detail);
        // A text without aliases may be as long as the body is.
        let long = format!("a: {}\n", "x".repeat(20 << 20));
        assert!(parse(long.as_bytes()).is_ok());
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
            "a\nb",
            "a\n\n  b\t\n\n",
            "# a\n- b: {",
            " a\nb",
            "a\n \nb",
            "a\r\nb",
            "a\n\u{202e}b\u{200f}",
            "\na\n",
            "\n",
            "---\n...\n",
            "\u{85}\u{2028}\u{feff}\0",
            "\u{fffe}\n\u{ffff}",
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
        let text = write_yaml(&value);
        assert_eq!(parse(text.as_bytes()).unwrap().value, value, "{text}");
        // A long key, before each kind of value.
        for value in [
            &value,
            &json!([[1], [{"a": 1}], "a\nb\n"]),
            &json!("a\nb"),
            &json!({}),
        ] {
            let (plain, quoted) = ("k".repeat(2000), "é:".repeat(1000));
            let value = json!([{"a": {&plain: value, &quoted: value}}, {&quoted: [value]}]);
            let text = write_yaml(&value);
            assert_eq!(parse(text.as_bytes()).unwrap().value, value, "{text}");
        }
        let key = "k".repeat(MARKED_KEY + 1);
        let text = write_yaml(&json!([{&key: {"a": [1]}}]));
        assert_eq!(text, format!("- ? {key}\n  :\n    a:\n    - 1\n"));
        assert!(!write_yaml(&json!("\u{fffe}\u{ffff}")).contains(['\u{fffe}', '\u{ffff}']));
        for scalar in [
            json!("a b"),
            json!(null),
            json!([]),
            json!([1, 2]),
            json!(7),
        ] {
            assert_eq!(parse(write_yaml(&scalar).as_bytes()).unwrap().value, scalar);
        }
        let text = write_yaml(&json!({"items": [{"a": 1, "b": ["x"]}], "kind": "List"}));
        assert_eq!(text, "items:\n- a: 1\n  b:\n  - x\nkind: List\n");
        let text = write_yaml(&json!({"data": {"a": "x: 1\n\n  y\n", "b": ["c\nd"]}}));
        assert_eq!(
            text,
            "data:\n  a: |\n    x: 1\n\n      y\n  b:\n  - |-\n    c\n    d\n"
        );
    }
}
