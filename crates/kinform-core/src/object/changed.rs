//! The parts of an object that an update changed, as a set of a few bits.
//!
//! ```text
//! old bytes, new bytes → parts in their order (bit, bytes) → compared one by one → Changed
//! ```
//!
//! Bytes are compared, nothing is decoded: a map whose entries only changed their order counts as
//! changed. The version is no part. Members that are no part of their own share [`Changed::OTHER`];
//! so do two states in different encodings, which are not compared.
//! Never: a panic on bytes that were not validated; a search that is not linear.
//!
//! Upstream: none; a predicate of controller-runtime compares decoded structs.
//! Complexity: one scan of each state; of metadata, two.

use std::fmt;
use std::ops::BitOr;

use kinform_schema::Type;
use smallvec::SmallVec;

use super::Object;
use crate::wire::json::cursor;
use crate::wire::protobuf::fields::Fields;
use crate::wire::protobuf::metadata;

/// The parts of an object that differ between two of its states.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Changed(u8);

impl Changed {
    /// No part.
    pub const NONE: Self = Self(0);
    /// `metadata.labels`.
    pub const LABELS: Self = Self(1);
    /// `metadata.annotations`.
    pub const ANNOTATIONS: Self = Self(2);
    /// `spec` or `metadata.generation`.
    pub const SPEC: Self = Self(4);
    /// `status`.
    pub const STATUS: Self = Self(8);
    /// `metadata.finalizers`.
    pub const FINALIZERS: Self = Self(16);
    /// `metadata.ownerReferences`.
    pub const OWNERS: Self = Self(32);
    /// `metadata.deletionTimestamp`.
    pub const DELETION: Self = Self(64);
    /// Anything else, such as `data`; not the version.
    pub const OTHER: Self = Self(128);

    const NAMES: [&'static str; 8] = [
        "labels",
        "annotations",
        "spec",
        "status",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
        "other",
    ];

    /// Returns whether no part changed.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all parts of `other` changed.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the parts, without the path to them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = Self::NAMES.into_iter().enumerate();
        bits.filter_map(move |(bit, name)| (self.0 & (1 << bit) != 0).then_some(name))
    }
}

impl BitOr for Changed {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.names().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changed({self})")
    }
}

/// Parts in the order of the bytes, each with its bit.
type Parts<'a> = SmallVec<[(Changed, &'a [u8]); 24]>;

impl Object {
    /// The parts that differ from an older state.
    #[must_use]
    pub fn changed_since(&self, old: &Self) -> Changed {
        if self.ptr_eq(old) {
            return Changed::NONE;
        }
        // Fields that are gone may have changed.
        let unknown = match self.is_reduced() || old.is_reduced() {
            true => Changed::SPEC | Changed::STATUS | Changed::OTHER,
            false => Changed::NONE,
        };
        let (old, new) = (old.thawed(), self.thawed());
        let known = match (old.message(), new.message()) {
            (None, None) => differing(&of_json(old.bytes()), &of_json(new.bytes())),
            (Some((of, before)), Some((same, after))) if std::ptr::eq(of, same) => {
                differing(&of_message(of, before), &of_message(of, after))
            }
            _ => Changed::OTHER,
        };
        known | unknown
    }
}

fn differing(old: &Parts<'_>, new: &Parts<'_>) -> Changed {
    let bits = |(bit, _): &(Changed, &[u8])| *bit;
    if old.iter().map(bits).eq(new.iter().map(bits)) {
        let pairs = old.iter().zip(new);
        let changed = pairs.filter(|(old, new)| old.1 != new.1);
        return changed.fold(Changed::NONE, |all, (old, _)| all | old.0);
    }
    let mut all = Changed::NONE;
    for bit in (0..8).map(|bit| Changed(1 << bit)) {
        let of = |parts: &'_ Parts<'_>| -> Vec<usize> {
            let parts = parts.iter().enumerate();
            let of_bit = parts.filter(|(_, (known, _))| *known == bit);
            of_bit.map(|(at, _)| at).collect()
        };
        let (before, after) = (of(old), of(new));
        let is_same = before.len() == after.len()
            && before
                .iter()
                .zip(&after)
                .all(|(&before, &after)| old[before].1 == new[after].1);
        if !is_same {
            all = all | bit;
        }
    }
    all
}

fn of_json(bytes: &[u8]) -> Parts<'_> {
    let mut parts = Parts::new();
    for member in cursor::members(bytes, 0) {
        let whole = &bytes[member.key.start..member.value.end];
        match &bytes[member.key.clone()] {
            b"metadata" => of_json_metadata(bytes, member.value.start, &mut parts),
            b"spec" => parts.push((Changed::SPEC, whole)),
            b"status" => parts.push((Changed::STATUS, whole)),
            _ => parts.push((Changed::OTHER, whole)),
        }
    }
    parts
}

fn of_json_metadata<'a>(bytes: &'a [u8], at: usize, parts: &mut Parts<'a>) {
    for member in cursor::members(bytes, at) {
        let bit = match &bytes[member.key.clone()] {
            b"labels" => Changed::LABELS,
            b"annotations" => Changed::ANNOTATIONS,
            b"generation" => Changed::SPEC,
            b"finalizers" => Changed::FINALIZERS,
            b"ownerReferences" => Changed::OWNERS,
            b"deletionTimestamp" => Changed::DELETION,
            b"resourceVersion" | b"managedFields" => continue,
            _ => Changed::OTHER,
        };
        parts.push((bit, &bytes[member.key.start..member.value.end]));
    }
}

fn of_message<'a>(of: &Type, bytes: &'a [u8]) -> Parts<'a> {
    let number = |name| of.field(name).map(|field| field.number());
    let (spec, status) = (number("spec"), number("status"));
    let mut parts = Parts::new();
    for field in Fields::of(bytes) {
        let whole = &bytes[field.start..field.end];
        let number = Some(field.number);
        if field.number == metadata::METADATA {
            of_message_metadata(field.value.bytes().unwrap_or_default(), &mut parts);
        } else if number == spec {
            parts.push((Changed::SPEC, whole));
        } else if number == status {
            parts.push((Changed::STATUS, whole));
        } else {
            parts.push((Changed::OTHER, whole));
        }
    }
    parts
}

fn of_message_metadata<'a>(bytes: &'a [u8], parts: &mut Parts<'a>) {
    for field in Fields::of(bytes) {
        let bit = match field.number {
            metadata::LABELS => Changed::LABELS,
            metadata::ANNOTATIONS => Changed::ANNOTATIONS,
            metadata::GENERATION => Changed::SPEC,
            metadata::FINALIZERS => Changed::FINALIZERS,
            metadata::OWNER_REFERENCES => Changed::OWNERS,
            metadata::DELETION_TIMESTAMP => Changed::DELETION,
            metadata::RESOURCE_VERSION | metadata::MANAGED_FIELDS => continue,
            _ => Changed::OTHER,
        };
        parts.push((bit, &bytes[field.start..field.end]));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::projection::Projection;
    use super::*;

    fn object(json: &Value) -> Object {
        Object::from_json(json.to_string().as_bytes(), &Projection::default()).unwrap()
    }

    /// Both states as JSON.
    fn check(old: &Value, new: &Value, expected: Changed) {
        let found = object(new).changed_since(&object(old));
        assert_eq!(found, expected, "{old} → {new}");
    }

    fn base() -> Value {
        json!({"metadata": {
                "annotations": {"a": "1"}, "finalizers": ["x/y"], "generation": 1,
                "labels": {"app": "web"}, "name": "x", "namespace": "a", "resourceVersion": "1",
                "ownerReferences": [{"kind": "Foo", "name": "f", "uid": "u"}]},
            "spec": {"replicas": 1}, "status": {"ready": 1}, "data": {"a": "b"}})
    }

    /// Sets the value at a JSON pointer; `null` removes it.
    fn with(pointer: &str, value: Value) -> Value {
        let mut json = base();
        json["metadata"]["resourceVersion"] = "2".into();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = json.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => _ = parent.remove(name),
            value => _ = parent.insert(name.to_owned(), value),
        }
        json
    }

    #[test]
    fn each_part_has_its_bit() {
        let deleted = "2026-01-01T00:00:00Z";
        for (pointer, value, expected) in [
            ("/metadata/resourceVersion", json!("9"), Changed::NONE),
            ("/metadata/managedFields", json!([{}]), Changed::NONE),
            ("/metadata/labels/app", json!("db"), Changed::LABELS),
            ("/metadata/labels", Value::Null, Changed::LABELS),
            ("/metadata/annotations/b", json!("2"), Changed::ANNOTATIONS),
            ("/metadata/generation", json!(2), Changed::SPEC),
            ("/spec/replicas", json!(2), Changed::SPEC),
            ("/spec", Value::Null, Changed::SPEC),
            ("/status/ready", json!("{\"[\\"), Changed::STATUS),
            ("/metadata/finalizers", json!([]), Changed::FINALIZERS),
            ("/metadata/ownerReferences", Value::Null, Changed::OWNERS),
            (
                "/metadata/deletionTimestamp",
                json!(deleted),
                Changed::DELETION,
            ),
            ("/metadata/uid", json!("u"), Changed::OTHER),
            ("/data/a", json!("c"), Changed::OTHER),
            ("/immutable", json!(true), Changed::OTHER),
        ] {
            check(&base(), &with(pointer, value.clone()), expected);
            check(&with(pointer, value), &base(), expected);
        }
        check(&base(), &base(), Changed::NONE);
        let both = Changed::LABELS | Changed::STATUS;
        assert!(both.contains(Changed::STATUS) && !both.contains(Changed::SPEC));
        assert_eq!(both.to_string(), "labels,status");
    }

    #[test]
    fn the_parts_of_a_message_are_those_of_its_json() {
        let field =
            |number: u8, inside: &[u8]| [&[number << 3 | 2, inside.len() as u8], inside].concat();
        let label = field(11, &[field(1, b"app"), field(2, b"web")].concat());
        let message = |labels: &[u8], version: &[u8], generation: u8, phase: &[u8]| {
            let inside = [
                field(1, b"x"),
                field(6, version),
                vec![7 << 3, generation],
                labels.to_vec(),
            ];
            let status = field(3, &field(1, phase));
            let whole = [field(1, &inside.concat()), field(2, b""), status].concat();
            let of = kinform_schema::builtin("", "v1", "Pod").unwrap();
            Object::from_protobuf(of, &whole, &Projection::default()).unwrap()
        };
        let old = message(&label, b"1", 1, b"Pending");
        for (new, expected) in [
            (message(&label, b"22", 1, b"Pending"), Changed::NONE),
            (message(&[], b"2", 1, b"Pending"), Changed::LABELS),
            (message(&label, b"2", 2, b"Pending"), Changed::SPEC),
            (message(&label, b"2", 1, b"Running"), Changed::STATUS),
        ] {
            assert_eq!(new.changed_since(&old), expected);
        }
        let json = object(&json!({"metadata": {"name": "x"}}));
        assert_eq!(json.changed_since(&old), Changed::OTHER);
    }

    proptest! {
        #[test]
        fn bytes_that_nobody_validated_are_compared_without_a_panic(
            old in "[{}\\[\\]\":,a\\\\ ]{0,40}", new in "[{}\\[\\]\":,a\\\\ ]{0,40}",
            raw in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let wrap = |text: &str| format!("{{\"metadata\":{text},\"spec\":{text}");
            let (old, new) = (wrap(&old), wrap(&new));
            let _ = differing(&of_json(old.as_bytes()), &of_json(new.as_bytes()));
            let of = kinform_schema::builtin("", "v1", "Pod").unwrap();
            let _ = differing(&of_message(of, &raw), &of_message(of, &raw[raw.len() / 2..]));
        }
    }
}
