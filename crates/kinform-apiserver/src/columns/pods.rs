//! The cells of a pod: ready containers, status and restarts.
//!
//! ```text
//! containers + their states ──init containers first──▶ Summary { ready, all, status, restarts }
//! ```
//!
//! The status is the most important fact in one word: a failing container precedes the phase, and a
//! deletion precedes both. Init containers that keep running count as containers.
//!
//! Upstream: `kubernetes/kubernetes:pkg/printers/internalversion/printers.go`, `printPod`.

use jiff::Timestamp;
use serde_json::Value;

use super::{at, condition, human, items, number, text};

/// The values that the cells of a pod are made of.
#[derive(Debug, Default)]
struct Summary {
    ready: usize,
    all: usize,
    status: String,
    restarts: Restarts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        let count = number(container, "restartCount");
        let ended = text(container, "lastState.terminated.finishedAt").parse();
        self.count = self.count.saturating_add(count);
        self.last = self.last.max(ended.ok());
    }
}

/// `1/2`.
pub(super) fn ready(pod: &Value) -> Value {
    let summary = Summary::of(pod);
    Value::from(format!("{}/{}", summary.ready, summary.all))
}

/// `Running`, `Init:0/1`, `CrashLoopBackOff`, and so on.
pub(super) fn status(pod: &Value) -> Value {
    Value::from(Summary::of(pod).status)
}

/// `0`, or `3 (5m ago)`.
pub(super) fn restarts(pod: &Value, now: Timestamp) -> Value {
    let Restarts { count, last } = Summary::of(pod).restarts;
    Value::from(match last {
        Some(last) if count != 0 => {
            format!(
                "{count} ({} ago)",
                human(now.as_second() - last.as_second())
            )
        }
        _ => count.to_string(),
    })
}

/// Returns the number of readiness gates that are open.
pub(super) fn gates(pod: &Value) -> Value {
    let gates: Vec<&str> = items(pod, "spec.readinessGates")
        .map(|gate| text(gate, "conditionType"))
        .collect();
    if gates.is_empty() {
        return Value::from("<none>");
    }
    let open = gates
        .iter()
        .filter(|gate| condition(pod, gate) == Some("True"));
    Value::from(format!("{}/{}", open.count(), gates.len()))
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let reason = match text(pod, "status.reason") {
            "" => text(pod, "status.phase"),
            reason => reason,
        };
        let mut conditions = items(pod, "status.conditions");
        let is_gated = conditions.any(|it| {
            text(it, "type") == "PodScheduled" && text(it, "reason") == "SchedulingGated"
        });
        let kept_running = items(pod, "spec.initContainers").filter(|it| keeps_running(it));
        let mut summary = Self {
            ready: 0,
            all: items(pod, "spec.containers").count() + kept_running.count(),
            status: if is_gated { "SchedulingGated" } else { reason }.to_owned(),
            restarts: Restarts::default(),
        };
        let kept = summary.look_at_init_containers(pod);
        if kept.is_some() || condition(pod, "Initialized") == Some("True") {
            summary.restarts = kept.unwrap_or_default();
            summary.look_at_containers(pod);
        }
        let is_done = matches!(text(pod, "status.phase"), "Failed" | "Succeeded");
        match at(pod, "metadata.deletionTimestamp") {
            Some(_) if text(pod, "status.reason") == "NodeLost" => {
                "Unknown".clone_into(&mut summary.status);
            }
            Some(_) if !is_done => "Terminating".clone_into(&mut summary.status),
            _ => {}
        }
        summary
    }

    /// Returns the restarts of init containers that keep running, or `None` while the pod is
    /// initializing.
    fn look_at_init_containers(&mut self, pod: &Value) -> Option<Restarts> {
        let mut kept = Restarts::default();
        let count = items(pod, "spec.initContainers").count();
        for (place, container) in items(pod, "status.initContainerStatuses").enumerate() {
            self.restarts.add(container);
            let name = text(container, "name");
            let mut known = items(pod, "spec.initContainers");
            let is_kept = known.any(|it| text(it, "name") == name && keeps_running(it));
            if is_kept {
                kept.add(container);
            }
            let exit = at(container, "state.terminated").map(|it| number(it, "exitCode"));
            if exit == Some(0) {
                continue;
            }
            if is_kept && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waits = text(container, "state.waiting.reason");
            self.status = match (ended(container), waits) {
                (Some(why), _) => format!("Init:{why}"),
                (None, "" | "PodInitializing") => format!("Init:{place}/{count}"),
                (None, why) => format!("Init:{why}"),
            };
            return None;
        }
        Some(kept)
    }

    fn look_at_containers(&mut self, pod: &Value) {
        let mut has_running = false;
        let containers: Vec<&Value> = items(pod, "status.containerStatuses").collect();
        for container in containers.into_iter().rev() {
            self.restarts.add(container);
            let waits = text(container, "state.waiting.reason");
            if !waits.is_empty() {
                waits.clone_into(&mut self.status);
            } else if let Some(why) = ended(container) {
                self.status = why;
            } else if container["ready"] == true && at(container, "state.running").is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && has_running {
            let is_ready = condition(pod, "Ready") == Some("True");
            self.status = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

/// Returns whether an init container keeps running next to the main containers.
fn keeps_running(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// Returns the reason why a container has ended.
fn ended(container: &Value) -> Option<String> {
    let ended = at(container, "state.terminated")?;
    Some(match (text(ended, "reason"), number(ended, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(ended, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // kubernetes: pkg/printers/internalversion/printers_test.go, TestPrintPod and its relatives
    #[test]
    fn a_pod_is_told_in_one_word() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}],
            "initContainers": [{"name": "i"}, {"name": "side", "restartPolicy": "Always"}]});
        let running = json!({"ready": true, "restartCount": 3, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}});
        let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
        let side = json!({"name": "side", "started": true, "ready": true, "restartCount": 2});
        let state = |state: Value| json!({"state": state});
        for (status, expected) in [
            (json!({"phase": "Pending"}), ["0/3", "Pending", "0"]),
            (
                json!({"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
                ["0/3", "SchedulingGated", "0"],
            ),
            (
                json!({"phase": "Running", "initContainerStatuses": [done, side],
                    "containerStatuses": [running, running]}),
                ["3/3", "Running", "8 (5m ago)"],
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [
                    {"name": "i", "restartCount": 1, "state": {"waiting": {"reason": "PodInitializing"}}}]}),
                ["0/3", "Init:0/2", "1"],
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [
                    {"name": "i", "state": {"terminated": {"exitCode": 1}}}]}),
                ["0/3", "Init:ExitCode:1", "0"],
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    state(json!({"waiting": {"reason": "CrashLoopBackOff"}})), running]}),
                ["1/3", "CrashLoopBackOff", "3 (5m ago)"],
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [
                    state(json!({"terminated": {"exitCode": 137, "signal": 9}}))]}),
                ["0/3", "Signal:9", "0"],
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    running, state(json!({"terminated": {"reason": "Completed"}}))]}),
                ["1/3", "NotReady", "3 (5m ago)"],
            ),
        ] {
            let pod = json!({"metadata": {}, "spec": spec, "status": status});
            let cells = [
                super::ready(&pod),
                super::status(&pod),
                super::restarts(&pod, now),
            ];
            assert_eq!(cells, expected.map(Value::from), "{status}");
        }
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (status, expected) in [
            (json!({"phase": "Running"}), "Terminating"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (json!({"phase": "Running", "reason": "NodeLost"}), "Unknown"),
        ] {
            let pod = json!({"metadata": going, "spec": spec, "status": status});
            assert_eq!(super::status(&pod), expected);
        }
    }
}
