//! Checks of updates: immutable fields.
//!
//! ```text
//! :pod_change spec -> images, deadlines and further tolerations; nothing else
//! ```
//!
//! Upstream: `Validate*Update` in `kubernetes/kubernetes:pkg/apis/{core,apps,batch}/validation`.

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue};
use serde_json::{Map, Value};

use super::rule::Check;
use super::workloads::selects;
use super::{Errors, Site};
use crate::object::metadata::shown;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":claim_change" => claim_change,
        ":job_change" => job_change,
        ":network_change" => network_change,
        ":pod_change" => pod_change,
        ":set_change" => set_change,
        ":source_change" => source_change,
        _ => return None,
    })
}

/// Few members of a pod's spec may change.
fn pod_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (Some(new), Some(old)) = (site.value, site.old()) else {
        return;
    };
    for list in ["containers", "initContainers"] {
        let count = |spec: &Value| {
            at(spec, &[list])
                .and_then(Value::as_array)
                .map_or(0, Vec::len)
        };
        if count(new) != count(old) {
            let field = format!("{}.{list}", site.path());
            errors.push(FieldError::forbidden(
                field,
                "pod updates may not add or remove containers",
            ));
            return;
        }
    }
    deadline_change(site, new, old, errors);
    toleration_change(site, new, old, errors);
    let mut after = new.clone();
    for list in ["containers", "initContainers"] {
        let before = at(old, &[list]).and_then(Value::as_array);
        let containers = after.get_mut(list).and_then(Value::as_array_mut);
        for (container, before) in containers
            .into_iter()
            .flatten()
            .zip(before.into_iter().flatten())
        {
            if let (Some(container), Some(image)) = (container.as_object_mut(), before.get("image"))
            {
                container.insert("image".to_owned(), image.clone());
            }
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        if let Some(after) = after.as_object_mut() {
            match old.get(name) {
                Some(before) => _ = after.insert(name.to_owned(), before.clone()),
                None => _ = after.remove(name),
            }
        }
    }
    if after != *old {
        // Upstream adds the difference between structs of its own.
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
             additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
             set to 1 if it was previously negative)";
        errors.push(FieldError::forbidden(site.path(), detail));
    }
}

fn deadline_change(site: &Site<'_>, new: &Value, old: &Value, errors: &mut Errors<'_>) {
    let seconds = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    let field = format!("{}.activeDeadlineSeconds", site.path());
    match (seconds(new), seconds(old)) {
        (Some(new), Some(old)) if new > old => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(field, new, detail));
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(field, ShownValue::raw("null"), detail));
        }
        _ => {}
    }
}

fn toleration_change(site: &Site<'_>, new: &Value, old: &Value, errors: &mut Errors<'_>) {
    let list = |spec: &Value| {
        at(spec, &["tolerations"])
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let plain = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(toleration) = toleration.as_object_mut() {
            toleration.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: HashSet<Value> = list(new).iter().map(plain).collect();
    if !list(old).iter().all(|before| kept.contains(&plain(before))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(
            format!("{}.tolerations", site.path()),
            detail,
        ));
    }
}

/// The template of a job is immutable, except for what its scheduler may set while the job is
/// suspended.
fn job_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (Some(new), Some(old)) = (site.value, site.old()) else {
        return;
    };
    let path = site.path();
    let is_indexed = text(new, &["completionMode"]) == "Indexed";
    let completions = |spec: &Value| spec.get("completions").cloned();
    let is_elastic = is_indexed && new.get("completions") == new.get("parallelism");
    if completions(new) != completions(old) && !is_elastic {
        let value = shown(new.get("completions"));
        errors.push(FieldError::invalid(
            format!("{path}.completions"),
            value,
            "field is immutable",
        ));
    }
    let stored = site.scope.old.unwrap_or(&Value::Null);
    let is_waiting = old.get("suspend") == Some(&Value::Bool(true))
        && at(stored, &["status", "startTime"]).is_none_or(Value::is_null);
    let selector = new.get("selector").unwrap_or(&Value::Null);
    if is_waiting && !selects(selector, at(new, &["template", "metadata", "labels"])) {
        let field = format!("{path}.template.metadata.labels");
        let labels = shown(at(new, &["template", "metadata", "labels"]));
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(field, labels, detail));
    }
    let template = |spec: &Value| match is_waiting {
        true => unplaced(spec.get("template")),
        false => spec.get("template").cloned(),
    };
    if template(new) != template(old) {
        let value = shown(new.get("template"));
        errors.push(FieldError::invalid(
            format!("{path}.template"),
            value,
            "field is immutable",
        ));
    }
    for name in [
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        if new.get(name) != old.get(name) {
            let value = shown(new.get(name));
            errors.push(FieldError::invalid(
                format!("{path}.{name}"),
                value,
                "field is immutable",
            ));
        }
    }
}

/// A template without the members that place its pods: these may change until the pods are placed.
fn unplaced(template: Option<&Value>) -> Option<Value> {
    let mut template = template.cloned()?;
    for (part, names) in [
        ("metadata", &["labels", "annotations"][..]),
        ("spec", &["nodeSelector", "tolerations", "schedulingGates"]),
    ] {
        if let Some(part) = template.get_mut(part).and_then(Value::as_object_mut) {
            part.retain(|name, _| !names.contains(&name.as_str()));
        }
    }
    if let Some(affinity) = template.pointer_mut("/spec/affinity")
        && let Some(affinity) = affinity.as_object_mut()
    {
        affinity.remove("nodeAffinity");
    }
    Some(template)
}

/// Only some members of a stateful set's spec may change.
fn set_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (Some(new), Some(old)) = (site.value, site.old()) else {
        return;
    };
    const MAY: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let rest = |spec: &Value| {
        let members = spec.as_object().into_iter().flatten();
        let members = members.filter(|(name, _)| {
            !MAY.contains(&name.as_str())
                && !matches!(
                    name.as_str(),
                    "selector" | "podManagementPolicy" | "serviceName"
                )
        });
        members
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<_, _>>()
    };
    if rest(new) != rest(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(site.path(), detail));
    }
}

fn claim_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (Some(new), Some(old)) = (site.value, site.old()) else {
        return;
    };
    let is_bound = text(site.scope.old.unwrap_or(&Value::Null), &["status", "phase"]) == "Bound";
    // The client that binds a claim names its volume, once.
    let is_open = text(old, &["volumeName"]).is_empty();
    let rest = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(members) = spec.as_object_mut() {
            members.remove("volumeAttributesClassName");
            if is_open {
                members.remove("volumeName");
            }
            if is_bound {
                members.remove("resources");
            }
        }
        spec
    };
    if rest(new) != rest(old) {
        let detail = "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden(site.path(), detail));
    }
}

/// The source of a volume is immutable.
fn source_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    const REST: [&str; 8] = [
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "nodeAffinity",
        "volumeAttributesClassName",
    ];
    let source = |spec: Option<&Value>| {
        let mut spec = spec.cloned().unwrap_or_default();
        if let Some(members) = spec.as_object_mut() {
            members.retain(|name, _| !REST.contains(&name.as_str()) && name != "volumeMode");
        }
        spec
    };
    if source(site.value) != source(site.old()) {
        let field = format!("{}.persistentvolumesource", site.path());
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// A node's networks are immutable once set.
fn network_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.old().is_some() && site.value != site.old() {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden(site.path(), detail));
    }
}
