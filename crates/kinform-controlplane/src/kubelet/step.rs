//! The next step of a scripted pod.
//!
//! ```text
//! pod + now → Nothing | Look later | Patch status (then look) | End
//! ```
//!
//! A function of the pod alone: a restarted kubelet goes on where the pod's status is.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::script::{End, Script};
use crate::clock::{left, stamp};
use crate::pods::{is_finished, is_ready, is_terminating};

/// The next step of a pod.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    /// A look after this time.
    Look(Duration),
    /// A patch of its status, and a look after a time.
    Patch(Value, Option<Duration>),
    /// Its removal.
    End,
}

/// The exit code of containers that are asked to end.
const TERMINATED: i32 = 143;

/// Decides the next step of a pod that is bound to a node.
pub(super) fn step(pod: &Pod, now: Timestamp) -> Step {
    if is_terminating(pod) {
        return match is_finished(pod) || !is_awaited(pod) {
            true => Step::End,
            false => Step::Patch(ended(pod, TERMINATED, now), None),
        };
    }
    if is_finished(pod) {
        return Step::Nothing;
    }
    let script = Script::of(pod);
    let status = pod.status.as_ref();
    let started = status.and_then(|status| status.start_time.as_ref());
    let until = |after: Duration| match started {
        Some(started) => left(started.0, after, now),
        None => Some(after).filter(|wait| !wait.is_zero()),
    };
    let is_new = started.is_none();
    let until_exit = match &script.end {
        End::Fail(reason) if is_new => return Step::Patch(failing(pod, reason, now), None),
        End::Fail(_) => return Step::Nothing,
        End::Exit(code) => match until(script.exit_after) {
            None => return exit(pod, *code, now),
            wait => wait,
        },
        End::Deleted => None,
    };
    match until(script.ready_after) {
        Some(wait) => {
            let wait = until_exit.map_or(wait, |exit| exit.min(wait));
            match is_new {
                true => Step::Patch(running(pod, Ready::No, now), Some(wait)),
                false => Step::Look(wait),
            }
        }
        None if !is_ready(pod) => Step::Patch(running(pod, Ready::Yes, now), until_exit),
        None => until_exit.map_or(Step::Nothing, Step::Look),
    }
}

/// The step of a pod whose containers exit, or did.
fn exit(pod: &Pod, code: i32, now: Timestamp) -> Step {
    match restarts_always(pod) {
        true if has_crashed(pod) => Step::Nothing,
        true => Step::Patch(crashing(pod, code, now), None),
        false => Step::Patch(ended(pod, code, now), None),
    }
}

/// Returns whether somebody waits for the end of a pod: its phase must tell of it before it goes.
fn is_awaited(pod: &Pod) -> bool {
    let finalizers = pod.metadata.finalizers.as_deref();
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Yes,
    No,
}

fn restarts_always(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let policy = spec.and_then(|spec| spec.restart_policy.as_deref());
    policy.is_none_or(|policy| policy == "Always")
}

fn has_crashed(pod: &Pod) -> bool {
    crate::pods::restarts(pod) > 0
}

fn containers(pod: &Pod) -> &[Container] {
    let spec = pod.spec.as_ref();
    spec.map(|spec| spec.containers.as_slice())
        .unwrap_or_default()
}

/// The status of a pod whose containers run.
fn running(pod: &Pod, ready: Ready, now: Timestamp) -> Value {
    let is_ready = ready == Ready::Yes;
    let state = json!({"running": {"startedAt": stamp(started(pod, now))}});
    let why = (!is_ready).then_some("ContainersNotReady");
    status(pod, "Running", now, is_ready, why, |container| {
        container_status(container, is_ready, 0, &state)
    })
}

/// The status of a pod whose containers exited for good.
fn ended(pod: &Pod, code: i32, now: Timestamp) -> Value {
    let (phase, reason, why) = match code {
        0 => ("Succeeded", "Completed", "PodCompleted"),
        _ => ("Failed", "Error", "PodFailed"),
    };
    let state = json!({"terminated": {
        "exitCode": code, "reason": reason,
        "startedAt": stamp(started(pod, now)), "finishedAt": stamp(now),
    }});
    status(pod, phase, now, false, Some(why), |container| {
        container_status(container, false, 0, &state)
    })
}

/// The status of a pod whose containers exited, and wait to be started again.
fn crashing(pod: &Pod, code: i32, now: Timestamp) -> Value {
    let state = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    status(
        pod,
        "Running",
        now,
        false,
        Some("ContainersNotReady"),
        |container| {
            let mut status = container_status(container, false, 1, &state);
            status["lastState"] = json!({"terminated": {
                "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
                "startedAt": stamp(started(pod, now)), "finishedAt": stamp(now),
            }});
            status
        },
    )
}

/// The status of a pod whose containers cannot start.
fn failing(pod: &Pod, reason: &str, now: Timestamp) -> Value {
    let state = json!({"waiting": {"reason": reason}});
    status(
        pod,
        "Pending",
        now,
        false,
        Some("ContainersNotReady"),
        |container| container_status(container, false, 0, &state),
    )
}

fn started(pod: &Pod, now: Timestamp) -> Timestamp {
    let status = pod.status.as_ref();
    let started = status.and_then(|status| status.start_time.as_ref());
    started.map_or(now, |time| time.0)
}

fn container_status(container: &Container, is_ready: bool, restarts: i32, state: &Value) -> Value {
    let is_running = state.get("running").is_some();
    let mut status = json!({
        "name": container.name, "image": container.image, "imageID": "",
        "ready": is_ready, "started": is_running, "restartCount": restarts, "state": state,
    });
    if state.get("waiting").is_none() {
        status["imageID"] = "sha256:0".into();
        status["containerID"] = "kinform://0".into();
    }
    status
}

/// A status with its conditions. `why` is the reason of Ready and ContainersReady being false.
fn status(
    pod: &Pod,
    phase: &str,
    now: Timestamp,
    is_ready: bool,
    why: Option<&str>,
    of_container: impl Fn(&Container) -> Value,
) -> Value {
    let has_ended = matches!(phase, "Succeeded" | "Failed");
    let message = (why == Some("ContainersNotReady")).then(|| {
        let names: Vec<&str> = containers(pod).iter().map(|c| c.name.as_str()).collect();
        format!("containers with unready status: [{}]", names.join(" "))
    });
    let condition = |kind: &str, is_true: bool, reason: Option<&str>, message: Option<&str>| {
        let value = if is_true { "True" } else { "False" };
        let old = crate::pods::condition(pod, kind).filter(|old| old.status == value);
        let since = old.and_then(|old| old.last_transition_time.as_ref());
        let mut condition = json!({
            "type": kind, "status": value, "observedGeneration": pod.metadata.generation,
            "lastProbeTime": null, "lastTransitionTime": stamp(since.map_or(now, |time| time.0)),
        });
        // Explicit nulls: a merge would keep the reason of an earlier state.
        condition["reason"] = reason.into();
        condition["message"] = message.into();
        condition
    };
    let completed = (phase == "Succeeded").then_some("PodCompleted");
    let mut status = json!({
        "phase": phase,
        "startTime": stamp(started(pod, now)),
        "conditions": [
            condition("PodReadyToStartContainers", !has_ended, None, None),
            condition("Initialized", true, completed, None),
            condition("Ready", is_ready, why, message.as_deref()),
            condition("ContainersReady", is_ready, why, message.as_deref()),
        ],
        "containerStatuses": containers(pod).iter().map(of_container).collect::<Vec<_>>(),
    });
    let inits = pod.spec.as_ref().and_then(|s| s.init_containers.as_deref());
    if let Some(inits) = inits.filter(|inits| !inits.is_empty()) {
        let done = json!({"terminated": {
            "exitCode": 0, "reason": "Completed",
            "startedAt": stamp(started(pod, now)), "finishedAt": stamp(started(pod, now)),
        }});
        let done = inits.iter().map(|c| container_status(c, true, 0, &done));
        status["initContainerStatuses"] = done.collect::<Vec<_>>().into();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &Value, policy: &str, status: &Value) -> Pod {
        let pod = json!({
            "metadata": {"name": "p", "generation": 1, "annotations": annotations},
            "spec": {"nodeName": "n", "restartPolicy": policy,
                     "containers": [{"name": "c", "image": "i"}]},
            "status": status,
        });
        serde_json::from_value(pod).unwrap()
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    /// The phase, the readiness and the reason after a step that patches.
    fn patched(step: Step) -> (String, String, String, Option<Duration>) {
        let Step::Patch(status, then) = step else {
            panic!("no patch: {step:?}");
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ready = &status["conditions"][2];
        (
            text(&status["phase"]),
            text(&ready["status"]),
            text(&ready["reason"]),
            then,
        )
    }

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn scripts_decide_how_pods_start() {
        let check = |annotations: Value, policy: &str, phase: &str, ready: &str, reason: &str| {
            let step = step(&pod(&annotations, policy, &json!({})), at(NOW));
            let (is_phase, is_ready, is_reason, _) = patched(step);
            assert_eq!(
                (&*is_phase, &*is_ready, &*is_reason),
                (phase, ready, reason),
                "{annotations}"
            );
        };
        check(json!({}), "Always", "Running", "True", "");
        let late = json!({"kinform.dev/ready-after": "5s"});
        check(late, "Always", "Running", "False", "ContainersNotReady");
        let exit = |code: &str| json!({"kinform.dev/exit-code": code});
        check(exit("0"), "Never", "Succeeded", "False", "PodCompleted");
        check(exit("1"), "OnFailure", "Failed", "False", "PodFailed");
        check(
            exit("1"),
            "Always",
            "Running",
            "False",
            "ContainersNotReady",
        );
        let fail = json!({"kinform.dev/fail": "ErrImagePull"});
        check(fail, "Always", "Pending", "False", "ContainersNotReady");
    }

    #[test]
    fn a_late_pod_is_ready_when_its_time_is_over() {
        let script = json!({"kinform.dev/ready-after": "5s"});
        let (.., then) = patched(step(&pod(&script, "Always", &json!({})), at(NOW)));
        assert_eq!(then, Some(Duration::from_secs(5)));
        let running = pod(
            &script,
            "Always",
            &json!({"phase": "Running", "startTime": NOW}),
        );
        let early = step(&running, at("2026-01-01T00:00:02Z"));
        assert_eq!(early, Step::Look(Duration::from_secs(3)));
        let (phase, ready, ..) = patched(step(&running, at("2026-01-01T00:00:05Z")));
        assert_eq!((&*phase, &*ready), ("Running", "True"));
    }

    #[test]
    fn a_pod_that_exits_later_is_ready_before() {
        let script = json!({"kinform.dev/exit-after": "5s", "kinform.dev/exit-code": "1"});
        let (phase, ready, _, then) = patched(step(&pod(&script, "Never", &json!({})), at(NOW)));
        assert_eq!((&*phase, &*ready), ("Running", "True"));
        assert_eq!(then, Some(Duration::from_secs(5)));
        let running = json!({"phase": "Running", "startTime": NOW, "conditions": [
            {"type": "Ready", "status": "True"},
        ]});
        let running = pod(&script, "Never", &running);
        let early = step(&running, at("2026-01-01T00:00:02Z"));
        assert_eq!(early, Step::Look(Duration::from_secs(3)));
        let (phase, ..) = patched(step(&running, at("2026-01-01T00:00:05Z")));
        assert_eq!(phase, "Failed");
    }

    #[test]
    fn a_deleted_pod_with_a_finalizer_fails_before_it_ends() {
        let mut deleted = pod(&json!({}), "Never", &json!({"phase": "Running"}));
        deleted.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(NOW)),
        );
        assert_eq!(step(&deleted, at(NOW)), Step::End);
        deleted.metadata.finalizers = Some(vec!["batch.kubernetes.io/job-tracking".to_owned()]);
        let (phase, ..) = patched(step(&deleted, at(NOW)));
        assert_eq!(phase, "Failed");
        deleted.status.as_mut().unwrap().phase = Some("Failed".to_owned());
        assert_eq!(step(&deleted, at(NOW)), Step::End);
    }

    #[test]
    fn a_pod_that_is_as_its_script_says_stays() {
        let ready = json!({"phase": "Running", "startTime": NOW, "conditions": [
            {"type": "Ready", "status": "True"},
        ]});
        assert_eq!(
            step(&pod(&json!({}), "Always", &ready), at(NOW)),
            Step::Nothing
        );
        let ended = json!({"phase": "Succeeded", "startTime": NOW});
        assert_eq!(
            step(&pod(&json!({}), "Never", &ended), at(NOW)),
            Step::Nothing
        );
        let crashed = json!({"phase": "Running", "startTime": NOW, "containerStatuses": [
            {"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 1},
        ]});
        let exit = json!({"kinform.dev/exit-code": "1"});
        assert_eq!(
            step(&pod(&exit, "Always", &crashed), at(NOW)),
            Step::Nothing
        );
    }
}
