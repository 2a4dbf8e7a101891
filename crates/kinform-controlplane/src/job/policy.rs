//! The policies of a Job: about pods that failed, and about when it succeeded early.
//!
//! ```text
//! podFailurePolicy + failed pod ─▶ Failure: counted, ignored, fails the index, fails the Job
//! successPolicy + succeeded indexes ─▶ the message of the rule that is met
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/pod_failure_policy.go`, `success_policy.go`.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::intervals::Intervals;

/// The meaning of a pod's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Counts,
    Ignored,
    FailsIndex,
    /// The message of the Job's failure.
    FailsJob(String),
}

/// The meaning of a failed pod by the first rule that matches it.
pub(super) fn failure(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Failure {
    let rules = policy.map(|policy| policy.rules.as_slice());
    for (index, rule) in rules.unwrap_or_default().iter().enumerate() {
        let what = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(codes), _) => exit_code(pod, codes),
            (None, Some(patterns)) => pod_condition(pod, patterns),
            (None, None) => None,
        };
        let Some((who, what)) = what else {
            continue;
        };
        return match rule.action.as_str() {
            "Ignore" => Failure::Ignored,
            "FailIndex" => Failure::FailsIndex,
            "FailJob" => {
                let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let rule = format!("matching FailJob rule at index {index}");
                Failure::FailsJob(format!("{who} {namespace}/{name} {what} {rule}"))
            }
            "Count" => Failure::Counts,
            _ => continue,
        };
    }
    Failure::Counts
}

/// The container that exited with a code that is asked for, as the two halves of a message.
fn exit_code(
    pod: &Pod,
    asked: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(String, String)> {
    let status = pod.status.as_ref()?;
    let statuses = status.container_statuses.iter().flatten();
    let inits = status.init_container_statuses.iter().flatten();
    let code = |container: &ContainerStatus| {
        let ended = container.state.as_ref()?.terminated.as_ref()?;
        let named = asked.container_name.as_ref();
        let is_named = named.is_none_or(|name| *name == container.name);
        let is_listed = asked.values.contains(&ended.exit_code);
        let matches = match asked.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        (is_named && ended.exit_code != 0 && matches).then_some(ended.exit_code)
    };
    statuses.chain(inits).find_map(|container| {
        let code = code(container)?;
        let who = format!("Container {} for pod", container.name);
        Some((who, format!("failed with exit code {code}")))
    })
}

/// The condition that is asked for, as the two halves of a message.
fn pod_condition(
    pod: &Pod,
    asked: &[PodFailurePolicyOnPodConditionsPattern],
) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let matches = |kind: &str, status: &str| {
        let mut asked = asked.iter();
        asked.any(|one| one.type_ == kind && one.status.as_deref().unwrap_or("True") == status)
    };
    let found = conditions
        .iter()
        .find(|one| matches(&one.type_, &one.status))?;
    Some(("Pod".to_owned(), format!("has condition {}", found.type_)))
}

/// The message of the first rule that is met.
pub(super) fn success(
    policy: Option<&SuccessPolicy>,
    completions: i32,
    succeeded: &Intervals,
) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let mut rules = policy?.rules.iter();
    let index = rules.position(|rule| match &rule.succeeded_indexes {
        Some(asked) => {
            let asked = Intervals::parse(asked, completions);
            let met = asked.common(succeeded);
            let is_enough = rule.succeeded_count.is_some_and(|count| met >= count);
            !asked.is_empty() && (is_enough || met == asked.total())
        }
        None => rule
            .succeeded_count
            .is_some_and(|count| succeeded.total() >= count),
    })?;
    Some(format!("Matched rules at index {index}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(code: i32, condition: &str) -> Pod {
        let pod = json!({"metadata": {"namespace": "ns", "name": "p"}, "status": {
            "conditions": [{"type": condition, "status": "True"}],
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code}},
            }],
        }});
        serde_json::from_value(pod).unwrap()
    }

    // kubernetes: TestMatchPodFailurePolicy
    #[test]
    fn the_first_rule_that_matches_decides() {
        let check = |rules: Value, code: i32, condition: &str, expected: Failure| {
            let policy = serde_json::from_value(json!({"rules": rules})).unwrap();
            let found = failure(Some(&policy), &pod(code, condition));
            assert_eq!(found, expected, "{rules} {code} {condition}");
        };
        let codes = |action: &str, operator: &str, container: Option<&str>| {
            json!({"action": action, "onExitCodes":
                {"operator": operator, "values": [3, 5], "containerName": container}})
        };
        let condition = |action: &str| {
            json!({"action": action,
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
        };
        check(
            json!([codes("Ignore", "In", None)]),
            3,
            "X",
            Failure::Ignored,
        );
        check(
            json!([codes("Ignore", "In", None)]),
            4,
            "X",
            Failure::Counts,
        );
        check(
            json!([codes("Ignore", "In", Some("other"))]),
            3,
            "X",
            Failure::Counts,
        );
        check(
            json!([codes("FailIndex", "NotIn", Some("c"))]),
            4,
            "X",
            Failure::FailsIndex,
        );
        // A container that succeeded matches no rule.
        check(
            json!([codes("FailIndex", "NotIn", None)]),
            0,
            "X",
            Failure::Counts,
        );
        let both = json!([condition("Ignore"), codes("FailJob", "In", None)]);
        check(both.clone(), 3, "DisruptionTarget", Failure::Ignored);
        // As recorded of a real job controller.
        let message =
            "Container c for pod ns/p failed with exit code 3 matching FailJob rule at index 1";
        check(both, 3, "X", Failure::FailsJob(message.to_owned()));
        let message = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0";
        let fails = Failure::FailsJob(message.to_owned());
        check(json!([condition("FailJob")]), 1, "DisruptionTarget", fails);
        assert_eq!(failure(None, &pod(1, "X")), Failure::Counts);
    }

    // kubernetes: TestMatchSuccessPolicy
    #[test]
    fn a_success_policy_is_met_by_indexes_or_by_a_count() {
        let check = |rules: Value, succeeded: &str, expected: Option<&str>| {
            let policy = serde_json::from_value(json!({"rules": rules})).unwrap();
            let succeeded = Intervals::parse(succeeded, 10);
            let met = success(Some(&policy), 10, &succeeded);
            assert_eq!(met.as_deref(), expected, "{rules} {succeeded}");
        };
        let first = Some("Matched rules at index 0");
        check(json!([{"succeededIndexes": "0-2"}]), "0,1", None);
        check(json!([{"succeededIndexes": "0-2"}]), "0-2,9", first);
        check(
            json!([{"succeededIndexes": "0-2", "succeededCount": 2}]),
            "0,2",
            first,
        );
        check(
            json!([{"succeededIndexes": "0-2", "succeededCount": 2}]),
            "2-5",
            None,
        );
        check(json!([{"succeededCount": 3}]), "7-9", first);
        check(json!([{"succeededCount": 3}]), "8,9", None);
        let second = json!([{"succeededCount": 9}, {"succeededIndexes": "4"}]);
        check(second, "4", Some("Matched rules at index 1"));
        assert_eq!(success(None, 10, &Intervals::parse("0-9", 10)), None);
    }
}
