//! PodSecurity: pods as the labels of their namespace demand.
//!
//! ```text
//! labels of the namespace ──level.rs──▶ Policy ──evaluate.rs──▶ 403 | warning, annotation of the record
//! new labels of a namespace ──existing.rs──▶ warnings about the pods that it has
//! ```
//!
//! Only pods are refused. A workload whose template violates the policy is stored: its client is
//! warned. There are no exemptions, and a namespace without labels allows everything.
//!
//! * `level.rs`: levels, versions and labels; `evaluate.rs`: the checks of a level in a version;
//! * `checks.rs`: what a check is; `baseline.rs`, `restricted.rs`: the checks themselves;
//! * `existing.rs`: the pods of a namespace whose labels change.
//!
//! Upstream: `kubernetes/pod-security-admission:admission/admission.go`.

mod baseline;
mod checks;
mod evaluate;
mod existing;
mod level;
mod restricted;
#[cfg(test)]
mod tests;

use kinform_api::{FieldError, GroupKind, Status};
use serde_json::Value;

use self::checks::Pod;
use self::evaluate::{details, findings};
use self::level::{Level, LevelVersion, Policy, Version};
use super::{amounts, forbidden, namespace, objects_in};
use crate::admission::{Objects, Operation, Question};
use crate::object::{at, text};

const PREFIX: &str = "pod-security.kubernetes.io/";
/// The level that is recorded where nothing is checked.
const PRIVILEGED: LevelVersion = LevelVersion {
    level: Level::Privileged,
    version: Version::Latest,
};
/// The path of the template in each workload, by the plural of its resource.
const TEMPLATES: [(&str, &[&str]); 8] = [
    ("replicationcontrollers", &["spec", "template"]),
    ("podtemplates", &["template"]),
    ("replicasets", &["spec", "template"]),
    ("deployments", &["spec", "template"]),
    ("statefulsets", &["spec", "template"]),
    ("daemonsets", &["spec", "template"]),
    ("jobs", &["spec", "template"]),
    ("cronjobs", &["spec", "jobTemplate", "spec", "template"]),
];

/// Refuses labels of a namespace that do not parse, and warns of its pods that violate a new level.
pub(super) fn check_namespace(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let Some(namespace) = objects.object else {
        return Ok(());
    };
    let (policy, errors) = of_labels(namespace);
    let old = objects.old.map(of_labels);
    let old_errors = old.as_ref().map(|(_, errors)| errors);
    if !errors.is_empty() && old_errors != Some(&errors) {
        let kind = GroupKind::new("", "Namespace");
        let name = text(namespace, &["metadata", "name"]);
        return Err(Box::new(Status::invalid(&kind, name, &errors)));
    }
    let Some((before, _)) = old.filter(|_| question.operation == Operation::Update) else {
        return Ok(());
    };
    let (new, before) = (policy.enforce, before.enforce);
    let is_stricter = new.version != before.version || new.level > before.level;
    if new != before && new.level != Level::Privileged && is_stricter {
        let name = text(namespace, &["metadata", "name"]);
        let pods = objects_in(question, "pods", name);
        existing::warn(question.warnings, (name, pods), new);
    }
    Ok(())
}

fn of_labels(namespace: &Value) -> (Policy, Vec<FieldError>) {
    let labels = &namespace["metadata"]["labels"];
    Policy::of(|key| labels.get(key).and_then(Value::as_str))
}

/// Refuses a pod that violates the enforced level.
pub(super) fn check_pod(question: &Question<'_>, objects: Objects<'_>) -> Result<(), Box<Status>> {
    let Some(pod) = objects.object else {
        return Ok(());
    };
    let policy = of_namespace(question);
    if policy.is_fully_privileged() {
        record(question, "enforce-policy", &PRIVILEGED);
        return Ok(());
    }
    if objects.old.is_some_and(|old| !is_significant(pod, old)) {
        return Ok(());
    }
    record(question, "enforce-policy", &policy.enforce);
    let of = Pod {
        metadata: &pod["metadata"],
        spec: &pod["spec"],
    };
    let found = findings(policy.enforce, &of);
    tell_audit(question, &policy, &of);
    if found.is_empty() {
        tell_client(question, &policy, &of);
        return Ok(());
    }
    let why = format!(
        "violates PodSecurity \"{}\": {}",
        policy.enforce,
        details(&found)
    );
    let name = text(pod, &["metadata", "name"]);
    Err(forbidden(question, name, &why))
}

/// Warns of a workload whose pods will violate the policy.
pub(super) fn check_workload(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let plural = question.resource.plural.as_str();
    let path = TEMPLATES.iter().find(|(of, _)| *of == plural);
    let template = objects
        .object
        .zip(path)
        .and_then(|(object, (_, path))| at(object, path))
        .filter(|template| template.is_object());
    let Some(template) = template else {
        return Ok(());
    };
    let policy = of_namespace(question);
    let pod = Pod {
        metadata: &template["metadata"],
        spec: &template["spec"],
    };
    tell_audit(question, &policy, &pod);
    tell_client(question, &policy, &pod);
    Ok(())
}

/// The policy of the question's namespace.
fn of_namespace(question: &Question<'_>) -> Policy {
    let found = namespace(question);
    let (policy, errors) = Policy::of(|key| found.as_ref().and_then(|of| of.label(key)));
    if !errors.is_empty() {
        let bodies = errors
            .iter()
            .map(|error| format!("{}: {}", error.field(), error.body()));
        let why: Vec<String> = bodies.collect();
        record(
            question,
            "error",
            &format!("Failed to parse policy: {}", why.join(", ")),
        );
    }
    policy
}

impl Policy {
    fn is_fully_privileged(&self) -> bool {
        let all = [self.enforce, self.audit, self.warn];
        all.iter().all(|of| of.level == Level::Privileged)
    }
}

fn record(question: &Question<'_>, key: &str, value: &impl ToString) {
    let key = format!("{PREFIX}{key}");
    question.annotations.set(key, value.to_string());
}

fn violation(of: LevelVersion, pod: &Pod<'_>) -> Option<String> {
    let found = findings(of, pod);
    let text = || format!("would violate PodSecurity \"{of}\": {}", details(&found));
    (!found.is_empty()).then(text)
}

fn tell_audit(question: &Question<'_>, policy: &Policy, pod: &Pod<'_>) {
    if let Some(text) = violation(policy.audit, pod) {
        record(question, "audit-violations", &text);
    }
}

fn tell_client(question: &Question<'_>, policy: &Policy, pod: &Pod<'_>) {
    if let Some(text) = violation(policy.warn, pod) {
        question.warnings.add(text);
    }
}

/// Returns whether an update of a pod changes what the checks see: images, or containers.
fn is_significant(new: &Value, old: &Value) -> bool {
    fn images(pod: &Value, place: &str) -> Vec<String> {
        let all = amounts::containers(pod, place);
        all.map(|of| text(of, &["image"]).to_owned()).collect()
    }
    let changed = |place: &&str| images(new, place) != images(old, place);
    if ["containers", "initContainers"].iter().any(changed) {
        return true;
    }
    let mut added = amounts::containers(new, "ephemeralContainers");
    added.any(|container| {
        let is_same =
            |of: &Value| of["name"] == container["name"] && of["image"] == container["image"];
        !amounts::containers(old, "ephemeralContainers").any(is_same)
    })
}
