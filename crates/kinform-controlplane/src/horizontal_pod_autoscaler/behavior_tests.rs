//! Tables of `behavior.rs`.
//!
//! ```text
//! (size, proposed size) at a time ─▶ new size, reasons of AbleToScale and ScalingLimited
//! ```

use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::{Memory, Rules, limited};
use super::review::Review;
use crate::json::text;

fn autoscaler(min: i64, max: i64, behavior: Value) -> Value {
    json!({"spec": {"minReplicas": min, "maxReplicas": max, "behavior": behavior}})
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

/// An autoscaler whose target takes every size.
struct Life {
    autoscaler: Value,
    memory: Memory,
    size: i64,
}

impl Life {
    fn new(size: i64, autoscaler: Value) -> Self {
        let mut memory = Memory::default();
        memory.begin(size, at(0));
        Self {
            autoscaler,
            memory,
            size,
        }
    }

    /// The new size, and the reasons of AbleToScale and ScalingLimited.
    fn propose(&mut self, seconds: i64, proposed: i64, expected: (i64, &str, &str)) {
        let mut review = Review::of(&self.autoscaler, at(seconds));
        let sizes = (self.size, proposed);
        let size = limited(&self.autoscaler, &mut self.memory, sizes, &mut review);
        let status = review.changed().unwrap();
        let reason = |at: usize| text(&status["conditions"][at], "/reason").to_owned();
        let found = (size, reason(0), reason(1));
        let expected = (expected.0, expected.1.to_owned(), expected.2.to_owned());
        assert_eq!(found, expected, "{proposed} after {seconds} s");
        if size != self.size {
            self.memory
                .rescaled(&self.autoscaler, self.size, size, at(seconds));
            self.size = size;
        }
    }
}

// kubernetes: TestUpscaleCap, TestMaxReplicas, TestMinReplicas, TestScaleDown
#[test]
fn without_rules_the_size_doubles_and_a_smaller_one_waits_five_minutes() {
    let mut life = Life::new(3, autoscaler(2, 20, Value::Null));
    life.propose(0, 30, (6, "ReadyForNewScale", "ScaleUpLimit"));
    life.propose(15, 30, (12, "ReadyForNewScale", "ScaleUpLimit"));
    life.propose(30, 30, (20, "ReadyForNewScale", "TooManyReplicas"));
    life.propose(45, 20, (20, "ScaleDownStabilized", "TooManyReplicas"));
    life.propose(330, 5, (20, "ScaleDownStabilized", "TooManyReplicas"));
    life.propose(331, 5, (20, "ScaleDownStabilized", "DesiredWithinRange"));
    life.propose(346, 5, (5, "ReadyForNewScale", "DesiredWithinRange"));
    life.propose(1_000, 1, (2, "ReadyForNewScale", "TooFewReplicas"));
    let mut small = Life::new(1, autoscaler(1, 9, Value::Null));
    small.propose(0, 9, (4, "ReadyForNewScale", "ScaleUpLimit"));
}

// kubernetes: TestStoreScaleEvents, TestScalingWithRules
#[test]
fn policies_limit_the_change_of_a_period() {
    let behavior = json!({
        "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
        "scaleDown": {"stabilizationWindowSeconds": 0,
            "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}]},
    });
    let mut life = Life::new(2, autoscaler(1, 20, behavior));
    life.propose(0, 9, (4, "ReadyForNewScale", "ScaleUpLimit"));
    life.propose(15, 9, (4, "ReadyForNewScale", "ScaleUpLimit"));
    life.propose(60, 9, (6, "ReadyForNewScale", "ScaleUpLimit"));
    life.propose(120, 7, (7, "ReadyForNewScale", "DesiredWithinRange"));
    life.propose(180, 1, (3, "ReadyForNewScale", "ScaleDownLimit"));
    life.propose(195, 1, (3, "ReadyForNewScale", "ScaleDownLimit"));
    life.propose(240, 1, (1, "ReadyForNewScale", "DesiredWithinRange"));
}

#[test]
fn of_several_policies_the_selected_one_counts() {
    let check = |select: &str, up: i64, down: i64| {
        let policies = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 10, "periodSeconds": 15},
        ]);
        let rules = json!({"selectPolicy": select, "policies": policies,
            "stabilizationWindowSeconds": 0});
        let autoscaler = autoscaler(1, 100, json!({"scaleUp": rules, "scaleDown": rules}));
        let size = |proposed| {
            let mut life = Life::new(11, autoscaler.clone());
            let mut review = Review::of(&autoscaler, at(0));
            limited(&autoscaler, &mut life.memory, (11, proposed), &mut review)
        };
        assert_eq!((size(100), size(1)), (up, down), "{select}");
    };
    check("Max", 15, 7);
    check("Min", 13, 9);
    check("Disabled", 11, 11);
    check("", 15, 7);
}

// kubernetes: TestNormalizeDesiredReplicasWithBehavior (stabilization up and down)
#[test]
fn windows_keep_the_size_until_a_change_lasts() {
    let behavior = json!({
        "scaleUp": {"stabilizationWindowSeconds": 60},
        "scaleDown": {"stabilizationWindowSeconds": 30},
    });
    let mut life = Life::new(4, autoscaler(1, 20, behavior));
    life.propose(1, 6, (4, "ScaleUpStabilized", "DesiredWithinRange"));
    life.propose(30, 8, (4, "ScaleUpStabilized", "DesiredWithinRange"));
    life.propose(60, 8, (6, "ScaleUpStabilized", "DesiredWithinRange"));
    life.propose(75, 2, (6, "ScaleDownStabilized", "DesiredWithinRange"));
    life.propose(90, 2, (2, "ReadyForNewScale", "DesiredWithinRange"));
}

// kubernetes: calculateScaleUpLimitWithScalingRules, calculateScaleDownLimitWithBehaviors (their floats)
#[test]
fn percentages_are_upstreams_floats() {
    let check = |start: i64, percent: i64, up: i64, down: i64| {
        let policies = json!([{"type": "Percent", "value": percent, "periodSeconds": 15}]);
        let rules = json!({"policies": policies});
        let behavior = json!({"scaleUp": rules, "scaleDown": rules});
        let upper = Rules::up(&behavior).upper(start, |_| 0);
        let lower = Rules::down(&behavior).lower(start, |_| 0);
        assert_eq!((upper, lower), (up, down), "{start}, {percent} %");
    };
    check(100, 10, 111, 90);
    check(10, 80, 18, 1);
    check(10, 50, 15, 5);
    check(3, 50, 5, 1);
    check(1, 1, 2, 0);
    check(7, 100, 14, 0);
    check(7, 900, 70, -56);
}

#[test]
fn rules_that_are_not_stated_have_upstreams_defaults() {
    let empty = json!({});
    let (up, down) = (Rules::up(&empty), Rules::down(&empty));
    assert_eq!((up.window, down.window), (0, 300));
    assert_eq!(up.upper(1, |_| 0), 5);
    assert_eq!(up.upper(10, |_| 0), 20);
    assert_eq!(down.lower(10, |_| 0), 0);
}
