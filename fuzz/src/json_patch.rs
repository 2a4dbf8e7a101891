//! JSON patches: the server's result is that of an evaluator of a page.
//!
//! ```text
//! bytes ──▶ (spec, operations) ──▶ PUT, PATCH dryRun ──▶ spec │ 422
//!                         └──▶ evaluator of RFC 6902 ──▶ the same
//! ```
//!
//! Input is `{"spec": {..}, "patch": [..]}`, or drawn from the bytes. As upstream's library, and
//! unlike the RFC, a copy, a replace or a test for null of an absent member of an object applies.
//! BOUND: depth, so that the bound of the server is not met.
//! Upstream: `gopkg.in/evanphx/json-patch.v4`.

use http::Method;
use serde_json::{Map, Value, json};

use crate::draw::{Draw, is_exact};
use crate::in_process::{Cluster, JSON, Once, THINGS, anything, thing};
use crate::shape::Shape;

/// Pieces of patches.
pub const WORDS: &[&[u8]] = &[
    b"{\"op\":\"add\",\"path\":\"/spec/a\",\"value\":1}",
    b"\"op\":",
    b"\"path\":",
    b"\"from\":",
    b"\"value\":",
    b"\"add\"",
    b"\"remove\"",
    b"\"replace\"",
    b"\"move\"",
    b"\"copy\"",
    b"\"test\"",
    b"/spec",
    b"/a",
    b"/-",
    b"/0",
    b"~1",
    b"~0",
    b"/list",
    b"null",
    b"{}",
    b"[]",
    b",",
    b"{",
    b"}",
];

/// The reason of an evaluator that cannot apply an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit;

const MEDIA: &str = "application/json-patch+json";
/// BOUND: the depth of results that are compared.
const DEEPEST: usize = 40;

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// Reads the bytes as an object and a patch.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| {
        let cluster = server.get(|cluster| cluster.serve_things(&anything()));
        patched(cluster, bytes)
    })
}

fn patched(cluster: &Cluster, bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let (spec, patch) = written(bytes).unwrap_or_else(|| drawn(&mut Draw::new(bytes)));
    let before = lay(cluster, &spec);
    let path = format!("{THINGS}/a?dryRun=All");
    let (code, reply) = cluster.ask(Method::PATCH, &path, (MEDIA, &patch));
    shape.saw(code);
    shape.form(&patch.to_string());
    assert!(
        matches!(code, 200 | 400 | 409 | 413 | 422),
        "{code} {reply}"
    );
    shape.text(reply["message"].as_str().unwrap_or_default());
    let Some(expected) = evaluated(&before, &patch) else {
        return shape;
    };
    for operation in patch.as_array().into_iter().flatten().take(3) {
        shape.text(operation["op"].as_str().unwrap_or_default());
    }
    match expected {
        // A server refuses a spec that its schema refuses.
        Ok(expected) if expected["spec"].is_object() || expected.get("spec").is_none() => {
            assert_eq!(code, 200, "{patch} of {before}: {reply}");
            assert_eq!(reply["spec"], expected["spec"], "{patch} of {before}");
        }
        // A null that the schema does not allow may be dropped.
        Ok(expected) if expected["spec"].is_null() && code == 200 => {
            assert_eq!(reply.get("spec"), None)
        }
        Ok(_) => assert_eq!(code, 422, "{patch} of {before}: {reply}"),
        Err(Unfit) => assert_eq!(code, 422, "{patch} of {before}: {reply}"),
    }
    shape
}

/// Puts a thing with this spec in the place of the last one; returns it.
pub fn lay(cluster: &Cluster, spec: &Value) -> Value {
    cluster.ask(Method::DELETE, &format!("{THINGS}/a"), (JSON, &Value::Null));
    let before = cluster.create(THINGS, &thing("a", spec));
    assert_eq!(before["spec"], *spec, "it is kept as it is");
    before
}

/// The object and the patch of a text; numbers that readers may round are no part of this.
fn written(bytes: &[u8]) -> Option<(Value, Value)> {
    let text: Value = serde_json::from_slice(bytes).ok().filter(is_exact)?;
    let (spec, patch) = (text.get("spec")?, text.get("patch")?);
    (spec.is_object() && depth(spec) < DEEPEST).then(|| (spec.clone(), patch.clone()))
}

/// An object and operations, of which most meet a member.
fn drawn(draw: &mut Draw<'_>) -> (Value, Value) {
    let spec = Value::Object(draw.members(4));
    let operations = drawn_operations(draw, (&json!({"spec": spec}), "/spec"));
    (spec, operations)
}

/// Operations on what is behind a prefix of an object.
pub fn drawn_operations(draw: &mut Draw<'_>, (object, prefix): (&Value, &str)) -> Value {
    let length = 1 + draw.below(4);
    let operations = (0..length).map(|_| {
        let op = draw.pick(&["add", "remove", "replace", "move", "copy", "test"]);
        let mut operation = Map::new();
        let path = pointer(draw, (object, prefix));
        operation.insert("op".to_owned(), op.into());
        match op {
            "move" | "copy" => {
                _ = operation.insert("from".to_owned(), pointer(draw, (object, prefix)).into())
            }
            "remove" => {}
            // Half of the tests pass.
            "test" if draw.one_in(2) => {
                let there = object.pointer(&path).cloned().unwrap_or_default();
                operation.insert("value".to_owned(), there);
            }
            _ => _ = operation.insert("value".to_owned(), draw.json(2)),
        }
        operation.insert("path".to_owned(), path.into());
        Value::Object(operation)
    });
    operations.collect()
}

/// A pointer along the object, with a last token that may lead out of it.
fn pointer(draw: &mut Draw<'_>, (object, prefix): (&Value, &str)) -> String {
    let mut text = prefix.to_owned();
    for _ in 0..draw.below(4) {
        let token = match object.pointer(&text) {
            Some(Value::Array(items)) => match draw.below(items.len() + 3) {
                at if at > items.len() + 1 => "-".to_owned(),
                at => at.to_string(),
            },
            Some(Value::Object(members)) if !members.is_empty() && !draw.one_in(4) => {
                let at = draw.below(members.len());
                members.keys().nth(at).cloned().unwrap_or_default()
            }
            _ => draw.key().to_owned(),
        };
        text.push('/');
        text.push_str(&token.replace('~', "~0").replace('/', "~1"));
    }
    text
}

/// The result of a patch; `None` if the patch is not one that is compared.
#[must_use]
pub fn evaluated(object: &Value, patch: &Value) -> Option<Result<Value, Unfit>> {
    let mut result = object.clone();
    for operation in patch.as_array()? {
        let (op, path) = (operation["op"].as_str()?, operation["path"].as_str()?);
        let path = tokens(path)?;
        // The rest of the object has rules of its own.
        (path.first()? == "spec" || path.first()? == "data").then_some(())?;
        let value = || operation.get("value").cloned();
        let from = || {
            let from = tokens(operation.get("from")?.as_str()?)?;
            (from.first()? == "spec" || from.first()? == "data").then_some(from)
        };
        let done = match op {
            "add" => add(&mut result, &path, value()?),
            "remove" => remove(&mut result, &path).map(drop),
            "replace" => replace(&mut result, &path, value()?),
            "test" => test(&result, &path, &value()?),
            "copy" => copy(&mut result, (&from()?, &path)),
            "move" => relocate(&mut result, (&from()?, &path)),
            _ => return None,
        };
        if done.is_err() {
            return Some(Err(Unfit));
        }
        (depth(&result) < DEEPEST).then_some(())?;
    }
    Some(Ok(result))
}

fn tokens(pointer: &str) -> Option<Vec<String>> {
    let rest = pointer.strip_prefix('/')?;
    let decoded = rest.split('/').map(|token| {
        let is_escaped =
            |(at, _): (usize, _)| matches!(token.as_bytes().get(at + 1), Some(b'0' | b'1'));
        let is_sound = token.match_indices('~').all(is_escaped);
        is_sound.then(|| token.replace("~1", "/").replace("~0", "~"))
    });
    decoded.collect()
}

fn place(token: &str, length: usize) -> Result<usize, Unfit> {
    let is_number =
        token == "0" || (!token.starts_with('0') && token.bytes().all(|it| it.is_ascii_digit()));
    let at: usize = token.parse().ok().filter(|_| is_number).ok_or(Unfit)?;
    (at < length).then_some(at).ok_or(Unfit)
}

fn child<'a>(value: &'a Value, token: &str) -> Result<&'a Value, Unfit> {
    match value {
        Value::Object(members) => members.get(token).ok_or(Unfit),
        Value::Array(items) => Ok(&items[place(token, items.len())?]),
        _ => Err(Unfit),
    }
}

fn find<'a>(value: &'a Value, path: &[String]) -> Result<&'a Value, Unfit> {
    path.iter()
        .try_fold(value, |value, token| child(value, token))
}

fn parent<'a, 'p>(
    value: &'a mut Value,
    path: &'p [String],
) -> Result<(&'a mut Value, &'p str), Unfit> {
    let (last, before) = path.split_last().ok_or(Unfit)?;
    let mut at = value;
    for token in before {
        at = match at {
            Value::Object(members) => members.get_mut(token).ok_or(Unfit)?,
            Value::Array(items) => {
                let place = place(token, items.len())?;
                &mut items[place]
            }
            _ => return Err(Unfit),
        };
    }
    Ok((at, last))
}

fn add(value: &mut Value, path: &[String], added: Value) -> Result<(), Unfit> {
    match parent(value, path)? {
        (Value::Object(members), last) => _ = members.insert(last.to_owned(), added),
        (Value::Array(items), "-") => items.push(added),
        (Value::Array(items), last) => items.insert(place(last, items.len() + 1)?, added),
        _ => return Err(Unfit),
    }
    Ok(())
}

fn remove(value: &mut Value, path: &[String]) -> Result<Value, Unfit> {
    match parent(value, path)? {
        (Value::Object(members), last) => members.remove(last).ok_or(Unfit),
        (Value::Array(items), last) => Ok(items.remove(place(last, items.len())?)),
        _ => Err(Unfit),
    }
}

fn replace(value: &mut Value, path: &[String], by: Value) -> Result<(), Unfit> {
    match parent(value, path)? {
        (Value::Object(members), last) => _ = members.insert(last.to_owned(), by),
        (Value::Array(items), last) => {
            let at = place(last, items.len())?;
            items[at] = by;
        }
        _ => return Err(Unfit),
    }
    Ok(())
}

/// Returns whether the last member of a path is absent from an object that is there.
fn is_absent(value: &Value, path: &[String]) -> bool {
    let Some((last, before)) = path.split_last() else {
        return false;
    };
    find(value, before).is_ok_and(|it| it.as_object().is_some_and(|it| !it.contains_key(last)))
}

fn test(value: &Value, path: &[String], wanted: &Value) -> Result<(), Unfit> {
    if wanted.is_null() && is_absent(value, path) {
        return Ok(());
    }
    (find(value, path)? == wanted).then_some(()).ok_or(Unfit)
}

fn copy(value: &mut Value, (from, to): (&[String], &[String])) -> Result<(), Unfit> {
    let copied = match is_absent(value, from) {
        true => Value::Null,
        false => find(value, from)?.clone(),
    };
    add(value, to, copied)
}

fn relocate(value: &mut Value, (from, to): (&[String], &[String])) -> Result<(), Unfit> {
    if to.len() > from.len() && to.starts_with(from) {
        return Err(Unfit);
    }
    let moved = remove(value, from)?;
    add(value, to, moved)
}

/// The depth of a value.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
