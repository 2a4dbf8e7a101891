//! The status of a budget: how many pods should be there, how many are healthy, how many may go.
//!
//! ```text
//! budget + its pods + scale of their owners + now ─▶ Counted ─▶ status; pods that were not deleted; next look
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/disruption/disruption.go` (`trySync`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use crate::clock::stamp;
use crate::json::{int, set, text};
use crate::pods::{is_ready, is_terminating};
use crate::selector::selects;

/// The time in which an evicted pod must be seen to be deleted.
const DELETION: SignedDuration = SignedDuration::from_secs(2 * 60);
const CONDITION: &str = "DisruptionAllowed";

/// The rule that a budget's number of pods follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule<'b> {
    /// This number of pods, of those that are there.
    Pods(i64),
    /// A part of what the owners ask for that must be there, or that may be missing.
    Available(&'b str),
    Unavailable(&'b Value),
    /// Nothing is asked for.
    None,
}

impl<'b> Rule<'b> {
    pub(super) fn of(budget: &'b Value) -> Self {
        let spec = |field: &str| {
            budget
                .get("spec")?
                .get(field)
                .filter(|value| !value.is_null())
        };
        match (spec("maxUnavailable"), spec("minAvailable")) {
            (Some(most), _) => Self::Unavailable(most),
            (None, Some(Value::String(part))) => Self::Available(part),
            (None, Some(least)) => Self::Pods(least.as_i64().unwrap_or(0)),
            (None, None) => Self::None,
        }
    }

    /// Returns whether the scale of the pods' owners counts.
    pub(super) fn needs_scale(self) -> bool {
        matches!(self, Self::Available(_) | Self::Unavailable(_))
    }
}

/// The numbers that a rule makes of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pods: i64,
    healthy: i64,
}

/// The pods that should be there and be healthy; `scale` is the sum of what their owners ask for.
///
/// # Errors
/// A part is no percentage.
pub(super) fn expected(rule: Rule<'_>, pods: usize, scale: i64) -> Result<Expected, String> {
    Ok(match rule {
        Rule::Pods(healthy) => Expected {
            pods: i64::try_from(pods).unwrap_or(i64::MAX),
            healthy,
        },
        Rule::Available(part) => Expected {
            pods: scale,
            healthy: percent(part, scale)?,
        },
        Rule::Unavailable(most) => {
            let most = match most {
                Value::String(part) => percent(part, scale)?,
                most => most.as_i64().unwrap_or(0),
            };
            Expected {
                pods: scale,
                healthy: (scale - most).max(0),
            }
        }
        Rule::None => Expected::default(),
    })
}

/// A percentage of a number, rounded up.
fn percent(part: &str, of: i64) -> Result<i64, String> {
    let number = part
        .strip_suffix('%')
        .and_then(|number| number.parse::<i64>().ok());
    let number = number.ok_or_else(|| {
        format!("invalid value for IntOrString: invalid type: string is not a percentage: {part:?}")
    })?;
    let hundredths = number.saturating_mul(of);
    Ok(hundredths.saturating_add(99).div_euclid(100))
}

/// A status, and what follows from it.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) status: Value,
    /// The pods that were evicted and not deleted in time.
    pub(super) not_deleted: Vec<Arc<Pod>>,
    pub(super) later: Option<Duration>,
}

/// Counts the pods of a budget.
pub(super) fn counted(
    budget: &Value,
    pods: &[Arc<Pod>],
    expected: Expected,
    now: Timestamp,
) -> Counted {
    let evicted = budget
        .pointer("/status/disruptedPods")
        .and_then(Value::as_object);
    let evicted_at = |pod: &Pod| {
        let name = pod.metadata.name.as_ref()?;
        evicted?.get(name)?.as_str()?.parse::<Timestamp>().ok()
    };
    let (mut disrupted, mut not_deleted, mut later) = (Map::new(), Vec::new(), None);
    let mut healthy = 0;
    for pod in pods.iter().filter(|pod| !is_terminating(pod)) {
        let deletion = evicted_at(pod).map(|at| (at, at.checked_add(DELETION)));
        if let Some((at, Ok(end))) = deletion {
            if end < now {
                not_deleted.push(Arc::clone(pod));
            } else {
                let name = pod.metadata.name.clone().unwrap_or_default();
                disrupted.insert(name, stamp(at).into());
                let left = Duration::try_from(now.duration_until(end)).unwrap_or_default();
                later = Some(later.map_or(left, |later: Duration| later.min(left)));
                if end > now {
                    continue;
                }
            }
        }
        healthy += i64::from(is_ready(pod));
    }
    let allowed = match expected.pods {
        1.. => (healthy - expected.healthy).max(0),
        _ => 0,
    };
    let generation = int(budget, "/metadata/generation");
    let mut status = json!({
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
    });
    if !disrupted.is_empty() {
        set(&mut status, &["disruptedPods"], disrupted.into());
    }
    let (value, reason) = match allowed {
        0 => ("False", "InsufficientPods"),
        _ => ("True", "SufficientPods"),
    };
    let conditions = conditions(budget, value, (reason, ""), generation, now);
    set(&mut status, &["conditions"], conditions);
    Counted {
        status,
        not_deleted,
        later,
    }
}

/// The status of a budget whose numbers could not be found: no pod may go.
pub(super) fn failed(budget: &Value, message: &str, now: Timestamp) -> Value {
    let status = budget.get("status").filter(|status| status.is_object());
    let mut status = status.cloned().unwrap_or_else(|| json!({}));
    set(&mut status, &["disruptionsAllowed"], 0.into());
    for count in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        let known = int(&status, &format!("/{count}"));
        set(&mut status, &[count], known.into());
    }
    let generation = int(&status, "/observedGeneration");
    let conditions = conditions(budget, "False", ("SyncFailed", message), generation, now);
    set(&mut status, &["conditions"], conditions);
    status
}

/// The conditions with the one of this controller. It keeps its time while its status stays.
fn conditions(
    budget: &Value,
    status: &str,
    (reason, message): (&str, &str),
    generation: i64,
    now: Timestamp,
) -> Value {
    let conditions = budget
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.cloned().unwrap_or_default();
    let old = conditions
        .iter_mut()
        .find(|one| text(one, "/type") == CONDITION);
    let since = old.as_ref().filter(|old| text(old, "/status") == status);
    let since = since.map(|old| text(old, "/lastTransitionTime").to_owned());
    let new = json!({
        "type": CONDITION, "status": status, "reason": reason, "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since.unwrap_or_else(|| stamp(now)),
    });
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
    conditions.into()
}

/// Returns whether a budget covers a pod with these labels. An empty selector covers all pods.
pub(super) fn covers(budget: &Value, labels: &BTreeMap<String, String>) -> bool {
    let selector = budget
        .pointer("/spec/selector")
        .filter(|selector| selector.is_object());
    let is_empty = |selector: &Value| {
        ["matchLabels", "matchExpressions"]
            .iter()
            .all(|part| match selector.get(part) {
                Some(Value::Object(part)) => part.is_empty(),
                Some(Value::Array(part)) => part.is_empty(),
                _ => true,
            })
    };
    selector.is_some_and(|selector| is_empty(selector) || selects(Some(selector), labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn budget(spec: Value, status: Value) -> Value {
        json!({"metadata": {"name": "b", "namespace": "ns", "generation": 2}, "spec": spec,
            "status": status})
    }

    fn pod(name: &str, ready: &str) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    // kubernetes: TestIntegerMaxUnavailable, TestPercentageMaxUnavailable ..
    #[test]
    fn numbers_and_parts_say_how_many_must_be_healthy() {
        let check = |spec: Value, pods: usize, scale: i64, expected_pods: i64, healthy: i64| {
            let budget = budget(spec, json!({}));
            let found = expected(Rule::of(&budget), pods, scale);
            let expected = Expected {
                pods: expected_pods,
                healthy,
            };
            assert_eq!(found, Ok(expected), "{budget}");
        };
        check(json!({"minAvailable": 3}), 2, 10, 2, 3);
        check(json!({"minAvailable": "50%"}), 2, 5, 5, 3);
        check(json!({"minAvailable": "0%"}), 2, 5, 5, 0);
        check(json!({"maxUnavailable": 1}), 2, 5, 5, 4);
        check(json!({"maxUnavailable": 9}), 2, 5, 5, 0);
        check(json!({"maxUnavailable": "30%"}), 2, 5, 5, 3);
        check(json!({"minAvailable": null}), 2, 5, 0, 0);
        assert!(expected(Rule::Available("half"), 1, 1).is_err());
        assert!(!Rule::of(&budget(json!({"minAvailable": 1}), json!({}))).needs_scale());
    }

    // As recorded of a real controller.
    #[test]
    fn healthy_pods_beyond_the_wanted_ones_may_go() {
        let least = |healthy| Expected { pods: 2, healthy };
        let counts = |pods: &[Arc<Pod>], expected: Expected| {
            let status = counted(&budget(json!({}), json!({})), pods, expected, now()).status;
            let condition = &status["conditions"][0];
            let reason = condition["reason"].as_str().unwrap().to_owned();
            (
                status["currentHealthy"].clone(),
                status["disruptionsAllowed"].clone(),
                reason,
            )
        };
        let is = |healthy: i64, allowed: i64, reason: &str| {
            (healthy.into(), allowed.into(), reason.to_owned())
        };
        let ready = [pod("a", "True"), pod("b", "True")];
        assert_eq!(counts(&ready, least(1)), is(2, 1, "SufficientPods"));
        assert_eq!(counts(&ready, least(2)), is(2, 0, "InsufficientPods"));
        assert_eq!(counts(&ready[..1], least(2)), is(1, 0, "InsufficientPods"));
        let unready = [pod("a", "True"), pod("b", "False")];
        assert_eq!(counts(&unready, least(1)), is(1, 0, "InsufficientPods"));
        // Without pods that are expected, no pod may go.
        assert_eq!(
            counts(&ready, Expected::default()),
            is(2, 0, "InsufficientPods")
        );
        let mut ending = Pod::clone(&ready[0]);
        ending.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        let ending = [Arc::new(ending), pod("b", "True")];
        assert_eq!(counts(&ending, least(1)), is(1, 0, "InsufficientPods"));
    }

    #[test]
    fn a_status_has_all_its_counts_and_keeps_its_time() {
        let old = json!({"conditions": [{"type": CONDITION, "status": "False",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let none = counted(&budget(json!({}), old), &[], Expected::default(), now());
        let expected = json!({
            "observedGeneration": 2, "disruptionsAllowed": 0, "currentHealthy": 0,
            "desiredHealthy": 0, "expectedPods": 0,
            "conditions": [{"type": CONDITION, "status": "False", "reason": "InsufficientPods",
                "message": "", "observedGeneration": 2,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        });
        assert_eq!(none.status, expected);
        let budget = budget(json!({}), expected);
        let some = counted(
            &budget,
            &[pod("a", "True")],
            Expected {
                pods: 1,
                healthy: 0,
            },
            now(),
        );
        assert_eq!(some.status["conditions"][0]["lastTransitionTime"], NOW);
    }

    // kubernetes: TestUpdateDisruptedPods
    #[test]
    fn evicted_pods_are_awaited_for_two_minutes() {
        let status = json!({"disruptedPods": {
            "a": "2026-01-01T00:09:00Z", "b": "2026-01-01T00:07:59Z", "gone": NOW,
        }});
        let pods = [pod("a", "True"), pod("b", "True"), pod("c", "True")];
        let counted = counted(
            &budget(json!({}), status),
            &pods,
            Expected {
                pods: 3,
                healthy: 1,
            },
            now(),
        );
        assert_eq!(
            counted.status["disruptedPods"],
            json!({"a": "2026-01-01T00:09:00Z"})
        );
        assert_eq!(counted.status["currentHealthy"], 2);
        assert_eq!(counted.later, Some(Duration::from_secs(60)));
        let names: Vec<_> = counted
            .not_deleted
            .iter()
            .map(|pod| pod.metadata.name.as_deref())
            .collect();
        assert_eq!(names, [Some("b")]);
    }

    #[test]
    fn a_failure_lets_no_pod_go() {
        let status = json!({"disruptionsAllowed": 2, "currentHealthy": 3, "observedGeneration": 1});
        let failed = failed(&budget(json!({}), status), "no owner", now());
        assert_eq!(
            (&failed["disruptionsAllowed"], &failed["currentHealthy"]),
            (&json!(0), &json!(3))
        );
        let condition = &failed["conditions"][0];
        assert_eq!(
            (&condition["reason"], &condition["message"]),
            (&json!("SyncFailed"), &json!("no owner"))
        );
    }

    #[test]
    fn an_empty_selector_covers_every_pod_and_none_covers_no_pod() {
        let labels = BTreeMap::from([("app".to_owned(), "x".to_owned())]);
        let check = |selector: Value, expected: bool| {
            let budget = budget(json!({"selector": selector}), json!({}));
            assert_eq!(covers(&budget, &labels), expected, "{budget}");
        };
        check(Value::Null, false);
        check(json!({}), true);
        check(json!({"matchLabels": {}}), true);
        check(json!({"matchLabels": {"app": "x"}}), true);
        check(json!({"matchLabels": {"app": "y"}}), false);
    }
}
