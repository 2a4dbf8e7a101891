//! The pods of a namespace that violate a level that is going to be enforced.
//!
//! ```text
//! pods, one of each controller first ──checks──▶ warnings, one for each set of reasons
//! ```
//!
//! The pods stay: they are only told.
//!
//! Complexity: linear in the pods, up to the bounds.
//!
//! Upstream: `kubernetes/pod-security-admission:admission/admission.go` (`EvaluatePodsInNamespace`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::checks::Pod;
use super::evaluate::{findings, reasons};
use super::level::LevelVersion;
use crate::admission::Warnings;
use crate::clock;
use crate::storage::Stored;

/// BOUND: pods that are checked.
const PODS: usize = 3000;
/// BOUND: the time of the checks.
const TIME: Duration = Duration::from_secs(1);

/// Warns of the pods of a namespace that violate a level.
pub(super) fn warn(
    warnings: &Warnings,
    (namespace, pods): (&str, Vec<Arc<Stored>>),
    level: LevelVersion,
) {
    let begun = clock::instant();
    let pods = by_weight(pods, begun);
    let all = pods.len();
    // Reasons, the first name of a pod, and the number of pods.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut checked = 0;
    for pod in pods.into_iter().take(PODS) {
        let value = pod.value();
        let of = Pod {
            metadata: &value["metadata"],
            spec: &value["spec"],
        };
        let reasons = reasons(&findings(level, &of));
        if !reasons.is_empty() {
            let name = pod.name().to_owned();
            let (first, count) = found.entry(reasons).or_insert_with(|| (name.clone(), 0));
            *first = name.min(std::mem::take(first));
            *count += 1;
        }
        checked += 1;
        if begun.elapsed() >= TIME {
            break;
        }
    }
    if checked < all {
        warnings.add(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {all} \
             existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.add(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \
             \"{level}\""
        ));
    }
    for text in told(found) {
        warnings.add(text);
    }
}

/// The warnings, sorted.
fn told(found: BTreeMap<String, (String, usize)>) -> Vec<String> {
    let one = |(reasons, (name, count)): (String, (String, usize))| match count {
        1 => format!("{name}: {reasons}"),
        2 => format!("{name} (and 1 other pod): {reasons}"),
        _ => format!("{name} (and {} other pods): {reasons}", count - 1),
    };
    let mut warnings: Vec<String> = found.into_iter().map(one).collect();
    warnings.sort();
    warnings
}

/// Pods of which each is the first one of its controller, or has none, then the others. What is not
/// looked at in time counts among the first.
fn by_weight(pods: Vec<Arc<Stored>>, begun: Instant) -> Vec<Arc<Stored>> {
    let mut controllers = HashSet::new();
    let is_first = |pod: &Arc<Stored>| {
        if !pod.has_ties() || begun.elapsed() >= TIME {
            return true;
        }
        let value = pod.value();
        let owners = value["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        let controller = owners.find(|owner| owner["controller"] == true);
        controller.is_none_or(|owner| controllers.insert(owner["uid"].to_string()))
    };
    let (mut first, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(is_first);
    first.extend(others);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_with_equal_reasons_share_a_warning() {
        let found = [("b", "p", 1), ("a", "q", 2), ("c", "p", 3)];
        let found =
            found.map(|(reasons, name, count)| (reasons.to_owned(), (name.to_owned(), count)));
        assert_eq!(
            told(BTreeMap::from(found)),
            ["p (and 2 other pods): c", "p: b", "q (and 1 other pod): a"]
        );
    }
}
