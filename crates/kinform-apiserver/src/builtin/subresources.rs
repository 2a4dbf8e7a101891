//! Subresources that are views of their object: the fields that each may write.
//!
//! ```text
//! ephemeralcontainers, resize, approval + stored state -> the object with that part changed | 422
//! status of a pod, of a signing request + stored state -> 422
//! ```
//!
//! `status`, `scale` and `finalize` are in `strategy.rs`, as every type has them.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/strategy.go`,
//! `pkg/registry/certificates/certificates/strategy.go`, `pkg/apis/core/v1/helper/qos`.

use std::collections::HashMap;

use jiff::Timestamp;
use kinform_api::FieldError;
use serde_json::{Map, Value};

use super::defaults::pod_status::class;
use super::validation::pod_status;
use crate::object::part::Part;
use crate::object::{at, metadata, text};
use crate::resource::ResourceInfo;

/// Completes the request's object from the stored one: only the subresource is taken from the
/// request, and with an approval the metadata.
pub(super) fn prepare(part: Part, new: &mut Value, old: &Value, now: Timestamp) {
    let sent = std::mem::replace(new, old.clone());
    match part {
        Part::EphemeralContainers => {
            let containers = at(&sent, &["spec", "ephemeralContainers"]);
            if let Some(containers) = containers.filter(|list| !list.is_null()) {
                new["spec"]["ephemeralContainers"] = containers.clone();
            } else if let Some(spec) = new["spec"].as_object_mut() {
                spec.remove("ephemeralContainers");
            }
        }
        Part::Resize => {
            for list in ["containers", "initContainers"] {
                let wanted = by_name(&sent["spec"][list]);
                let own = new["spec"][list].as_array_mut();
                for container in own.into_iter().flatten() {
                    if let Some(wanted) = wanted.get(text(container, &["name"])) {
                        container["resources"] = wanted["resources"].clone();
                    }
                }
            }
        }
        Part::Approval => {
            let mut conditions = sent["status"]["conditions"].clone();
            for condition in conditions.as_array_mut().into_iter().flatten() {
                for time in ["lastUpdateTime", "lastTransitionTime"] {
                    if condition[time].is_null() {
                        condition[time] = metadata::time(now);
                    }
                }
            }
            if !new["status"].is_object() {
                new["status"] = Value::Object(Map::new());
            }
            new["status"]["conditions"] = conditions;
            new["metadata"] = sent["metadata"].clone();
        }
        _ => *new = sent,
    }
}

/// Errors of an update of a subresource.
pub(crate) fn errors(
    resource: &ResourceInfo,
    part: Part,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    match part {
        Part::EphemeralContainers => container_errors(new, old),
        Part::Resize if class(new) != class(old) => {
            let detail = "Pod QOS Class may not change as a result of resizing";
            vec![FieldError::invalid("spec", class(old), detail)]
        }
        Part::Approval | Part::Status if resource.plural == "certificatesigningrequests" => {
            decision_errors(part, new, old)
        }
        Part::Status if resource.is_core("pods") => pod_status::errors(new, old),
        _ => Vec::new(),
    }
}

/// Containers that were added to a running pod stay as they are.
fn container_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let list = |of| at(of, &["spec", "ephemeralContainers"]).unwrap_or(&Value::Null);
    let (new, mut errors) = (by_name(list(new)), Vec::new());
    for container in list(old).as_array().into_iter().flatten() {
        let name = text(container, &["name"]);
        let what = match new.get(name) {
            None => "removed",
            Some(kept) if *kept != container => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {what}");
        errors.push(FieldError::forbidden("spec.ephemeralContainers", detail));
    }
    errors
}

/// The first item of each name in a list.
fn by_name(list: &Value) -> HashMap<&str, &Value> {
    let mut named = HashMap::new();
    for item in list.as_array().into_iter().flatten() {
        named.entry(text(item, &["name"])).or_insert(item);
    }
    named
}

/// Only `approval` makes a decision, and a decision is final.
fn decision_errors(part: Part, new: &Value, old: &Value) -> Vec<FieldError> {
    let has = |of: &Value, wanted: &str| {
        let conditions = at(of, &["status", "conditions"]).and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|condition| text(condition, &["type"]) == wanted)
    };
    let mut errors = Vec::new();
    for decision in ["Approved", "Denied"] {
        let what = match (has(old, decision), has(new, decision)) {
            (true, false) => "remove",
            (false, true) if part == Part::Status => "add",
            _ => continue,
        };
        let detail = format!("updates may not {what} a condition of type {decision:?}");
        errors.push(FieldError::forbidden("status.conditions", detail));
    }
    errors
}
