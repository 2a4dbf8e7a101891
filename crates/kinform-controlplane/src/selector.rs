//! Label selectors as they stand in objects.
//!
//! ```text
//! {matchLabels, matchExpressions} | labels of a flat selector, + labels → bool
//!                                                          → text as Go prints it
//! ```
//!
//! Upstream counterpart: `apimachinery:pkg/apis/meta/v1` (`LabelSelectorAsSelector`).

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::json::{text, texts};

/// Returns whether a selector selects these labels. It may be a flat one, as ReplicationControllers have
/// it: labels and nothing else. An absent or empty selector selects none: that
/// is the rule for workloads, whose empty selector the server refuses.
pub(crate) fn selects(selector: Option<&Value>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else {
        return false;
    };
    let flat = selector.as_object();
    let flat = flat.filter(|labels| labels.values().all(Value::is_string));
    let equal = flat.or_else(|| selector.get("matchLabels").and_then(Value::as_object));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let is_empty =
        equal.is_none_or(serde_json::Map::is_empty) && expressions.is_none_or(Vec::is_empty);
    !is_empty
        && equal
            .into_iter()
            .flatten()
            .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        && expressions.into_iter().flatten().all(|one| {
            let values: Vec<&str> = one
                .get("values")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let member = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
            let found = labels.get(member("key")).map(String::as_str);
            meets(member("operator"), found, &values)
        })
}

/// Returns whether a selector between pods selects these labels: an absent one selects none, an empty
/// one all.
pub(crate) fn matches(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else {
        return false;
    };
    let mut equal = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    equal.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|one| {
            let values = one.values.as_deref().unwrap_or_default();
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let found = labels.get(&one.key).map(String::as_str);
            meets(&one.operator, found, &values)
        })
}

/// Returns whether a label meets a requirement, of a label selector or of a node selector.
pub(crate) fn meets(operator: &str, found: Option<&str>, values: &[&str]) -> bool {
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || {
        let wanted = values.first().copied().and_then(number)?;
        Some(found.and_then(number)?.cmp(&wanted))
    };
    match operator {
        "In" => found.is_some_and(|found| values.contains(&found)),
        "NotIn" => found.is_none_or(|found| !values.contains(&found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

/// A selector as Go prints it in messages.
pub(crate) fn printed(selector: Option<&Value>) -> String {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
        return "nil".to_owned();
    };
    let (mut labels, mut expressions) = (String::new(), String::new());
    for (key, value) in texts(selector, "/matchLabels") {
        // Writing to a text cannot fail.
        let _ = write!(labels, "{key}: {value},");
    }
    let requirements = selector.get("matchExpressions").and_then(Value::as_array);
    for one in requirements.into_iter().flatten() {
        let values = one.get("values").and_then(Value::as_array);
        let values = values.into_iter().flatten().filter_map(Value::as_str);
        let values: Vec<&str> = values.collect();
        let (key, operator) = (text(one, "/key"), text(one, "/operator"));
        let _ = write!(
            expressions,
            "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},",
            values.join(" ")
        );
    }
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_meet_equality_and_expressions() {
        let check = |selector: Value, labels: &[(&str, &str)], expected: bool| {
            let labels = labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            assert_eq!(
                selects(Some(&selector), &labels.collect()),
                expected,
                "{selector}"
            );
        };
        check(json!({}), &[("a", "1")], false);
        check(
            json!({"matchLabels": {"a": "1"}}),
            &[("a", "1"), ("b", "2")],
            true,
        );
        check(json!({"matchLabels": {"a": "1"}}), &[("a", "2")], false);
        check(json!({"a": "1", "matchLabels": "2"}), &[("a", "1")], false);
        check(
            json!({"a": "1", "matchLabels": "2"}),
            &[("a", "1"), ("matchLabels", "2"), ("b", "3")],
            true,
        );
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        check(expression("In", json!(["1", "2"])), &[("a", "2")], true);
        check(expression("NotIn", json!(["1"])), &[], true);
        check(expression("Exists", json!([])), &[], false);
        check(expression("DoesNotExist", json!([])), &[("b", "1")], true);
        check(expression("Unknown", json!([])), &[("a", "1")], false);
        assert!(!selects(None, &BTreeMap::new()));
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(meets("Gt", Some("10"), &["9"]));
        assert!(meets("Lt", Some("9"), &["10"]));
        assert!(!meets("Gt", Some("x"), &["9"]));
        assert!(!meets("Gt", Some("1"), &[]));
    }

    #[test]
    fn between_pods_an_empty_selector_selects_all() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let check = |selector: Value, expected: bool| {
            let selector: Option<LabelSelector> = serde_json::from_value(selector).unwrap();
            assert_eq!(
                matches(selector.as_ref(), &labels),
                expected,
                "{selector:?}"
            );
        };
        check(Value::Null, false);
        check(json!({}), true);
        check(json!({"matchLabels": {"a": "1"}}), true);
        check(json!({"matchLabels": {"a": "2"}}), false);
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}),
            false,
        );
    }

    #[test]
    fn a_selector_is_printed_as_go_prints_it() {
        let selector = json!({"matchLabels": {"app": "x"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["1", "2"]}]});
        let expected = "&LabelSelector{MatchLabels:map[string]string{app: x,},\
            MatchExpressions:[]LabelSelectorRequirement{\
            LabelSelectorRequirement{Key:a,Operator:In,Values:[1 2],},},}";
        assert_eq!(printed(Some(&selector)), expected);
        assert_eq!(printed(None), "nil");
    }
}
