//! Checks configurations and stored sets against the current types.
//!
//! ```text
//! form + value -> errors            form + Set -> Set without paths below newly atomic values
//! ```
//!
//! Messages never quote values, which may be secret.
//!
//! Upstream: `structured-merge-diff:typed/{validate,reconcile_schema}.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::Element;
use super::form::{Form, Kind, List, Relation, Scalar};
use super::set::{Node, Set};
use crate::object::metadata::MOST_ERRORS;

/// Checks a configuration against a form. No item may occur twice in a list.
///
/// # Errors
/// An error in upstream's words, without the value.
pub(super) fn check(form: Form<'_>, value: &Value) -> Result<(), String> {
    let mut check = Check {
        path: Vec::new(),
        errors: Vec::new(),
    };
    check.node(form, value);
    match check.errors.as_slice() {
        [] => Ok(()),
        [error] => Err(error.clone()),
        errors => Err(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

struct Check {
    path: Vec<String>,
    errors: Vec<String>,
}

impl Check {
    fn error(&mut self, what: &str) {
        if self.errors.len() >= MOST_ERRORS {
            return;
        }
        let path = self.path.concat();
        self.errors.push(if path.is_empty() {
            what.to_owned()
        } else {
            format!("{path}: {what}")
        });
    }

    fn node(&mut self, form: Form<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        let got = match value {
            Value::Null => "nil",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_f64() => "float64",
            Value::Number(_) => "int64",
            Value::String(_) => "string",
            Value::Array(_) => "[]interface {}",
            Value::Object(_) => "map[string]interface {}",
        };
        match (form.kind(value), value) {
            (Kind::Map(mapping), Value::Object(members)) => {
                for (name, value) in members {
                    self.path.push(format!(".{name}"));
                    match mapping.member(name) {
                        Some(form) => self.node(form, value),
                        None => self.error("field not declared in schema"),
                    }
                    self.path.pop();
                }
            }
            (Kind::List(list), Value::Array(items)) => self.list(list, items),
            (Kind::Map(_), _) => self.error(&format!("expected map, got {got}")),
            (Kind::List(_), _) => self.error(&format!("expected list, got {got}")),
            (Kind::Scalar(scalar), value) => {
                let (fits, wanted) = match scalar {
                    Scalar::Number => (value.is_number(), "numeric (int or float)"),
                    Scalar::Text => (value.is_string(), "string"),
                    Scalar::Bool => (value.is_boolean(), "boolean"),
                    Scalar::Any => (!value.is_array() && !value.is_object(), "any scalar"),
                };
                if !fits {
                    self.error(&format!("expected {wanted}, got {got}"));
                }
            }
            (Kind::Nothing, _) => {}
        }
    }

    fn list(&mut self, list: List<'_>, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (place, item) in items.iter().enumerate() {
            let element = match (list.relation, list.element(item)) {
                (Relation::Atomic, _) => Element::Index(i64::try_from(place).unwrap_or(i64::MAX)),
                (_, Ok(element)) => element,
                (_, Err(what)) => return self.error(&format!("element {place}: {what}")),
            };
            self.path.push(element.to_string());
            if seen.contains(&element) {
                let text = self.path.pop().unwrap_or_default();
                self.error(&format!("duplicate entries for key {text}"));
                self.path.push(text);
            }
            seen.insert(element);
            self.node(list.item, item);
            self.path.pop();
        }
    }
}

/// Returns whether a stored set has paths below a value that is atomic in its type.
pub(super) fn is_outdated(form: Form<'_>, set: &Set) -> bool {
    set.nodes().iter().any(|node| {
        !node.children.is_empty()
            && inner(form, &node.element)
                .is_some_and(|form| is_atomic(form) || is_outdated(form, &node.children))
    })
}

/// Updates a stored set for values that have become atomic: the owner of a part owns the whole
/// value.
pub(super) fn reconcile(form: Form<'_>, set: &Set) -> Set {
    set.map(|node| match inner(form, &node.element) {
        Some(form) => reconcile_node(form, node),
        None => node.clone(),
    })
}

fn is_atomic(form: Form<'_>) -> bool {
    let atom = form.atom();
    match (atom.map, atom.scalar, atom.list) {
        (Some(map), ..) => map.atomic && !map.is_deduced(),
        (None, Some(_), _) | (None, None, None) => false,
        (None, None, Some(list)) => matches!(list.relation, Relation::Atomic),
    }
}

fn reconcile_node(form: Form<'_>, node: &Node) -> Node {
    if is_atomic(form) && !node.children.is_empty() {
        return Node {
            element: node.element.clone(),
            is_member: true,
            children: Set::default(),
        };
    }
    Node {
        element: node.element.clone(),
        is_member: node.is_member,
        children: reconcile(form, &node.children),
    }
}

/// Returns the form of the element that a step leads to.
fn inner<'a>(form: Form<'a>, element: &Element) -> Option<Form<'a>> {
    let atom = form.atom();
    match (element, atom.map, atom.list) {
        (Element::Field(name), Some(map), _) if !map.is_deduced() => map.member(name),
        (Element::Field(_), ..) => None,
        (_, None, Some(list)) if atom.scalar.is_none() => Some(list.item),
        _ => None,
    }
}
