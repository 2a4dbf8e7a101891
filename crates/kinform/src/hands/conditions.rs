//! Conditions of a status: a list with one entry for each type.
//!
//! ```text
//! conditions + (type, status, reason, message) → set → the list; time moves only with the status
//! ```
//!
//! The list keeps its order. A time has the precision of a second, as on the wire. A message longer
//! than the API allows is cut.
//!
//! Upstream counterpart: `apimachinery:pkg/api/meta/conditions.go`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::env::wall_clock;

/// BOUND: bytes of a message. Upstream: the schema of `metav1.Condition`.
const MESSAGE_MAX: usize = 32_768;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be decided.
    Unknown,
}

impl ConditionStatus {
    /// The word of the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A condition that is to be set; its time is that of the change.
pub fn condition(
    type_: &str,
    status: impl Into<ConditionStatus>,
    reason: &str,
    message: &str,
) -> Condition {
    let cut = (0..=message.len().min(MESSAGE_MAX)).rev();
    let cut = cut.into_iter().find(|&at| message.is_char_boundary(at));
    Condition {
        type_: type_.to_owned(),
        status: status.into().as_str().to_owned(),
        reason: reason.to_owned(),
        message: message[..cut.unwrap_or(0)].to_owned(),
        observed_generation: None,
        last_transition_time: Time(UNSET),
    }
}

/// The time of a condition that takes the time of its change.
const UNSET: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

/// Puts `wanted` into the list. Returns whether the list changed.
///
/// `lastTransitionTime` moves only if the status does: to the time that `wanted` states, or to now
/// if it states none ([`condition`]).
#[doc(alias = "SetStatusCondition")]
pub fn set(conditions: &mut Vec<Condition>, wanted: Condition) -> bool {
    let at = match wanted.last_transition_time.0 == UNSET {
        true => wall_clock(),
        false => wanted.last_transition_time.0,
    };
    let at = jiff::Timestamp::from_second(at.as_second()).unwrap_or(at);
    let Some(known) = find_mut(conditions, &wanted.type_) else {
        conditions.push(Condition {
            last_transition_time: Time(at),
            ..wanted
        });
        return true;
    };
    let last_transition_time = match known.status == wanted.status {
        true => known.last_transition_time.clone(),
        false => Time(at),
    };
    let wanted = Condition {
        last_transition_time,
        ..wanted
    };
    let is_changed = *known != wanted;
    *known = wanted;
    is_changed
}

/// Removes the condition of this type. Returns whether there was one.
#[doc(alias = "RemoveStatusCondition")]
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() < before
}

/// The condition of this type.
#[doc(alias = "FindStatusCondition")]
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns whether the condition of this type is there and holds.
#[doc(alias = "IsStatusConditionTrue")]
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    has_status(conditions, type_, ConditionStatus::True)
}

/// Returns whether the condition of this type is there and does not hold.
#[doc(alias = "IsStatusConditionFalse")]
#[must_use]
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    has_status(conditions, type_, ConditionStatus::False)
}

/// Returns whether the condition of this type is there with this status.
#[doc(alias = "IsStatusConditionPresentAndEqual")]
#[must_use]
pub fn has_status(conditions: &[Condition], type_: &str, status: ConditionStatus) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status.as_str())
}

fn find_mut<'a>(conditions: &'a mut [Condition], type_: &str) -> Option<&'a mut Condition> {
    conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    fn wanted(type_: &str, status: ConditionStatus, reason: &str, second: i64) -> Condition {
        Condition {
            last_transition_time: at(second),
            ..condition(type_, status, reason, "")
        }
    }

    #[test]
    fn the_time_of_a_condition_moves_only_with_its_status() {
        // apimachinery: TestSetStatusCondition
        use ConditionStatus::{False, True};
        let mut list = Vec::new();
        for (wanted, is_changed, time) in [
            (wanted("a", True, "First", 10), true, 10),
            (wanted("a", True, "First", 20), false, 10),
            (wanted("a", True, "Second", 20), true, 10),
            (wanted("a", False, "Second", 30), true, 30),
        ] {
            assert_eq!(set(&mut list, wanted), is_changed);
            assert_eq!(list[0].last_transition_time, at(time));
        }
        set(&mut list, wanted("b", True, "Other", 40));
        let mut observed = wanted("a", False, "Second", 50);
        observed.observed_generation = Some(7);
        assert!(set(&mut list, observed));
        let (a, b) = (&list[0], &list[1]);
        assert_eq!((&*a.type_, &*b.type_), ("a", "b"), "the order is kept");
        assert_eq!(
            (a.observed_generation, &a.last_transition_time),
            (Some(7), &at(30))
        );
        // Without a time of its own, the change is now, in whole seconds.
        set(&mut list, condition("a", True, "Third", ""));
        let now = list[0].last_transition_time.0;
        assert!(now > at(50).0 && now.subsec_nanosecond() == 0);
    }

    #[test]
    fn conditions_are_found_by_type_and_removed() {
        // apimachinery: TestRemoveStatusCondition, TestFindStatusCondition,
        // TestIsStatusConditionPresentAndEqual
        use ConditionStatus::{False, True, Unknown};
        let mut list = Vec::new();
        for (type_, status) in [("a", True), ("b", False), ("c", Unknown)] {
            set(&mut list, condition(type_, status, "R", ""));
        }
        for (type_, status) in [("a", True), ("b", False), ("c", Unknown), ("d", Unknown)] {
            assert_eq!(find(&list, type_).is_some(), type_ != "d");
            assert_eq!(is_true(&list, type_), type_ == "a");
            assert_eq!(is_false(&list, type_), type_ == "b");
            assert_eq!(has_status(&list, type_, status), type_ != "d");
        }
        assert!(remove(&mut list, "b") && !remove(&mut list, "b"));
        assert_eq!(list.len(), 2);
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let long = format!("{}ä", "x".repeat(MESSAGE_MAX - 1));
        assert_eq!(
            condition("a", true, "R", &long).message.len(),
            MESSAGE_MAX - 1
        );
        assert_eq!(condition("a", true, "R", "short").message, "short");
    }
}
