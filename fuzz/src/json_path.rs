//! JSONPath: a second reader of the same text, and bounds for any text.
//!
//! ```text
//! bytes ─┬─ as text ──▶ parse ──▶ find, first: an end, and the first of what is found
//!        └─ drawn ──▶ path in the notation that RFC 9535 shares ──▶ find = the values of jsonpath-rust
//! ```
//!
//! The shared part: members, items, slices, unions of items, every, every depth, and filters that
//! compare a member with a literal. Where kubectl refuses (an item out of bounds) there is nothing
//! to compare. The order is not compared: the RFC leaves it open for `..`.
//! Upstream: `client-go:util/jsonpath`.

use jsonpath_rust::JsonPath as _;
use kinform_api::JsonPath;
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::shape::Shape;

/// Pieces of paths.
pub const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"$",
    b"@",
    b".",
    b"..",
    b"[",
    b"]",
    b"[*]",
    b".*",
    b"[0]",
    b"[-1]",
    b"[1:2]",
    b"[::2]",
    b"[0,1]",
    b"['a']",
    b"[\"a/b\"]",
    b"[?(@.a==\"x\")]",
    b"[?(@.a)]",
    b"[?(",
    b")]",
    b"==",
    b"<=",
    b"\\",
    b"'",
    b"\"",
    b",",
    b":",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"\xc3\xa9",
];

/// Reads the bytes as a path.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let text = String::from_utf8_lossy(bytes);
    let object = object();
    match text.parse::<JsonPath>() {
        Ok(path) => {
            let first = path.first(&object);
            // BOUND: a caller bounds the paths that it takes from users; here 4 steps that multiply.
            let multiplies = text.matches("..").count() + text.matches('*').count();
            let found = (multiplies <= 4 && !text.contains(',')).then(|| path.find(&object));
            if let Some(Ok(found)) = &found {
                assert_eq!(found.first().copied(), first, "{text:?}");
                shape.count(found.len());
            }
            shape.saw((first.is_some(), found.map(|found| found.is_ok())));
            assert_eq!(
                text.parse::<JsonPath>().as_ref(),
                Ok(&path),
                "it is read alike again"
            );
        }
        Err(_) => shape.text(&text),
    }
    drawn(&mut Draw::new(bytes), &mut shape);
    shape
}

/// An object with every kind of value at several depths.
fn object() -> Value {
    let inner = json!({"a": "x", "b": [1, 2, 3], "c": {"a": null, "b": true}, "a/b": "y"});
    json!({"a": inner, "b": [inner, {"a": 1}, "x", [], null], "c": "x", "list": [[1], [2, 3]]})
}

fn drawn(draw: &mut Draw<'_>, shape: &mut Shape) {
    let mut text = "$".to_owned();
    for _ in 0..=draw.below(4) {
        text.push_str(&step(draw));
    }
    let object = match draw.one_in(3) {
        true => object(),
        false => draw.json(4),
    };
    let path: JsonPath = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
    let theirs = object
        .query(&text)
        .unwrap_or_else(|why| panic!("{text}: {why}"));
    let Ok(ours) = path.find(&object) else {
        shape.saw("out of bounds");
        return;
    };
    assert_eq!(sorted(ours), sorted(theirs), "{text} of {object}");
    shape.text(&text);
}

fn sorted(found: Vec<&Value>) -> Vec<String> {
    let mut texts: Vec<String> = found.into_iter().map(Value::to_string).collect();
    texts.sort_unstable();
    texts
}

fn step(draw: &mut Draw<'_>) -> String {
    let member = |draw: &mut Draw<'_>| match draw.key() {
        name if !name.is_empty() && name.bytes().all(|it| it.is_ascii_lowercase()) => {
            format!(".{name}")
        }
        name => format!("[\"{name}\"]"),
    };
    let place = |draw: &mut Draw<'_>| draw.below(6) as i64 - 3;
    match draw.below(9) {
        0 | 1 => member(draw),
        2 => format!("[{}]", place(draw)),
        3 => {
            let bound = |draw: &mut Draw<'_>| match draw.one_in(2) {
                true => place(draw).to_string(),
                false => String::new(),
            };
            let (from, to) = (bound(draw), bound(draw));
            match draw.below(3) {
                0 => format!("[{from}:{to}]"),
                by => format!("[{from}:{to}:{by}]"),
            }
        }
        4 => draw.pick(&["[*]", ".*"]).to_owned(),
        5 => format!("[{},{}]", draw.below(2), place(draw)),
        6 => match member(draw) {
            member if member.starts_with('.') => format!(".{member}"),
            member => format!("..{member}"),
        },
        _ => {
            let left = draw.pick(&["@.a", "@.b", "@.c.b", "@"]);
            let right = draw.pick(&["\"x\"", "1", "2", "true", "\"\"", "null"]);
            match (draw.below(4), right) {
                (0, _) if left != "@" => format!("[?({left})]"),
                // The RFC orders nothing but numbers and texts.
                (1, "1" | "2" | "\"x\"") => format!("[?({left}<{right})]"),
                (2, "1" | "2" | "\"x\"") => format!("[?({left}>={right})]"),
                _ => format!("[?({left}=={right})]"),
            }
        }
    }
}
