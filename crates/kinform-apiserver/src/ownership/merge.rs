//! Merges a configuration into an object, and removes paths from an object.
//!
//! ```text
//! form + object + configuration -> object            form + object + Set -> object without those paths
//! ```
//!
//! Lists whose items are owned separately are merged item by item. Items on both sides have the
//! order of the configuration; other items keep their places between them. Atomic values are
//! replaced.
//!
//! Upstream: `structured-merge-diff:typed/{merge,remove}.go`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::{items, members};
use super::element::Element;
use super::form::{Form, Kind, List, Mapping, Relation};
use super::set::Set;

/// Merges a configuration into an object. Returns `None` if neither has a value.
///
/// # Errors
/// Names the item of a list that occurs twice in the configuration or cannot be identified.
pub(super) fn merge(
    form: Form<'_>,
    object: Option<&Value>,
    configuration: Option<Cow<'_, Value>>,
) -> Result<Option<Value>, String> {
    let Some(one) = configuration.as_deref().or(object) else {
        return Ok(None);
    };
    match form.kind(one) {
        Kind::Map(mapping) if !mapping.atomic => {
            let below = members(object);
            let has_members = members(configuration.as_deref()).is_some();
            if below.is_some() || has_members {
                let above = configuration.filter(|_| has_members);
                return merge_maps(mapping, below, above);
            }
        }
        Kind::List(list) if !matches!(list.relation, Relation::Atomic) => {
            let (below, above) = (items(object), items(configuration.as_deref()));
            if !below.is_empty() || !above.is_empty() {
                return merge_lists(list, below, above);
            }
        }
        Kind::Map(_) | Kind::List(_) | Kind::Scalar(_) | Kind::Nothing => {}
    }
    // A configuration that is not needed again moves into the object.
    let configuration = configuration.map(Cow::into_owned);
    Ok(configuration.or_else(|| object.cloned()))
}

fn merge_maps(
    mapping: Mapping<'_>,
    below: Option<&Map<String, Value>>,
    above: Option<Cow<'_, Value>>,
) -> Result<Option<Value>, String> {
    let mut above: BTreeMap<String, Cow<'_, Value>> = match above {
        Some(Cow::Owned(Value::Object(above))) => {
            let owned = above.into_iter();
            owned.map(|(name, of)| (name, Cow::Owned(of))).collect()
        }
        Some(Cow::Borrowed(Value::Object(above))) => {
            let borrowed = above.iter();
            borrowed
                .map(|(name, of)| (name.clone(), Cow::Borrowed(of)))
                .collect()
        }
        _ => BTreeMap::new(),
    };
    let mut out = Map::new();
    let mut put = |name: &str, old, new| -> Result<(), String> {
        let form = mapping.member(name).unwrap_or(Form::Deduced);
        if let Some(value) = merge(form, old, new)? {
            out.insert(name.to_owned(), value);
        }
        Ok(())
    };
    for (name, old) in below.into_iter().flatten() {
        put(name, Some(old), above.remove(name))?;
    }
    for (name, new) in above {
        put(&name, None, Some(new))?;
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// A list with the steps to its items.
struct Indexed<'a> {
    elements: Vec<Element>,
    /// Items by their steps. An item that occurs twice is null, so it is not merged.
    found: BTreeMap<Element, &'a Value>,
}

const TWICE: &Value = &Value::Null;

fn index<'a>(list: List<'_>, items: &'a [Value], repeats: Repeats) -> Result<Indexed<'a>, String> {
    let mut indexed = Indexed {
        elements: Vec::with_capacity(items.len()),
        found: BTreeMap::new(),
    };
    for (place, item) in items.iter().enumerate() {
        let element = list
            .element(item)
            .map_err(|what| format!("element {place}: {what}"))?;
        let known = indexed.found.contains_key(&element);
        if known && repeats == Repeats::Refused {
            return Err(format!("duplicate entries for key {element}"));
        }
        let value = if known { TWICE } else { item };
        indexed.found.insert(element.clone(), value);
        indexed.elements.push(element);
    }
    Ok(indexed)
}

/// The treatment of an item that occurs twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    Kept,
    Refused,
}

fn merge_lists(list: List<'_>, below: &[Value], above: &[Value]) -> Result<Option<Value>, String> {
    let new = index(list, above, Repeats::Refused)?;
    let old = index(list, below, Repeats::Kept)?;
    let mut shared = new
        .elements
        .iter()
        .filter(|element| old.found.contains_key(*element));
    let mut next_shared = shared.next();
    let mut merged: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::with_capacity(above.len().max(below.len()));
    let both = |element: &Element| {
        let (old, new) = (old.found.get(element), new.found.get(element));
        merge(list.item, old.copied(), new.copied().map(Cow::Borrowed))
    };
    let (mut at_old, mut at_new) = (0, 0);
    while at_old < old.elements.len() || at_new < new.elements.len() {
        if let (Some(ours), Some(theirs)) = (old.elements.get(at_old), new.elements.get(at_new)) {
            if ours == theirs {
                merged.insert(theirs);
                out.extend(both(theirs)?);
                (at_old, at_new) = (at_old + 1, at_new + 1);
                next_shared = shared.next();
                continue;
            }
            let is_later = new.found.contains_key(ours)
                && next_shared.is_some_and(|next_shared| next_shared != ours);
            if is_later {
                at_old += 1;
                continue;
            }
        }
        if let Some(ours) = old.elements.get(at_old) {
            if !new.found.contains_key(ours) {
                // Copies by index, so that each of the items that occur twice is kept.
                out.extend(merge(list.item, below.get(at_old), None)?);
                at_old += 1;
                continue;
            }
            if merged.contains(ours) {
                at_old += 1;
            }
        }
        if let Some(theirs) = new.elements.get(at_new) {
            merged.insert(theirs);
            out.extend(both(theirs)?);
            at_new += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}

/// Removes paths from a value. A value with no content left becomes null.
pub(super) fn remove(form: Form<'_>, value: Value, set: &Set) -> Value {
    match form.kind(&value) {
        Kind::Map(mapping) if !mapping.atomic => remove_members(mapping, value, set),
        Kind::List(list) if !matches!(list.relation, Relation::Atomic) => {
            remove_items(list, value, set)
        }
        Kind::Map(_) | Kind::List(_) => Value::Null,
        Kind::Scalar(_) | Kind::Nothing => value,
    }
}

fn remove_members(mapping: Mapping<'_>, value: Value, set: &Set) -> Value {
    let Value::Object(members) = value else {
        return Value::Null;
    };
    let mut out = Map::new();
    for (name, value) in members {
        let form = mapping.member(&name).unwrap_or(Form::Deduced);
        let left = match set.find(&Element::field(&name)) {
            None => value,
            Some(node) if node.is_member => continue,
            Some(node) => remove(form, value, &node.children),
        };
        out.insert(name, left);
    }
    if out.is_empty() {
        return Value::Null;
    }
    Value::Object(out)
}

fn remove_items(list: List<'_>, value: Value, set: &Set) -> Value {
    let Value::Array(items) = value else {
        return Value::Null;
    };
    let mut out = Vec::new();
    for item in items {
        let node = list.element(&item).ok();
        let left = match node.and_then(|element| set.find(&element)) {
            None => item,
            Some(node) if node.is_member => continue,
            Some(node) => remove(list.item, item, &node.children),
        };
        out.push(left);
    }
    if out.is_empty() {
        return Value::Null;
    }
    Value::Array(out)
}
