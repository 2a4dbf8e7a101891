//! The fields in which two states of an object differ, with digests of their values.
//!
//! ```text
//! old, new → decoded → walked side by side → paths, each with the digest of the new value
//! ```
//!
//! Versions, generation and managed fields are left out: every write changes them. The digest of the
//! whole difference takes each time (RFC 3339) as the same, each UUID, and each name that a server
//! generated with one prefix: a write that only moves such a value repeats.
//! BOUND: the first four fields have paths; objects of more than 256 KiB are not compared.
//!
//! Upstream counterpart: none.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;
use serde_json::{Map, Value};
use smallvec::SmallVec;

use crate::object::Object;

/// BOUND: fields of a difference that have a path.
const FIELDS: usize = 4;
/// BOUND: bytes of an object that is compared.
const BYTES: usize = 256 << 10;
/// BOUND: bytes of a path; a longer one is cut.
const PATH: usize = 200;

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The path, such as `status.conditions[0].message`.
    pub path: Box<str>,
    /// The digest of the new value.
    pub to: u64,
}

/// The fields that differ between two states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    fields: SmallVec<[Field; 1]>,
    digest: u64,
}

impl Difference {
    /// Compares two states; `None` if they are too large, do not differ, or one of them is reduced.
    #[must_use]
    pub fn between(old: &Object, new: &Object) -> Option<Self> {
        let is_reduced = old.is_reduced() || new.is_reduced();
        if is_reduced || old.byte_len().max(new.byte_len()) > BYTES {
            return None;
        }
        Self::of(&old.value()?, &new.value()?)
    }

    fn of(old: &Value, new: &Value) -> Option<Self> {
        let mut walk = Walk {
            fields: SmallVec::new(),
            whole: hasher(),
            path: String::new(),
            is_equal: true,
        };
        walk.compare(old, new);
        let digest = walk.whole.finish();
        (!walk.is_equal).then_some(Self {
            fields: walk.fields,
            digest,
        })
    }

    /// The fields, four at most: those of the old state first, then those that only the new one has.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The digest of all fields and values, those that move taken as the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

struct Walk {
    fields: SmallVec<[Field; 1]>,
    whole: foldhash::fast::FoldHasher<'static>,
    path: String,
    is_equal: bool,
}

impl Walk {
    /// INVARIANT: recursion is as deep as the values, which were decoded from 128 levels at most.
    fn compare(&mut self, old: &Value, new: &Value) {
        match (old, new) {
            (old, new) if old == new => {}
            (Value::Object(old), Value::Object(new)) => self.compare_members(old, new),
            (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
                for (index, (old, new)) in old.iter().zip(new).enumerate() {
                    self.inside(&format!("[{index}]"), |walk| walk.compare(old, new));
                }
            }
            (_, new) => self.differ(new),
        }
    }

    fn compare_members(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let is_metadata = self.path == "metadata";
        let left_out = ["resourceVersion", "managedFields", "generation"];
        let names = old
            .keys()
            .chain(new.keys().filter(|name| !old.contains_key(*name)));
        for name in names.filter(|name| !is_metadata || !left_out.contains(&name.as_str())) {
            let null = &Value::Null;
            let (old, new) = (old.get(name), new.get(name));
            let step = match self.path.is_empty() {
                true => name.clone(),
                false => format!(".{name}"),
            };
            self.inside(&step, |walk| {
                walk.compare(old.unwrap_or(null), new.unwrap_or(null));
            });
        }
    }

    fn inside(&mut self, step: &str, compare: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        compare(self);
        self.path.truncate(length);
    }

    fn differ(&mut self, new: &Value) {
        self.is_equal = false;
        self.path.hash(&mut self.whole);
        digest(new, Moving::Same, &mut self.whole);
        if self.fields.len() < FIELDS {
            let mut hasher = hasher();
            digest(new, Moving::Differ, &mut hasher);
            let mut end = PATH.min(self.path.len());
            while !self.path.is_char_boundary(end) {
                end -= 1;
            }
            self.fields.push(Field {
                path: self.path[..end].into(),
                to: hasher.finish(),
            });
        }
    }
}

/// The treatment of texts that are another each time: times, UUIDs and generated names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moving {
    Same,
    Differ,
}

fn hasher() -> foldhash::fast::FoldHasher<'static> {
    FixedState::default().build_hasher()
}

/// INVARIANT: recursion is as deep as the value.
fn digest(value: &Value, moving: Moving, hasher: &mut impl Hasher) {
    match value {
        Value::Null => 0u8.hash(hasher),
        Value::Bool(value) => (1u8, value).hash(hasher),
        Value::Number(number) => (2u8, number.to_string()).hash(hasher),
        Value::String(text) => match moved(text).filter(|_| moving == Moving::Same) {
            Some(rest) => (3u8, rest).hash(hasher),
            None => (4u8, text).hash(hasher),
        },
        Value::Array(elements) => {
            (5u8, elements.len()).hash(hasher);
            elements
                .iter()
                .for_each(|element| digest(element, moving, hasher));
        }
        Value::Object(members) => {
            (6u8, members.len()).hash(hasher);
            for (name, value) in members {
                name.hash(hasher);
                digest(value, moving, hasher);
            }
        }
    }
}

/// A text without the part that moves: `None` if no part of it does.
fn moved(text: &str) -> Option<&str> {
    if is_time(text) || is_uuid(text) {
        return Some("");
    }
    // Letters and digits of names that a server generates: no vowels, and nothing that looks alike.
    let is_generated = |byte: u8| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte);
    let (prefix, suffix) = text.rsplit_once('-')?;
    (suffix.len() == 5 && suffix.bytes().all(is_generated)).then_some(prefix)
}

/// Returns whether a text has the form of a time: `2026-01-31T23:59:59Z`, with a fraction or an offset.
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00";
    (form.len() + 1..=35).contains(&text.len()) && begins_like(text, form, u8::is_ascii_digit)
}

fn is_uuid(text: &str) -> bool {
    let form = "00000000-0000-0000-0000-000000000000";
    text.len() == form.len() && begins_like(text, form, u8::is_ascii_hexdigit)
}

/// Compares a text with the start of a form, whose zeros stand for digits.
fn begins_like(text: &str, form: &str, is_digit: fn(&u8) -> bool) -> bool {
    let fits = |(byte, form): (u8, u8)| match form {
        b'0' => is_digit(&byte),
        form => byte == form,
    };
    text.bytes().zip(form.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(old: &Value, new: &Value) -> Vec<String> {
        let difference = Difference::of(old, new);
        let fields = difference.iter().flat_map(|difference| difference.fields());
        fields.map(|field| field.path.to_string()).collect()
    }

    #[test]
    fn a_difference_names_the_fields() {
        let old = json!({"metadata": {"name": "x", "resourceVersion": "1", "generation": 1},
            "spec": {"replicas": 1, "list": [{"a": 1}, {"a": 2}]}, "status": {"ready": 1}});
        for (pointer, value, expected) in [
            ("/metadata/resourceVersion", json!("2"), vec![]),
            ("/metadata/generation", json!(2), vec![]),
            (
                "/metadata/labels",
                json!({"a": "b"}),
                vec!["metadata.labels"],
            ),
            ("/spec/replicas", json!(2), vec!["spec.replicas"]),
            ("/spec/list/1/a", json!(3), vec!["spec.list[1].a"]),
            ("/spec/list", json!([]), vec!["spec.list"]),
            ("/status", Value::Null, vec!["status"]),
            (
                "/status",
                json!({"ready": 2, "x": 1}),
                vec!["status.ready", "status.x"],
            ),
        ] {
            let mut new = old.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            match new.pointer_mut(parent).unwrap() {
                Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
                parent => parent[name] = value,
            }
            assert_eq!(paths(&old, &new), expected, "{pointer}");
        }
    }

    #[test]
    fn a_difference_that_only_moves_a_time_is_the_same_and_one_of_a_value_is_not() {
        let state = |time: &str, step: u32| json!({"status": {"at": time, "step": step}});
        let base = state("", 0);
        let digest = |time: &str, step: u32| Difference::of(&base, &state(time, step)).unwrap();
        let first = digest("2026-01-31T23:59:59Z", 1);
        let later = digest("2026-01-31T23:59:59.123456+01:00", 1);
        assert_eq!(first.digest(), later.digest());
        assert_ne!(first.fields(), later.fields());
        assert_ne!(first.digest(), digest("2026-01-31T23:59:59Z", 2).digest());
        assert_ne!(first.digest(), digest("2026-01-31", 1).digest());
    }

    #[test]
    fn values_that_are_another_each_time_are_the_same_and_names_that_people_give_are_not() {
        let digest = |text: &str| Difference::of(&json!({}), &json!({ "at": text })).unwrap();
        let uuid = |last: &str| format!("8f14e45f-ceea-467f-a9b5-1c2d3e4f5a6{last}");
        for (one, other, are_same) in [
            (uuid("0"), uuid("f"), true),
            (uuid("0"), uuid("x"), false),
            ("web-x2b4c".to_owned(), "web-9zzzz".to_owned(), true),
            ("web-x2b4c".to_owned(), "db-x2b4c".to_owned(), false),
            ("step-first".to_owned(), "step-other".to_owned(), false),
            ("web-00001".to_owned(), "web-00002".to_owned(), false),
        ] {
            let (a, b) = (digest(&one), digest(&other));
            assert_eq!(a.digest() == b.digest(), are_same, "{one} {other}");
            assert_ne!(a.fields(), b.fields());
        }
    }

    #[test]
    fn a_difference_of_many_fields_keeps_four_and_counts_all() {
        let many = |last: u32| {
            let members =
                (0..100).map(|n| (format!("f{n:03}"), if n == 99 { last } else { 1 }.into()));
            Value::Object(members.collect())
        };
        let one = Difference::of(&json!({}), &many(1)).unwrap();
        assert_eq!(one.fields().len(), 4);
        assert_ne!(
            one.digest(),
            Difference::of(&json!({}), &many(2)).unwrap().digest()
        );
        assert_eq!(Difference::of(&many(1), &many(1)), None);
    }
}
