//! The words of the vocabulary: checks that many rules share.
//!
//! ```text
//! "range port 1 65535" -> check(site with path, value and arguments) -> [FieldError]
//! ```
//!
//! A check reports no error for an absent member, unless its name mentions absence.

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue, names};
use serde_json::{Map, Value};

use super::rule::Check;
use super::{Errors, Site, words};
use crate::object::metadata::{is_unset, shown};
use crate::object::quantity::Quantity;
use crate::object::text;

/// The check of a word.
pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        "absent" => absent,
        "address" => address,
        "annotations" => annotations,
        "config_keys" => config_keys,
        "constant" => constant,
        "immutable" => immutable,
        "ints" => int_or_percent,
        "key" => key,
        "key!" => key_required,
        "label" => label,
        "label?" => label_if_present,
        "label!" => label_required,
        "labels" => labels,
        "min" => min,
        "network" => network,
        "oneof" => one_of,
        "oneof!" => one_of_required,
        "oneof?" => one_of_if_present,
        "one_member" => one_member,
        "port" => port,
        "positive" => positive,
        "quantity" => quantity,
        "range" => range,
        "refused" => refused,
        "some" => some,
        "range?" => range_if_present,
        "required" => required,
        "selector" => selector,
        "subdomain" => subdomain,
        "subdomain!" => subdomain_required,
        "unchanged" => unchanged,
        "unique" => unique,
        "unique_texts" => unique_texts,
        _ => return None,
    })
}

/// Adds one error for each message about a malformed value.
pub(super) fn form(site: &Site<'_>, errors: &mut Errors<'_>, wrong: Vec<String>) {
    for detail in wrong {
        errors.push(FieldError::invalid(site.path(), site.text(), detail));
    }
}

fn required(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site
        .value
        .is_none_or(|value| is_unset(value) || is_empty_object(value))
    {
        errors.push(FieldError::required(site.path(), site.detail()));
    }
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn absent(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some_and(|value| !is_unset(value)) {
        errors.push(FieldError::forbidden(site.path(), site.detail()));
    }
}

fn one_of(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !site.text().is_empty() {
        one_of_required(site, errors);
    }
}

fn one_of_if_present(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some() {
        one_of_required(site, errors);
    }
}

fn one_of_required(site: &Site<'_>, errors: &mut Errors<'_>) {
    let supported = site.words();
    if !supported.contains(&site.text()) {
        errors.push(FieldError::not_supported(
            site.path(),
            site.text(),
            &supported,
        ));
    }
}

fn min(site: &Site<'_>, errors: &mut Errors<'_>) {
    let least = argument(site, 0);
    if site.value.is_some() && site.number() < least {
        let detail = format!("must be greater than or equal to {least}");
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}

fn positive(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.number() <= 0 {
        let detail = match site.detail() {
            "" => "must be greater than 0",
            detail => detail,
        };
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}

fn range(site: &Site<'_>, errors: &mut Errors<'_>) {
    let wrong = words::range(site.number(), argument(site, 0), argument(site, 1));
    if let Some(detail) = wrong {
        let detail = match site.detail() {
            "" => detail,
            said => said.to_owned(),
        };
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}

fn range_if_present(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some() {
        range(site, errors);
    }
}

fn argument(site: &Site<'_>, at: usize) -> i64 {
    site.words()
        .get(at)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

fn label(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !site.text().is_empty() {
        label_required(site, errors);
    }
}

fn label_if_present(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some() {
        label_required(site, errors);
    }
}

fn label_required(site: &Site<'_>, errors: &mut Errors<'_>) {
    form(site, errors, names::dns_label_errors(site.text()));
}

fn subdomain(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !site.text().is_empty() {
        subdomain_required(site, errors);
    }
}

fn subdomain_required(site: &Site<'_>, errors: &mut Errors<'_>) {
    form(site, errors, names::dns_subdomain_errors(site.text()));
}

fn key(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !site.text().is_empty() {
        key_required(site, errors);
    }
}

fn key_required(site: &Site<'_>, errors: &mut Errors<'_>) {
    form(site, errors, names::label_key_errors(site.text()));
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn labels(site: &Site<'_>, errors: &mut Errors<'_>) {
    label_map(&site.path(), site.value, errors);
}

/// Upstream: `ValidateLabels`.
pub(super) fn label_map(path: &str, value: Option<&Value>, errors: &mut Errors<'_>) {
    for (key, value) in entries(value) {
        for detail in names::label_key_errors(key) {
            errors.push(FieldError::invalid(path, key, detail));
        }
        for detail in names::label_value_errors(value) {
            errors.push(FieldError::invalid(path, value, detail));
        }
    }
}

fn annotations(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (key, _) in entries(site.value) {
        for detail in names::label_key_errors(&key.to_lowercase()) {
            errors.push(FieldError::invalid(site.path(), key, detail));
        }
    }
}

fn selector(site: &Site<'_>, errors: &mut Errors<'_>) {
    if let Some(selector) = site.value {
        label_selector(&site.path(), selector, errors);
    }
}

/// Upstream: `ValidateLabelSelector`.
pub(super) fn label_selector(path: &str, selector: &Value, errors: &mut Errors<'_>) {
    label_map(
        &format!("{path}.matchLabels"),
        selector.get("matchLabels"),
        errors,
    );
    let requirements = selector.get("matchExpressions").and_then(Value::as_array);
    for (at, requirement) in requirements.into_iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        requirement_errors(
            &path,
            requirement,
            &["In", "NotIn", "Exists", "DoesNotExist"],
            errors,
        );
    }
}

/// Errors of a requirement: `key operator values`.
pub(super) fn requirement_errors(
    path: &str,
    requirement: &Value,
    operators: &[&str],
    errors: &mut Errors<'_>,
) {
    let values = requirement.get("values").and_then(Value::as_array);
    let count = values.map_or(0, Vec::len);
    let operator = text(requirement, &["operator"]);
    let field = format!("{path}.values");
    match operator {
        "In" | "NotIn" if count == 0 => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(field, detail));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(field, detail));
        }
        "Gt" | "Lt" if operators.contains(&"Gt") && count != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(field, detail));
        }
        operator if !operators.contains(&operator) => {
            let field = format!("{path}.operator");
            errors.push(FieldError::invalid(
                field,
                operator,
                "not a valid selector operator",
            ));
        }
        _ => {}
    }
    let key = text(requirement, &["key"]);
    for detail in names::label_key_errors(key) {
        errors.push(FieldError::invalid(format!("{path}.key"), key, detail));
    }
    for (at, value) in values.into_iter().flatten().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for detail in names::label_value_errors(value) {
            errors.push(FieldError::invalid(
                format!("{path}.values[{at}]"),
                value,
                detail,
            ));
        }
    }
}

fn address(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !words::is_address(site.text()) {
        errors.push(FieldError::invalid(
            site.path(),
            site.text(),
            words::NO_ADDRESS,
        ));
    }
}

fn network(site: &Site<'_>, errors: &mut Errors<'_>) {
    if words::network(site.text()).is_none() {
        errors.push(FieldError::invalid(
            site.path(),
            site.text(),
            words::NO_NETWORK,
        ));
    }
}

/// A port's number or name.
fn port(site: &Site<'_>, errors: &mut Errors<'_>) {
    match site.value {
        Some(Value::String(name)) => form(site, errors, words::port_name(name)),
        _ => {
            if let Some(detail) = words::port_number(site.number()) {
                errors.push(FieldError::invalid(site.path(), site.number(), detail));
            }
        }
    }
}

/// A number that is not negative, or a percentage.
fn int_or_percent(site: &Site<'_>, errors: &mut Errors<'_>) {
    let most = site
        .words()
        .first()
        .and_then(|word| word.parse::<i64>().ok());
    match site.value {
        Some(Value::String(text)) => match words::percent(text) {
            None => errors.push(FieldError::invalid(
                site.path(),
                text.as_str(),
                words::NO_PERCENT,
            )),
            Some(percent) if most.is_some_and(|most| percent > most) => {
                let detail = "must not be greater than 100%";
                errors.push(FieldError::invalid(site.path(), text.as_str(), detail));
            }
            Some(_) => {}
        },
        Some(_) if site.number() < 0 => {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(site.path(), site.number(), detail));
        }
        _ => {}
    }
}

/// Amounts that are not negative: one, or those of a map.
fn quantity(site: &Site<'_>, errors: &mut Errors<'_>) {
    let detail = "must be greater than or equal to 0";
    let is_negative = |value: &Value| {
        let quantity = value
            .as_str()
            .and_then(|text| text.parse::<Quantity>().ok());
        quantity.is_some_and(|quantity| quantity.is_negative())
    };
    match site.value {
        Some(Value::Object(amounts)) => {
            for (name, amount) in amounts.iter().filter(|(_, amount)| is_negative(amount)) {
                let field = format!("{}[{name}]", site.path());
                errors.push(FieldError::invalid(field, shown(Some(amount)), detail));
            }
        }
        Some(amount) if is_negative(amount) => {
            errors.push(FieldError::invalid(
                site.path(),
                shown(Some(amount)),
                detail,
            ));
        }
        _ => {}
    }
}

/// The keys of a config map's or secret's data.
fn config_keys(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (key, _) in entries(site.value) {
        for detail in words::config_key(key) {
            let field = format!("{}[{key}]", site.path());
            errors.push(FieldError::invalid(field, key, detail));
        }
    }
}

/// Items have distinct values of a member.
fn unique(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(key) = site.words().first().copied() else {
        return;
    };
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, item) in site.items().iter().enumerate() {
        let value = text(item, &[key]);
        if !value.is_empty() && !seen.insert(value) {
            let field = format!("{}[{at}].{key}", site.path());
            errors.push(FieldError::duplicate(field, value));
        }
    }
}

fn unique_texts(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&Value> = HashSet::new();
    for (at, item) in site.items().iter().enumerate() {
        if !seen.insert(item) {
            errors.push(FieldError::duplicate(
                format!("{}[{at}]", site.path()),
                shown(Some(item)),
            ));
        }
    }
}

/// Exactly one of the named members is there.
fn one_member(site: &Site<'_>, errors: &mut Errors<'_>) {
    let there = |name: &&str| {
        site.value
            .and_then(|value| value.get(*name))
            .is_some_and(|value| !is_unset(value))
    };
    let count = site.words().iter().filter(|name| there(name)).count();
    if count == 0 {
        errors.push(FieldError::required(site.path(), site.detail()));
    } else if count > 1 {
        let detail = "may not specify more than 1 handler type";
        errors.push(FieldError::forbidden(site.path(), detail));
    }
}

fn immutable(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value != site.old() {
        let value = site
            .value
            .map_or_else(|| ShownValue::raw("null"), |value| shown(Some(value)));
        errors.push(FieldError::invalid(
            site.path(),
            value,
            "field is immutable",
        ));
    }
}

/// Like immutable, without the value in the error.
fn constant(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value != site.old() {
        let null = ShownValue::raw("null");
        errors.push(FieldError::invalid(site.path(), null, "field is immutable"));
    }
}

/// The member must not be set.
fn refused(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some_and(|value| !is_unset(value)) {
        errors.push(FieldError::invalid(
            site.path(),
            shown(site.value),
            site.detail(),
        ));
    }
}

/// A number that is not zero.
fn some(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.number() == 0 {
        errors.push(FieldError::required(site.path(), site.detail()));
    }
}

/// Like immutable, in other words.
fn unchanged(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value != site.old() {
        errors.push(FieldError::forbidden(site.path(), site.detail()));
    }
}
