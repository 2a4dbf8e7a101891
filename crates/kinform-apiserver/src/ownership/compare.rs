//! Lists the paths of a value, and compares two values.
//!
//! ```text
//! form + value -> Set            form + before + after -> Comparison { added, modified, removed }
//! ```
//!
//! A path ends where ownership ends: at a scalar, an atomic list or map, an item of a list, or an
//! empty map. Absent and null are different. Items that occur twice in a list are compared
//! together.
//!
//! Upstream: `structured-merge-diff:typed/{compare,tofieldset}.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, same};
use super::form::{Form, Kind, List, Mapping, Relation};
use super::set::Set;

/// The differences of two values.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

impl Comparison {
    /// Returns the differences without the paths that are in a set or below a path of it.
    pub(super) fn outside(self, set: &Set) -> Self {
        Self {
            added: self.added.outside(set),
            modified: self.modified.outside(set),
            removed: self.removed.outside(set),
        }
    }
}

/// Compares two values of a form.
///
/// # Errors
/// Names the item of a list that cannot be identified.
pub(super) fn compare(form: Form<'_>, before: &Value, after: &Value) -> Result<Comparison, String> {
    let mut walk = Walk::default();
    walk.node(form, Some(before), Some(after))?;
    Ok(walk.found)
}

/// Returns the paths of a value.
pub(super) fn paths(form: Form<'_>, value: &Value) -> Set {
    let mut walk = Paths::default();
    walk.node(form, value);
    walk.found
}

/// Returns a smaller value for finding paths: those of the value, and those that are left when some
/// of them are removed. The content of atomic lists and maps is left out.
pub(super) fn outline(form: Form<'_>, value: &Value) -> Value {
    match (form.kind(value), value) {
        (Kind::Map(mapping), Value::Object(_)) if mapping.atomic => Value::Object(Map::new()),
        (Kind::Map(mapping), Value::Object(members)) => {
            let member = |(name, value): (&String, &Value)| {
                let form = mapping.member(name).unwrap_or(Form::Deduced);
                (name.clone(), outline(form, value))
            };
            Value::Object(members.iter().map(member).collect())
        }
        (Kind::List(list), Value::Array(_)) if matches!(list.relation, Relation::Atomic) => {
            Value::Array(Vec::new())
        }
        (Kind::List(list), Value::Array(items)) => {
            let item = |item: &Value| match list.item.kind(item) {
                Kind::Map(mapping) if !mapping.atomic => outline(list.item, item),
                // Its content may identify the item.
                _ => item.clone(),
            };
            Value::Array(items.iter().map(item).collect())
        }
        (_, value) => value.clone(),
    }
}

#[derive(Default)]
struct Walk {
    path: Vec<Element>,
    found: Comparison,
}

impl Walk {
    fn node(
        &mut self,
        form: Form<'_>,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), String> {
        let is_leaf = match (before, after) {
            (None, None) => return Ok(()),
            // Most of the compared values did not change.
            (Some(old), Some(new)) if old == new => return Ok(()),
            (Some(one), None) | (None, Some(one)) => self.kind(form.kind(one), before, after)?,
            (Some(old), Some(new)) => {
                let (was, is) = (form.kind(old), form.kind(new));
                if !was.is_like(&is) {
                    self.kind(was, before, after)?;
                }
                self.kind(is, before, after)?
            }
        };
        if !is_leaf && before.is_none() {
            self.found.added.insert(&self.path);
        } else if !is_leaf && after.is_none() {
            self.found.removed.insert(&self.path);
        }
        Ok(())
    }

    /// Compares two values as one kind. Returns whether ownership ends here.
    fn kind(
        &mut self,
        kind: Kind<'_>,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<bool, String> {
        match kind {
            Kind::Map(mapping) => {
                let (old, new) = (members(before), members(after));
                if mapping.atomic || (old.is_none() && new.is_none()) {
                    self.leaf(before, after);
                    return Ok(true);
                }
                self.map(mapping, old, new)?;
                Ok(false)
            }
            Kind::List(list) => {
                let (old, new) = (items(before), items(after));
                let is_atomic = matches!(list.relation, Relation::Atomic);
                if is_atomic || (old.is_empty() && new.is_empty()) {
                    self.leaf(before, after);
                    return Ok(true);
                }
                self.list(list, old, new)?;
                Ok(false)
            }
            Kind::Scalar(_) | Kind::Nothing => {
                self.leaf(before, after);
                Ok(true)
            }
        }
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) {
        let set = match (before, after) {
            (None, _) => &mut self.found.added,
            (_, None) => &mut self.found.removed,
            (Some(before), Some(after)) if same(before, after) => return,
            _ => &mut self.found.modified,
        };
        set.insert(&self.path);
    }

    fn map(
        &mut self,
        mapping: Mapping<'_>,
        before: Option<&Map<String, Value>>,
        after: Option<&Map<String, Value>>,
    ) -> Result<(), String> {
        let old = before.into_iter().flatten();
        for (name, old) in old {
            let new = after.and_then(|after| after.get(name));
            self.member(mapping, name, (Some(old), new))?;
        }
        for (name, new) in after.into_iter().flatten() {
            if before.is_none_or(|before| !before.contains_key(name)) {
                self.member(mapping, name, (None, Some(new)))?;
            }
        }
        Ok(())
    }

    fn member(
        &mut self,
        mapping: Mapping<'_>,
        name: &str,
        (before, after): (Option<&Value>, Option<&Value>),
    ) -> Result<(), String> {
        let form = mapping.member(name).unwrap_or(Form::Deduced);
        self.below(Element::field(name), |walk| walk.node(form, before, after))
    }

    fn below(
        &mut self,
        element: Element,
        go: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.path.push(element);
        let done = go(self);
        self.path.pop();
        done
    }

    fn list(&mut self, list: List<'_>, before: &[Value], after: &[Value]) -> Result<(), String> {
        let mut found: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in before {
            found.entry(list.element(item)?).or_default().0.push(item);
        }
        for item in after {
            found.entry(list.element(item)?).or_default().1.push(item);
        }
        for (element, (old, new)) in found {
            self.below(element, |walk| walk.items(list.item, &old, &new))?;
        }
        Ok(())
    }

    /// Compares the items of one key. Several items count as one value.
    fn items(&mut self, form: Form<'_>, old: &[&Value], new: &[&Value]) -> Result<(), String> {
        match (old, new) {
            ([] | [_], [] | [_]) => self.node(form, old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| same(a, b));
                if !same {
                    self.found.modified.insert(&self.path);
                }
                Ok(())
            }
            ([_, _, ..], new) => {
                self.node(form, None, new.first().copied())?;
                self.found.removed.insert(&self.path);
                Ok(())
            }
            (old, _) => {
                self.node(form, old.first().copied(), None)?;
                self.found.added.insert(&self.path);
                Ok(())
            }
        }
    }
}

#[derive(Default)]
struct Paths {
    path: Vec<Element>,
    found: Set,
}

impl Paths {
    fn node(&mut self, form: Form<'_>, value: &Value) {
        match form.kind(value) {
            Kind::Map(mapping) if mapping.atomic => self.found.insert(&self.path),
            Kind::Map(mapping) => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let named = mapping.named(name);
                    let form = named.or(mapping.others).unwrap_or(Form::Deduced);
                    self.path.push(Element::field(name));
                    self.node(form, value);
                    let is_empty = value.as_object().is_some_and(Map::is_empty);
                    if value.is_null() || is_empty || named.is_none() {
                        self.found.insert(&self.path);
                    }
                    self.path.pop();
                }
            }
            Kind::List(list) if matches!(list.relation, Relation::Atomic) => {
                self.found.insert(&self.path);
            }
            Kind::List(list) => self.list(list, items(Some(value))),
            Kind::Scalar(_) | Kind::Nothing => self.found.insert(&self.path),
        }
    }

    fn list(&mut self, list: List<'_>, items: &[Value]) {
        let mut found: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
        for item in items {
            // An item that cannot be identified has no owner.
            let Ok(element) = list.element(item) else {
                continue;
            };
            found
                .entry(element)
                .and_modify(|item| *item = None)
                .or_insert(Some(item));
        }
        for (element, item) in found {
            self.path.push(element);
            if let Some(item) = item {
                self.node(list.item, item);
            }
            self.found.insert(&self.path);
            self.path.pop();
        }
    }
}

/// Returns the members of a map that is not empty.
pub(super) fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value
        .and_then(Value::as_object)
        .filter(|map| !map.is_empty())
}

/// Returns the items of a list.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
