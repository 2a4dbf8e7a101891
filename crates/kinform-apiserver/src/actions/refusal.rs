//! Subresources that need a node, or a server behind this one: exec, attach, portforward, proxy.
//!
//! ```text
//! POST pods/x/exec ──▶ 400 without a node, 404 without a pod, 501 else
//! ```
//!
//! Refusals of a real server are worded as there. Requests that a real server would pass on are
//! refused as unsupported.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/{pod,service,node}`.

use kinform_api::Status;

use crate::http::route::Target;
use crate::object::text;
use crate::state::State;

/// Refusal of a request for this subresource.
pub(super) fn of(state: &State, target: &Target) -> Box<Status> {
    let resource = &target.resource;
    let name = target.name.as_deref().unwrap_or_default();
    let part = target.subresource.as_deref().unwrap_or_default();
    if resource.is_core("services") {
        let message = format!("no endpoints available for service {name:?}");
        return Box::new(Status::service_unavailable(message));
    }
    let key = target.key().unwrap_or_default();
    let Some(object) = state.store.get(resource.shelf, &key) else {
        return Box::new(Status::not_found(&resource.group_resource(), name));
    };
    let is_pod = resource.is_core("pods");
    let object = object.value();
    if is_pod && part == "proxy" && text(&object, &["status", "podIP"]).is_empty() {
        return Box::new(Status::bad_request("address not allowed"));
    }
    if is_pod && part != "proxy" && text(&object, &["spec", "nodeName"]).is_empty() {
        let message = format!("pod {name} does not have a host assigned");
        return Box::new(Status::bad_request(message));
    }
    Box::new(unsupported(&format!(
        "{part} of {} {name:?}: there is no node behind this server",
        resource.plural
    )))
}

/// 501: this server does not support the request.
fn unsupported(what: &str) -> Status {
    let message = format!("not supported by this server: {what}");
    Status::failure(501, "NotImplemented", message)
}
