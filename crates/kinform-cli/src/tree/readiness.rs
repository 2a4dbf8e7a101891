//! The readiness of an object, and its status in a few words.
//!
//! ```text
//! kind, JSON ──▶ Readiness { is_ready, status }
//! ```
//!
//! Pure. Kinds of Kubernetes have rules of their own; of others the first well-known condition counts.
//! An object that has none of them is neither ready nor unready.
//!
//! Upstream counterpart: `kubectl get`'s STATUS and READY columns; kstatus.

use serde_json::Value;

use crate::one::text;

/// The state of an object for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// `None` if the object says nothing about it.
    pub(crate) is_ready: Option<bool>,
    /// As `2/3 ready` or `CrashLoopBackOff`; may be empty.
    pub(crate) status: String,
}

/// Conditions that say of any kind whether an object works, in order of worth.
const TELLING: [&str; 7] = [
    "Ready",
    "Available",
    "Healthy",
    "Established",
    "Succeeded",
    "Complete",
    "Programmed",
];

impl Readiness {
    fn new(is_ready: bool, status: impl Into<String>) -> Self {
        Self {
            is_ready: Some(is_ready),
            status: status.into(),
        }
    }

    /// Reads an object.
    pub(crate) fn of(kind: &str, object: &Value) -> Self {
        if object
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(Value::is_string)
        {
            return Self::new(false, "Terminating");
        }
        match kind {
            "Pod" => pod(object),
            "Job" => job(object),
            "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => {
                replicas(kind, object)
            }
            "DaemonSet" => {
                let number = |name: &str| number(object, &format!("/status/{name}"));
                let (ready, wanted) = (number("numberReady"), number("desiredNumberScheduled"));
                let ready = ready.unwrap_or(0);
                let wanted = wanted.unwrap_or(0);
                Self::new(
                    is_observed(object) && ready >= wanted,
                    format!("{ready}/{wanted} ready"),
                )
            }
            "PersistentVolumeClaim" | "PersistentVolume" | "Namespace" => {
                let phase = text(object, "/status/phase");
                Self::new(matches!(phase, "Bound" | "Available" | "Active"), phase)
            }
            _ => by_condition(object),
        }
    }

    /// The word of a table: True, False, or a dash.
    pub(crate) fn word(&self) -> &'static str {
        match self.is_ready {
            Some(true) => "True",
            Some(false) => "False",
            None => "-",
        }
    }
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// Returns whether the status describes the present generation.
fn is_observed(object: &Value) -> bool {
    let observed = number(object, "/status/observedGeneration");
    observed.is_none_or(|observed| observed >= number(object, "/metadata/generation").unwrap_or(0))
}

/// The condition of that type.
pub(crate) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| text(condition, "/type") == name)
}

fn by_condition(object: &Value) -> Readiness {
    let mut named = TELLING
        .iter()
        .filter_map(|name| Some((*name, condition(object, name)?)));
    let Some((name, condition)) = named.next() else {
        return Readiness::default();
    };
    let is_true = text(condition, "/status") == "True" && is_observed(object);
    let reason = text(condition, "/reason");
    let status = match (is_true, reason) {
        (false, reason) if !reason.is_empty() => reason.to_owned(),
        (false, _) => format!("not {name}"),
        (true, _) => name.to_owned(),
    };
    Readiness::new(is_true, status)
}

fn replicas(kind: &str, object: &Value) -> Readiness {
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let ready = number(object, "/status/readyReplicas").unwrap_or(0);
    let updated = match kind {
        "Deployment" | "StatefulSet" => number(object, "/status/updatedReplicas").unwrap_or(0),
        _ => wanted,
    };
    let is_ready = is_observed(object) && ready >= wanted && updated >= wanted;
    let mut status = format!("{ready}/{wanted} ready");
    if updated < wanted {
        status.push_str(&format!(", {updated} updated"));
    }
    Readiness::new(is_ready, status)
}

fn job(object: &Value) -> Readiness {
    let is_true = |name: &str| {
        let found = condition(object, name);
        found.filter(|condition| text(condition, "/status") == "True")
    };
    if is_true("Complete").is_some() {
        return Readiness::new(true, "Complete");
    }
    if let Some(failed) = is_true("Failed") {
        let reason = text(failed, "/reason");
        return Readiness::new(false, format!("Failed {reason}").trim_end());
    }
    if is_true("Suspended").is_some() {
        return Readiness::new(false, "Suspended");
    }
    let wanted = number(object, "/spec/completions").unwrap_or(1);
    let done = number(object, "/status/succeeded").unwrap_or(0);
    Readiness::new(false, format!("{done}/{wanted} succeeded"))
}

fn pod(object: &Value) -> Readiness {
    let phase = text(object, "/status/phase");
    if phase == "Succeeded" {
        return Readiness::new(true, phase);
    }
    let ready = condition(object, "Ready").is_some_and(|it| text(it, "/status") == "True");
    let mut status = match text(object, "/status/reason") {
        "" => phase,
        reason => reason,
    };
    for list in ["/status/initContainerStatuses", "/status/containerStatuses"] {
        let containers = object.pointer(list).and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            for state in ["/state/waiting/reason", "/state/terminated/reason"] {
                let reason = text(container, state);
                if !reason.is_empty()
                    && !matches!(
                        reason,
                        "Completed" | "PodInitializing" | "ContainerCreating"
                    )
                {
                    status = reason;
                }
            }
        }
    }
    Readiness::new(ready, status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(kind: &str, object: Value, expected: (&str, &str)) {
        let found = Readiness::of(kind, &object);
        assert_eq!(
            (found.word(), found.status.as_str()),
            expected,
            "{kind} {object}"
        );
    }

    #[test]
    fn readiness_is_read_by_the_rules_of_the_kind() {
        let ready = |status: &str| json!([{"type": "Ready", "status": status, "reason": "Why"}]);
        check(
            "Pod",
            json!({"status": {"phase": "Running", "conditions": ready("True")}}),
            ("True", "Running"),
        );
        check(
            "Pod",
            json!({"status": {"phase": "Pending"}}),
            ("False", "Pending"),
        );
        check(
            "Pod",
            json!({"status": {"phase": "Succeeded"}}),
            ("True", "Succeeded"),
        );
        let crashing = json!({"status": {"phase": "Running", "containerStatuses": [
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        check("Pod", crashing, ("False", "CrashLoopBackOff"));
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        check("Pod", going.clone(), ("False", "Terminating"));
        check("Anything", going, ("False", "Terminating"));
        let deployment = |generation: i64, ready: i64, updated: i64| {
            json!({"metadata": {"generation": generation}, "spec": {"replicas": 3}, "status":
                {"observedGeneration": 2, "readyReplicas": ready, "updatedReplicas": updated}})
        };
        check("Deployment", deployment(2, 3, 3), ("True", "3/3 ready"));
        check("Deployment", deployment(3, 3, 3), ("False", "3/3 ready"));
        check(
            "Deployment",
            deployment(2, 3, 1),
            ("False", "3/3 ready, 1 updated"),
        );
        check(
            "ReplicaSet",
            json!({"spec": {"replicas": 0}}),
            ("True", "0/0 ready"),
        );
        check(
            "DaemonSet",
            json!({"status": {"numberReady": 1, "desiredNumberScheduled": 2}}),
            ("False", "1/2 ready"),
        );
        let ended = |name: &str| json!({"status": {"conditions": [{"type": name, "status": "True", "reason": "R"}]}});
        check("Job", ended("Complete"), ("True", "Complete"));
        check("Job", ended("Failed"), ("False", "Failed R"));
        check(
            "Job",
            json!({"spec": {"completions": 4}, "status": {"succeeded": 1}}),
            ("False", "1/4 succeeded"),
        );
        check(
            "PersistentVolumeClaim",
            json!({"status": {"phase": "Bound"}}),
            ("True", "Bound"),
        );
        check(
            "Foo",
            json!({"status": {"conditions": ready("True")}}),
            ("True", "Ready"),
        );
        check(
            "Foo",
            json!({"status": {"conditions": ready("False")}}),
            ("False", "Why"),
        );
        check("ConfigMap", json!({"data": {}}), ("-", ""));
    }
}
