//! Finds the old value that corresponds to a new one.
//!
//! ```text
//! old object ──member, item──▶ the old value in the same place, if it can be determined
//! ```
//!
//! Members correspond by their names, and items of a list of type `map` by their keys. Items of
//! other lists cannot be identified, so they have no old value.
//!
//! Upstream: `kubernetes/apiserver:pkg/cel/common/equality.go`, `maplist.go`.
//!
//! Complexity: items are looked up by their keys in a table that is built once for each list.

use std::collections::HashMap;

use serde_json::Value;

/// The old value, as far as it can be determined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before<'a>(pub(crate) Option<&'a Value>);

impl<'a> Before<'a> {
    /// No old value: the object is new.
    pub(crate) const NOTHING: Self = Self(None);

    /// Returns whether the old value equals this value.
    pub(crate) fn is(self, value: &Value) -> bool {
        self.0 == Some(value)
    }

    /// Returns the old value of a member, if the schema declares it.
    pub(crate) fn member(self, schema: &Value, name: &str) -> Self {
        let known = schema
            .get("properties")
            .and_then(|properties| properties.get(name))
            .is_some()
            || schema
                .get("additionalProperties")
                .is_some_and(Value::is_object);
        Self(self.0.filter(|_| known).and_then(|old| old.get(name)))
    }

    /// Returns the old items of a list.
    pub(crate) fn items(self, schema: &Value) -> Items<'a> {
        let keys = keys(schema);
        let mut old = HashMap::new();
        let list = self.0.and_then(Value::as_array);
        if !keys.is_empty() {
            for item in list.into_iter().flatten() {
                old.entry(identity(&keys, item)).or_insert(item);
            }
        }
        Items { keys, old }
    }
}

/// The old items of a list of type `map`; empty for any other list.
#[derive(Debug)]
pub(crate) struct Items<'a> {
    keys: Vec<String>,
    old: HashMap<String, &'a Value>,
}

impl<'a> Items<'a> {
    /// Returns the old value of an item.
    pub(crate) fn of(&self, item: &Value) -> Before<'a> {
        if self.old.is_empty() {
            return Before::NOTHING;
        }
        Before(self.old.get(&identity(&self.keys, item)).copied())
    }
}

/// The keys of a list that is a map.
fn keys(schema: &Value) -> Vec<String> {
    if schema.get("x-kubernetes-list-type").and_then(Value::as_str) != Some("map") {
        return Vec::new();
    }
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array);
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    keys.map(str::to_owned).collect()
}

/// Returns the identity of an item among the items of its list: the values of its keys.
pub(super) fn identity(keys: &[String], item: &Value) -> String {
    let values: Vec<Option<&Value>> = keys.iter().map(|key| item.get(key)).collect();
    serde_json::to_string(&values).unwrap_or_default()
}
