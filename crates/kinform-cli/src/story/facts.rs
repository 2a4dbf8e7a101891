//! The facts that two versions of an object tell.
//!
//! ```text
//! kind, before, after ──▶ ["spec.replicas 2 → 3", "1/3 ready", "Available False → True (MinimumReplicas..)"]
//! ```
//!
//! Pure. Only what a person would tell is a fact: a version that only renews a heartbeat has none.
//! Secrets' values are digests.
//!
//! BOUND: 5 changed fields of a specification, 160 letters of a message.

use serde_json::{Value, json};

use crate::one::text;
use crate::output::diff::Differ;
use crate::tree::readiness::Readiness;

const MAX_FIELDS: usize = 5;
const MAX_LETTERS: usize = 160;

/// Tells facts; one for a whole run, so that digests can be compared.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    differ: Differ,
}

impl Teller {
    /// The facts of an object that is seen for the first time.
    pub(crate) fn first(&self, kind: &str, object: &Value, word: &str) -> Vec<String> {
        let status = Readiness::of(kind, object).status;
        vec![match status.is_empty() {
            true => word.to_owned(),
            false => format!("{word}: {status}"),
        }]
    }

    /// The facts of a change.
    pub(crate) fn change(&self, kind: &str, before: &Value, after: &Value) -> Vec<String> {
        let mut facts = Vec::new();
        deletion(before, after, &mut facts);
        self.desired(kind, before, after, &mut facts);
        owners(before, after, &mut facts);
        if kind == "Pod" {
            pod(before, after, &mut facts);
        }
        let (old, new) = (Readiness::of(kind, before), Readiness::of(kind, after));
        // That it goes away was told already.
        if old.status != new.status && new.status != "Terminating" && !new.status.is_empty() {
            facts.push(match old.status.is_empty() {
                true => new.status,
                false => format!("{} → {}", old.status, new.status),
            });
        }
        conditions(kind, before, after, &mut facts);
        facts
    }

    /// Changes of the desired state: all but metadata and status, and the labels.
    fn desired(&self, kind: &str, before: &Value, after: &Value, facts: &mut Vec<String>) {
        let desired = |object: &Value| {
            let mut desired = object.clone();
            if let Value::Object(members) = &mut desired {
                let labels = object
                    .pointer("/metadata/labels")
                    .cloned()
                    .unwrap_or_default();
                members.insert("metadata".to_owned(), json!({"labels": labels}));
                members.remove("status");
            }
            desired
        };
        let fields = self.differ.fields(kind, &desired(before), &desired(after));
        let more = fields.len().saturating_sub(MAX_FIELDS);
        for field in fields.into_iter().take(MAX_FIELDS) {
            facts.push(match (field.before, field.after) {
                (Some(before), Some(after)) => format!("{} {before} → {after}", field.path),
                (None, Some(after)) => format!("{} is now {after}", field.path),
                (_, None) => format!("{} is gone", field.path),
            });
        }
        if more > 0 {
            facts.push(format!("and {more} more fields"));
        }
    }
}

fn deletion(before: &Value, after: &Value, facts: &mut Vec<String>) {
    let is_going = |object: &Value| !text(object, "/metadata/deletionTimestamp").is_empty();
    let finalizers = |object: &Value| {
        let list = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let (old, new) = (finalizers(before), finalizers(after));
    if is_going(after) && !is_going(before) {
        facts.push(match new.is_empty() {
            true => "is being deleted".to_owned(),
            false => format!("is being deleted, waits for {}", new.join(", ")),
        });
        return;
    }
    facts.extend(
        new.iter()
            .filter(|it| !old.contains(it))
            .map(|it| format!("finalizer {it} added")),
    );
    facts.extend(
        old.iter()
            .filter(|it| !new.contains(it))
            .map(|it| format!("finalizer {it} removed")),
    );
}

fn owners(before: &Value, after: &Value, facts: &mut Vec<String>) {
    let owners = |object: &Value| {
        let list = object
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let names = list
            .into_iter()
            .flatten()
            .map(|it| format!("{}/{}", text(it, "/kind"), text(it, "/name")));
        names.collect::<Vec<_>>()
    };
    let (old, new) = (owners(before), owners(after));
    facts.extend(
        new.iter()
            .filter(|it| !old.contains(it))
            .map(|it| format!("is owned by {it}")),
    );
    facts.extend(
        old.iter()
            .filter(|it| !new.contains(it))
            .map(|it| format!("is no longer owned by {it}")),
    );
}

fn pod(before: &Value, after: &Value, facts: &mut Vec<String>) {
    let node = text(after, "/spec/nodeName");
    if !node.is_empty() && text(before, "/spec/nodeName").is_empty() {
        facts.retain(|fact| !fact.starts_with("spec.nodeName "));
        facts.push(format!("scheduled to {node}"));
    }
    let containers = |object: &Value| {
        let list = object
            .pointer("/status/containerStatuses")
            .and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let old = containers(before);
    for container in containers(after) {
        let name = text(&container, "/name");
        let restarts = |of: &Value| {
            of.pointer("/restartCount")
                .and_then(Value::as_i64)
                .unwrap_or(0)
        };
        let earlier = old.iter().find(|it| text(it, "/name") == name);
        let count = restarts(&container);
        if count > earlier.map_or(0, restarts) {
            let why = text(&container, "/lastState/terminated/reason");
            let code = container.pointer("/lastState/terminated/exitCode");
            let why = match (why, code) {
                ("", _) => String::new(),
                (why, Some(code)) => format!(": {why}, exit code {code}"),
                (why, None) => format!(": {why}"),
            };
            facts.push(format!(
                "container {name} restarted, {count} times now{why}"
            ));
        }
    }
}

fn conditions(kind: &str, before: &Value, after: &Value, facts: &mut Vec<String>) {
    let conditions = |object: &Value| {
        let list = object
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let old = conditions(before);
    for condition in conditions(after) {
        let name = text(&condition, "/type");
        let status = text(&condition, "/status");
        let earlier = old.iter().find(|it| text(it, "/type") == name);
        let earlier = earlier.map_or("", |it| text(it, "/status"));
        // The steps of a pod that goes well show in its phase, its node and its readiness.
        let is_step = kind == "Pod" && name != "Ready" && status == "True";
        if earlier == status || is_step {
            continue;
        }
        let change = match earlier {
            "" => format!("{name} is {status}"),
            earlier => format!("{name} {earlier} → {status}"),
        };
        let why = match (text(&condition, "/reason"), text(&condition, "/message")) {
            ("", "") => String::new(),
            (reason, "") => format!(" ({reason})"),
            ("", message) => format!(" ({message})"),
            (reason, message) => format!(" ({reason}: {message})"),
        };
        facts.push(short(&format!("{change}{why}")));
    }
}

/// The fact of an Event of a cluster, which is about another object.
pub(crate) fn of_event(event: &Value) -> String {
    let part = |pointer: &str| text(event, pointer);
    let count = event
        .pointer("/count")
        .or_else(|| event.pointer("/series/count"));
    let times = match count.and_then(Value::as_i64) {
        Some(count) if count > 1 => format!(" ({count} times)"),
        _ => String::new(),
    };
    let message = match part("/message") {
        "" => part("/note"),
        message => message,
    };
    short(&format!(
        "{} {}: {message}{times}",
        part("/type"),
        part("/reason")
    ))
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_LETTERS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &str, before: Value, after: Value, expected: &[&str]) {
        assert_eq!(Teller::default().change(kind, &before, &after), expected);
    }

    #[test]
    fn a_rollout_is_told_fact_by_fact() {
        let deployment = |replicas: i64, ready: i64, available: &str| {
            json!({"metadata": {"generation": replicas, "resourceVersion": ready.to_string()},
                "spec": {"replicas": replicas},
                "status": {"readyReplicas": ready, "updatedReplicas": replicas, "conditions": [
                    {"type": "Available", "status": available, "reason": "Why", "message": "more",
                     "lastUpdateTime": ready}]}})
        };
        let kind = "Deployment";
        check(
            kind,
            deployment(2, 2, "True"),
            deployment(3, 2, "True"),
            &["spec.replicas 2 → 3", "2/2 ready → 2/3 ready"],
        );
        check(
            kind,
            deployment(3, 2, "False"),
            deployment(3, 3, "True"),
            &[
                "2/3 ready → 3/3 ready",
                "Available False → True (Why: more)",
            ],
        );
        let mut beat = deployment(3, 3, "True");
        beat["status"]["conditions"][0]["lastUpdateTime"] = json!("later");
        check(kind, deployment(3, 3, "True"), beat, &[]);
    }

    #[test]
    fn a_pods_life_is_told() {
        let pod = |node: &str, phase: &str, restarts: i64| {
            json!({"spec": {"nodeName": node}, "status": {"phase": phase, "containerStatuses": [
                {"name": "web", "restartCount": restarts,
                 "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}})
        };
        let mut unplaced = pod("", "Pending", 0);
        unplaced["spec"] = json!({});
        check(
            "Pod",
            unplaced,
            pod("n1", "Pending", 0),
            &["scheduled to n1"],
        );
        check(
            "Pod",
            pod("n1", "Pending", 0),
            pod("n1", "Running", 0),
            &["Pending → Running"],
        );
        check(
            "Pod",
            pod("n1", "Running", 1),
            pod("n1", "Running", 2),
            &["container web restarted, 2 times now: OOMKilled, exit code 137"],
        );
    }

    #[test]
    fn the_steps_of_a_pod_that_goes_well_are_no_facts_and_those_that_fail_are() {
        let pod = |status: &str, ready: &str| {
            json!({"status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": status, "reason": "Unschedulable"},
                {"type": "Ready", "status": ready}]}})
        };
        let none = json!({"status": {"phase": "Pending"}});
        let failed = ["PodScheduled is False (Unschedulable)", "Ready is False"];
        check("Pod", none, pod("False", "False"), &failed);
        check(
            "Pod",
            pod("False", "False"),
            pod("True", "True"),
            &["Ready False → True"],
        );
    }

    #[test]
    fn a_deletion_that_waits_says_for_what() {
        let object = |going: bool, finalizers: &[&str]| {
            let mut object = json!({"metadata": {"finalizers": finalizers}});
            if going {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            object
        };
        check(
            "Foo",
            object(false, &["a"]),
            object(true, &["a"]),
            &["is being deleted, waits for a"],
        );
        check(
            "Foo",
            object(true, &["a", "b"]),
            object(true, &["b"]),
            &["finalizer a removed"],
        );
        check(
            "Pod",
            object(false, &[]),
            object(true, &[]),
            &["is being deleted"],
        );
    }

    #[test]
    fn data_labels_and_owners_are_told_and_secrets_are_not() {
        check(
            "ConfigMap",
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": "2", "b": "3"}}),
            &["data.a 1 → 2", "data.b is now 3"],
        );
        check(
            "Foo",
            json!({"metadata": {"labels": {"app": "a"}}}),
            json!({"metadata": {}}),
            &["metadata.labels a"].map(|_| "metadata.labels {\"app\":\"a\"} → null"),
        );
        let owned = json!({"metadata": {"ownerReferences": [{"kind": "Job", "name": "j"}]}});
        check(
            "Pod",
            json!({"metadata": {}}),
            owned,
            &["is owned by Job/j"],
        );
        let secret = |value: &str| json!({"data": {"password": value}});
        let told =
            Teller::default().change("Secret", &secret("aHVudGVyMg=="), &secret("aHVudGVyMw=="));
        assert!(told.len() == 1 && !told[0].contains("aHVu"), "{told:?}");
    }

    #[test]
    fn many_fields_are_cut() {
        let many: Value = (0..20)
            .map(|n| (format!("k{n:02}"), json!(n)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let told = Teller::default().change("X", &json!({}), &many);
        assert_eq!(told.len(), MAX_FIELDS + 1);
        assert_eq!(told[MAX_FIELDS], "and 15 more fields");
    }

    #[test]
    fn events_are_facts_of_their_objects() {
        let event = json!({"type": "Warning", "reason": "BackOff", "message": "no", "count": 3});
        assert_eq!(of_event(&event), "Warning BackOff: no (3 times)");
        let event = json!({"type": "Normal", "reason": "Pulled", "note": "image"});
        assert_eq!(of_event(&event), "Normal Pulled: image");
    }
}
