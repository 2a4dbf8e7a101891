//! The kubelet that answers for a pod, and its failures in upstream's words.
//!
//! ```text
//! pod ──container──▶ name        pod ──spec.nodeName──▶ Node ──▶ Kubelet ──exchange──▶ Answer | Status
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/strategy.go` (`validateContainer`,
//! `streamLocation`).

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use kinform_api::Status;
use serde_json::Value;

use super::Act;
use crate::kubelets::{Answer, Failure, Kubelet, Kubelets};
use crate::object::{at, text};

/// Kinds of containers, in upstream's order.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Returns the name of the container that a request is about.
///
/// # Errors
/// 400: the pod has no such container, or several, and the request names none of them.
pub(super) fn container(pod: &Value, name: &str, asked: &str) -> Result<String, Box<Status>> {
    let of = |list: &&str| at(pod, &["spec", list]).and_then(Value::as_array);
    let known = CONTAINERS.iter().filter_map(of).flatten();
    let known: Vec<&str> = known.map(|of| text(of, &["name"])).collect();
    let own = of(&"containers").map_or(&[][..], Vec::as_slice);
    let message = match (asked, own) {
        ("", [one]) => return Ok(text(one, &["name"]).to_owned()),
        ("", []) => format!("a container name must be specified for pod {name}"),
        ("", _) => {
            let known = known.join(" ");
            format!("a container name must be specified for pod {name}, choose one of: [{known}]")
        }
        (asked, _) if known.contains(&asked) => return Ok(asked.to_owned()),
        (asked, _) => format!("container {asked} is not valid for pod {name}"),
    };
    Err(Box::new(Status::bad_request(message)))
}

/// A pod's kubelet, with the room for an exchange.
pub(super) struct Way<'a> {
    kubelets: &'a Kubelets,
    kubelet: Kubelet,
}

/// Returns the way to the kubelet of a pod's node; `None` if the server calls no kubelets, or the
/// node states no port of one.
///
/// # Errors
/// 404 without the node, 500 without an address of it.
pub(super) fn of_node<'a>(act: &Act<'a>, node: &str) -> Result<Option<Way<'a>>, Box<Status>> {
    let state = act.state;
    let Some(kubelets) = &state.kubelets else {
        return Ok(None);
    };
    let Some(found) = state.store.get(state.store.shelf("nodes"), node) else {
        // Upstream names the resource of the request.
        let resource = act.target.resource.group_resource();
        return Err(Box::new(Status::not_found(&resource, node)));
    };
    let kubelet = Kubelet::of(&found.value()).map_err(failed)?;
    Ok(kubelet.map(|kubelet| Way { kubelets, kubelet }))
}

impl Way<'_> {
    /// Sends a request to the kubelet.
    ///
    /// # Errors
    /// 503 if the server stops, or the error that `told` makes of a failure.
    ///
    /// # Cancel safety
    /// The connection ends with the future.
    pub(super) async fn ask(
        &self,
        act: &Act<'_>,
        request: Request<Empty<Bytes>>,
        told: impl FnOnce(Failure) -> String,
    ) -> Result<Answer, Box<Status>> {
        let exchange = self.kubelets.ask(&self.kubelet, request);
        let answer = act.state.stopping.run_until_cancelled(exchange).await;
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(Failure::NoRoom)) => {
                let message = "there are too many connections to kubelets";
                Err(Box::new(Status::too_many_requests(message, 1)))
            }
            Some(Err(failure)) => Err(failed(told(failure))),
            None => {
                let message = "apiserver is shutting down";
                Err(Box::new(Status::service_unavailable(message)))
            }
        }
    }
}

/// 500 without a reason, as upstream tells errors of a network.
pub(super) fn failed(message: String) -> Box<Status> {
    Box::new(Status::failure(500, "", message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_the_named_or_the_only_one() {
        let check = |spec: Value, asked: &str, want: Result<&str, &str>| {
            let got = container(&json!({"spec": spec}), "p", asked);
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(got.map_err(|status| status.message), want, "{asked}");
        };
        let named = |names: &[&str]| {
            let names = names.iter().map(|name| json!({"name": name}));
            Value::from(names.collect::<Vec<_>>())
        };
        let one = json!({"initContainers": named(&["i"]), "containers": named(&["a"]),
            "ephemeralContainers": named(&["e"])});
        check(one.clone(), "", Ok("a"));
        for known in ["i", "a", "e"] {
            check(one.clone(), known, Ok(known));
        }
        check(one, "x", Err("container x is not valid for pod p"));
        let two = json!({"initContainers": named(&["i"]), "containers": named(&["a", "b"])});
        let several = "a container name must be specified for pod p, choose one of: [i a b]";
        check(two, "", Err(several));
        let none = "a container name must be specified for pod p";
        check(json!({}), "", Err(none));
    }
}
