//! The error in a write: one change of a valid object.
//!
//! ```text
//! dice, object ──▶ Edit { where, what } ──on the object of each server──▶ a value, or a text with a member twice
//! ```
//!
//! An edit names its place, so that the same edit is applied to each server's stored object,
//! whatever uids and versions it chose.

use std::fmt;

use serde_json::{Value, json};

use crate::dice::Dice;

/// The prefix of a member that is written a second time under its own name.
const AGAIN: &str = "__again__";

/// The edit at a place.
#[derive(Clone, Debug)]
enum Act {
    Remove,
    Put(Value),
    /// Into an object.
    Member(String, Value),
    /// Of an object, a second time.
    Double(String),
    /// Into a list.
    Item(Value),
    /// An item of a list once more.
    Repeat(usize),
}

/// One change of an object.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    /// A JSON pointer.
    at: String,
    kind: &'static str,
    act: Act,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.at.trim_start_matches('/').replace('/', ".");
        write!(f, "{}:{path}", self.kind)
    }
}

impl Edit {
    /// Some change of some place in an object, but of its type.
    pub(super) fn of(dice: &mut Dice, object: &Value, skips: &[&str]) -> Self {
        let mut places = Vec::new();
        collect(object, "", &mut places);
        places.retain(|place| !skips.contains(&place.as_str()));
        let at = places[dice.below(places.len() as u64) as usize].clone();
        let old = object.pointer(&at).unwrap_or(&Value::Null);
        let (kind, act) = act(dice, old);
        Self { at, kind, act }
    }

    /// A name, type or version other than the path's.
    pub(super) fn of_identity(dice: &mut Dice) -> Self {
        let (at, value) = dice.pick(&[
            ("/kind", "Other"),
            ("/kind", ""),
            ("/apiVersion", "v9"),
            ("/apiVersion", "apps/v1beta9"),
            ("/apiVersion", "a/b/c"),
            ("/apiVersion", ""),
            ("/metadata/name", ""),
            ("/metadata/name", "Not Valid!"),
            ("/metadata/name", "other"),
            ("/metadata/name", "a/b"),
            ("/metadata/name", ".."),
            ("/metadata/generateName", "Not Valid!"),
            ("/metadata/namespace", "elsewhere"),
            ("/metadata/namespace", "Not Valid!"),
            ("/metadata/resourceVersion", "1"),
            ("/metadata/resourceVersion", "many"),
            ("/metadata/resourceVersion", "-1"),
            ("/metadata/uid", "other"),
            ("/metadata/creationTimestamp", "yesterday"),
            ("/metadata/deletionTimestamp", "2020-01-01T00:00:00Z"),
        ]);
        let (at, act) = (at.to_owned(), Act::Put(json!(value)));
        Self {
            at,
            kind: "identity",
            act,
        }
    }

    /// The place's first name: `spec`, `data`.
    pub(super) fn top(&self) -> &str {
        self.at.split('/').nth(1).unwrap_or_default()
    }

    /// The place.
    pub(super) fn at(&self) -> &str {
        &self.at
    }

    /// Returns whether the request's treatment of unknown and duplicate members matters.
    pub(super) fn is_about_members(&self) -> bool {
        matches!(self.kind, "unknown" | "double")
    }

    /// Applies the change.
    pub(super) fn on(&self, object: &Value) -> Value {
        let mut value = object.clone();
        match &self.act {
            Act::Remove => match parent(&mut value, &self.at) {
                Some((Value::Object(members), name)) => drop(members.remove(&name)),
                Some((Value::Array(items), at)) => {
                    if let Some(at) = at.parse().ok().filter(|at| *at < items.len()) {
                        items.remove(at);
                    }
                }
                _ => {}
            },
            Act::Put(new) => match parent(&mut value, &self.at) {
                Some((Value::Object(members), name)) => drop(members.insert(name, new.clone())),
                Some((Value::Array(items), at)) => {
                    if let Some(item) = at.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                        *item = new.clone();
                    }
                }
                _ => {}
            },
            Act::Member(name, new) => {
                if let Some(Value::Object(members)) = value.pointer_mut(&self.at) {
                    members.insert(name.clone(), new.clone());
                }
            }
            Act::Double(name) => {
                if let Some(Value::Object(members)) = value.pointer_mut(&self.at)
                    && let Some(member) = members.get(name).cloned()
                {
                    members.insert(format!("{AGAIN}{name}"), member);
                }
            }
            Act::Item(new) => {
                if let Some(Value::Array(items)) = value.pointer_mut(&self.at) {
                    items.push(new.clone());
                }
            }
            Act::Repeat(at) => {
                if let Some(Value::Array(items)) = value.pointer_mut(&self.at)
                    && let Some(item) = items.get(*at).cloned()
                {
                    items.push(item);
                }
            }
        }
        value
    }
}

/// The text of a changed object.
pub(super) fn text(value: &Value) -> String {
    value.to_string().replace(AGAIN, "")
}

/// Any value that no field expects, or some do.
pub(super) fn scalar(dice: &mut Dice) -> Value {
    if dice.one_in(2) {
        word(dice)
    } else {
        number(dice)
    }
}

fn word(dice: &mut Dice) -> Value {
    let (long, longer) = ("a".repeat(64), "a".repeat(254));
    let words = [
        "",
        "Not Valid!",
        "UPPER",
        "-x",
        &long,
        &longer,
        "x y",
        "a/b/c",
        "1.2.3.4.5",
        "0",
        "-1",
        "10%",
        "http",
        "ü",
        "256.0.0.1",
        "2026-13-01T00:00:00Z",
        "1e9999",
        "..",
        "*",
    ];
    json!(dice.pick(&words))
}

fn number(dice: &mut Dice) -> Value {
    let numbers = [
        json!(-1),
        json!(0),
        json!(1),
        json!(2),
        json!(101),
        json!(70_000),
        json!(2_147_483_648_u64),
        json!(1.5),
        json!(-2_147_483_649_i64),
        json!(i64::MAX),
    ];
    numbers[dice.below(numbers.len() as u64) as usize].clone()
}

fn act(dice: &mut Dice, old: &Value) -> (&'static str, Act) {
    let kind = match old {
        Value::Object(_) => dice.pick(&[
            "remove", "type", "null", "empty", "unknown", "unknown", "double", "key",
        ]),
        Value::Array(_) => dice.pick(&["remove", "type", "empty", "repeat", "repeat", "member"]),
        _ => dice.pick(&["remove", "type", "null", "value", "value", "value"]),
    };
    let act = match (kind, old) {
        ("remove", _) => Act::Remove,
        ("null", _) => Act::Put(Value::Null),
        ("type", old) => Act::Put(other_type(dice, old)),
        ("empty", Value::Object(_)) => Act::Put(json!({})),
        ("empty", _) => Act::Put(json!([])),
        ("unknown", _) => {
            let name = dice.pick(&["bogus", "Name", "spec"]).to_owned();
            let values = [json!(1), json!("x"), json!({"a": 1})];
            Act::Member(name, values[dice.below(3) as usize].clone())
        }
        ("double", Value::Object(members)) if !members.is_empty() => {
            let at = dice.below(members.len() as u64) as usize;
            Act::Double(members.keys().nth(at).cloned().unwrap_or_default())
        }
        ("key" | "double", _) => {
            let long = "x".repeat(64);
            Act::Member(
                dice.pick(&["Bad Key!", "a/b/c", &long, "-"]).to_owned(),
                json!("v"),
            )
        }
        ("repeat", Value::Array(items)) if !items.is_empty() => {
            Act::Repeat(dice.below(items.len() as u64) as usize)
        }
        ("repeat" | "member", _) => {
            let items = [Value::Null, json!("x"), json!(1), json!({})];
            Act::Item(items[dice.below(4) as usize].clone())
        }
        (_, Value::Bool(is)) => Act::Put(json!(!is)),
        (_, Value::Number(_)) => Act::Put(number(dice)),
        _ => Act::Put(word(dice)),
    };
    (kind, act)
}

fn other_type(dice: &mut Dice, old: &Value) -> Value {
    let mut others = vec![
        json!("text"),
        json!(7),
        json!(true),
        json!([]),
        json!({}),
        json!(["x"]),
        json!(1.5),
    ];
    others.retain(|other| std::mem::discriminant(other) != std::mem::discriminant(old));
    others[dice.below(others.len() as u64) as usize].clone()
}

/// The pointers of everything in a value except its type. The objects are the recordings': not
/// deep.
fn collect(value: &Value, at: &str, into: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !at.is_empty() || !["apiVersion", "kind"].contains(&name.as_str()))
            .map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in members {
        let at = format!("{at}/{name}");
        into.push(at.clone());
        collect(value, &at, into);
    }
}

/// The value that holds the place, and the place's name in it.
fn parent<'a>(value: &'a mut Value, at: &str) -> Option<(&'a mut Value, String)> {
    let (parent, name) = at.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    Some((value.pointer_mut(parent)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_changes_the_same_place_of_both_servers_objects() {
        let (ours, theirs) = (
            json!({"kind": "X", "metadata": {"name": "a", "uid": "1", "labels": {"a/b": "c"}}, "spec": {"list": [1, 2]}}),
            json!({"kind": "X", "metadata": {"name": "a", "uid": "2", "labels": {"a/b": "c"}}, "spec": {"list": [1, 2]}}),
        );
        let (mut dice, mut kinds) = (Dice::new(1), std::collections::BTreeSet::new());
        for _ in 0..500 {
            let edit = Edit::of(&mut dice, &ours, &["/metadata/uid"]);
            kinds.insert(edit.kind);
            let (a, mut b) = (edit.on(&ours), edit.on(&theirs));
            // The servers choose these themselves, also where they are written twice.
            for at in ["/metadata/uid", "/metadata/__again__uid"] {
                if let Some(uid) = b.pointer_mut(at) {
                    *uid = json!("1");
                }
            }
            assert_eq!(a, b, "{edit}");
            let is_empty = ["empty", "value"].contains(&edit.kind);
            assert!(is_empty || a != ours, "{edit}");
        }
        assert_eq!(kinds.len(), 10, "{kinds:?}");
    }

    #[test]
    fn a_double_member_stands_twice_in_the_text() {
        let edit = Edit {
            at: "/spec".to_owned(),
            kind: "double",
            act: Act::Double("a".to_owned()),
        };
        let text = text(&edit.on(&json!({"spec": {"a": 1}})));
        assert_eq!(text, r#"{"spec":{"a":1,"a":1}}"#);
    }
}
