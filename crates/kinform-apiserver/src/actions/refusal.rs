//! Refusals of requests that need a server behind this one: proxies, and streams of nodes whose
//! kubelet is not called.
//!
//! ```text
//! GET services/x/proxy ──▶ 404 without an object, 400 or 503 in upstream's words, 501 else
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
    let why = match (part, &state.kubelets) {
        ("proxy", _) => "there is no network behind this server",
        (_, None) => "this server calls no kubelets",
        (_, Some(_)) => "its node states no port of a kubelet",
    };
    let plural = &resource.plural;
    Box::new(unsupported(&format!("{part} of {plural} {name:?}: {why}")))
}

/// 501: this server does not support the request.
fn unsupported(what: &str) -> Status {
    let message = format!("not supported by this server: {what}");
    Status::failure(501, "NotImplemented", message)
}
