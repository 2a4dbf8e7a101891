//! Binding: assigns a pod to a node.
//!
//! ```text
//! Binding { target } + pod ──▶ spec.nodeName, condition PodScheduled, 201 | 409 if it has one
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/storage/storage.go` (`BindingREST`).

use http::Response;
use jiff::Timestamp;
use kinform_api::{FieldError, GroupResource, Status};
use serde_json::{Value, json};

use super::condition::set_condition;
use super::{Act, Owners};
use crate::admission::plugins::topology;
use crate::http::body::Body;
use crate::object::{at, metadata, text};
use crate::resource::{Found, ResourceInfo};
use crate::storage::{Draft, Expect, Stored};
use crate::write::commit::TRIES;
use crate::write::update::other_uid;

/// Binds a pod.
pub(super) async fn bind(act: &Act<'_>) -> Result<Response<Body>, Box<Status>> {
    let kind = ["", "v1", "Binding"];
    let body = act.body_owned(kind, Owners::Recorded)?;
    let binding = act.admitted_create(kind, body, |_| {}).await?;
    let said = text(&binding, &["metadata", "name"]);
    let name = match act.target.name.as_deref() {
        Some(name) if name != said => {
            let message = "name in URL does not match name in Binding object";
            return Err(Box::new(Status::bad_request(message)));
        }
        _ => said,
    };
    check(&binding)?;
    let Found::Resource(pods) = act.state.registry.find("", "v1", "pods") else {
        return Err(Box::new(Status::no_such_resource()));
    };
    let namespace = act.target.namespace.as_deref().unwrap_or_default();
    let key = format!("{namespace}/{name}");
    let dry_run = act.options()?.dry_run;
    for _ in 0..TRIES {
        let Some(stored) = act.state.store.get(pods.shelf, &key) else {
            return Err(Box::new(Status::not_found(&pods.group_resource(), name)));
        };
        let mut bound = bound(&pods, &stored, &binding, act.state.clock.now())?;
        topology::label_bound(act.state, &mut bound);
        if dry_run {
            return Ok(act.done());
        }
        let expect = Expect::Revision(stored.revision());
        let draft = Draft::new(&pods.fields, bound);
        let put = draft.and_then(|draft| act.state.store.put(pods.shelf, draft, expect).ok());
        if put.is_some() {
            return Ok(act.done());
        }
    }
    Err(Box::new(Status::modified(&pods.group_resource(), name)))
}

fn check(binding: &Value) -> Result<(), Box<Status>> {
    let (kind, name) = (
        text(binding, &["target", "kind"]),
        text(binding, &["target", "name"]),
    );
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        let supported = ["Node", "<empty>"];
        errors.push(FieldError::not_supported("target.kind", kind, &supported));
    }
    if name.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    let told: Vec<String> = errors
        .iter()
        .map(|error| format!("{}: {}", error.field(), error.body()))
        .collect();
    match told.as_slice() {
        [] => Ok(()),
        [one] => Err(Box::new(Status::failure(500, "", one.as_str()))),
        more => {
            let message = format!("[{}]", more.join(", "));
            Err(Box::new(Status::failure(500, "", message)))
        }
    }
}

/// Returns the pod with its node.
fn bound(
    pods: &ResourceInfo,
    stored: &Stored,
    binding: &Value,
    now: Timestamp,
) -> Result<Value, Box<Status>> {
    let mut pod = stored.value();
    let said = |name| text(binding, &["metadata", name]);
    if !matches!(said("uid"), uid if uid.is_empty() || uid == stored.uid()) {
        let (named, uids) = ((stored.key(), stored.name()), (said("uid"), stored.uid()));
        return Err(other_uid(pods, named, uids, false));
    }
    let version = stored.revision().to_string();
    if !matches!(said("resourceVersion"), of if of.is_empty() || of == version) {
        return Err(Box::new(Status::modified(
            &pods.group_resource(),
            stored.name(),
        )));
    }
    let (name, node) = (stored.name(), text(&pod, &["spec", "nodeName"]));
    let gates = at(&pod, &["spec", "schedulingGates"]).and_then(Value::as_array);
    let why = if metadata::is_terminating(&pod) {
        Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ))
    } else if !node.is_empty() {
        Some(format!("pod {name} is already assigned to node {node:?}"))
    } else if gates.is_some_and(|gates| !gates.is_empty()) {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    };
    if let Some(why) = why {
        let part = GroupResource::new("", "pods/binding");
        return Err(Box::new(Status::conflict(&part, name, &why)));
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    if let Some(status) = pod["status"].as_object_mut() {
        // The nomination has come true, or another node was better.
        status.remove("nominatedNodeName");
    }
    for (place, overwrites) in [("annotations", true), ("labels", false)] {
        for (key, value) in binding["metadata"][place].as_object().into_iter().flatten() {
            let entries = &mut pod["metadata"][place];
            if overwrites || entries[key.as_str()].is_null() {
                entries[key.as_str()] = value.clone();
            }
        }
    }
    set_condition(
        &mut pod,
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": metadata::time(now)}),
    );
    Ok(pod)
}
