//! The status of an autoscaler while it is worked out, and the events that come with it.
//!
//! ```text
//! status as stored ─▶ Review: conditions, counts, notes ─▶ status to write, events to send
//! ```
//!
//! A condition keeps its time while its status stays.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podautoscaler/horizontal.go` (`setCondition`,
//! `setStatus`).

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::clock::stamp;
use crate::json::{int, set, text};

/// An event about the autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Normal(&'static str, String),
    Warning(&'static str, String),
}

/// A status that is being worked out.
#[derive(Debug)]
pub(super) struct Review {
    pub(super) now: Timestamp,
    pub(super) notes: Vec<Note>,
    generation: i64,
    before: Map<String, Value>,
    status: Map<String, Value>,
}

impl Review {
    /// Starts with the status that the autoscaler has.
    pub(super) fn of(autoscaler: &Value, now: Timestamp) -> Self {
        let status = autoscaler.get("status").and_then(Value::as_object);
        let mut status = status.cloned().unwrap_or_default();
        // An absent member is stored as null, and is the same.
        status.retain(|_, value| !value.is_null());
        Self {
            now,
            notes: Vec::new(),
            generation: int(autoscaler, "/metadata/generation"),
            before: status.clone(),
            status,
        }
    }

    /// The status to write; `None` if it is the stored one.
    pub(super) fn changed(self) -> Option<Value> {
        (self.before != self.status).then(|| self.status.into())
    }

    pub(super) fn warn(&mut self, reason: &'static str, note: &str) {
        self.notes.push(Note::Warning(reason, note.to_owned()));
    }

    /// Sets a condition.
    pub(super) fn condition(&mut self, kind: &str, status: &str, (reason, message): (&str, &str)) {
        let conditions = self.status.entry("conditions").or_insert_with(|| json!([]));
        let Some(conditions) = conditions.as_array_mut() else {
            return;
        };
        let at = conditions.iter().position(|one| text(one, "/type") == kind);
        let at = at.unwrap_or_else(|| {
            conditions.push(json!({"type": kind}));
            conditions.len() - 1
        });
        let condition = &mut conditions[at];
        if text(condition, "/status") != status {
            set(condition, &["lastTransitionTime"], stamp(self.now).into());
        }
        for (member, value) in [("status", status), ("reason", reason), ("message", message)] {
            set(condition, &[member], value.into());
        }
    }

    /// Sets the numbers of pods and the values of the metrics.
    pub(super) fn counts(&mut self, current: i64, desired: i64, metrics: Option<Vec<Value>>) {
        let mut next = Map::new();
        for member in ["lastScaleTime", "conditions"] {
            if let Some(value) = self.status.remove(member) {
                next.insert(member.to_owned(), value);
            }
        }
        next.insert("observedGeneration".to_owned(), self.generation.into());
        if current != 0 {
            next.insert("currentReplicas".to_owned(), current.into());
        }
        next.insert("desiredReplicas".to_owned(), desired.into());
        if let Some(metrics) = metrics {
            next.insert("currentMetrics".to_owned(), metrics.into());
        }
        self.status = next;
    }

    /// The number of pods that the autoscaler wanted before.
    pub(super) fn desired_before(&self) -> i64 {
        let desired = self.before.get("desiredReplicas");
        desired.and_then(Value::as_i64).unwrap_or(0)
    }

    /// Reports a new size that the target took.
    pub(super) fn rescaled(&mut self, to: i64, reason: &str) {
        let message = format!("the HPA controller was able to update the target scale to {to}");
        self.condition("AbleToScale", "True", ("SucceededRescale", &message));
        let note = format!("New size: {to}; reason: {reason}");
        self.notes.push(Note::Normal("SuccessfulRescale", note));
        // Only metrics of other objects can scale to zero, and there is no source of these.
        let message = "the HPA controller did not scale the workload to zero";
        self.condition("ScaledToZero", "False", ("NotScaledToZero", message));
        let now = stamp(self.now);
        self.status.insert("lastScaleTime".to_owned(), now.into());
    }

    /// Reports a new size that the target did not take.
    pub(super) fn not_rescaled(&mut self, to: i64, reason: &str, error: &str) {
        let note = format!("New size: {to}; reason: {reason}; error: {error}");
        self.warn("FailedRescale", &note);
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.condition("AbleToScale", "False", ("FailedUpdateScale", &message));
    }

    /// Reports whether the scale of the target could be read.
    pub(super) fn scale_read(&mut self, read: Result<(), &str>) {
        match read {
            Ok(()) => {
                let message = "the HPA controller was able to get the target's current scale";
                self.condition("AbleToScale", "True", ("SucceededGetScale", message));
            }
            Err(why) => {
                self.warn("FailedGetScale", why);
                let message = format!(
                    "the HPA controller was unable to get the target's current scale: {why}"
                );
                self.condition("AbleToScale", "False", ("FailedGetScale", &message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let autoscaler = json!({"metadata": {"generation": 3}, "status": {
            "currentMetrics": null, "desiredReplicas": 2,
            "conditions": [{"type": "AbleToScale", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "SucceededGetScale",
                "message": "the HPA controller was able to get the target's current scale"}],
        }});
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let mut review = Review::of(&autoscaler, now);
        review.scale_read(Ok(()));
        assert_eq!(review.changed(), None);
        let mut review = Review::of(&autoscaler, now);
        review.rescaled(4, "why");
        review.counts(0, 4, None);
        let status = review.changed().unwrap();
        assert_eq!(
            status["conditions"][0]["lastTransitionTime"],
            "2026-01-01T00:00:00Z"
        );
        assert_eq!(status["conditions"][0]["reason"], "SucceededRescale");
        assert_eq!(
            status["conditions"][1]["lastTransitionTime"],
            "2026-01-02T00:00:00Z"
        );
        assert_eq!(status["observedGeneration"], 3);
        assert_eq!(status["lastScaleTime"], "2026-01-02T00:00:00Z");
        assert_eq!(status.get("currentReplicas"), None);
    }
}
