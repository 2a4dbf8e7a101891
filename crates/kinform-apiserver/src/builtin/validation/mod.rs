//! Validation of built-in kinds, with a real server's messages in its order.
//!
//! ```text
//! rules.txt -> rules of types, once      Type + value (+ old value) -> [FieldError]
//! ```
//!
//! A rule belongs to a type and holds wherever the type occurs; `in` leads from a type to its
//! parts, so that errors come in upstream's order. Most rules are a word of the vocabulary and its
//! arguments (`checks.rs`). More complex rules are functions that the data names (`pods.rs`,
//! `services.rs`, ..). Rules of `@update` see the stored object, too.
//!
//! BOUND: values are as deep as the parser allowed (128), and so is this recursion.
//!
//! BOUND: 1,000 errors (`errors.rs`); the meter of the request counts a step for each rule.
//!
//! Complexity: linear in the value, times the rules of its types.
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/*/validation`.

mod admission;
mod amounts;
mod candidates;
mod certificates;
mod changes;
mod checks;
mod errors;
mod kinds;
mod metrics;
mod mounts;
pub(super) mod pod_status;
mod pods;
mod rule;
mod scalars;
mod services;
mod singles;
mod table;
mod trust_bundles;
mod webhooks;
pub(super) mod words;
mod workloads;

use kinform_api::FieldError;
use kinform_schema::{Container, Type};
use serde_json::Value;

use self::errors::Errors;
use self::rule::Rule;
use self::table::table;
use crate::budget::Meter;

/// Errors of an object.
pub(super) fn errors(of: &'static Type, object: &Value, meter: &Meter) -> Vec<FieldError> {
    let object = workloads::with_claimed_volumes(of, object);
    Scope::root(of, &object, None).errors(table().of(of), meter)
}

/// Errors that only a new object can have.
pub(super) fn new_errors(of: &'static Type, object: &Value, meter: &Meter) -> Vec<FieldError> {
    Scope::root(of, object, None).errors(table().of_new(of), meter)
}

/// Errors of an update of an object.
pub(super) fn change_errors(
    of: &'static Type,
    (new, old): (&Value, &Value),
    meter: &Meter,
) -> Vec<FieldError> {
    Scope::root(of, new, Some(old)).errors(table().of_change(of), meter)
}

/// The type to which a path of members leads, and its container.
fn part(of: &'static Type, members: &[String]) -> Option<(&'static Type, Container)> {
    let mut found = None;
    for name in members {
        let of = found.map_or(of, |(of, _)| of);
        let field = of.field(name)?;
        found = Some((field.message()?, field.container()));
    }
    found
}

/// Returns whether a path of members exists.
#[cfg(test)]
fn has_member(of: &'static Type, members: &[String]) -> bool {
    let [parents @ .., last] = members else {
        return true;
    };
    let of = if parents.is_empty() {
        Some(of)
    } else {
        part(of, parents).map(|(of, _)| of)
    };
    of.is_some_and(|of| of.field(last).is_some())
}

/// A value of a type, and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) of: &'static Type,
    pub(super) value: &'a Value,
    /// The stored object, at the root of a change.
    pub(super) old: Option<&'a Value>,
    step: Step<'a>,
    above: Option<&'a Self>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Members(&'a [String]),
    Item(&'a [String], usize),
}

impl<'a> Scope<'a> {
    fn root(of: &'static Type, value: &'a Value, old: Option<&'a Value>) -> Self {
        Self {
            of,
            value,
            old,
            step: Step::Root,
            above: None,
        }
    }

    /// Its path; empty at the root.
    pub(super) fn path(&self) -> String {
        let mut path = self.above.map(Self::path).unwrap_or_default();
        let (members, item) = match self.step {
            Step::Root => return path,
            Step::Members(members) => (members, None),
            Step::Item(members, at) => (members, Some(at)),
        };
        for name in members {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
        }
        if let Some(at) = item {
            path.push_str(&format!("[{at}]"));
        }
        path
    }

    /// The value of the nearest enclosing scope of the named type.
    pub(super) fn around(&self, name: &str) -> Option<&'a Value> {
        let mut scope = self.above;
        while let Some(inner) = scope {
            if inner.of.name() == name {
                return Some(inner.value);
            }
            scope = inner.above;
        }
        None
    }

    fn errors(&self, rules: &'static [Rule], meter: &Meter) -> Vec<FieldError> {
        let mut errors = Errors::new(meter);
        self.check(rules, &mut errors);
        errors.found()
    }

    fn check(&self, rules: &'static [Rule], errors: &mut Errors<'_>) {
        for rule in rules {
            if errors.is_over() {
                return;
            }
            if !rule
                .conditions
                .iter()
                .all(|condition| condition.holds(self.value))
            {
                continue;
            }
            let mut steps = rule.member.iter();
            let found = steps.try_fold(self.value, |value, name| value.get(name));
            match (rule.check, rule.each) {
                (None, _) => self.enter(rule, found, errors),
                (Some(check), false) => check(&Site::new(self, rule, found, None), errors),
                (Some(check), true) => {
                    let items = found.and_then(Value::as_array);
                    for (at, item) in items.into_iter().flatten().enumerate() {
                        if errors.is_over() {
                            return;
                        }
                        check(&Site::new(self, rule, Some(item), Some(at)), errors);
                    }
                }
            }
        }
    }

    /// Checks a part by the rules of its type.
    fn enter(&self, rule: &'static Rule, found: Option<&'a Value>, errors: &mut Errors<'_>) {
        let (Some((part, container)), Some(found)) = (part(self.of, &rule.member), found) else {
            return;
        };
        let scope = |value, step| Scope {
            of: part,
            value,
            old: None,
            step,
            above: Some(self),
        };
        match (container, found) {
            (Container::List, Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    scope(item, Step::Item(&rule.told, at)).check(table().of(part), errors);
                }
            }
            (_, Value::Object(_)) => {
                scope(found, Step::Members(&rule.told)).check(table().of(part), errors);
            }
            _ => {}
        }
    }
}

/// The member to which a rule applies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) rule: &'static Rule,
    pub(super) value: Option<&'a Value>,
    item: Option<usize>,
}

impl<'a> Site<'a> {
    fn new(
        scope: &'a Scope<'a>,
        rule: &'static Rule,
        value: Option<&'a Value>,
        item: Option<usize>,
    ) -> Self {
        Self {
            scope,
            rule,
            value: value.filter(|value| !value.is_null()),
            item,
        }
    }

    pub(super) fn path(&self) -> String {
        let mut path = self.scope.path();
        for name in &self.rule.told {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
        }
        // An error reported under another name carries no index.
        if let Some(at) = self.item.filter(|_| self.rule.told == self.rule.member) {
            path.push_str(&format!("[{at}]"));
        }
        path
    }

    /// Its text; empty if the member has no text.
    pub(super) fn text(&self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Its number; 0 if the member has no number.
    pub(super) fn number(&self) -> i64 {
        self.value.and_then(Value::as_i64).unwrap_or(0)
    }

    /// Its items; empty if the member is not a list.
    pub(super) fn items(&self) -> &'a [Value] {
        self.value
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The member of the stored object.
    pub(super) fn old(&self) -> Option<&'a Value> {
        let mut steps = self.rule.member.iter();
        let old = self.scope.old?;
        let found = steps.try_fold(old, |value, name| value.get(name));
        found.filter(|value| !value.is_null())
    }

    /// The rule's arguments in the data.
    pub(super) fn words(&self) -> Vec<&'static str> {
        self.rule.arguments.iter().map(String::as_str).collect()
    }

    /// The text after the bar in the data.
    pub(super) fn detail(&self) -> &'static str {
        &self.rule.detail
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(kind: (&str, &str, &str), object: &Value) -> Vec<String> {
        let of = kinform_schema::builtin(kind.0, kind.1, kind.2).unwrap();
        errors(of, object, &Meter::endless())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn every_rule_belongs_to_a_type_and_a_member_of_the_table() {
        assert_eq!(table::faults(), Vec::<String>::new());
    }

    #[test]
    fn errors_name_the_field_and_come_in_upstreams_order() {
        let pod = json!({"spec": {"terminationGracePeriodSeconds": 30, "restartPolicy": "Sometimes",
            "dnsPolicy": "ClusterFirst",
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a", "image": "x", "terminationMessagePolicy": "File",
                    "imagePullPolicy": "Always", "volumeMounts": [{"name": "w", "mountPath": "/"}]},
                {"name": "a", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}]}});
        assert_eq!(
            messages(("", "v1", "Pod"), &pod),
            [
                "spec.containers[0].volumeMounts[0].name: Not found: \"w\"",
                "spec.containers[1].image: Required value",
                "spec.containers[1].name: Duplicate value: \"a\"",
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \
                 \"Always\", \"OnFailure\", \"Never\"",
            ]
        );
    }

    #[test]
    fn a_stateful_set_mounts_its_claim_templates() {
        let set = |container: Value, claims: &[&str]| {
            let claim = |name: &&str| {
                json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}})
            };
            json!({"metadata": {"name": "s"}, "spec": {
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "OnDelete"},
                "selector": {"matchLabels": {"a": "b"}},
                "volumeClaimTemplates": claims.iter().map(claim).collect::<Vec<_>>(),
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                    "restartPolicy": "Always",
                    "dnsPolicy": "ClusterFirst",
                    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "Bad_v", "emptyDir": {}}],
                    "containers": [container],
                    "initContainers": [],
                }},
            }})
        };
        let container = |more: Value| {
            let mut container = json!({"name": "c", "image": "i",
                "terminationMessagePolicy": "File", "imagePullPolicy": "Always"});
            container
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            container
        };
        let found = |more: Value, claims: &[&str]| {
            let object = set(container(more), claims);
            let all = messages(("apps", "v1", "StatefulSet"), &object);
            let cut = |text: String| text.split(": a lowercase").next().unwrap().to_owned();
            all.into_iter().map(cut).collect::<Vec<String>>()
        };
        // Claims come first, and hide the volumes of their names.
        let bad = "spec.template.spec.volumes[2].name: Invalid value: \"Bad_v\"";
        assert_eq!(
            found(
                json!({"volumeMounts": [{"name": "claim", "mountPath": "/a"},
                    {"name": "none", "mountPath": "/b"}]}),
                &["claim", "data", "claim"]
            ),
            [
                bad,
                "spec.template.spec.containers[0].volumeMounts[1].name: Not found: \"none\"",
            ]
        );
        let device = "spec.template.spec.containers[0].volumeDevices";
        assert_eq!(
            found(
                json!({"volumeMounts": [{"name": "claim", "mountPath": "/a"}],
                    "volumeDevices": [{"name": "data", "devicePath": "/x"},
                        {"name": "claim", "devicePath": "/a"}]}),
                &["claim"]
            ),
            [
                bad,
                "spec.template.spec.containers[0].volumeMounts[0].name: Invalid value: \"claim\": \
                 must not already exist in volumeDevices",
                "spec.template.spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/a\": \
                 must not already exist as a path in volumeDevices",
                &format!(
                    "{device}[0].name: Invalid value: \"data\": can only use volume source type of \
                     PersistentVolumeClaim or Ephemeral for block mode"
                ),
                &format!(
                    "{device}[1].name: Invalid value: \"claim\": must not already exist in volumeMounts"
                ),
                &format!(
                    "{device}[1].devicePath: Invalid value: \"/a\": must not already exist as a path \
                     in volumeMounts"
                ),
            ]
        );
        assert_eq!(
            found(json!({}), &[""]),
            [
                "spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Required value",
                "spec.template.spec.volumes[0].name: Required value",
                bad,
            ]
        );
    }

    #[test]
    fn values_of_another_shape_do_no_harm() {
        for kind in kinform_schema::kinds() {
            let (of, hostile) = (
                kind.3,
                [
                    json!(null),
                    json!([]),
                    json!({"spec": 1, "metadata": []}),
                    json!({"spec": {"volumeClaimTemplates": [1, {}], "template": {"spec": []}}}),
                ],
            );
            for object in hostile {
                let meter = Meter::endless();
                errors(of, &object, &meter);
                change_errors(of, (&object, &json!({"spec": {}})), &meter);
            }
        }
    }
}
