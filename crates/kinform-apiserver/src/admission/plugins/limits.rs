//! LimitRanger: default resources of containers, and the least and the most that is allowed.
//!
//! ```text
//! limit ranges of the namespace, by name ──▶ resources of a new pod, annotation ──▶ 403 in a list
//! ```
//!
//! Pods are looked at when they are created or resized, and claims; no workload is.
//!
//! Upstream: `kubernetes:plugin/pkg/admission/limitranger`.

use std::collections::BTreeMap;

use kinform_api::Status;
use serde_json::{Map, Value};

use super::amounts::{self, Amounts, containers};
use super::{forbidden, in_namespace};
use crate::admission::{Objects, Question};
use crate::object::metadata;
use crate::object::quantity::Quantity;
use crate::object::{at, text};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the resources that the containers of a new pod lack.
pub(super) fn set_defaults(question: &Question<'_>, pod: &mut Value) -> Result<(), Box<Status>> {
    for range in ranges(question) {
        let [limits, requests] = ["default", "defaultRequest"].map(|name| defaults(&range, name));
        let mut set = Vec::new();
        for (place, kind) in [
            ("containers", "container"),
            ("initContainers", "init container"),
        ] {
            let containers = pod["spec"].get_mut(place).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let name = text(container, &["name"]).to_owned();
                for (what, word, defaults) in [
                    ("requests", "request", &requests),
                    ("limits", "limit", &limits),
                ] {
                    let names = fill(&mut container["resources"], what, defaults);
                    if !names.is_empty() {
                        set.push(format!("{} {word} for {kind} {name}", names.join(", ")));
                    }
                }
            }
        }
        if !set.is_empty() {
            let text = format!("LimitRanger plugin set: {}", set.join("; "));
            pod["metadata"]["annotations"][ANNOTATION] = Value::from(text);
        }
    }
    Ok(())
}

/// Adds absent resources; returns their names.
fn fill(resources: &mut Value, what: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    for (name, amount) in defaults {
        if resources[what][name.as_str()].is_null() {
            resources[what][name.as_str()] = amount.clone();
            names.push(name.clone());
        }
    }
    names
}

/// Defaults of a range for containers.
fn defaults(range: &Value, name: &str) -> Map<String, Value> {
    let limits = range["spec"]["limits"].as_array().into_iter().flatten();
    let of_containers = limits.filter(|limit| text(limit, &["type"]) == "Container");
    let mut sorted = BTreeMap::new();
    for limit in of_containers {
        let amounts = limit[name].as_object().cloned().unwrap_or_default();
        sorted.extend(amounts);
    }
    sorted.into_iter().collect()
}

/// Refuses a new pod, or one that is resized, with resources beyond the limits.
pub(super) fn check_pod(question: &Question<'_>, objects: Objects<'_>) -> Result<(), Box<Status>> {
    // A pod that ends may be changed.
    let ends = objects.old.is_some_and(metadata::is_terminating);
    let Some(pod) = objects.object.filter(|_| !ends) else {
        return Ok(());
    };
    let mut errors = Vec::new();
    for range in ranges(question) {
        for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
            match text(limit, &["type"]) {
                "Container" => {
                    for container in
                        containers(pod, "containers").chain(containers(pod, "initContainers"))
                    {
                        let amounts = Both::of(container);
                        amounts.check(limit, "Container", &mut errors);
                    }
                }
                "Pod" => Both::of_pod(pod).check(limit, "Pod", &mut errors),
                _ => {}
            }
        }
    }
    refuse(question, pod, errors)
}

/// Refuses a claim of a size beyond the limits.
pub(super) fn check_claim(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    const KIND: &str = "PersistentVolumeClaim";
    let Some(claim) = objects.object else {
        return Ok(());
    };
    let mut errors = Vec::new();
    for range in ranges(question) {
        for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
            if text(limit, &["type"]) == KIND {
                let requests = amounts::read(&claim["spec"]["resources"]["requests"]);
                let limits = Amounts::new();
                Both { requests, limits }.check(limit, KIND, &mut errors);
            }
        }
    }
    refuse(question, claim, errors)
}

fn refuse(
    question: &Question<'_>,
    object: &Value,
    mut errors: Vec<String>,
) -> Result<(), Box<Status>> {
    let mut seen = Vec::new();
    errors.retain(|error| {
        let is_new = !seen.contains(error);
        seen.push(error.clone());
        is_new
    });
    let why = match errors.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        more => format!("[{}]", more.join(", ")),
    };
    Err(forbidden(
        question,
        text(object, &["metadata", "name"]),
        &why,
    ))
}

/// The limit ranges of the question's namespace, by name.
fn ranges(question: &Question<'_>) -> Vec<Value> {
    let store = &question.state.store;
    if store.is_empty(store.shelf("limitranges")) {
        return Vec::new();
    }
    let ranges = in_namespace(question, "limitranges").into_iter();
    ranges.map(|range| range.value()).collect()
}

/// Requests and limits of a container or a pod.
struct Both {
    requests: Amounts,
    limits: Amounts,
}

impl Both {
    fn of(container: &Value) -> Self {
        let resources = at(container, &["resources"]).unwrap_or(&Value::Null);
        Self {
            requests: amounts::read(&resources["requests"]),
            limits: amounts::read(&resources["limits"]),
        }
    }

    /// The whole pod.
    fn of_pod(pod: &Value) -> Self {
        Self {
            requests: amounts::of_pod(pod, "requests"),
            limits: amounts::of_pod(pod, "limits"),
        }
    }

    fn check(&self, limit: &Value, kind: &str, errors: &mut Vec<String>) {
        let (requests, limits) = (&self.requests, &self.limits);
        for (name, least) in &amounts::read(&limit["min"]) {
            let begin = format!("minimum {name} usage per {kind} is {least}");
            match (requests.get(name), limits.get(name)) {
                (None, _) => errors.push(format!("{begin}.  No request is specified")),
                (Some(request), _) if request < least => {
                    errors.push(format!("{begin}, but request is {request}"));
                }
                (_, Some(limit)) if limit < least => {
                    errors.push(format!("{begin}, but limit is {limit}"));
                }
                _ => {}
            }
        }
        for (name, most) in &amounts::read(&limit["max"]) {
            let begin = format!("maximum {name} usage per {kind} is {most}");
            match (requests.get(name), limits.get(name)) {
                (_, None) if kind != "PersistentVolumeClaim" => {
                    errors.push(format!("{begin}.  No limit is specified"));
                }
                (_, Some(limit)) if limit > most => {
                    errors.push(format!("{begin}, but limit is {limit}"));
                }
                (Some(request), _) if request > most => {
                    errors.push(format!("{begin}, but request is {request}"));
                }
                _ => {}
            }
        }
        for (name, most) in &amounts::read(&limit["maxLimitRequestRatio"]) {
            let begin = format!("{name} max limit to request ratio per {kind} is {most}");
            let given = |amounts: &Amounts| amounts.get(name).copied().filter(|of| !of.is_zero());
            match (given(requests), given(limits)) {
                (None, _) => {
                    errors.push(format!(
                        "{begin}, but no request is specified or request is 0"
                    ));
                }
                (_, None) => {
                    errors.push(format!("{begin}, but no limit is specified or limit is 0"));
                }
                (Some(request), Some(limit)) => {
                    let ratio = limit.ratio(&request);
                    if ratio > most.ratio(&Quantity::units(1)) {
                        errors.push(format!("{begin}, but provided ratio is {ratio:.6}"));
                    }
                }
            }
        }
    }
}
