//! Priority: the number and the preemption policy of a pod, from its class.
//!
//! ```text
//! priorityClassName, or the default class ──▶ priority, preemptionPolicy | 403
//! ```
//!
//! Upstream: `kubernetes:plugin/pkg/admission/priority`.

use std::sync::Arc;

use kinform_api::Status;
use serde_json::Value;

use super::{all, forbidden};
use crate::admission::{Objects, Question};
use crate::object::text;
use crate::storage::Stored;

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
/// The classes of every cluster.
const SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];
const PREEMPTS: &str = "PreemptLowerPriority";

/// Sets the priority of a new pod.
pub(super) fn set(question: &Question<'_>, pod: &mut Value) -> Result<(), Box<Status>> {
    let name = text(pod, &["spec", "priorityClassName"]).to_owned();
    let pod_name = text(pod, &["metadata", "name"]).to_owned();
    let refuse = |why: &str| Err(forbidden(question, &pod_name, why));
    let class = match name.as_str() {
        "" => default_class(question).map(|class| class.value()),
        name => {
            let store = &question.state.store;
            store
                .get(store.shelf(CLASSES), name)
                .map(|class| class.value())
        }
    };
    let system = SYSTEM
        .iter()
        .find(|(of, _)| *of == name)
        .map(|(_, value)| *value);
    if class.is_none() && system.is_none() && !name.is_empty() {
        return refuse(&format!("no PriorityClass with name {name} was found"));
    }
    let given = class.as_ref().and_then(|class| class["value"].as_i64());
    let priority = given.or(system).unwrap_or(0);
    let policy = class
        .as_ref()
        .map_or("", |class| text(class, &["preemptionPolicy"]));
    let policy = if policy.is_empty() { PREEMPTS } else { policy };
    let spec = &mut pod["spec"];
    if let Some(said) = spec["priority"].as_i64().filter(|said| *said != priority) {
        return refuse(&format!(
            "the integer value of priority ({said}) must not be provided in pod spec; priority \
             admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(said) = spec["preemptionPolicy"]
        .as_str()
        .filter(|said| *said != policy)
    {
        return refuse(&format!(
            "the string value of PreemptionPolicy ({said}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some(class) = &class {
        spec["priorityClassName"] = class["metadata"]["name"].clone();
    }
    spec["priority"] = Value::from(priority);
    spec["preemptionPolicy"] = Value::from(policy);
    Ok(())
}

/// Refuses a second default class.
pub(super) fn check_class(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let Some(class) = objects
        .object
        .filter(|class| class["globalDefault"] == true)
    else {
        return Ok(());
    };
    match default_class(question) {
        None => Ok(()),
        Some(known) => {
            let name = text(class, &["metadata", "name"]);
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                known.name()
            );
            Err(forbidden(question, name, &why))
        }
    }
}

/// The default class; of several, that of the lowest priority.
fn default_class(question: &Question<'_>) -> Option<Arc<Stored>> {
    let view = all(question, CLASSES);
    let defaults = view
        .snapshot
        .iter()
        .filter(|class| class.value()["globalDefault"] == true);
    defaults
        .min_by_key(|class| class.value()["value"].as_i64())
        .cloned()
}
