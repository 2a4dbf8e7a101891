//! PodTopologyLabels: a pod has the zone and the region of its node.
//!
//! ```text
//! pod that names a node, or is bound to one ──node's labels──▶ labels of the pod
//! ```
//!
//! Upstream: `kubernetes:plugin/pkg/admission/podtopologylabels`.

use kinform_api::Status;
use serde_json::Value;

use crate::admission::Question;
use crate::object::text;
use crate::state::State;
use crate::state::plugins::Plugin;

const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Labels a new pod.
pub(super) fn label(question: &Question<'_>, pod: &mut Value) -> Result<(), Box<Status>> {
    copy(question.state, pod);
    Ok(())
}

/// Labels a pod that is bound, if the plugin is on.
pub(crate) fn label_bound(state: &State, pod: &mut Value) {
    if state.plugins.has(Plugin::PodTopologyLabels) {
        copy(state, pod);
    }
}

/// Copies the labels of the node that a pod names; the pod's own ones of these names are replaced.
fn copy(state: &State, pod: &mut Value) {
    let name = text(pod, &["spec", "nodeName"]);
    let Some(node) = state.store.get(state.store.shelf("nodes"), name) else {
        return;
    };
    for key in LABELS {
        if let Some(value) = node.label(key) {
            pod["metadata"]["labels"][key] = Value::from(value);
        }
    }
}
