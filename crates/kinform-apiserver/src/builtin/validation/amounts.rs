//! Checks of limit ranges and quotas.
//!
//! ```text
//! limits -> min <= defaultRequest <= default <= max         hard, scopes -> they fit each other
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/core/validation/validation.go` (`ValidateLimitRange`,
//! `ValidateResourceQuotaSpec`).

use std::collections::HashSet;

use kinform_api::{FieldError, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site, pods};
use crate::object::metadata::shown;
use crate::object::quantity::Quantity;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":limits" => limits,
        ":quota_names" => quota_names,
        ":quota_scopes" => quota_scopes,
        _ => return None,
    })
}

/// Resources of pods that have no other unit than themselves.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Returns whether a resource is one that a cluster adds.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// The names in a member that maps names to amounts.
fn keys<'a>(of: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    let entries = of.get(list).and_then(Value::as_object);
    entries.into_iter().flatten().map(|(name, _)| name.as_str())
}

fn limits(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, limit) in site.items().iter().enumerate() {
        let path = format!("{}[{place}]", site.path());
        let kind = text(limit, &["type"]);
        limit_type(&path, kind, errors);
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(format!("{path}.type"), kind));
        }
        limit_names(&path, limit, ["max", "min"], errors);
        match kind {
            "Pod" => {
                let lists = ["default", "defaultRequest"].into_iter();
                for list in lists.filter(|list| keys(limit, list).next().is_some()) {
                    let detail = "may not be specified when `type` is 'Pod'";
                    errors.push(FieldError::forbidden(format!("{path}.{list}"), detail));
                }
            }
            _ => limit_names(&path, limit, ["default", "defaultRequest"], errors),
        }
        let has_storage = |name: &str| at(limit, &[name, "storage"]).is_some();
        if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
            let detail =
                "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(format!("{path}.limits"), detail));
        }
        limit_names(&path, limit, ["maxLimitRequestRatio"], errors);
        compare_limits(&path, limit, errors);
    }
}

fn limit_type(path: &str, kind: &str, errors: &mut Errors<'_>) {
    let wrong = names::label_key_errors(kind);
    let is_well = wrong.is_empty();
    for detail in wrong {
        errors.push(FieldError::invalid(format!("{path}.type"), kind, detail));
    }
    let is_known = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if is_well && !kind.contains('/') && !is_known {
        let detail = "must be a standard limit type or fully qualified";
        errors.push(FieldError::invalid(format!("{path}.type"), kind, detail));
    }
}

/// Checks the names of resources in lists of a limit.
fn limit_names<const N: usize>(
    path: &str,
    limit: &Value,
    lists: [&str; N],
    errors: &mut Errors<'_>,
) {
    let is_of_pods = matches!(text(limit, &["type"]), "Pod" | "Container");
    for list in lists {
        for name in keys(limit, list) {
            let field = format!("{path}.{list}[{name}]");
            if is_of_pods {
                pods::resource_name(&field, name, errors);
            } else if !name.contains('/') && !is_standard(name) {
                let detail = "must be a standard resource type or fully qualified";
                errors.push(FieldError::invalid(field, name, detail));
            }
        }
    }
}

fn is_standard(name: &str) -> bool {
    matches!(name, "storage" | "cpu" | "memory" | "ephemeral-storage")
}

/// The amounts of a limit of which the first must not exceed the second: their members, the member
/// that is reported, and their words.
const ORDERED: [(&str, &str, &str, &str, &str); 6] = [
    ("min", "max", "min", "min value", "max value"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "min value",
        "default request value",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "default request value",
        "max value",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value",
        "default limit value",
    ),
    ("min", "default", "default", "min value", "default value"),
    ("default", "max", "default", "default value", "max value"),
];

fn compare_limits(path: &str, limit: &Value, errors: &mut Errors<'_>) {
    let is_of_pod = text(limit, &["type"]) == "Pod";
    let lists = match is_of_pod {
        true => &["max", "min", "maxLimitRequestRatio"][..],
        false => &[
            "max",
            "min",
            "maxLimitRequestRatio",
            "default",
            "defaultRequest",
        ],
    };
    let amount = |name: &str, of: &str| {
        let text = text(limit, &[name, of]);
        text.parse::<Quantity>()
            .ok()
            .filter(|_| lists.contains(&name))
    };
    let mut names: Vec<&str> = lists.iter().flat_map(|list| keys(limit, list)).collect();
    names.sort_unstable();
    names.dedup();
    for of in names {
        for (low, high, field, low_name, high_name) in ORDERED {
            let (Some(less), Some(more)) = (amount(low, of), amount(high, of)) else {
                continue;
            };
            if less > more {
                let shown_value = match (low, high) {
                    ("min", "default") => less.to_string(),
                    ("default", "max") => more.to_string(),
                    _ => text(limit, &[field, of]).to_owned(),
                };
                let detail = format!("{low_name} {less} is greater than {high_name} {more}");
                errors.push(FieldError::invalid(
                    format!("{path}.{field}[{of}]"),
                    shown_value.as_str(),
                    detail,
                ));
            }
        }
        ratio(path, of, limit, errors);
        let fits = of.starts_with("hugepages-") || is_extended(of);
        let both = amount("default", of).zip(amount("defaultRequest", of));
        if let Some((most, least)) = both.filter(|(most, least)| fits && most != least) {
            let detail =
                format!("default value {most} must equal to defaultRequest value {least} in {of}");
            let field = format!("{path}.defaultRequest[{of}]");
            errors.push(FieldError::invalid(field, &least.to_string(), detail));
        }
    }
}

/// Checks the ratio of a resource: at least one, and one that its least and its most allow.
fn ratio(path: &str, of: &str, limit: &Value, errors: &mut Errors<'_>) {
    let amount = |name: &str| text(limit, &[name, of]).parse::<Quantity>().ok();
    let Some(ratio) = amount("maxLimitRequestRatio") else {
        return;
    };
    let field = format!("{path}.maxLimitRequestRatio[{of}]");
    let one = Quantity::units(1);
    if ratio < one {
        let detail = format!("ratio {ratio} is less than 1");
        errors.push(FieldError::invalid(
            field.clone(),
            &ratio.to_string(),
            detail,
        ));
    }
    if let Some((min, max)) = amount("min")
        .zip(amount("max"))
        .filter(|(min, _)| !min.is_zero())
    {
        let most = max.ratio(&min);
        if ratio.ratio(&one) > most {
            let detail = format!("ratio {ratio} is greater than max/min = {most:.6}");
            errors.push(FieldError::invalid(field, &ratio.to_string(), detail));
        }
    }
}

/// The resources of which a quota counts the amounts.
const KNOWN: [&str; 17] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
];
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn quota_names(site: &Site<'_>, errors: &mut Errors<'_>) {
    let entries = site.value.and_then(Value::as_object);
    for (name, amount) in entries.into_iter().flatten() {
        let field = format!("{}[{name}]", site.path());
        let wrong = names::label_key_errors(name);
        let is_well = wrong.is_empty();
        for detail in wrong {
            errors.push(FieldError::invalid(field.clone(), name.as_str(), detail));
        }
        let is_known = is_counted(name) || name.contains("hugepages-");
        if is_well && !name.contains('/') && !is_known {
            for detail in [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for quota",
            ] {
                errors.push(FieldError::invalid(field.clone(), name.as_str(), detail));
            }
        }
        let amount: Option<Quantity> = amount.as_str().and_then(|text| text.parse().ok());
        let is_whole = WHOLE.contains(&name.as_str()) || is_extended(name);
        if let Some(amount) = amount.filter(|amount| is_whole && !amount.is_whole()) {
            let detail = "must be an integer";
            errors.push(FieldError::invalid(field, &amount.to_string(), detail));
        }
    }
}

/// Scopes must be known, apply to what the quota counts, and not exclude each other.
fn quota_scopes(site: &Site<'_>, errors: &mut Errors<'_>) {
    let scopes: Vec<&str> = site.items().iter().filter_map(Value::as_str).collect();
    let mut push = |detail: &str| {
        errors.push(FieldError::invalid(site.path(), shown(site.value), detail));
    };
    let mut counted: Vec<&str> = keys(&site.scope.value["spec"], "hard").collect();
    counted.sort_unstable();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            push("unsupported scope");
            continue;
        }
        let fits = |name: &&&str| is_counted(name) && !applies(scope, name);
        for _ in counted.iter().filter(fits) {
            push("unsupported scope applied to resource");
        }
    }
    for pair in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            push("conflicting scopes");
        }
    }
}

/// Returns whether a quota may count a resource of this name.
fn is_counted(name: &str) -> bool {
    KNOWN.contains(&name) || WHOLE.contains(&name)
}

/// Returns whether a scope is about a resource.
fn applies(scope: &str, name: &str) -> bool {
    const COMPUTE: [&str; 6] = [
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => name == "pods" || COMPUTE.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::errors;
    use super::*;
    use crate::budget::Meter;

    fn messages(kind: &str, spec: &Value) -> Vec<String> {
        let of = kinform_schema::builtin("", "v1", kind).unwrap();
        let object = json!({"metadata": {"name": "x"}, "spec": spec});
        let found = errors(of, &object, &Meter::endless());
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn limits_fit_each_other() {
        for (limit, wanted) in [
            (
                json!({"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}),
                &[
                    "default: Forbidden: may not be specified when `type` is 'Pod'",
                    "defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
                ][..],
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}),
                &["maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1"],
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "5"},
                    "min": {"cpu": "500m"}, "max": {"cpu": "2"}}),
                &[
                    "maxLimitRequestRatio[cpu]: Invalid value: \"5\": ratio 5 is greater than \
                   max/min = 4.000000",
                ],
            ),
            (
                json!({"type": "Container", "default": {"example.com/gpu": "2"},
                    "defaultRequest": {"example.com/gpu": "1"}}),
                &[
                    "defaultRequest[example.com/gpu]: Invalid value: \"1\": default value 2 must \
                   equal to defaultRequest value 1 in example.com/gpu",
                ],
            ),
        ] {
            let wanted: Vec<String> = wanted
                .iter()
                .map(|text| format!("spec.limits[0].{text}"))
                .collect();
            assert_eq!(
                messages("LimitRange", &json!({"limits": [limit]})),
                wanted,
                "{limit}"
            );
        }
    }

    #[test]
    fn scopes_fit_what_a_quota_counts() {
        for (hard, scopes, wanted) in [
            (json!({"pods": "1"}), json!(["BestEffort"]), &[][..]),
            (
                json!({"pods": "1500m"}),
                json!([]),
                &["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"],
            ),
            (
                json!({"requests.cpu": "1"}),
                json!(["BestEffort"]),
                &[
                    "spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource",
                ],
            ),
            (
                json!({"pods": "1"}),
                json!(["Terminating", "NotTerminating"]),
                &[
                    "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: \
                   conflicting scopes",
                ],
            ),
            (
                json!({"requests.storage": "1"}),
                json!(["VolumeAttributesClass"]),
                &[],
            ),
        ] {
            let spec = json!({"hard": hard, "scopes": scopes});
            assert_eq!(messages("ResourceQuota", &spec), wanted, "{spec}");
        }
    }
}
