//! RuntimeClass: the overhead, node selector and tolerations of a pod's runtime class.
//!
//! ```text
//! runtimeClassName ──▶ overhead, nodeSelector, tolerations | 403
//! ```
//!
//! Upstream: `kubernetes:plugin/pkg/admission/runtimeclass`.

use kinform_api::Status;
use serde_json::{Value, json};

use super::forbidden;
use crate::admission::Question;
use crate::object::{at, text};

/// Applies the runtime class of a new pod.
pub(super) fn apply(question: &Question<'_>, pod: &mut Value) -> Result<(), Box<Status>> {
    let pod_name = text(pod, &["metadata", "name"]).to_owned();
    let refuse = |why: String| Err(forbidden(question, &pod_name, &why));
    let name = text(pod, &["spec", "runtimeClassName"]).to_owned();
    let overhead = pod["spec"]["overhead"]
        .as_object()
        .filter(|of| !of.is_empty());
    if name.is_empty() {
        return match overhead {
            Some(_) => refuse(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                 Overhead"
                    .to_owned(),
            ),
            None => Ok(()),
        };
    }
    let store = &question.state.store;
    let Some(class) = store.get(store.shelf("runtimeclasses.node.k8s.io"), &name) else {
        return refuse(format!("pod rejected: RuntimeClass {name:?} not found"));
    };
    let class = class.value();
    let fixed = at(&class, &["overhead", "podFixed"]).filter(|of| of.is_object());
    match (overhead, fixed) {
        (Some(own), Some(fixed)) if Some(own) == fixed.as_object() => {}
        (Some(_), _) => {
            return refuse(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                    .to_owned(),
            );
        }
        (None, Some(fixed)) => pod["spec"]["overhead"] = fixed.clone(),
        (None, None) => {}
    }
    let selector = at(&class, &["scheduling", "nodeSelector"]).and_then(Value::as_object);
    for (key, value) in selector.into_iter().flatten() {
        let own = &pod["spec"]["nodeSelector"][key.as_str()];
        if !own.is_null() && own != value {
            return refuse(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                 pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or_default(),
                own.as_str().unwrap_or_default()
            ));
        }
        pod["spec"]["nodeSelector"][key.as_str()] = value.clone();
    }
    let tolerations = at(&class, &["scheduling", "tolerations"]).and_then(Value::as_array);
    for toleration in tolerations.into_iter().flatten() {
        let own = &mut pod["spec"]["tolerations"];
        if !own.is_array() {
            *own = json!([]);
        }
        if let Some(own) = own.as_array_mut().filter(|own| !own.contains(toleration)) {
            own.push(toleration.clone());
        }
    }
    Ok(())
}
