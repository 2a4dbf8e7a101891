//! The decision about one pod that nobody ends.
//!
//! ```text
//! pod + what is known of its node + now ─▶ keep │ look later │ delete (node gone, or not)
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podgc/gc_controller.go`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::clock::left;
use crate::pods::{is_finished, is_terminating, node as node_of, phase};
use crate::scheduler::fit::taints;

/// The time that a node must be missing before its pods go.
pub(super) const QUARANTINE: Duration = Duration::from_secs(40);
/// The time between two looks at all pods of a real controller.
pub(super) const PERIOD: Duration = Duration::from_secs(20);
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The node of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'n> {
    Node(&'n Node),
    /// It was not there at this time for the first time.
    Missing(Timestamp),
    /// The pod has none.
    None,
}

/// The nodes that are missing, and the time at which each was for the first time.
#[derive(Debug, Default)]
pub(super) struct Missing {
    // BOUND: missing nodes with pods, and as many that are not swept out yet.
    since: HashMap<String, Timestamp>,
    /// The number of nodes at which those without pods are swept out: a sweep asks about each.
    sweep_at: usize,
}

impl Missing {
    /// The time since when the node of a pod is missing. A pod that was created after its quarantine
    /// begins another one: somebody may have made a node of that name again.
    pub(super) fn since(
        &mut self,
        pod: &Pod,
        now: Timestamp,
        has_pods: impl Fn(&str) -> bool,
    ) -> Timestamp {
        let node = node_of(pod);
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let is_of = |since: &Timestamp| {
            created.is_none_or(|created| left(*since, QUARANTINE, created).is_some())
        };
        if let Some(since) = self.since.get(node).filter(|since| is_of(since)) {
            return *since;
        }
        if self.since.len() >= self.sweep_at {
            self.since.retain(|node, _| has_pods(node));
            self.sweep_at = self.since.len() * 2 + 1;
        }
        self.since.insert(node.to_owned(), now);
        now
    }

    /// Forgets a node that is there.
    pub(super) fn forget(&mut self, node: &str) {
        self.since.remove(node);
    }
}

/// The reason of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    NodeGone,
    /// The pod is deleted already, and nobody ends it.
    Unended,
}

/// The next thing to do with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Keep,
    Look(Duration),
    Delete(Why),
}

/// Returns whether a node is out of service: its pods never end by themselves.
pub(super) fn is_out_of_service(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    !is_ready && taints(node).iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Decides about a pod.
pub(super) fn decide(pod: &Pod, place: Place<'_>, now: Timestamp) -> Decision {
    let deletion = pod.metadata.deletion_timestamp.as_ref();
    if deletion.is_some()
        && is_finished(pod)
        && pod.metadata.deletion_grace_period_seconds == Some(0)
    {
        // A finalizer holds it.
        return Decision::Keep;
    }
    let after = |start, wait, why| match left(start, wait, now) {
        Some(wait) => Decision::Look(wait),
        None => Decision::Delete(why),
    };
    match (place, deletion) {
        (Place::Node(node), Some(_)) if is_out_of_service(node) => Decision::Delete(Why::Unended),
        (Place::Missing(since), _) => after(since, QUARANTINE, Why::NodeGone),
        // Whoever deleted it has some time: the controller of a Job takes its finalizer away.
        (Place::None, Some(since)) => after(since.0, PERIOD, Why::Unended),
        _ => Decision::Keep,
    }
}

/// The ended pods that are too many: evicted ones first, then the oldest.
pub(super) fn excess<P: AsRef<Pod>>(mut ended: Vec<P>, threshold: usize) -> Vec<P> {
    let excess = ended.len().saturating_sub(threshold);
    if excess > 0 {
        ended.sort_by_cached_key(|pod| {
            let pod = pod.as_ref();
            let reason = pod.status.as_ref().and_then(|s| s.reason.as_deref());
            let is_evicted = phase(pod) == "Failed" && reason == Some("Evicted");
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (Reverse(is_evicted), created, pod.metadata.name.clone())
        });
    }
    ended.truncate(excess);
    ended
}

/// Returns whether a pod ended, and stays until somebody deletes it.
pub(super) fn has_ended(pod: &Pod) -> bool {
    is_finished(pod) && !is_terminating(pod)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn pod(phase: &str, deleted: Option<i64>, grace: i64) -> Pod {
        let deleted = deleted.map(|second| at(second).to_string());
        let pod = json!({
            "metadata": {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace},
            "status": {"phase": phase},
        });
        serde_json::from_value(pod).unwrap()
    }

    fn node(ready: &str, taint: &str) -> Node {
        let node = json!({
            "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        serde_json::from_value(node).unwrap()
    }

    // kubernetes: TestGCOrphaned, TestGCUnscheduledTerminating, TestGCTerminating
    #[test]
    fn pods_that_nobody_ends_go() {
        let check = |pod: Pod, place: Place<'_>, expected: Decision| {
            assert_eq!(decide(&pod, place, at(100)), expected, "{pod:?} {place:?}");
        };
        let look = |seconds| Decision::Look(Duration::from_secs(seconds));
        let (gone, unended) = (
            Decision::Delete(Why::NodeGone),
            Decision::Delete(Why::Unended),
        );
        check(pod("Running", None, 0), Place::Missing(at(70)), look(10));
        check(pod("Running", None, 0), Place::Missing(at(60)), gone);
        check(pod("Succeeded", None, 0), Place::Missing(at(60)), gone);
        check(pod("Running", Some(1), 30), Place::Missing(at(60)), gone);
        check(
            pod("Failed", Some(1), 0),
            Place::Missing(at(60)),
            Decision::Keep,
        );
        check(pod("Pending", None, 0), Place::None, Decision::Keep);
        check(pod("Pending", Some(90), 0), Place::None, look(10));
        check(pod("Pending", Some(80), 0), Place::None, unended);
        check(pod("Failed", Some(80), 0), Place::None, Decision::Keep);
        let [out, ready, other] = [
            node("Unknown", OUT_OF_SERVICE),
            node("True", OUT_OF_SERVICE),
            node("Unknown", "k"),
        ];
        check(pod("Running", Some(99), 30), Place::Node(&out), unended);
        check(pod("Running", None, 0), Place::Node(&out), Decision::Keep);
        check(
            pod("Running", Some(1), 30),
            Place::Node(&ready),
            Decision::Keep,
        );
        check(
            pod("Running", Some(1), 30),
            Place::Node(&other),
            Decision::Keep,
        );
    }

    // kubernetes: TestGCTerminated
    #[test]
    fn of_too_many_ended_pods_the_evicted_and_the_oldest_go() {
        let pod = |name: &str, created: i64, reason: Option<&str>| {
            let pod = json!({
                "metadata": {"name": name, "creationTimestamp": at(created).to_string()},
                "status": {"phase": "Failed", "reason": reason},
            });
            std::sync::Arc::new(serde_json::from_value::<Pod>(pod).unwrap())
        };
        let ended = vec![
            pod("b", 1, None),
            pod("new", 9, None),
            pod("a", 1, None),
            pod("evicted", 8, Some("Evicted")),
        ];
        let check = |threshold: usize, expected: &[&str]| {
            let gone = excess(ended.clone(), threshold);
            let names = gone.iter().map(|pod| pod.metadata.name.clone().unwrap());
            assert_eq!(names.collect::<Vec<_>>(), expected, "{threshold}");
        };
        check(4, &[]);
        check(2, &["evicted", "a"]);
        check(0, &["evicted", "a", "b", "new"]);
        let ended: Value = json!({"status": {"phase": "Succeeded"}});
        assert!(has_ended(&serde_json::from_value(ended).unwrap()));
    }

    #[test]
    fn a_pod_that_comes_after_the_quarantine_of_its_node_begins_another_one() {
        let pod = |node: &str, second: i64| -> Pod {
            let pod = json!({"metadata": {"name": "p", "creationTimestamp": at(second).to_string()},
                "spec": {"nodeName": node, "containers": []}});
            serde_json::from_value(pod).unwrap()
        };
        let mut missing = Missing::default();
        let mut since = |node: &str, created: i64, now: i64| {
            let since = missing.since(&pod(node, created), at(now), |node| node == "ghost");
            since.as_second()
        };
        assert_eq!(since("ghost", 0, 10), 10);
        assert_eq!(since("ghost", 49, 60), 10);
        assert_eq!(since("ghost", 50, 100), 100);
        assert_eq!(since("ghost", 0, 120), 100);
        // Those without pods are swept out.
        assert_eq!(since("other", 0, 130), 130);
        assert_eq!(since("third", 0, 140), 140);
        assert_eq!(since("fourth", 0, 145), 145);
        assert_eq!(since("other", 0, 150), 150);
    }
}
