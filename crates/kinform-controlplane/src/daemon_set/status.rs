//! The status of a DaemonSet.
//!
//! ```text
//! template + nodes + pods + now → counts by node → status
//! ```
//!
//! A node counts once, by the pod that it keeps.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/daemon/daemon_controller.go`
//! (`updateDaemonSetStatus`).

use serde_json::{Value, json};

use super::place::Fit;
use super::plan::{Input, by_node};
use crate::json::{int, remove, set as put};
use crate::pods::{is_available, is_ready, min_ready};
use crate::scheduler::fit::name;

/// The next status. Members that this controller does not write stay.
pub(super) fn next(input: &Input<'_>, collisions: i64) -> Value {
    let by_node = by_node(input.pods);
    let (mut desired, mut current, mut wrong) = (0, 0, 0);
    let (mut ready, mut available, mut updated) = (0, 0, 0);
    for node in input.nodes {
        let first = by_node.get(name(node)).and_then(|pods| pods.first());
        if input.template.fit(node) != Fit::Wants {
            wrong += i64::from(first.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = first else {
            continue;
        };
        current += 1;
        ready += i64::from(is_ready(pod));
        available += i64::from(is_available(pod, min_ready(input.set), input.now));
        updated += i64::from(input.template.is_of(pod));
    }
    let status = input.set.get("status").cloned();
    let mut status = status.unwrap_or_else(|| json!({}));
    for (field, count) in [
        ("currentNumberScheduled", current),
        ("numberMisscheduled", wrong),
        ("desiredNumberScheduled", desired),
        ("numberReady", ready),
    ] {
        put(&mut status, &[field], count.into());
    }
    for (field, count) in [
        ("observedGeneration", int(input.set, "/metadata/generation")),
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", desired - available),
        ("collisionCount", collisions),
    ] {
        match count {
            // Absent is how 0 is stored.
            0 => remove(&mut status, &[field]),
            count => put(&mut status, &[field], count.into()),
        }
    }
    status
}
