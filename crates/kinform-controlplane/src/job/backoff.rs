//! The wait before pods that failed are replaced.
//!
//! ```text
//! record so far + pods that newly ended ─▶ Backoff { failures in a row, time of the last } ─▶ wait
//! ```
//!
//! 10 s after the first failure, then twice as long with each, up to 10 minutes; a success resets it.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/backoff_utils.go`.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::clock::left;
use crate::pods::condition;

const FIRST: Duration = Duration::from_secs(10);
/// BOUND: the longest wait.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// The failures of a Job since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: i32,
    last: Option<Timestamp>,
}

impl Backoff {
    /// The record after pods ended.
    pub(super) fn after(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let success = succeeded.iter().map(|pod| finish_time(pod)).max();
        let failures = failed.iter().map(|pod| finish_time(pod));
        let since: Vec<Timestamp> = failures
            .filter(|failure| success.is_none_or(|success| *failure > success))
            .collect();
        let before = match success {
            Some(_) => Self::default(),
            None => self,
        };
        let more = i32::try_from(since.len()).unwrap_or(i32::MAX);
        Self {
            failures: before.failures.saturating_add(more),
            last: since.into_iter().max().or(before.last),
        }
    }

    /// The time until pods may be created; `None` if they may be now.
    pub(super) fn left(self, now: Timestamp) -> Option<Duration> {
        left_after(self.failures, self.last?, now)
    }
}

/// The time until a pod may follow this many failures, the last at `last`; `None` if it may now.
pub(super) fn left_after(failures: i32, last: Timestamp, now: Timestamp) -> Option<Duration> {
    let doublings = u32::try_from(failures - 1).ok()?;
    let factor = 2u32.saturating_pow(doublings);
    left(last, FIRST.saturating_mul(factor).min(LONGEST), now)
}

/// The time at which a pod ended: by its containers, by its condition Ready, by its deletion, else by
/// its creation.
pub(super) fn finish_time(pod: &Pod) -> Timestamp {
    let of_containers = || containers_finished(pod);
    let of_condition = || {
        let ready = condition(pod, "Ready").filter(|ready| ready.status == "False")?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    };
    let of_deletion = || {
        let deletion = pod.metadata.deletion_timestamp.as_ref()?;
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        deletion
            .0
            .checked_sub(SignedDuration::from_secs(grace))
            .ok()
    };
    let of_creation = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    of_containers()
        .or_else(of_condition)
        .or_else(of_deletion)
        .or_else(of_creation)
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The end of the last container, sidecars included, if all have ended.
fn containers_finished(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let sidecars = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = sidecars
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let inits = status.init_container_statuses.iter().flatten();
    let inits = inits.filter(|init| sidecars.contains(&init.name.as_str()));
    let mut all = status.container_statuses.iter().flatten().chain(inits);
    let first = container_finished(all.next()?)?;
    all.try_fold(first, |last, one| Some(last.max(container_finished(one)?)))
}

fn container_finished(status: &ContainerStatus) -> Option<Timestamp> {
    let ended = status.state.as_ref()?.terminated.as_ref()?;
    ended.finished_at.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn pod(value: &Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(value.clone()).unwrap())
    }

    fn ended(second: i64) -> Arc<Pod> {
        pod(&json!({"status": {"containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "finishedAt": at(second)}},
        }]}}))
    }

    // kubernetes: TestNewBackoffRecord
    #[test]
    fn failures_count_since_the_last_success() {
        let check =
            |before: (i32, Option<i64>), ok: &[i64], failed: &[i64], after: (i32, Option<i64>)| {
                let record = |(failures, last): (i32, Option<i64>)| Backoff {
                    failures,
                    last: last.map(at),
                };
                let pods = |seconds: &[i64]| seconds.iter().map(|s| ended(*s)).collect::<Vec<_>>();
                let next = record(before).after(&pods(ok), &pods(failed));
                assert_eq!(next, record(after), "{before:?} {ok:?} {failed:?}");
            };
        check((0, None), &[], &[], (0, None));
        check((1, Some(5)), &[], &[], (1, Some(5)));
        check((0, None), &[], &[1, 3, 2], (3, Some(3)));
        check((2, Some(1)), &[], &[4], (3, Some(4)));
        check((2, Some(1)), &[4], &[], (0, None));
        check((2, Some(1)), &[4], &[3, 4], (0, None));
        check((2, Some(1)), &[4, 2], &[3, 5, 6], (2, Some(6)));
    }

    // kubernetes: TestGetRemainingBackoffTime
    #[test]
    fn waits_double_up_to_ten_minutes() {
        let check = |failures: i32, passed: i64, expected: Option<u64>| {
            let left = left_after(failures, at(0), at(passed));
            assert_eq!(
                left,
                expected.map(Duration::from_secs),
                "{failures} {passed}"
            );
        };
        check(0, 0, None);
        check(1, 0, Some(10));
        check(1, 4, Some(6));
        check(1, 10, None);
        check(2, 0, Some(20));
        check(6, 0, Some(320));
        check(7, 0, Some(600));
        check(i32::MAX, 0, Some(600));
        assert_eq!(Backoff::default().left(at(0)), None);
    }

    // kubernetes: TestGetFinishedTime
    #[test]
    fn a_pod_ended_when_its_last_container_did() {
        let check = |value: Value, second: i64| {
            assert_eq!(finish_time(&pod(&value)), at(second), "{value}");
        };
        let status = |name: &str, finished: Option<i64>| {
            let state = finished.map_or(
                json!({"running": {}}),
                |second| json!({"terminated": {"exitCode": 0, "finishedAt": at(second)}}),
            );
            json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": state})
        };
        let both = json!([status("a", Some(3)), status("b", Some(5))]);
        check(json!({"status": {"containerStatuses": both}}), 5);
        let created = json!({"creationTimestamp": at(1)});
        let one_runs = json!([status("a", Some(3)), status("b", None)]);
        check(
            json!({"metadata": created, "status": {"containerStatuses": one_runs}}),
            1,
        );
        let sidecar = json!({"initContainers": [
            {"name": "s", "image": "i", "restartPolicy": "Always"}, {"name": "i", "image": "i"},
        ], "containers": []});
        let inits = json!([status("s", Some(9)), status("i", Some(11))]);
        check(
            json!({"spec": sidecar, "status": {"containerStatuses": both, "initContainerStatuses": inits}}),
            9,
        );
        let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(7)}]);
        check(
            json!({"metadata": created, "status": {"conditions": unready}}),
            7,
        );
        let deleted = json!({"creationTimestamp": at(1), "deletionTimestamp": at(30),
            "deletionGracePeriodSeconds": 10});
        check(json!({"metadata": deleted}), 20);
        check(json!({"metadata": created}), 1);
    }
}
