//! Checks of pods that need more than a word of the vocabulary.
//!
//! ```text
//! :handler livenessProbe -> exactly one of the ways to ask a container
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/core/validation/validation.go`.

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site, checks, words};
use crate::object::metadata::is_unset;
use crate::object::quantity::Quantity;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":environment" => environment,
        ":environment_from" => environment_from,
        ":handler" => handler,
        ":init_names" => init_names,
        ":init_probes" => init_probes,
        ":mode" => mode,
        ":node_terms" => node_terms,
        ":one_volume_source" => one_volume_source,
        ":port_names" => port_names,
        ":relative_path" => relative_path,
        ":resource_names" => resource_names,
        ":resources" => resources,
        ":sysctls" => sysctls,
        ":tolerations" => tolerations,
        _ => return None,
    })
}

fn has(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|member| !member.is_null())
}

fn one_volume_source(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(volume) = site.value.and_then(Value::as_object) else {
        return;
    };
    let sources = site
        .scope
        .of
        .fields()
        .iter()
        .filter_map(|field| field.message().filter(|_| field.is_inline()));
    let names = sources
        .flat_map(kinform_schema::Type::fields)
        .map(kinform_schema::Field::name);
    let mut given: Vec<&str> = names.filter(|name| volume.contains_key(*name)).collect();
    // In upstream's order an empty directory is the first.
    given.sort_by_key(|name| *name != "emptyDir");
    for name in given.iter().skip(1) {
        let field = format!("{}.{name}", site.path());
        errors.push(FieldError::forbidden(
            field,
            "may not specify more than 1 volume type",
        ));
    }
    if given.is_empty() {
        errors.push(FieldError::required(
            site.path(),
            "must specify a volume type",
        ));
    }
}

fn relative_path(site: &Site<'_>, errors: &mut Errors<'_>) {
    let path = site.text();
    if path.starts_with('/') {
        errors.push(FieldError::invalid(
            site.path(),
            path,
            "must be a relative path",
        ));
    }
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(
            site.path(),
            path,
            "must not contain '..'",
        ));
    } else if path.starts_with("..") {
        errors.push(FieldError::invalid(
            site.path(),
            path,
            "must not start with '..'",
        ));
    }
}

fn mode(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some() && !(0..=0o777).contains(&site.number()) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}

/// The handler of a probe or of a lifecycle hook: exactly one of several.
fn handler(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(value) = site.value else { return };
    let ways = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let given: Vec<&str> = ways.into_iter().filter(|name| has(value, name)).collect();
    for name in given.iter().skip(1) {
        let field = format!("{}.{name}", site.path());
        errors.push(FieldError::forbidden(
            field,
            "may not specify more than 1 handler type",
        ));
    }
    let Some(first) = given.first() else {
        errors.push(FieldError::required(
            site.path(),
            "must specify a handler type",
        ));
        return;
    };
    let field = |name: &str| format!("{}.{first}.{name}", site.path());
    let way = &value[*first];
    match *first {
        "exec" if way.get("command").is_none_or(is_unset) => {
            errors.push(FieldError::required(field("command"), ""));
        }
        "httpGet" => {
            errors.extend(words::port(&field("port"), way.get("port")));
            let scheme = text(way, &["scheme"]);
            if !matches!(scheme, "HTTP" | "HTTPS") {
                errors.push(FieldError::not_supported(
                    field("scheme"),
                    scheme,
                    &["HTTP", "HTTPS"],
                ));
            }
            let headers = way.get("httpHeaders").and_then(Value::as_array);
            for header in headers.into_iter().flatten() {
                let name = text(header, &["name"]);
                for detail in words::header_name(name) {
                    errors.push(FieldError::invalid(field("httpHeaders"), name, detail));
                }
            }
        }
        "tcpSocket" | "grpc" => errors.extend(words::port(&field("port"), way.get("port"))),
        "sleep" => {
            let seconds = way.get("seconds").and_then(Value::as_i64).unwrap_or(0);
            if seconds < 0 {
                let detail = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(field("seconds"), seconds, detail));
            }
        }
        _ => {}
    }
}

fn port_names(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, port) in site.items().iter().enumerate() {
        let name = text(port, &["name"]);
        let field = format!("{}[{place}].name", site.path());
        let wrong = if name.is_empty() {
            Vec::new()
        } else {
            words::port_name(name)
        };
        if !wrong.is_empty() {
            errors.extend(
                wrong
                    .into_iter()
                    .map(|detail| FieldError::invalid(field.clone(), name, detail)),
            );
        } else if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
}

/// The pod fields that the downward API offers to containers.
const FIELDS: [&str; 11] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "metadata.annotations",
    "metadata.labels",
];

fn environment(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (place, variable) in site.items().iter().enumerate() {
        let path = format!("{}[{place}]", site.path());
        let name = text(variable, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else {
            for detail in words::variable_name(name) {
                errors.push(FieldError::invalid(format!("{path}.name"), name, detail));
            }
        }
        if let Some(from) = variable.get("valueFrom").filter(|from| !from.is_null()) {
            let has_value = !text(variable, &["value"]).is_empty();
            value_from(&format!("{path}.valueFrom"), from, has_value, errors);
        }
    }
}

fn value_from(path: &str, from: &Value, has_value: bool, errors: &mut Errors<'_>) {
    let mut count = 0;
    if let Some(field) = from.get("fieldRef") {
        count += 1;
        field_reference(&format!("{path}.fieldRef"), field, errors);
    }
    if let Some(resource) = from.get("resourceFieldRef") {
        count += 1;
        resource_reference(&format!("{path}.resourceFieldRef"), resource, errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let Some(reference) = from.get(name) else {
            continue;
        };
        count += 1;
        if text(reference, &["name"]).is_empty() {
            errors.push(FieldError::required(format!("{path}.{name}.name"), ""));
        }
        match text(reference, &["key"]) {
            "" => errors.push(FieldError::required(format!("{path}.{name}.key"), "")),
            key => {
                for detail in words::config_key(key) {
                    errors.push(FieldError::invalid(
                        format!("{path}.{name}.key"),
                        key,
                        detail,
                    ));
                }
            }
        }
    }
    count += usize::from(from.get("fileKeyRef").is_some());
    let detail = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` \
             or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", detail));
}

fn field_reference(path: &str, reference: &Value, errors: &mut Errors<'_>) {
    let field = text(reference, &["fieldPath"]);
    let path = format!("{path}.fieldPath");
    if field.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let is_entry = field.ends_with("']") && field.contains("['");
    if !is_entry && !FIELDS.contains(&field) {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        errors.push(FieldError::invalid(path, field, detail));
    } else if matches!(field, "metadata.annotations" | "metadata.labels") {
        let mut supported = FIELDS[..9].to_vec();
        supported.sort_unstable();
        errors.push(FieldError::not_supported(path, field, &supported));
    }
}

fn resource_reference(path: &str, reference: &Value, errors: &mut Errors<'_>) {
    const KNOWN: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = text(reference, &["resource"]);
    let field = format!("{path}.resource");
    if resource.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !KNOWN.contains(&resource) && !resource.contains(".hugepages-") {
        errors.push(FieldError::not_supported(field, resource, &KNOWN));
    }
}

fn environment_from(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (place, source) in site.items().iter().enumerate() {
        let path = format!("{}[{place}]", site.path());
        let prefix = text(source, &["prefix"]);
        if !prefix.is_empty() {
            for detail in words::variable_name(prefix) {
                errors.push(FieldError::invalid(
                    format!("{path}.prefix"),
                    prefix,
                    detail,
                ));
            }
        }
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            if let Some(reference) = source.get(name) {
                count += 1;
                if text(reference, &["name"]).is_empty() {
                    errors.push(FieldError::required(format!("{path}.{name}.name"), ""));
                }
            }
        }
        match count {
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(FieldError::invalid(site.path(), "", detail));
            }
            1 => {}
            _ => {
                let detail = "may not have more than one field specified at a time";
                errors.push(FieldError::invalid(site.path(), "", detail));
            }
        }
    }
}

/// Requests fit into limits; for resources that cannot be shared, both are equal.
fn resources(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(resources) = site.value else { return };
    let amount = |name: &str, of: &str| {
        let text = text(resources, &[name, of]);
        text.parse::<Quantity>().ok().map(|amount| (amount, text))
    };
    for list in ["limits", "requests"] {
        let entries = resources.get(list).and_then(Value::as_object);
        for name in entries.into_iter().flatten().map(|(name, _)| name.as_str()) {
            let path = format!("{}.{list}", site.path());
            resource_name(&format!("{path}[{name}]"), name, errors);
            let Some((quantity, said)) = amount(list, name) else {
                continue;
            };
            let field = format!("{path}[{name}]");
            if quantity.is_negative() {
                let detail = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(field, said, detail));
            } else if is_extended(name) && !quantity.is_whole() {
                errors.push(FieldError::invalid(
                    field,
                    ShownValue::raw(format!("{said:?}")),
                    "must be an integer",
                ));
            }
            if list == "requests"
                && let Some((limit, limit_said)) = amount("limits", name)
                && quantity > limit
            {
                let detail = format!("must be less than or equal to {name} limit of {limit_said}");
                errors.push(FieldError::invalid(path, said, detail));
            }
        }
    }
}

fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.starts_with("kubernetes.io/") && !name.starts_with("requests.")
}

/// The names of a map's amounts.
fn resource_names(site: &Site<'_>, errors: &mut Errors<'_>) {
    let amounts = site.value.and_then(Value::as_object);
    for (name, _) in amounts.into_iter().flatten() {
        resource_name(&format!("{}[{name}]", site.path()), name, errors);
    }
}

/// Upstream: `validateContainerResourceName`.
pub(super) fn resource_name(path: &str, name: &str, errors: &mut Errors<'_>) {
    let wrong = names::label_key_errors(name);
    let is_malformed = !wrong.is_empty();
    for detail in wrong {
        errors.push(FieldError::invalid(path, name, detail));
    }
    let is_known =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !is_malformed && !name.contains('/') && !is_known {
        for detail in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ] {
            errors.push(FieldError::invalid(path, name, detail));
        }
    }
}

fn tolerations(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (place, toleration) in site.items().iter().enumerate() {
        let path = format!("{}[{place}]", site.path());
        let said = |name| text(toleration, &[name]);
        let (key, operator, value, effect) =
            (said("key"), said("operator"), said("value"), said("effect"));
        if !key.is_empty() {
            for detail in names::label_key_errors(key) {
                errors.push(FieldError::invalid(format!("{path}.key"), key, detail));
            }
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(
                format!("{path}.operator"),
                operator,
                detail,
            ));
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(
                format!("{path}.effect"),
                effect,
                detail,
            ));
        }
        let field = format!("{path}.operator");
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value_errors(value);
                if !wrong.is_empty() {
                    errors.push(FieldError::invalid(field, value, wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(field, value, detail));
            }
            "Exists" => {}
            other => errors.push(FieldError::not_supported(
                field,
                other,
                &["Equal", "Exists"],
            )),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::not_supported(
                format!("{path}.effect"),
                effect,
                &supported,
            ));
        }
    }
}

/// Upstream: `ValidateNodeSelector`.
fn node_terms(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (place, term) in site.items().iter().enumerate() {
        let requirements = term.get("matchExpressions").and_then(Value::as_array);
        for (number, requirement) in requirements.into_iter().flatten().enumerate() {
            let path = format!("{}[{place}].matchExpressions[{number}]", site.path());
            let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
            checks::requirement_errors(&path, requirement, &operators, errors);
        }
    }
}

fn sysctls(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, sysctl) in site.items().iter().enumerate() {
        let name = text(sysctl, &["name"]);
        let path = format!("{}[{place}].name", site.path());
        let is_inner = |letter: u8| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-_".contains(&letter)
        };
        let is_part = |part: &str| {
            let bytes = part.as_bytes();
            let is_end = |letter: Option<&u8>| {
                letter.is_some_and(|letter| is_inner(*letter) && !b"-_".contains(letter))
            };
            is_end(bytes.first())
                && is_end(bytes.last())
                && bytes.iter().all(|letter| is_inner(*letter))
        };
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_part) {
            let detail = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(FieldError::invalid(path, name, detail));
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(path, name));
        }
        seen.insert(name);
    }
}

/// Names of init containers are unique among all containers of the pod.
fn init_names(site: &Site<'_>, errors: &mut Errors<'_>) {
    let regular = at(site.scope.value, &["containers"]).and_then(Value::as_array);
    let mut seen: HashSet<&str> = regular
        .into_iter()
        .flatten()
        .map(|container| text(container, &["name"]))
        .collect();
    for (place, container) in site.items().iter().enumerate() {
        let name = text(container, &["name"]);
        if seen.contains(name) {
            errors.push(FieldError::duplicate(
                format!("{}[{place}].name", site.path()),
                name,
            ));
        } else if !name.is_empty() {
            seen.insert(name);
        }
    }
}

/// Only restartable init containers have probes and lifecycle hooks.
fn init_probes(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (place, container) in site.items().iter().enumerate() {
        let path = format!("{}[{place}]", site.path());
        let policy = text(container, &["restartPolicy"]);
        if policy == "Always" {
            continue;
        }
        for name in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if has(container, name) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
            }
        }
    }
}
