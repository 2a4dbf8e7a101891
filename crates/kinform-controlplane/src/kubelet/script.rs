//! The script of a pod: annotations that say how its containers behave.
//!
//! ```text
//! kinform.dev/ready-after: 5s ─┐
//! kinform.dev/exit-after: 9s  ─┤
//! kinform.dev/exit-code: "1"  ─┼─▶ Script { ready_after, exit_after, end }
//! kinform.dev/fail: REASON    ─┘
//! ```
//!
//! An annotation that cannot be read counts as absent, with a warning in the log.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;

const READY_AFTER: &str = "kinform.dev/ready-after";
const EXIT_AFTER: &str = "kinform.dev/exit-after";
const EXIT_CODE: &str = "kinform.dev/exit-code";
const FAIL: &str = "kinform.dev/fail";

/// The behaviour of a pod's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// The time from the start until the containers are ready.
    pub(super) ready_after: Duration,
    /// The time from the start until the containers exit, if they do.
    pub(super) exit_after: Duration,
    pub(super) end: End,
}

/// The fate of a pod's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// They run until the pod is deleted.
    #[default]
    Deleted,
    /// They exit with this code.
    Exit(i32),
    /// They never start; this is the reason.
    Fail(String),
}

impl Script {
    /// Reads the script of a pod. Pods of a Job exit with 0, unless they say otherwise.
    pub(super) fn of(pod: &Pod) -> Self {
        let annotations = pod.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key));
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        let is_of_job = owners
            .iter()
            .any(|owner| owner.controller == Some(true) && owner.kind == "Job");
        let time = |key: &str| {
            let parsed = annotation(key)?.parse::<SignedDuration>().ok();
            parsed.and_then(|parsed| Duration::try_from(parsed).ok())
        };
        let (ready_after, exit_after) = (time(READY_AFTER), time(EXIT_AFTER));
        let code = annotation(EXIT_CODE).and_then(|text| text.trim().parse().ok());
        let is_unread = annotation(READY_AFTER).is_some() != ready_after.is_some()
            || annotation(EXIT_AFTER).is_some() != exit_after.is_some()
            || annotation(EXIT_CODE).is_some() != code.is_some();
        if is_unread {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(pod = name, "an annotation of its script cannot be read");
        }
        let end = match (annotation(FAIL), code) {
            (Some(reason), _) => End::Fail(reason.clone()),
            (None, Some(code)) => End::Exit(code),
            (None, None) if is_of_job || exit_after.is_some() => End::Exit(0),
            (None, None) => End::Deleted,
        };
        let ready_after = ready_after.unwrap_or_default();
        Self {
            ready_after,
            exit_after: exit_after.unwrap_or(ready_after),
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn annotations_are_read_and_bad_ones_ignored() {
        let check = |annotations: Value, ready_after: Duration, end: End| {
            let pod = json!({"metadata": {"annotations": annotations}});
            let script = Script::of(&serde_json::from_value(pod).unwrap());
            let exit_after = ready_after;
            let expected = Script {
                ready_after,
                exit_after,
                end,
            };
            assert_eq!(script, expected, "{annotations}");
        };
        let (zero, five) = (Duration::ZERO, Duration::from_secs(5));
        check(json!({}), zero, End::Deleted);
        check(json!({READY_AFTER: "5s"}), five, End::Deleted);
        check(json!({READY_AFTER: "soon"}), zero, End::Deleted);
        check(json!({READY_AFTER: "-5s"}), zero, End::Deleted);
        check(json!({EXIT_CODE: "3"}), zero, End::Exit(3));
        check(json!({EXIT_CODE: "x"}), zero, End::Deleted);
        let fail = json!({FAIL: "ErrImagePull", EXIT_CODE: "3"});
        check(fail, zero, End::Fail("ErrImagePull".to_owned()));
    }

    #[test]
    fn pods_that_exit_later_are_ready_before() {
        let annotations = json!({READY_AFTER: "1s", EXIT_AFTER: "5s"});
        let pod = json!({"metadata": {"annotations": annotations}});
        let script = Script::of(&serde_json::from_value(pod).unwrap());
        let expected = Script {
            ready_after: Duration::from_secs(1),
            exit_after: Duration::from_secs(5),
            end: End::Exit(0),
        };
        assert_eq!(script, expected);
    }

    #[test]
    fn pods_of_a_job_succeed() {
        let pod = json!({"metadata": {"ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true},
        ]}});
        let script = Script::of(&serde_json::from_value(pod).unwrap());
        assert_eq!(script.end, End::Exit(0));
    }
}
