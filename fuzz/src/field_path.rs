//! Paths to fields: a second parser, the same text again, and a second walk.
//!
//! ```text
//! bytes ─┬─ as text ──▶ parse ──▶ print ──▶ parse: the same; letter by letter: the same segments
//!        └─ drawn ──▶ segments ──▶ print ──▶ parse: these;  Object::at ──▶ what a walk over the value finds
//! ```
//!
//! Upstream: `client-go:util/jsonpath`, of which paths are a subset.

use kinform_api::{FieldPath, PathSegment};
use kinform_core::{Object, Projection};
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::shape::Shape;

/// Pieces of paths.
pub const WORDS: &[&[u8]] = &[
    b".",
    b"..",
    b"[*]",
    b"[0]",
    b"['",
    b"']",
    b"[\"",
    b"\"]",
    b"\\'",
    b"\\\\",
    b"[",
    b"]",
    b"$",
    b"spec",
    b"metadata.labels['a.b/c']",
    b"containers",
    b"_-",
    b"18446744073709551616",
    b"[00]",
    b"*",
    b"\xc3\xa9",
];

/// Reads the bytes as a path.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let text = String::from_utf8_lossy(bytes);
    let second = segments(&text);
    match text.parse::<FieldPath>() {
        Ok(path) => {
            assert_eq!(Some(path.segments()), second.as_deref(), "{text:?}");
            is_printed(&path);
            shape.count(path.segments().len());
            for segment in path.segments() {
                shape.saw(match segment {
                    PathSegment::Field(name) => name.len().min(3),
                    PathSegment::Each => 4,
                    PathSegment::Index(_) => 5,
                });
            }
        }
        Err(why) => {
            assert_eq!(second, None, "{text:?}: {why}");
            shape.saw(why.is_field_path());
            shape.text(&text);
        }
    }
    let mut draw = Draw::new(bytes);
    walks(&mut draw, &mut shape);
    shape
}

fn is_printed(path: &FieldPath) {
    let printed = path.to_string();
    let again: FieldPath = printed.parse().expect("what is printed is a path");
    assert_eq!(again, *path, "{printed}");
    assert_eq!(again.to_string(), printed);
}

/// The segments of a text, read letter by letter; `None` if it is not a path.
fn segments(text: &str) -> Option<Vec<PathSegment>> {
    let letters: Vec<char> = text.chars().collect();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-$".contains(letter);
    let (mut at, mut found) = (0, Vec::new());
    if letters.first() == Some(&'.') {
        at = 1;
    }
    loop {
        match letters.get(at) {
            Some('[') => at = bracket(&letters, at + 1, &mut found)?,
            None if !found.is_empty() => break,
            other => {
                if !found.is_empty() {
                    (*other? == '.').then_some(())?;
                    at += 1;
                }
                let from = at;
                while letters.get(at).is_some_and(|letter| is_name(*letter)) {
                    at += 1;
                }
                (at > from).then_some(())?;
                found.push(PathSegment::Field(letters[from..at].iter().collect()));
            }
        }
    }
    (found.len() <= 128).then_some(found)
}

/// Reads behind a bracket; returns the place behind the closing one.
fn bracket(letters: &[char], mut at: usize, found: &mut Vec<PathSegment>) -> Option<usize> {
    match *letters.get(at)? {
        '*' => {
            found.push(PathSegment::Each);
            at += 1;
        }
        quote @ ('\'' | '"') => {
            let mut name = String::new();
            loop {
                at += 1;
                match *letters.get(at)? {
                    '\\' => {
                        at += 1;
                        name.push(*letters.get(at)?);
                    }
                    letter if letter == quote => break,
                    letter => name.push(letter),
                }
            }
            found.push(PathSegment::Field(name));
            at += 1;
        }
        _ => {
            let from = at;
            let mut index = 0_usize;
            while let Some(digit) = letters.get(at).and_then(|it| it.to_digit(10)) {
                index = index.checked_mul(10)?.checked_add(digit as usize)?;
                at += 1;
            }
            (at > from).then_some(())?;
            found.push(PathSegment::Index(index));
        }
    }
    (*letters.get(at)? == ']').then_some(at + 1)
}

/// A drawn path over a drawn object.
fn walks(draw: &mut Draw<'_>, shape: &mut Shape) {
    let spec = draw.json(4);
    let length = draw.below(5);
    let mut path = vec![PathSegment::Field("spec".to_owned())];
    path.extend((0..length).map(|_| match draw.below(4) {
        0 | 1 => PathSegment::Field(draw.key().to_owned()),
        2 => PathSegment::Each,
        _ => PathSegment::Index(draw.below(3)),
    }));
    let path = FieldPath::new(path).expect("it is short");
    is_printed(&path);
    let value = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
    let bytes = serde_json::to_vec(&value).expect("JSON");
    let object = Object::from_json(&bytes, &Projection::new()).expect("an object");
    let mut expected = Vec::new();
    walk(&value, path.segments(), &mut expected);
    let found: Vec<String> = object
        .at(&path)
        .iter()
        .map(|it| it.as_ref().to_owned())
        .collect();
    assert_eq!(found, expected, "{path} of {value}");
    shape.saw(found.len());
}

/// The scalars behind a path, in the order of the object.
fn walk(value: &Value, path: &[PathSegment], found: &mut Vec<String>) {
    let Some((first, rest)) = path.split_first() else {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Bool(_) | Value::Number(_) => found.push(value.to_string()),
            _ => {}
        }
        return;
    };
    match (first, value) {
        (PathSegment::Field(name), Value::Object(members)) => {
            if let Some(value) = members.get(name) {
                walk(value, rest, found);
            }
        }
        (PathSegment::Index(at), Value::Array(items)) => {
            if let Some(value) = items.get(*at) {
                walk(value, rest, found);
            }
        }
        (PathSegment::Each, Value::Array(items)) => {
            items.iter().for_each(|value| walk(value, rest, found));
        }
        _ => {}
    }
}
