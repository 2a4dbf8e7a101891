//! Validation of the metrics and targets of autoscalers.
//!
//! ```text
//! :metric . -> its kind and the source of it; the target: a kind, and an amount of that kind
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/autoscaling/validation`.

use kinform_api::FieldError;
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site};
use crate::object::quantity::Quantity;
use crate::object::text;

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":metric" => metric,
        _ => return None,
    })
}

fn metric(site: &Site<'_>, errors: &mut Errors<'_>) {
    const KINDS: [(&str, &str); 5] = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    let metric = site.value.unwrap_or(&Value::Null);
    let (path, kind) = (site.path(), text(metric, &["type"]));
    let field = format!("{path}.type");
    if kind.is_empty() {
        errors.push(FieldError::required(
            field.clone(),
            "must specify a metric source type",
        ));
    }
    let Some((_, member)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        errors.push(FieldError::not_supported(
            field,
            kind,
            &KINDS.map(|(name, _)| name),
        ));
        return;
    };
    let Some(source) = metric.get(*member) else {
        let detail = "must populate information for the given metric source";
        errors.push(FieldError::required(format!("{path}.{member}"), detail));
        return;
    };
    let path = format!("{path}.{member}");
    if source.get("metric").is_some() || matches!(*member, "pods" | "external" | "object") {
        if text(source, &["metric", "name"]).is_empty() {
            errors.push(FieldError::required(
                format!("{path}.metric.name"),
                "must specify a metric name",
            ));
        }
    } else if text(source, &["name"]).is_empty() {
        errors.push(FieldError::required(
            format!("{path}.name"),
            "must specify a resource name",
        ));
    }
    target(
        &path,
        member,
        source.get("target").unwrap_or(&Value::Null),
        errors,
    );
}

/// Upstream: `validateMetricTarget`, and the requirements of each source on its target.
fn target(path: &str, source: &str, target: &Value, errors: &mut Errors<'_>) {
    let kind = text(target, &["type"]);
    let field = format!("{path}.target.type");
    if kind.is_empty() {
        errors.push(FieldError::required(
            field,
            "must specify a metric target type",
        ));
    } else if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(field, kind, detail));
    }
    let utilization = target.get("averageUtilization").and_then(Value::as_i64);
    if let Some(utilization) = utilization.filter(|utilization| *utilization < 1) {
        let field = format!("{path}.target.averageUtilization");
        errors.push(FieldError::invalid(
            field,
            utilization,
            "must be greater than 0",
        ));
    }
    let amount = |name: &str| text(target, &[name]).parse::<Quantity>().ok();
    for name in ["value", "averageValue"] {
        if amount(name).is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
            let field = format!("{path}.target.{name}");
            let said = text(target, &[name]);
            errors.push(FieldError::invalid(field, said, "must be positive"));
        }
    }
    let is_aimed =
        |name: &str| amount(name).is_some_and(|amount| !amount.is_negative() && !amount.is_zero());
    let (field, detail) = match source {
        "pods" if !is_aimed("averageValue") => (
            "averageValue",
            "must specify a positive target averageValue",
        ),
        "resource" | "containerResource"
            if utilization.is_none() && amount("averageValue").is_none() =>
        {
            (
                "averageUtilization",
                "must set either a target raw value or a target utilization",
            )
        }
        "object" | "external" if amount("value").is_none() && amount("averageValue").is_none() => (
            "averageValue",
            "must set either a target value or averageValue",
        ),
        _ => return,
    };
    errors.push(FieldError::required(
        format!("{path}.target.{field}"),
        detail,
    ));
}
