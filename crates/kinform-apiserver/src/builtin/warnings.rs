//! Warnings about objects of built-in kinds.
//!
//! ```text
//! ResourceInfo + object (+ as it was) -> texts for the client
//! ```
//!
//! Pure.
//!
//! Upstream: `WarningsOnCreate` and `WarningsOnUpdate` of `kubernetes/kubernetes:pkg/registry`.

use std::collections::HashSet;

use serde_json::Value;

use crate::object::at;
use crate::resource::ResourceInfo;

const ONLY_OWN_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
/// Reviews about which no webhook is asked: a refusal could lock everybody out.
const NEVER_ASKED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Returns the warnings about a new object, or about a change.
pub(crate) fn warnings(resource: &ResourceInfo, new: &Value, old: Option<&Value>) -> Vec<String> {
    let has = |object: &Value, key: &str| at(object, &["metadata", "annotations", key]).is_some();
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "serviceaccounts") => {
            let is_new = !old.is_some_and(|old| has(old, ONLY_OWN_SECRETS));
            let text = || {
                format!(
                    "metadata.annotations[{ONLY_OWN_SECRETS}]: deprecated in v1.32+; prefer \
                     separate namespaces to isolate access to mounted secrets"
                )
            };
            let warns = is_new && has(new, ONLY_OWN_SECRETS);
            warns.then(text).into_iter().collect()
        }
        ("networking.k8s.io", "ingresses") if old.is_none() => {
            let is_unset = new["spec"]["ingressClassName"].is_null();
            let text = || {
                format!(
                    "annotation {INGRESS_CLASS:?} is deprecated, please use \
                     'spec.ingressClassName' instead"
                )
            };
            let warns = is_unset && has(new, INGRESS_CLASS);
            warns.then(text).into_iter().collect()
        }
        ("admissionregistration.k8s.io", plural) if plural.ends_with("webhookconfigurations") => {
            rules_without_effect(new)
        }
        _ => Vec::new(),
    }
}

/// Warns of rules that name a resource about which no webhook is asked.
fn rules_without_effect(configuration: &Value) -> Vec<String> {
    fn list<'a>(of: &'a Value, name: &str) -> Vec<&'a str> {
        let items = of[name].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).collect()
    }
    let mut warnings = Vec::new();
    let hooks = configuration["webhooks"].as_array().into_iter().flatten();
    for (hook, of) in hooks.enumerate() {
        let rules = of["rules"].as_array().into_iter().flatten();
        for (rule, of) in rules.enumerate() {
            let (groups, resources) = (list(of, "apiGroups"), list(of, "resources"));
            if groups.contains(&"*") || resources.contains(&"*") {
                continue;
            }
            let mut seen = HashSet::new();
            for group in &groups {
                for resource in &resources {
                    let named = (*group, *resource);
                    if !NEVER_ASKED.contains(&named) || !seen.insert(named) {
                        continue;
                    }
                    warnings.push(format!(
                        "webhooks[{hook}].rules[{rule}]: {resource}.{group} is excluded from \
                         admission webhooks; this rule will have no effect"
                    ));
                }
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_that_never_match_are_told_once() {
        let rule = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources});
        let reviews = "authorization.k8s.io";
        let configuration = json!({"webhooks": [{"rules": [
            rule(&[reviews, reviews], &["pods", "subjectaccessreviews"]),
            rule(&["*", reviews], &["subjectaccessreviews"]),
            rule(&[reviews], &["*", "subjectaccessreviews"]),
            rule(&[""], &["tokenreviews"])]}]});
        assert_eq!(
            rules_without_effect(&configuration),
            [
                "webhooks[0].rules[0]: subjectaccessreviews.authorization.k8s.io is excluded from \
              admission webhooks; this rule will have no effect"
            ]
        );
    }
}
