//! A Deployment and its ReplicaSets as the decisions see them.
//!
//! ```text
//! objects (JSON) → replicas, surge, unavailable, revisions, the set of the current template
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/deployment/util/deployment_util.go`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::json::{annotate, annotation, int, maybe_int, name, remove, set, text, time};
use crate::share::{Rounding, share};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const HASH: &str = "pod-template-hash";
/// The annotations of a Deployment that its sets do not inherit.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// The replicas that an object asks for.
pub(super) fn replicas(object: &Value) -> i64 {
    maybe_int(object, "/spec/replicas").unwrap_or(1)
}

/// The available replicas of a set.
pub(super) fn available(set: &Value) -> i64 {
    int(set, "/status/availableReplicas")
}

/// The sum of a number over sets.
pub(super) fn sum<'s>(
    sets: impl IntoIterator<Item = &'s Value>,
    of: impl Fn(&Value) -> i64,
) -> i64 {
    sets.into_iter().map(of).sum()
}

/// Returns whether the old pods go before new ones come.
pub(super) fn recreates(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "Recreate"
}

/// The pods above and below the desired number that a rolling update may have.
fn fence_posts(deployment: &Value) -> (i64, i64) {
    let wanted = replicas(deployment);
    let of = |pointer: &str| deployment.pointer(pointer);
    let surge = of("/spec/strategy/rollingUpdate/maxSurge");
    let unavailable = of("/spec/strategy/rollingUpdate/maxUnavailable");
    let surge = share(surge, wanted, Rounding::Up);
    let unavailable = share(unavailable, wanted, Rounding::Down);
    // Otherwise nothing could ever move.
    match (surge, unavailable) {
        (0, 0) => (0, 1),
        both => both,
    }
}

/// The pods that may exist above the desired number.
pub(super) fn max_surge(deployment: &Value) -> i64 {
    if recreates(deployment) {
        return 0;
    }
    fence_posts(deployment).0
}

/// The pods that may be unavailable.
pub(super) fn max_unavailable(deployment: &Value) -> i64 {
    let wanted = replicas(deployment);
    if recreates(deployment) || wanted == 0 {
        return 0;
    }
    fence_posts(deployment).1.min(wanted)
}

/// The time without progress after which a rollout has failed.
pub(super) fn progress_deadline(deployment: &Value) -> Option<Duration> {
    let seconds = maybe_int(deployment, "/spec/progressDeadlineSeconds")?;
    // The largest number means that there is no deadline.
    let seconds = u64::try_from(seconds).ok()?;
    (seconds != u64::from(i32::MAX.unsigned_abs())).then(|| Duration::from_secs(seconds))
}

/// The revision of an object; 0 if it has none.
pub(super) fn revision(object: &Value) -> i64 {
    let revision = annotation(object, REVISION);
    revision.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The time of an object's creation.
pub(super) fn created(object: &Value) -> Option<Timestamp> {
    time(object, "/metadata/creationTimestamp")
}

/// The template of an object without the label that sets add.
/// Returns whether two objects have the same template, but for the label of its hash.
pub(super) fn has_template_of(one: &Value, other: &Value) -> bool {
    template(one) == template(other)
}

fn template(object: &Value) -> Value {
    let mut template = object
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_default();
    remove(&mut template, &["metadata", "labels", HASH]);
    template
}

/// The index of the set with the Deployment's template: the oldest of several.
pub(super) fn index_of_new(deployment: &Value, sets: &[Value]) -> Option<usize> {
    let wanted = template(deployment);
    let same = (0..sets.len()).filter(|index| template(&sets[*index]) == wanted);
    same.min_by_key(|index| (created(&sets[*index]), name(&sets[*index]).to_owned()))
}

/// Copies the Deployment's own annotations to a set. Returns whether one changed.
pub(super) fn copy_annotations(deployment: &Value, to: &mut Value) -> bool {
    let mut changed = false;
    let annotations = deployment.pointer("/metadata/annotations");
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        if !NOT_COPIED.contains(&key.as_str()) {
            changed |= annotate(to, key, value.as_str().unwrap_or_default());
        }
    }
    changed
}

/// Writes the numbers of the Deployment at a set that changes. Returns whether one was another.
pub(super) fn annotate_replicas(deployment: &Value, to: &mut Value) -> bool {
    let desired = replicas(deployment);
    let max = desired + max_surge(deployment);
    // Both are written, whatever the first one was.
    let is_desired_new = annotate(to, DESIRED, &desired.to_string());
    annotate(to, MAX, &max.to_string()) || is_desired_new
}

/// Writes a revision at a set, and keeps the one before it. Returns whether anything changed.
pub(super) fn annotate_revision(to: &mut Value, new: i64) -> bool {
    let old = revision(to);
    if old >= new {
        return false;
    }
    annotate(to, REVISION, &new.to_string());
    if old > 0 {
        let history = annotation(to, HISTORY).unwrap_or_default();
        let history = match history {
            "" => old.to_string(),
            history => format!("{history},{old}"),
        };
        annotate(to, HISTORY, &history);
    }
    true
}

/// The condition of a type in a status.
pub(super) fn condition<'v>(status: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = status.get("conditions")?.as_array()?;
    conditions.iter().find(|one| text(one, "/type") == kind)
}

/// Sets a condition at the end of the list, unless it has this status and reason already. A status
/// that stays keeps the time of its transition.
pub(super) fn set_condition(status: &mut Value, mut new: Value) {
    let kind = text(&new, "/type").to_owned();
    let same = condition(status, &kind).filter(|old| text(old, "/status") == text(&new, "/status"));
    if let Some(old) = same {
        if text(old, "/reason") == text(&new, "/reason") {
            return;
        }
        let since = text(old, "/lastTransitionTime").to_owned();
        set(&mut new, &["lastTransitionTime"], since.into());
    }
    remove_condition(status, &kind);
    match status.get_mut("conditions").and_then(Value::as_array_mut) {
        Some(conditions) => conditions.push(new),
        None => set(status, &["conditions"], Value::Array(vec![new])),
    }
}

/// Removes the condition of a type.
pub(super) fn remove_condition(status: &mut Value, kind: &str) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|one| text(one, "/type") != kind);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fence_posts_round_in_the_safe_direction() {
        let check = |replicas: i64, surge: Value, unavailable: Value, expected: (i64, i64)| {
            let deployment = json!({"spec": {"replicas": replicas, "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            }}});
            let posts = (max_surge(&deployment), max_unavailable(&deployment));
            assert_eq!(posts, expected, "{deployment}");
        };
        check(3, json!("25%"), json!("25%"), (1, 0));
        check(10, json!("25%"), json!("25%"), (3, 2));
        check(3, json!(0), json!("25%"), (0, 1));
        check(2, json!(0), json!(5), (0, 2));
        check(0, json!("25%"), json!("25%"), (0, 0));
    }

    #[test]
    fn the_oldest_set_with_the_template_is_the_new_one() {
        let deployment = json!({"spec": {"template": {"metadata": {"labels": {"a": "1"}}}}});
        let set = |name: &str, a: &str, created: &str| {
            json!({
                "metadata": {"name": name, "creationTimestamp": created},
                "spec": {"template": {"metadata": {"labels": {"a": a, HASH: name}}}},
            })
        };
        let sets = [
            set("other", "2", "2026-01-01T00:00:00Z"),
            set("late", "1", "2026-01-03T00:00:00Z"),
            set("early", "1", "2026-01-02T00:00:00Z"),
        ];
        assert_eq!(index_of_new(&deployment, &sets), Some(2));
        assert_eq!(index_of_new(&deployment, &sets[..1]), None);
    }

    #[test]
    fn an_earlier_revision_goes_to_the_history() {
        let mut set = json!({"metadata": {"annotations": {REVISION: "2", HISTORY: "1"}}});
        assert!(annotate_revision(&mut set, 4));
        assert_eq!(annotation(&set, REVISION), Some("4"));
        assert_eq!(annotation(&set, HISTORY), Some("1,2"));
        assert!(!annotate_revision(&mut set, 3));
    }

    #[test]
    fn a_condition_moves_to_the_end_when_it_changes() {
        let mut status = json!({});
        let condition = |kind: &str, status: &str, reason: &str, at: &str| json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": at});
        set_condition(&mut status, condition("P", "True", "A", "1"));
        set_condition(&mut status, condition("Q", "True", "A", "1"));
        set_condition(&mut status, condition("P", "True", "A", "2"));
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "1");
        set_condition(&mut status, condition("P", "True", "B", "2"));
        let last = &status["conditions"][1];
        assert_eq!(
            (&last["reason"], &last["lastTransitionTime"]),
            (&json!("B"), &json!("1"))
        );
        remove_condition(&mut status, "P");
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
    }
}
