//! The signs of life of a node: heartbeats of its status, renewals of its lease.
//!
//! ```text
//! node + lease + what was seen before + now ─▶ Health ─▶ the time that it has left
//! node without a sign of life ─▶ status whose conditions are Unknown
//! ```
//!
//! A sign counts from the moment when it is seen: clocks of nodes are not compared with this one.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/nodelifecycle/node_lifecycle_controller.go`
//! (`tryUpdateNodeHealth`).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::{left, stamp};
use crate::json::{set, text, time};

/// The time without a sign of life after which a node is lost, as upstream's default.
const GRACE: Duration = Duration::from_secs(50);
/// The same for a node that never had a status.
const STARTUP_GRACE: Duration = Duration::from_secs(60);

/// The last signs of life of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    /// The time of the last heartbeat; `None` without a condition Ready.
    heartbeat: Option<String>,
    /// The time of the last renewal.
    renewed: Option<Timestamp>,
    /// The time at which the last sign was seen.
    seen: Timestamp,
}

impl Health {
    /// The health of a node, after that of the last look.
    pub(super) fn of(
        before: Option<Self>,
        node: &Value,
        renewed: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let ready = condition(node, "Ready");
        let heartbeat = ready.map(|ready| text(ready, "/lastHeartbeatTime").to_owned());
        let seen = match &before {
            None if heartbeat.is_none() => created(node).unwrap_or(now),
            Some(before) if before.heartbeat == heartbeat => before.seen,
            _ => now,
        };
        let last = before.and_then(|before| before.renewed);
        Self {
            heartbeat,
            renewed: last.max(renewed),
            seen: if renewed > last { now } else { seen },
        }
    }

    /// The time until the node is lost; `None` if it is.
    pub(super) fn left(&self, now: Timestamp) -> Option<Duration> {
        let grace = match self.heartbeat {
            Some(_) => GRACE,
            None => STARTUP_GRACE,
        };
        left(self.seen, grace, now)
    }
}

fn created(node: &Value) -> Option<Timestamp> {
    time(node, "/metadata/creationTimestamp")
}

/// The condition of a type.
pub(super) fn condition<'n>(node: &'n Value, kind: &str) -> Option<&'n Value> {
    let conditions = node.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|one| text(one, "/type") == kind)
}

/// The status of the condition Ready; `None` without one.
pub(super) fn ready(node: &Value) -> Option<&str> {
    condition(node, "Ready").map(|ready| text(ready, "/status"))
}

/// The status of a node that is lost; `None` if it says so already.
pub(super) fn lost(node: &Value, now: Timestamp) -> Option<Value> {
    if ready(node) == Some("Unknown") {
        return None;
    }
    let conditions = node
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned();
    let mut conditions = conditions.unwrap_or_default();
    // The network is not the kubelet's to tell of.
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let known = conditions.iter_mut().find(|one| text(one, "/type") == kind);
        match known {
            None => conditions.push(json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": text(node, "/metadata/creationTimestamp"),
                "lastTransitionTime": stamp(now),
            })),
            Some(known) if text(known, "/status") == "Unknown" => {}
            Some(known) => {
                set(known, &["status"], "Unknown".into());
                set(known, &["reason"], "NodeStatusUnknown".into());
                let message = "Kubelet stopped posting node status.";
                set(known, &["message"], message.into());
                set(known, &["lastTransitionTime"], stamp(now).into());
            }
        }
    }
    let mut status = node.get("status").cloned().unwrap_or_default();
    set(&mut status, &["conditions"], conditions.into());
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn node(heartbeat: Option<&str>) -> Value {
        let ready = heartbeat
            .map(|time| json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": time}]));
        json!({
            "metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"},
            "status": {"conditions": ready},
        })
    }

    // kubernetes: TestMonitorNodeHealthUpdateStatus
    #[test]
    fn every_sign_of_life_grants_another_grace_period() {
        // Signs at their times, and what is left at second 100.
        let check = |signs: &[(i64, Option<&str>, Option<i64>)], expected: Option<u64>| {
            let mut health = None;
            for (second, heartbeat, renewed) in signs {
                let (node, renewed) = (node(*heartbeat), renewed.map(at));
                health = Some(Health::of(health, &node, renewed, at(*second)));
            }
            let left = health.unwrap().left(at(100));
            assert_eq!(left, expected.map(Duration::from_secs), "{signs:?}");
        };
        check(&[(60, Some("a"), None)], Some(10));
        check(&[(50, Some("a"), None)], None);
        check(&[(50, Some("a"), None), (70, Some("a"), None)], None);
        check(&[(50, Some("a"), None), (70, Some("b"), None)], Some(20));
        check(&[(50, Some("a"), None), (70, Some("a"), Some(1))], Some(20));
        check(&[(50, Some("a"), Some(2)), (70, Some("a"), Some(2))], None);
        check(&[(50, Some("a"), Some(2)), (70, Some("a"), Some(1))], None);
        // Without a status, a node has a minute from its creation.
        check(&[(99, None, None)], None);
        check(&[(41, None, Some(1))], Some(1));
        check(&[(10, None, None), (70, Some("a"), None)], Some(20));
    }

    #[test]
    fn a_lost_node_has_unknown_conditions_apart_from_its_network() {
        let mut node = node(Some("1970-01-01T00:00:07Z"));
        let network = json!({"type": "NetworkUnavailable", "status": "False"});
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(network.clone());
        node["status"]["capacity"] = json!({"cpu": "4"});
        let status = lost(&node, at(90)).unwrap();
        assert_eq!(status["capacity"]["cpu"], "4");
        assert_eq!(status["conditions"][1], network);
        let told: Vec<_> = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (text(one, "/type"), text(one, "/reason")))
            .collect();
        assert_eq!(
            told,
            [
                ("Ready", "NodeStatusUnknown"),
                ("NetworkUnavailable", ""),
                ("MemoryPressure", "NodeStatusNeverUpdated"),
                ("DiskPressure", "NodeStatusNeverUpdated"),
                ("PIDPressure", "NodeStatusNeverUpdated"),
            ]
        );
        let ready = &status["conditions"][0];
        assert_eq!(ready["lastHeartbeatTime"], "1970-01-01T00:00:07Z");
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:01:30Z");
        node["status"] = status;
        assert_eq!(lost(&node, at(95)), None);
    }
}
