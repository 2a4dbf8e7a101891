//! A label selector as objects write it.
//!
//! ```text
//! { matchLabels, matchExpressions } -> LabelSelector
//! ```
//!
//! Upstream: `kubernetes/apimachinery:pkg/apis/meta/v1/helpers.go` (`LabelSelectorAsSelector`).

use kinform_api::selector::{LabelOperator, LabelSelector, Requirement};
use serde_json::Value;

use super::text;

/// Parses a selector in the form that objects use. Returns `None` if it is invalid.
pub(crate) fn label_selector(of: &Value) -> Option<LabelSelector> {
    let mut requirements = Vec::new();
    for (key, value) in of["matchLabels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        requirements.push(Requirement::new(key, LabelOperator::In, [value]).ok()?);
    }
    for term in of["matchExpressions"].as_array().into_iter().flatten() {
        let operator = match text(term, &["operator"]) {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            _ => return None,
        };
        let values = term["values"].as_array().into_iter().flatten();
        let values = values.filter_map(Value::as_str);
        requirements.push(Requirement::new(text(term, &["key"]), operator, values).ok()?);
    }
    Some(LabelSelector::new(requirements))
}
