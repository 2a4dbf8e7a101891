//! The decision about one pod on a node whose taints evict.
//!
//! ```text
//! taints NoExecute + tolerations + what was decided before + now ─▶ Decision
//! ```
//!
//! A pod that tolerates all taints goes after the shortest of its `tolerationSeconds`, counted from the
//! moment when the first taint was seen. Once it has a time, other taints change that only if
//! it does not tolerate one of them, or if the last one goes.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/tainteviction` (`processPodOnNode`).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::clock::left;
use crate::scheduler::fit::tolerates;

/// The fate of a pod that does not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes at this time.
    At(Timestamp),
    /// It was deleted.
    Deleted,
}

/// The next thing to do with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It stays.
    Stay,
    /// It stays after all.
    Spare,
    /// It goes at a time, and is looked at again then.
    Wait(Timestamp, Duration),
    /// It goes now. Another time that it had is void.
    Delete { was_to_wait: bool },
}

/// Decides about a pod. `taints` are those of its node that evict; `None` if the node is gone.
pub(super) fn decide(
    taints: Option<&[Taint]>,
    tolerations: &[Toleration],
    fate: Option<Fate>,
    now: Timestamp,
) -> Decision {
    let of_time = |end: Timestamp| match left(end, Duration::ZERO, now) {
        Some(left) => Decision::Wait(end, left),
        None => Decision::Delete { was_to_wait: false },
    };
    let waits_until = match fate {
        Some(Fate::At(end)) => Some(end),
        Some(Fate::Deleted) | None => None,
    };
    let spare = match waits_until {
        Some(_) => Decision::Spare,
        None => Decision::Stay,
    };
    let taints = match taints {
        None => return waits_until.map_or(Decision::Stay, of_time),
        Some([]) => return spare,
        Some(taints) => taints,
    };
    if fate == Some(Fate::Deleted) {
        return Decision::Stay;
    }
    let mut matching = Vec::new();
    for taint in taints {
        let first = tolerations
            .iter()
            .find(|one| tolerates(std::slice::from_ref(one), taint));
        match first {
            Some(toleration) => matching.push(toleration),
            None => {
                let was_to_wait = waits_until.is_some();
                return Decision::Delete { was_to_wait };
            }
        }
    }
    let seconds = matching.iter().filter_map(|one| one.toleration_seconds);
    match seconds.min() {
        None => spare,
        Some(seconds) if seconds <= 0 => Decision::Delete { was_to_wait: false },
        Some(seconds) => {
            let end = now.checked_add(SignedDuration::from_secs(seconds));
            of_time(waits_until.unwrap_or(end.unwrap_or(Timestamp::MAX)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn taint(key: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        }
    }

    fn toleration(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    // kubernetes: TestCreatePod, TestUpdatePod, TestUpdateNode, TestUpdateNodeWithMultipleTaints
    #[test]
    fn a_pod_goes_at_the_end_of_its_shortest_toleration() {
        let check = |taints: &[&str], tolerations: &[(&str, Option<i64>)], fate, expected| {
            let taints: Vec<Taint> = taints.iter().map(|key| taint(key)).collect();
            let tolerations = tolerations.iter();
            let tolerations: Vec<Toleration> = tolerations
                .map(|(key, seconds)| toleration(key, *seconds))
                .collect();
            let decision = decide(Some(&taints), &tolerations, fate, at(100));
            assert_eq!(decision, expected, "{taints:?} {tolerations:?} {fate:?}");
        };
        let wait = |end: i64| {
            let left = Duration::from_secs(u64::try_from(end - 100).unwrap());
            Decision::Wait(at(end), left)
        };
        let delete = |was_to_wait| Decision::Delete { was_to_wait };
        let later = Some(Fate::At(at(130)));
        check(&[], &[], None, Decision::Stay);
        check(&[], &[], later, Decision::Spare);
        check(&["a"], &[], None, delete(false));
        check(&["a"], &[], later, delete(true));
        check(&["a"], &[], Some(Fate::Deleted), Decision::Stay);
        check(&["a"], &[("b", None)], None, delete(false));
        check(&["a"], &[("a", None)], None, Decision::Stay);
        check(&["a"], &[("a", None)], later, Decision::Spare);
        check(&["a"], &[("a", Some(300))], None, wait(400));
        check(&["a"], &[("a", Some(0))], None, delete(false));
        check(&["a"], &[("a", Some(-1))], None, delete(false));
        check(&["a"], &[("a", Some(300))], later, wait(130));
        check(
            &["a"],
            &[("a", Some(300))],
            Some(Fate::At(at(100))),
            delete(false),
        );
        check(
            &["a", "b"],
            &[("a", Some(300)), ("b", Some(20))],
            None,
            wait(120),
        );
        check(
            &["a", "b"],
            &[("a", Some(300)), ("b", None)],
            None,
            wait(400),
        );
        check(&["a", "b"], &[("a", Some(300))], later, delete(true));
        // The first one that matches counts.
        check(
            &["a"],
            &[("a", Some(300)), ("a", Some(20))],
            None,
            wait(400),
        );
    }

    #[test]
    fn the_end_of_a_node_changes_no_time() {
        let decide = |fate| decide(None, &[], fate, at(100));
        assert_eq!(decide(None), Decision::Stay);
        assert_eq!(decide(Some(Fate::Deleted)), Decision::Stay);
        let wait = Decision::Wait(at(103), Duration::from_secs(3));
        assert_eq!(decide(Some(Fate::At(at(103)))), wait);
        let delete = Decision::Delete { was_to_wait: false };
        assert_eq!(decide(Some(Fate::At(at(100)))), delete);
    }
}
