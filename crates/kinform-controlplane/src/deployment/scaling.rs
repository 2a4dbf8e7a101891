//! The replicas of each set, while a Deployment is scaled or rolled.
//!
//! ```text
//! deployment + sets + new set → (set, replicas) to write
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/deployment/rolling.go`, `recreate.go`, `sync.go`
//! (`scale`).

use serde_json::Value;

use super::model::{
    DESIRED, MAX, available, created, max_surge, max_unavailable, recreates, replicas, sum,
};
use crate::json::{annotation, int, is_terminating, name};

/// The replicas of one set, by its index.
pub(super) type Scaled = (usize, i64);

/// Returns whether the Deployment was scaled since its sets were.
pub(super) fn is_scaled(deployment: &Value, sets: &[Value]) -> bool {
    let wanted = replicas(deployment).to_string();
    sets.iter().filter(|set| replicas(set) > 0).any(|set| {
        let desired = annotation(set, DESIRED);
        desired.is_some_and(|desired| desired != wanted)
    })
}

/// The replicas with which a new set begins, or goes on.
pub(super) fn of_new(deployment: &Value, sets: &[Value], now: i64) -> i64 {
    let wanted = replicas(deployment);
    if recreates(deployment) {
        return wanted;
    }
    let most = wanted + max_surge(deployment);
    let all = sum(sets, replicas);
    if all >= most {
        return now;
    }
    now + (most - all).min(wanted - now).max(0)
}

/// The next step of the new set in a rolling update.
pub(super) fn roll_new(deployment: &Value, sets: &[Value], new: usize) -> Option<Scaled> {
    let (now, wanted) = (replicas(&sets[new]), replicas(deployment));
    let next = match now.cmp(&wanted) {
        std::cmp::Ordering::Equal => now,
        std::cmp::Ordering::Greater => wanted,
        std::cmp::Ordering::Less => of_new(deployment, sets, now),
    };
    (next != now).then_some((new, next))
}

/// The next steps of the old sets in a rolling update: first pods that are not ready, then as many
/// as may be missing.
pub(super) fn roll_old(deployment: &Value, sets: &[Value], new: usize) -> Vec<Scaled> {
    let mut now: Vec<i64> = sets.iter().map(replicas).collect();
    let mut old: Vec<usize> = (0..sets.len()).filter(|index| *index != new).collect();
    old.sort_by_key(|index| (created(&sets[*index]), name(&sets[*index]).to_owned()));
    if old.iter().all(|index| now[*index] == 0) {
        return Vec::new();
    }
    let least = replicas(deployment) - max_unavailable(deployment);
    let new_unavailable = now[new] - available(&sets[new]);
    let mut may_go = now.iter().sum::<i64>() - least - new_unavailable;
    if may_go <= 0 {
        return Vec::new();
    }
    for index in &old {
        let unhealthy = (now[*index] - available(&sets[*index])).max(0);
        let go = unhealthy.min(may_go).max(0);
        now[*index] -= go;
        may_go -= go;
    }
    let mut spare = sum(sets, available) - least;
    for index in &old {
        let go = now[*index].min(spare).max(0);
        now[*index] -= go;
        spare -= go;
    }
    let changed = |index: &usize| now[*index] != replicas(&sets[*index]);
    old.into_iter()
        .filter(changed)
        .map(|index| (index, now[index]))
        .collect()
}

/// The steps of a Deployment whose number of replicas changed, or that is paused.
pub(super) fn scale(deployment: &Value, sets: &[Value], new: Option<usize>) -> Vec<Scaled> {
    let wanted = replicas(deployment);
    let active: Vec<usize> = (0..sets.len())
        .filter(|index| replicas(&sets[*index]) > 0)
        .collect();
    let latest = |indices: &[usize]| {
        let newest = |index: &&usize| (created(&sets[**index]), name(&sets[**index]).to_owned());
        indices.iter().max_by_key(newest).copied()
    };
    if active.len() <= 1 {
        let all: Vec<usize> = (0..sets.len()).collect();
        let only = active.first().copied().or(new).or_else(|| latest(&all));
        return only
            .filter(|only| replicas(&sets[*only]) != wanted || is_scaled(deployment, sets))
            .map(|only| (only, wanted))
            .into_iter()
            .collect();
    }
    if new.is_some_and(|new| is_saturated(deployment, &sets[new])) {
        let old = active.into_iter().filter(|index| Some(*index) != new);
        return old.map(|index| (index, 0)).collect();
    }
    if recreates(deployment) {
        return Vec::new();
    }
    proportionally(deployment, sets, active)
}

/// Returns whether a set has all pods, available and asked for.
fn is_saturated(deployment: &Value, set: &Value) -> bool {
    let wanted = replicas(deployment);
    let desired = annotation(set, DESIRED).and_then(|text| text.parse::<i64>().ok());
    replicas(set) == wanted && desired == Some(wanted) && available(set) == wanted
}

/// Distributes what is added or removed over the active sets, by their sizes.
fn proportionally(deployment: &Value, sets: &[Value], mut active: Vec<usize>) -> Vec<Scaled> {
    let wanted = replicas(deployment);
    let most = match wanted {
        0 => 0,
        wanted => wanted + max_surge(deployment),
    };
    let add = most - sum(sets, replicas);
    // The largest first; of equal ones the newest when growing, the oldest when shrinking.
    active.sort_by_key(|index| {
        let age = created(&sets[*index]).map_or(0, |time| time.as_second());
        let age = if add > 0 { -age } else { age };
        (-replicas(&sets[*index]), age)
    });
    let mut added = 0;
    let mut next: Vec<Scaled> = Vec::new();
    for index in active {
        let part = part_of(deployment, &sets[index], most, add, added);
        added += part;
        next.push((index, replicas(&sets[index]) + part));
    }
    if let Some(first) = next.first_mut() {
        first.1 = (first.1 + add - added).max(0);
    }
    // Sets whose numbers stay still get new annotations.
    next
}

/// The part of a change that one set gets.
fn part_of(deployment: &Value, set: &Value, most: i64, add: i64, added: i64) -> i64 {
    let now = replicas(set);
    if now == 0 || add == 0 || add == added {
        return 0;
    }
    let before = annotation(set, MAX).and_then(|text| text.parse().ok());
    let before: i64 = before.unwrap_or_else(|| int(deployment, "/status/replicas"));
    let share = match (most, before) {
        (0, _) => -now,
        (_, before) if before <= 0 => 0,
        (most, before) => {
            // Rounded; the annotation may be any number.
            let (now, most, before) = (i128::from(now), i128::from(most), i128::from(before));
            let share = (2 * now * most + before).div_euclid(2 * before) - now;
            i64::try_from(share).unwrap_or(add)
        }
    };
    let allowed = add - added;
    if add > 0 {
        share.min(allowed)
    } else {
        share.max(allowed)
    }
}

/// The old sets that go beyond the history limit: empty ones, by revision.
pub(super) fn beyond_history(deployment: &Value, sets: &[Value], new: Option<usize>) -> Vec<usize> {
    let limit = deployment.pointer("/spec/revisionHistoryLimit");
    let Some(limit) = limit.and_then(Value::as_u64) else {
        return Vec::new();
    };
    let mut old: Vec<usize> = (0..sets.len())
        .filter(|index| Some(*index) != new && !is_terminating(&sets[*index]))
        .collect();
    let surplus = old
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    old.sort_by_key(|index| super::model::revision(&sets[*index]));
    let is_empty = |set: &Value| {
        int(set, "/status/replicas") == 0
            && replicas(set) == 0
            && int(set, "/status/observedGeneration") >= int(set, "/metadata/generation")
    };
    old.truncate(surplus);
    old.retain(|index| is_empty(&sets[*index]));
    old
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(replicas: i64) -> Value {
        json!({"spec": {"replicas": replicas, "revisionHistoryLimit": 1, "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
        }}})
    }

    /// A set that was scaled for a Deployment of `desired`, with a number of available pods.
    fn set(created: i64, replicas: i64, available: i64, desired: i64) -> Value {
        let max = desired + max_surge(&deployment(desired));
        json!({
            "metadata": {
                "name": format!("s{created}"),
                "creationTimestamp": format!("2026-01-01T00:00:0{created}Z"),
                "annotations": {DESIRED: desired.to_string(), MAX: max.to_string(),
                    "deployment.kubernetes.io/revision": created.to_string()},
            },
            "spec": {"replicas": replicas},
            "status": {"replicas": replicas, "availableReplicas": available},
        })
    }

    #[test]
    fn a_rolling_update_stays_between_its_fence_posts() {
        let check = |old: Value, new: Value, up: Option<i64>, down: &[i64]| {
            let (deployment, sets) = (deployment(3), [old, new]);
            let up_to = roll_new(&deployment, &sets, 1).map(|(_, replicas)| replicas);
            assert_eq!(up_to, up, "{sets:?}");
            let down_to = roll_old(&deployment, &sets, 1);
            let down_to: Vec<i64> = down_to.into_iter().map(|(_, replicas)| replicas).collect();
            assert_eq!(down_to, down, "{sets:?}");
        };
        let of = |created: i64, replicas: i64, available: i64| set(created, replicas, available, 3);
        check(of(1, 3, 3), of(2, 0, 0), Some(1), &[]);
        check(of(1, 3, 3), of(2, 1, 0), None, &[]);
        check(of(1, 3, 3), of(2, 1, 1), None, &[2]);
        check(of(1, 2, 2), of(2, 1, 1), Some(2), &[]);
        check(of(1, 1, 1), of(2, 3, 3), None, &[0]);
        // Pods that were never ready go first, and more of them.
        check(of(1, 4, 2), of(2, 1, 1), None, &[2]);
    }

    #[test]
    fn one_active_set_is_scaled_alone() {
        let sets = [set(1, 0, 0, 3), set(2, 3, 3, 3)];
        assert!(is_scaled(&deployment(5), &sets) && !is_scaled(&deployment(3), &sets));
        assert_eq!(scale(&deployment(5), &sets, Some(1)), [(1, 5)]);
        assert_eq!(scale(&deployment(3), &sets, Some(1)), []);
    }

    #[test]
    fn several_active_sets_share_what_is_added() {
        // 10 pods, surge 3: 8 old and 5 new become those of 20 pods with surge 5.
        let sets = [set(1, 8, 8, 10), set(2, 5, 0, 10)];
        assert_eq!(scale(&deployment(20), &sets, Some(1)), [(0, 15), (1, 10)]);
        let down = scale(&deployment(0), &sets, Some(1));
        assert_eq!(down, [(0, 0), (1, 0)]);
    }

    #[test]
    fn a_saturated_new_set_ends_the_old_ones() {
        let sets = [set(1, 1, 1, 3), set(2, 3, 3, 3)];
        assert_eq!(scale(&deployment(3), &sets, Some(1)), [(0, 0)]);
    }

    #[test]
    fn only_empty_sets_beyond_the_limit_are_deleted() {
        let sets = [
            set(1, 0, 0, 3),
            set(2, 1, 1, 3),
            set(3, 0, 0, 3),
            set(4, 3, 3, 3),
        ];
        assert_eq!(beyond_history(&deployment(3), &sets, Some(3)), [0]);
    }
}
