//! The status that a pod begins in, as far as it depends on its spec.
//!
//! ```text
//! resources of containers ─▶ qosClass          schedulingGates ─▶ condition PodScheduled
//! ```

use serde_json::{Value, json};

use super::Now;
use crate::object::quantity::Quantity;
use crate::object::{at, metadata, text};

/// Sets the class by which a node would treat the pod.
pub(super) fn quality_of_service(pod: &mut Value) {
    pod["status"]["qosClass"] = Value::from(class(pod));
}

/// A pod with gates waits, and says so from its first state on.
///
/// Upstream: `applySchedulingGatedCondition`.
pub(super) fn scheduling_gated(pod: &mut Value, now: Now<'_>) {
    let gates = at(pod, &["spec", "schedulingGates"]).and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": metadata::time(now.at), "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
}

/// QoS class of a pod: guaranteed if all limits are set and requests equal them, best effort if
/// neither is set. Zero amounts count as unset.
pub(crate) fn class(pod: &Value) -> &'static str {
    let (mut asks, mut is_guaranteed) = (false, true);
    for list in ["containers", "initContainers"] {
        let containers = at(pod, &["spec", list]).and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            for of in ["cpu", "memory"] {
                let amount = |kind: &str| {
                    let amount = text(container, &["resources", kind, of]).parse::<Quantity>();
                    amount.ok().filter(|amount| !amount.is_zero())
                };
                let (request, limit) = (amount("requests"), amount("limits"));
                asks |= request.is_some() || limit.is_some();
                is_guaranteed &= limit.is_some() && (request.is_none() || request == limit);
            }
        }
    }
    match (asks, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
