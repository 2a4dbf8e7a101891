//! Checks of single members, each with a message of its own.
//!
//! ```text
//! :no_backsteps path -> no `..` in it          :role_change roleRef -> it stays
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/*/validation`.

use std::collections::{HashMap, HashSet};

use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site, checks};
use crate::object::metadata::shown;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":absolute" => absolute,
        ":at_most_two" => at_most_two,
        ":controller" => controller,
        ":driver_change" => driver_change,
        ":event_type" => event_type,
        ":external_name" => external_name,
        ":flow_bounds" => flow_bounds,
        ":local_tls" => local_tls,
        ":no_backsteps" => no_backsteps,
        ":node_term" => node_term,
        ":not_negative" => not_negative,
        ":object" => object,
        ":one" => one,
        ":parent_reference" => parent_reference,
        ":priority" => priority,
        ":provisioner" => provisioner,
        ":role_change" => role_change,
        ":rules_or_backend" => rules_or_backend,
        ":scope_operator" => scope_operator,
        ":short" => short,
        ":slice_ports" => slice_ports,
        ":some_addresses" => some_addresses,
        ":some_peer" => some_peer,
        ":some_values" => some_values,
        ":token_requests" => token_requests,
        ":unique_items" => unique_items,
        _ => return None,
    })
}

fn invalid(site: &Site<'_>, errors: &mut Errors<'_>, detail: &str) {
    errors.push(FieldError::invalid(site.path(), shown(site.value), detail));
}

fn has(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|member| !member.is_null())
}

fn absolute(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !site.text().starts_with('/') {
        errors.push(FieldError::invalid(
            site.path(),
            site.text(),
            "must be an absolute path",
        ));
    }
}

fn at_most_two(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.items().len() > 2 {
        invalid(site, errors, site.detail());
    }
}

fn object(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some_and(|value| !value.is_object()) {
        errors.push(FieldError::required(site.path(), site.detail()));
    }
}

fn short(site: &Site<'_>, errors: &mut Errors<'_>) {
    let most = site.words().first().and_then(|word| word.parse().ok());
    if let Some(most) = most.filter(|most| site.text().len() > *most) {
        errors.push(FieldError::too_long(site.path(), most));
    }
}

fn no_backsteps(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.text().split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(
            site.path(),
            site.text(),
            "must not contain '..'",
        ));
    }
}

fn one(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.number() != 1 {
        errors.push(FieldError::invalid(site.path(), site.number(), "must be 1"));
    }
}

fn not_negative(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.number() < 0 {
        errors.push(FieldError::invalid(
            site.path(),
            site.number(),
            site.detail(),
        ));
    }
}

fn some_values(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.items().is_empty() {
        invalid(site, errors, site.detail());
    }
}

fn unique_items(site: &Site<'_>, errors: &mut Errors<'_>) {
    let key = site.words().first().copied().unwrap_or("name");
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, item) in site.items().iter().enumerate() {
        let value = text(item, &[key]);
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(
                format!("{}[{place}]", site.path()),
                value,
            ));
        }
    }
}

fn node_term(site: &Site<'_>, errors: &mut Errors<'_>) {
    let requirements = site
        .value
        .and_then(|term| at(term, &["matchExpressions"]))
        .and_then(Value::as_array);
    for (place, requirement) in requirements.into_iter().flatten().enumerate() {
        let path = format!("{}.matchExpressions[{place}]", site.path());
        let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        checks::requirement_errors(&path, requirement, &operators, errors);
    }
}

fn external_name(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text().strip_suffix('.').unwrap_or(site.text());
    if !name.is_empty() {
        checks::form(site, errors, names::dns_subdomain_errors(name));
    }
}

fn some_addresses(site: &Site<'_>, errors: &mut Errors<'_>) {
    let count = |name: &str| {
        let list = site.value.and_then(|subset| at(subset, &[name]));
        list.and_then(Value::as_array).map_or(0, Vec::len)
    };
    if count("addresses") + count("notReadyAddresses") == 0 {
        let detail = "must specify `addresses` or `notReadyAddresses`";
        errors.push(FieldError::required(site.path(), detail));
    }
}

fn slice_ports(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, port) in site.items().iter().enumerate() {
        let name = text(port, &["name"]);
        if !seen.insert(name) {
            let field = format!("{}[{place}].name", site.path());
            errors.push(FieldError::duplicate(field, name));
        }
    }
}

fn some_peer(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(peer) = site.value else { return };
    let is_block = has(peer, "ipBlock");
    let is_selected = has(peer, "podSelector") || has(peer, "namespaceSelector");
    if is_block && is_selected {
        let detail = "may not specify both ipBlock and another peer";
        errors.push(FieldError::forbidden(site.path(), detail));
    } else if !is_block && !is_selected {
        errors.push(FieldError::required(site.path(), "must specify a peer"));
    }
}

fn rules_or_backend(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(spec) = site.value else { return };
    let rules = at(spec, &["rules"])
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    if rules == 0 && !has(spec, "defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(
            site.path(),
            ShownValue::raw("null"),
            detail,
        ));
    }
}

fn controller(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text();
    if name.len() > 250 {
        errors.push(FieldError::too_long(site.path(), 250));
    }
    let domain = name.split_once('/').map_or(name, |(domain, _)| domain);
    if name.is_empty() {
        errors.push(FieldError::required(site.path(), ""));
    } else if !name.contains('/') {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(site.path(), name, detail));
    } else {
        for detail in names::dns_subdomain_errors(domain) {
            errors.push(FieldError::invalid(site.path(), domain, detail));
        }
    }
}

fn parent_reference(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(reference) = site.value else {
        errors.push(FieldError::required(site.path(), ""));
        return;
    };
    for name in ["resource", "namespace", "name"] {
        let value = text(reference, &[name]);
        let field = format!("{}.{name}", site.path());
        if value.is_empty() && name != "namespace" {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        for letter in ['/', '%']
            .into_iter()
            .filter(|letter| value.contains(*letter))
        {
            errors.push(FieldError::invalid(
                field.clone(),
                value,
                format!("may not contain '{letter}'"),
            ));
        }
    }
}

/// The system's own classes have their values; no other class has their prefix.
fn priority(site: &Site<'_>, errors: &mut Errors<'_>) {
    const SYSTEM: [(&str, i64); 2] = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    let class = site.scope.value;
    let name = text(class, &["metadata", "name"]);
    if !name.starts_with("system-") {
        if site.number() > 1_000_000_000 {
            let detail = "maximum allowed value of a user defined priority is 1000000000";
            errors.push(FieldError::forbidden(site.path(), detail));
        }
        return;
    }
    let wrong = match SYSTEM.iter().find(|(of, _)| *of == name) {
        None => format!("{name} is not a known system priority class"),
        Some((_, value)) if *value != site.number() => {
            format!("value of {name} PriorityClass must be {value}")
        }
        Some(_) if class["globalDefault"] == true => {
            format!("globalDefault of {name} PriorityClass must be false")
        }
        Some(_) => return,
    };
    let detail = format!(
        "priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
    );
    errors.push(FieldError::forbidden("metadata.name", detail));
}

fn provisioner(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.text().is_empty() {
        errors.push(FieldError::required(site.path(), ""));
        return;
    }
    checks::form(
        site,
        errors,
        names::label_key_errors(&site.text().to_lowercase()),
    );
}

/// A driver of a node is immutable, except for its capacity.
fn driver_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    let plain = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(members) = driver.as_object_mut() {
            members.remove("allocatable");
        }
        driver
    };
    let before = site
        .old()
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let mut named: HashMap<&str, &Value> = HashMap::new();
    for old in before {
        named.entry(text(old, &["name"])).or_insert(old);
    }
    for driver in site.items() {
        let same = named.get(text(driver, &["name"]));
        if same.is_some_and(|old| plain(old) != plain(driver)) {
            errors.push(FieldError::invalid(
                site.path(),
                shown(Some(driver)),
                "field is immutable",
            ));
        }
    }
}

fn token_requests(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, request) in site.items().iter().enumerate() {
        let audience = text(request, &["audience"]);
        let path = format!("{}[{place}]", site.path());
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(format!("{path}.audience"), audience));
        }
        let seconds = request.get("expirationSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 600) {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(FieldError::invalid(
                format!("{path}.expirationSeconds"),
                seconds,
                detail,
            ));
        }
    }
}

fn role_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value != site.old() {
        let said = |name| Value::from(text(site.value.unwrap_or(&Value::Null), &[name]));
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            said("apiGroup"),
            said("kind"),
            said("name")
        );
        let detail = "field is immutable";
        errors.push(FieldError::invalid(
            site.path(),
            ShownValue::raw(shown),
            detail,
        ));
    }
}

fn event_type(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !matches!(site.text(), "Normal" | "Warning") {
        let detail = format!("has invalid value: {}", site.text());
        errors.push(FieldError::invalid(site.path(), "", detail));
    }
}

fn scope_operator(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (operator, values) = (site.text(), at(site.scope.value, &["values"]));
    let count = values.and_then(Value::as_array).map_or(0, Vec::len);
    match operator {
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail =
                "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector";
            let field = format!("{}.values", site.scope.path());
            errors.push(FieldError::invalid(field, shown(values), detail));
        }
        "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(
            site.path(),
            other,
            "not a valid selector operator",
        )),
    }
}

fn local_tls(site: &Site<'_>, errors: &mut Errors<'_>) {
    let spec = &site.scope.value["spec"];
    let skips = site.value == Some(&Value::Bool(true));
    if skips && !has(spec, "service") {
        invalid(
            site,
            errors,
            "local APIServices may not have insecureSkipTLSVerify",
        );
    }
    if skips && !text(spec, &["caBundle"]).is_empty() {
        invalid(site, errors, "may not be true if caBundle is present");
    }
}

fn flow_bounds(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !(1..=10_000).contains(&site.number()) {
        let detail = "must be a value between 1 and 10000";
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}
