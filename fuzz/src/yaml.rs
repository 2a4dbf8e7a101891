//! YAML: libyaml reads the same, what is written is read again, and aliases stay within bounds.
//!
//! ```text
//! bytes ─┬─ as text ──▶ parse_yaml ──▶ = serde_json of JSON, = libyaml where both take it
//!        ├─ drawn ──▶ value ──▶ text in many styles ──▶ both readers: the value
//!        ├─ drawn ──▶ value ──▶ write_yaml ──▶ both readers: the value
//!        └─ drawn ──▶ anchors of aliases ──▶ refused, or no larger than a few times the bound
//! ```
//!
//! Plain scalars are not compared with libyaml's: upstream's reader takes `yes` and `017` for other
//! values than the one of this crate does.
//! Upstream: `sigs.k8s.io/yaml`.

use kinform_apiserver::{parse_yaml, write_yaml};
use serde_json::Value;

use crate::draw::{Draw, is_exact};
use crate::shape::Shape;

/// Pieces of YAML.
pub const WORDS: &[&[u8]] = &[
    b"a: ",
    b"- ",
    b"? ",
    b": ",
    b"&a ",
    b"*a",
    b"<<: *a\n",
    b"!!str ",
    b"!!binary ",
    b"!t ",
    b"|\n",
    b">-\n",
    b"'",
    b"\"",
    b"\\u00e9",
    b"# c\n",
    b"---\n",
    b"...\n",
    b"%YAML 1.1\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b", ",
    b"~",
    b"yes",
    b"017",
    b"0x1f",
    b".inf",
    b".nan",
    b"1e3",
    b"\t",
    b"\r\n",
    b"\xc2\x85",
    b"\xef\xbb\xbf",
    b"\n  ",
];

/// BOUND: the characters that aliases of an input of 64 KiB may make.
const LARGEST: usize = 32 << 20;

/// Reads the bytes as YAML.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    of_text(bytes, &mut shape);
    let mut draw = Draw::new(bytes);
    let value = draw.json(5);
    let text = printed(&value, &mut draw);
    is_read(&text, &value);
    is_read(&write_yaml(&value), &value);
    shape.count(text.lines().count());
    bomb(&mut draw, &mut shape);
    shape
}

fn of_text(bytes: &[u8], shape: &mut Shape) {
    let ours = parse_yaml(bytes);
    shape.form(&String::from_utf8_lossy(bytes));
    let json = serde_json::from_slice::<Value>(bytes).ok().filter(is_exact);
    match &ours {
        Ok(document) => {
            assert!(weight(&document.value) <= LARGEST + 16 * bytes.len());
            shape.saw(document.duplicate.is_some());
            shape.text(&skeleton(&document.value));
            if let Some(json) = &json {
                assert_eq!(document.value, *json, "JSON");
            }
            let written = write_yaml(&document.value);
            let again =
                parse_yaml(written.as_bytes()).unwrap_or_else(|why| panic!("{why}: {written:?}"));
            assert!(
                again.value == document.value && again.duplicate.is_none(),
                "{written:?}"
            );
        }
        Err(why) => {
            // An error does not repeat what may be a secret.
            shape.text(&why.to_string());
            assert!(
                json.is_none_or(|json| crate::json_patch::depth(&json) > 60),
                "JSON is YAML: {why:?}"
            );
        }
    }
    let theirs = serde_yaml_ng::from_slice::<serde_yaml_ng::Value>(bytes);
    if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
        shape.saw(is_like(&ours.value, theirs));
    }
}

/// Asserts that both readers take a text for this value.
fn is_read(text: &str, value: &Value) {
    let ours = parse_yaml(text.as_bytes()).unwrap_or_else(|why| panic!("{why:?} in {text:?}"));
    assert_eq!(ours.value, *value, "{text:?}");
    assert!(ours.duplicate.is_none(), "{text:?}");
    let theirs: Value =
        serde_yaml_ng::from_str(text).unwrap_or_else(|why| panic!("{why} in {text:?}"));
    assert_eq!(theirs, *value, "libyaml of {text:?}");
}

/// Returns whether libyaml saw the same lists and maps.
fn is_like(ours: &Value, theirs: &serde_yaml_ng::Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), serde_yaml_ng::Value::Sequence(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| is_like(a, b))
        }
        (Value::Object(ours), serde_yaml_ng::Value::Mapping(theirs)) => ours.len() == theirs.len(),
        (Value::String(ours), serde_yaml_ng::Value::String(theirs)) => ours == theirs,
        (ours, _) => !ours.is_array() && !ours.is_object(),
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            let weights = members
                .iter()
                .map(|(name, value)| name.len() + weight(value));
            1 + weights.sum::<usize>()
        }
        Value::String(text) => 1 + text.len(),
        _ => 1,
    }
}

/// A value without its texts.
fn skeleton(value: &Value) -> String {
    match value {
        Value::Array(items) => format!(
            "[{}]",
            items.iter().take(3).map(skeleton).collect::<String>()
        ),
        Value::Object(members) => format!(
            "{{{}}}",
            members.values().take(3).map(skeleton).collect::<String>()
        ),
        Value::String(_) => "s".to_owned(),
        Value::Bool(_) => "b".to_owned(),
        Value::Null => "~".to_owned(),
        Value::Number(number) if number.is_f64() => "f".to_owned(),
        Value::Number(_) => "i".to_owned(),
    }
}

/// A document of this value, in styles that the choices decide; it ends with a line.
#[must_use]
pub fn printed(value: &Value, draw: &mut Draw<'_>) -> String {
    let mut text = String::new();
    block(value, 0, (&mut text, draw));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Writes a value whose lines begin at a column; the first one begins where the text ends.
fn block(value: &Value, column: usize, (text, draw): (&mut String, &mut Draw<'_>)) {
    let is_flow = draw.one_in(5);
    match value {
        Value::Array(items) if !items.is_empty() && !is_flow => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push_str(&" ".repeat(column));
                }
                text.push_str("- ");
                block(item, column + 2, (text, draw));
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
        Value::Object(members) if !members.is_empty() && !is_flow => {
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    text.push_str(&" ".repeat(column));
                }
                scalar(&Value::from(name.as_str()), (text, draw));
                text.push(':');
                let is_nested = match value {
                    Value::Array(items) => !items.is_empty(),
                    Value::Object(members) => !members.is_empty(),
                    _ => false,
                };
                if is_nested {
                    text.push_str(draw.pick(&["\n", " # c\n", "   \n"]));
                    let deeper = column + 1 + draw.below(3);
                    text.push_str(&" ".repeat(deeper));
                    block(value, deeper, (text, draw));
                } else {
                    text.push_str(draw.pick(&[" ", "  "]));
                    flow(value, (text, draw));
                }
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
        value => flow(value, (text, draw)),
    }
}

fn flow(value: &Value, (text, draw): (&mut String, &mut Draw<'_>)) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                flow(item, (text, draw));
                text.push_str(", ");
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    text.push_str(", ");
                }
                scalar(&Value::from(name.as_str()), (text, draw));
                text.push_str(": ");
                flow(value, (text, draw));
            }
            text.push('}');
        }
        value => scalar(value, (text, draw)),
    }
}

fn scalar(value: &Value, (text, draw): (&mut String, &mut Draw<'_>)) {
    match value {
        Value::Null => text.push_str(draw.pick(&["null", "~", "Null"])),
        Value::Bool(truth) => text.push_str(match (truth, draw.below(2)) {
            (true, 0) => "true",
            (true, _) => "True",
            (false, 0) => "false",
            (false, _) => "FALSE",
        }),
        Value::String(string) => {
            let is_plain = !string.is_empty() && string.bytes().all(|it| it.is_ascii_lowercase());
            // A `y` alone is a word for true to some readers.
            match draw.below(3) {
                0 if is_plain && string.len() > 1 => text.push_str(string),
                1 if !string.contains('\n') => {
                    text.push_str(&format!("'{}'", string.replace('\'', "''")))
                }
                _ => text.push_str(&Value::from(string.as_str()).to_string()),
            }
        }
        other => text.push_str(&other.to_string()),
    }
}

/// A document of aliases of aliases, or of a long text.
fn bomb(draw: &mut Draw<'_>, shape: &mut Shape) {
    if !draw.one_in(128) {
        return;
    }
    let (levels, width) = (1 + draw.below(12), 1 + draw.below(10));
    let long = "x".repeat(1 << draw.below(14));
    let mut text = format!("a0: &a0 {long}\n");
    for level in 1..=levels {
        let aliases = vec![format!("*a{}", level - 1); width].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let parsed = parse_yaml(text.as_bytes());
    shape.saw(("bomb", parsed.is_ok()));
    if let Ok(document) = parsed {
        let weight = weight(&document.value);
        assert!(
            weight <= LARGEST,
            "{levels} levels of {width} make {weight} characters"
        );
    }
}
