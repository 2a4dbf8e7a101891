//! Validates the rules of a definition.
//!
//! ```text
//! schema node with rules -> [FieldError]
//! ```
//!
//! A rule must compile against the types of its schema and return a boolean. Its message must be
//! one line, and its field path must exist in the schema. It may name the old value only where an
//! old value can be determined. Nested loops over lists without bounds are refused before they run.
//!
//! Upstream: `apiextensions-apiserver:pkg/apis/apiextensions/validation/validation.go`,
//! `pkg/apiserver/schema/cel/compilation.go`.

use kinform_api::{FieldError, ShownValue};
use serde_json::{Value, json};

use super::estimate::estimate;
use crate::budget::Meter;
use crate::schema::Whole;
use crate::schema::cel::program::Program;
use crate::schema::cel::types::Type;

/// The limit of the estimated cost of one rule.
const MAX_ESTIMATE: f64 = 10_000_000.0;
/// The limit of the estimated cost of all rules together.
const MAX_TOTAL: f64 = 100_000_000.0;
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// The position of a schema node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    pub(crate) path: &'a str,
    pub(crate) is_root: bool,
    /// The closest enclosing path within which old values cannot be determined.
    pub(crate) without_old: Option<&'a str>,
    /// The maximum number of times that the node can occur in an object.
    pub(crate) times: f64,
}

/// Returns the errors in the form of the rules, which are found before any rule is compiled.
pub(crate) fn form_errors(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, rule) in rules(schema).enumerate() {
        let field = |name: &str| format!("{path}.x-kubernetes-validations[{at}].{name}");
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let (source, message) = (text("rule").trim(), text("message"));
        let has_lines = |text: &str| text.contains(['\n', '\r']);
        if source.is_empty() {
            errors.push(FieldError::required(field("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(field("message"), message, detail));
        } else if has_lines(message.trim()) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(field("message"), message, detail));
        } else if has_lines(source) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(field("message"), detail));
        }
        let made = text("messageExpression");
        if !made.is_empty() && made.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(field("messageExpression"), detail));
        }
        let reason = text("reason");
        if !reason.is_empty() && !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(field("reason"), reason, &REASONS));
        }
        let place = text("fieldPath");
        if has_lines(place) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(field("fieldPath"), place, detail));
        }
        if !place.is_empty() && field_path(place, schema, Brackets::Allowed).is_err() {
            let detail = "must be a valid path";
            errors.push(FieldError::invalid(field("fieldPath"), place, detail));
        }
    }
    errors
}

/// Returns the errors of compiling the rules, as far as the meter allows, and adds the estimated
/// cost of each rule to `costs`.
pub(crate) fn errors(
    schema: &Value,
    around: Around<'_>,
    (costs, meter): (&mut Vec<(String, f64)>, &Meter),
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let whole = match around.is_root {
        true => Whole::Yes,
        false => Whole::No,
    };
    for (at, rule) in rules(schema).enumerate() {
        // Compiling a rule and its constant patterns is slow.
        meter.look();
        if meter.is_spent() {
            return errors;
        }
        let field = |name: &str| format!("{}.x-kubernetes-validations[{at}].{name}", around.path);
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let option = rule.get("optionalOldSelf").filter(|of| !of.is_null());
        let Some((this, old)) = super::types(schema, whole, option == Some(&Value::Bool(true)))
        else {
            let field = format!("{}.x-kubernetes-validations", around.path);
            let detail = "internal error: failed to retrieve type information for \
                          x-kubernetes-validations";
            errors.push(FieldError::internal(field, detail));
            return errors;
        };
        let invalid =
            |name: &str, detail: String| FieldError::invalid(field(name), shown(rule), detail);
        let program = match Program::compile(text("rule"), super::named(this.clone(), old.clone()))
        {
            Ok((program, Type::Bool | Type::Dynamic)) => program,
            Ok(_) => {
                let detail = "cel expression must evaluate to a bool".to_owned();
                errors.push(invalid("rule", detail));
                continue;
            }
            Err(error) => {
                errors.push(invalid("rule", format!("compilation failed: {error}")));
                continue;
            }
        };
        let cost = around.times * estimate(schema, program.expression());
        costs.push((field("rule"), cost));
        if cost > MAX_ESTIMATE {
            let detail = too_costly("estimated rule cost", cost / MAX_ESTIMATE);
            errors.push(FieldError::forbidden(field("rule"), detail));
        }
        errors.extend(
            message_error(text("messageExpression"), this, old)
                .map(|detail| invalid("messageExpression", detail)),
        );
        match (super::uses_old(&program), around.without_old, option) {
            (true, Some(place), _) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {place}"
                );
                errors.push(FieldError::invalid(field("rule"), text("rule"), detail));
            }
            (false, _, Some(value)) => {
                let shown = ShownValue::raw(value.to_string());
                let detail = "may not be set if oldSelf is not used in rule";
                errors.push(FieldError::invalid(field("optionalOldSelf"), shown, detail));
            }
            _ => {}
        }
    }
    errors
}

/// Returns the error of a `messageExpression`. An empty one has no error.
fn message_error(expression: &str, this: Type<'_>, old: Type<'_>) -> Option<String> {
    if expression.is_empty() {
        return None;
    }
    match Program::compile(expression, super::named(this, old)) {
        Ok((_, Type::Text | Type::Dynamic)) => None,
        Ok(_) => Some("messageExpression must evaluate to a string".to_owned()),
        Err(error) => Some(format!("messageExpression compilation failed: {error}")),
    }
}

fn rules(schema: &Value) -> impl Iterator<Item = &Value> {
    let list = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    list.into_iter().flatten()
}

/// Formats a rule as upstream shows it: with Go's names of its fields and escaped signs.
fn shown(rule: &Value) -> ShownValue {
    let text = |name: &str| rule.get(name).cloned().unwrap_or_else(|| json!(""));
    let or_null = |name: &str| rule.get(name).cloned().unwrap_or_default();
    let members = [
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", or_null("reason")),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", or_null("optionalOldSelf")),
    ];
    let members = members.map(|(name, value)| format!("\"{name}\":{value}"));
    let text = format!("{{{}}}", members.join(","));
    let text = text
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    ShownValue::raw(text)
}

/// Returns the errors if the costs of all rules together exceed the limit.
pub(crate) fn total_errors(path: &str, mut costs: Vec<(String, f64)>) -> Vec<FieldError> {
    let total: f64 = costs.iter().map(|(_, cost)| cost).sum();
    if total <= MAX_TOTAL {
        return Vec::new();
    }
    costs.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let what = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 \
                schema";
    let most = costs
        .into_iter()
        .filter(|(_, cost)| *cost > MAX_TOTAL / 100.0);
    let mut errors: Vec<FieldError> = most
        .take(4)
        .map(|(field, _)| FieldError::forbidden(field, what))
        .collect();
    let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    errors.push(FieldError::forbidden(
        path,
        too_costly(what, total / MAX_TOTAL),
    ));
    errors
}

/// Returns the error of a cost that is too high, in upstream's words.
fn too_costly(what: &str, factor: f64) -> String {
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// States whether a path may name keys in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brackets {
    Allowed,
    Refused,
}

/// Returns the schema at a path (`.spec.color`, `.labels['a']`).
///
/// # Errors
/// The reason why there is no schema at the path.
pub(crate) fn field_path<'a>(
    path: &str,
    schema: &'a Value,
    brackets: Brackets,
) -> Result<&'a Value, String> {
    let mut at = schema;
    let mut rest = path;
    let step = |at: &'a Value, name: &str| {
        const NOWHERE: &str = "does not refer to a valid field";
        match at.get("properties").and_then(Value::as_object) {
            Some(properties) => properties.get(name).ok_or_else(|| NOWHERE.to_owned()),
            None => at
                .get("additionalProperties")
                .filter(|of| of.is_object())
                .ok_or_else(|| NOWHERE.to_owned()),
        }
    };
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('.') {
            let end = inner.find(['.', '[', ']']).unwrap_or(inner.len());
            if end == 0 {
                return Err("unexpected end of JSON path".to_owned());
            }
            at = step(at, &inner[..end])?;
            rest = &inner[end..];
        } else if let Some(inner) = rest.strip_prefix('[') {
            if brackets == Brackets::Refused {
                return Err("array notation is not allowed".to_owned());
            }
            let Some((name, after)) = inner
                .strip_prefix('\'')
                .and_then(|inner| inner.split_once("']"))
            else {
                return Err("expected single quoted string".to_owned());
            };
            at = step(at, &name.replace("\\'", "'"))?;
            rest = after;
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            let word = rest.get(..end).unwrap_or(rest);
            return Err(format!("expected [ or . but got: {word}"));
        }
    }
    Ok(at)
}
