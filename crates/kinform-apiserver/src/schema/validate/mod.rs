//! Validation by the OpenAPI part of a schema.
//!
//! ```text
//! schema + object (+ the object as it was) -> [FieldError], in upstream's words
//! ```
//!
//! Types, bounds, lengths, counts, patterns, formats, enums, required members, and the logical
//! combinations. An update may keep a stored value that is invalid (`old_value.rs` of the schema),
//! so that a stricter schema does not freeze old objects.
//!
//! * `value.rs`: checks of one value; `format.rs`: values of a format;
//! * `lists.rs`: lists that are sets or maps; `embedded.rs`: whole objects within objects.
//!
//! BOUND: 1,000 errors. Recursion is as deep as the object, whose depth the parser limits, and as the
//! combinations of the schema, whose depth the check of the definition limits.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/validation`, `kube-openapi:pkg/validation`.

pub(crate) mod embedded;
pub(crate) mod format;
pub(crate) mod lists;
#[cfg(test)]
mod tests;
mod value;

use kinform_api::{FieldError, ShownValue};
use serde_json::{Map, Value};

use super::old_value::Before;
use super::patterns::Patterns;
use super::{flag, join};
use crate::budget::Meter;
use crate::object::metadata::MOST_ERRORS;
use crate::object::shown::beginning_of;

/// The findings about a value.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) errors: Vec<FieldError>,
    /// The number of checks that passed. If no alternative matches, the one with most passed checks
    /// is reported.
    fits: usize,
}

impl Found {
    fn error(error: FieldError) -> Self {
        Self {
            errors: vec![error],
            fits: 0,
        }
    }

    fn merge(&mut self, other: Self) {
        let room = MOST_ERRORS.saturating_sub(self.errors.len());
        self.errors.extend(other.errors.into_iter().take(room));
        self.fits += other.fits;
    }

    fn fits(&self) -> bool {
        self.errors.is_empty()
    }
}

/// A schema's checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checker<'a> {
    pub(super) patterns: &'a Patterns,
    pub(super) meter: &'a Meter,
}

impl Checker<'_> {
    /// Checks a value of a schema; `path` is how errors name it.
    pub(super) fn check(
        self,
        schema: &Value,
        value: &Value,
        path: &str,
        before: Before<'_>,
    ) -> Found {
        let mut found = self.check_whole(schema, value, path, before);
        if !found.fits() && before.is(value) {
            found.errors.clear();
        }
        found
    }

    /// Checks a value and reports its errors even if it did not change: it is a part of a
    /// combination.
    fn check_whole(self, schema: &Value, value: &Value, path: &str, before: Before<'_>) -> Found {
        let mut found = Found::default();
        let alternatives = schema.get("enum").and_then(Value::as_array);
        if !self.meter.step(1 + alternatives.map_or(0, Vec::len)) {
            return found;
        }
        if value.is_null() {
            found.merge(value::of_type(schema, value, path));
            found.merge(value::of_enum(schema, value, path));
            return found;
        }
        let mut apply = |of: Found| {
            found.merge(of);
            found.fits += 1;
        };
        apply(value::of_type(schema, value, path));
        apply(self.combinations(schema, value, path, before));
        match value {
            Value::String(text) => {
                apply(self.text(schema, text, path));
                apply(value::of_format(schema, text, path));
            }
            Value::Number(_) => apply(value::of_number(schema, value, path)),
            Value::Array(items) => apply(self.items(schema, items, path, before)),
            _ => {}
        }
        apply(value::of_enum(schema, value, path));
        if let Value::Object(members) = value {
            apply(self.members(schema, members, path, before));
        }
        found
    }

    fn text(self, schema: &Value, text: &str, path: &str) -> Found {
        let letters = text.chars().count();
        if let Some(most) = limit(schema, "maxLength")
            && letters > most
        {
            return Found::error(FieldError::too_long(path, most));
        }
        if let Some(least) = limit(schema, "minLength")
            && letters < least
        {
            let detail = format!("{path} in body should be at least {least} chars long");
            return Found::error(FieldError::invalid(path, text, detail));
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && !pattern.is_empty()
            && !self.patterns.fits(pattern, text)
        {
            let detail = format!("{path} in body should match '{pattern}'");
            return Found::error(FieldError::invalid(path, text, detail));
        }
        Found::default()
    }

    fn items(self, schema: &Value, items: &[Value], path: &str, before: Before<'_>) -> Found {
        let mut found = Found::default();
        if let Some(of) = schema.get("items").filter(|of| of.is_object()) {
            let before = before.items(schema);
            for (at, item) in items.iter().enumerate() {
                if found.errors.len() >= MOST_ERRORS {
                    break;
                }
                let path = format!("{path}[{at}]");
                found.merge(self.check(of, item, &path, before.of(item)));
            }
        }
        let count = items.len();
        if let Some(least) = limit(schema, "minItems")
            && count < least
        {
            let detail = format!("{path} in body should have at least {least} items");
            let shown = ShownValue::raw(count.to_string());
            found.merge(Found::error(FieldError::invalid(path, shown, detail)));
        }
        if let Some(most) = limit(schema, "maxItems")
            && count > most
        {
            found.merge(Found::error(FieldError::too_many(path, count, most)));
        }
        found.fits += 1;
        found
    }

    fn members(
        self,
        schema: &Value,
        members: &Map<String, Value>,
        path: &str,
        before: Before<'_>,
    ) -> Found {
        let mut found = Found::default();
        let count = members.len();
        if let Some(least) = limit(schema, "minProperties")
            && count < least
        {
            let detail = format!("{path} in body should have at least {least} properties");
            let shown = ShownValue::raw(count.to_string());
            found.merge(Found::error(FieldError::invalid(path, shown, detail)));
        }
        if let Some(most) = limit(schema, "maxProperties")
            && count > most
        {
            found.merge(Found::error(FieldError::too_many(path, count, most)));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        for (name, value) in members {
            if found.errors.len() >= MOST_ERRORS {
                break;
            }
            let of = properties.and_then(|of| of.get(name));
            let of = of.or_else(|| others.filter(|of| of.is_object()));
            match of {
                // Read and checked as a built-in's before.
                _ if path.is_empty() && name == "metadata" => {}
                Some(of) => {
                    let path = join(path, name);
                    found.merge(self.check(of, value, &path, before.member(schema, name)));
                }
                None if others == Some(&Value::Bool(false)) => {
                    let detail = format!("{path}.{name} in body is a forbidden property");
                    let error = FieldError::invalid(path, name, detail);
                    found.merge(Found::error(error));
                }
                None => {}
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !members.contains_key(*name)) {
            found.merge(Found::error(FieldError::required(join(path, name), "")));
        }
        found
    }

    fn combinations(self, schema: &Value, value: &Value, path: &str, before: Before<'_>) -> Found {
        let list = |name: &str| {
            let list = schema.get(name).and_then(Value::as_array);
            list.map(Vec::as_slice).unwrap_or_default()
        };
        let check = |of: &Value| self.check_whole(of, value, path, before);
        let mut found = Found::default();
        if let any @ [_, ..] = list("anyOf") {
            found.merge(closest(any.iter().map(check), Alternatives::Any, path));
        }
        if let one @ [_, ..] = list("oneOf") {
            found.merge(closest(one.iter().map(check), Alternatives::One, path));
        }
        if let all @ [_, ..] = list("allOf") {
            let mut valid = 0;
            for of in all {
                let part = check(of);
                valid += usize::from(part.fits());
                found.merge(part);
            }
            if valid != all.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                let text = format!("{path:?} must validate all the schemas (allOf){none}");
                found.merge(Found::error(whole(text)));
            }
        }
        if let Some(not) = schema.get("not").filter(|not| not.is_object())
            && check(not).fits()
        {
            let text = format!("{path:?} must not validate the schema (not)");
            found.merge(Found::error(whole(text)));
        }
        found.fits += 1;
        found
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alternatives {
    Any,
    One,
}

/// Evaluates alternatives: counts those that match, and keeps the errors of the closest one.
fn closest(parts: impl Iterator<Item = Found>, of: Alternatives, path: &str) -> Found {
    let (mut valid, mut best, mut first) = (0, None::<Found>, None);
    for part in parts {
        if part.fits() {
            valid += 1;
            best = None;
            first.get_or_insert(part);
            if of == Alternatives::Any {
                break;
            }
        } else if valid == 0 && best.as_ref().is_none_or(|best| part.fits > best.fits) {
            best = Some(part);
        }
    }
    let text = match (of, valid) {
        (Alternatives::Any, 0) => format!("{path:?} must validate at least one schema (anyOf)"),
        (Alternatives::One, 0) => {
            format!("{path:?} must validate one and only one schema (oneOf). Found none valid")
        }
        (Alternatives::One, many) if many > 1 => format!(
            "{path:?} must validate one and only one schema (oneOf). Found {many} valid alternatives"
        ),
        _ => return first.unwrap_or_default(),
    };
    let mut found = Found::error(whole(text));
    found.merge(best.unwrap_or_default());
    found
}

/// Returns an error that upstream reports without a path.
pub(super) fn whole(text: String) -> FieldError {
    FieldError::invalid("<nil>", "", text)
}

/// A limit of a length or a count.
fn limit(schema: &Value, name: &str) -> Option<usize> {
    usize::try_from(schema.get(name)?.as_u64()?).ok()
}

/// A value as an error shows it.
pub(super) fn shown(value: &Value) -> ShownValue {
    match value {
        Value::String(text) => ShownValue::from(text),
        Value::Number(number) if number.is_f64() => {
            ShownValue::raw(value::go_number(number.as_f64().unwrap_or_default()))
        }
        other => ShownValue::raw(beginning_of(other)),
    }
}

/// Returns whether the schema accepts both an integer and a text.
pub(super) fn is_int_or_string(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-int-or-string")
}
