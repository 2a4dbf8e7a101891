//! The limits of a new size: stabilization windows, scaling policies, bounds.
//!
//! ```text
//! proposed size + Memory (recommendations, changes of size) + rules ─▶ new size, the reasons of its limits
//! ```
//!
//! Without `spec.behavior`, the size may double at once (to 4 at least), and a smaller one waits until
//! no greater one was recommended for five minutes.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podautoscaler/horizontal.go`
//! (`normalizeDesiredReplicas`, `normalizeDesiredReplicasWithBehaviors`).

use jiff::{SignedDuration, Timestamp};
use kinform::LabelSelector;
use serde_json::Value;

use super::review::Review;
use crate::json::{int, maybe_int, text};

/// The window of scaling down, unless a rule states another.
const DOWN_WINDOW: i64 = 300;

/// A number of pods at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    pods: i64,
    at: Timestamp,
}

/// The past of an autoscaler. It is lost when the process ends, as upstream's.
// BOUND: a record a sync within the longest window or period, which are at most an hour: an old
// record is replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// The pods that the autoscaler selects.
    pub(super) selector: Option<LabelSelector>,
    recommended: Vec<Record>,
    added: Vec<Record>,
    removed: Vec<Record>,
}

impl Memory {
    /// Takes the size that the target has at first as recommended.
    pub(super) fn begin(&mut self, current: i64, at: Timestamp) {
        if self.recommended.is_empty() {
            self.recommended.push(Record { pods: current, at });
        }
    }

    /// Records a change of size, for policies.
    pub(super) fn rescaled(&mut self, autoscaler: &Value, from: i64, to: i64, now: Timestamp) {
        let Some(behavior) = behavior(autoscaler) else {
            return;
        };
        let (records, rules) = match to > from {
            true => (&mut self.added, Rules::up(behavior)),
            false => (&mut self.removed, Rules::down(behavior)),
        };
        let longest = rules.policies.iter().map(|policy| policy.period).max();
        let oldest = before(now, longest.unwrap_or(0));
        record(records, (to - from).abs(), now, |record| record.at < oldest);
    }
}

/// Adds a record, in place of one that is too old to count.
fn record(records: &mut Vec<Record>, pods: i64, at: Timestamp, is_old: impl Fn(&Record) -> bool) {
    let new = Record { pods, at };
    match records.iter().rposition(is_old) {
        Some(old) => records[old] = new,
        None => records.push(new),
    }
}

fn before(now: Timestamp, seconds: i64) -> Timestamp {
    let time = now.checked_sub(SignedDuration::from_secs(seconds));
    time.unwrap_or(Timestamp::MIN)
}

fn behavior(autoscaler: &Value) -> Option<&Value> {
    let behavior = autoscaler.get("spec")?.get("behavior")?;
    behavior.is_object().then_some(behavior)
}

/// A rule that limits a change of size within a period of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    is_percent: bool,
    value: i64,
    period: i64,
}

impl Policy {
    /// A size that grew (1.0) or shrank (-1.0) by this percentage. In upstream's floats, which show: 10
    /// percent more than 100 are 111.
    fn scaled(self, start: i64, sign: f64) -> f64 {
        start as f64 * (1.0 + sign * self.value as f64 / 100.0)
    }
}

/// The choice between policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Select {
    Most,
    Least,
    Disabled,
}

/// The rules of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) window: i64,
    select: Select,
    policies: Vec<Policy>,
}

impl Rules {
    pub(super) fn up(behavior: &Value) -> Self {
        let policy = |is_percent, value| Policy {
            is_percent,
            value,
            period: 15,
        };
        let defaults = vec![policy(false, 4), policy(true, 100)];
        Self::of(behavior.get("scaleUp"), 0, defaults)
    }

    pub(super) fn down(behavior: &Value) -> Self {
        let all = Policy {
            is_percent: true,
            value: 100,
            period: 15,
        };
        Self::of(behavior.get("scaleDown"), DOWN_WINDOW, vec![all])
    }

    fn of(rules: Option<&Value>, window: i64, defaults: Vec<Policy>) -> Self {
        let rules = rules.unwrap_or(&Value::Null);
        let policies = rules.get("policies").and_then(Value::as_array);
        let policy = |policy: &Value| Policy {
            is_percent: text(policy, "/type") == "Percent",
            value: int(policy, "/value"),
            period: int(policy, "/periodSeconds"),
        };
        Self {
            window: maybe_int(rules, "/stabilizationWindowSeconds").unwrap_or(window),
            select: match text(rules, "/selectPolicy") {
                "Disabled" => Select::Disabled,
                "Min" => Select::Least,
                _ => Select::Most,
            },
            policies: policies.map_or(defaults, |all| all.iter().map(policy).collect()),
        }
    }

    /// The size that the policies allow at most; `grown` is the change of size in a period.
    pub(super) fn upper(&self, current: i64, grown: impl Fn(i64) -> i64) -> i64 {
        let allowed = self.policies.iter().map(|policy| {
            let start = current - grown(policy.period);
            match policy.is_percent {
                // Rounded up, so that a small size can grow at all.
                true => policy.scaled(start, 1.0).ceil() as i64,
                false => start + policy.value,
            }
        });
        self.selected(current, allowed.clone().max(), allowed.min())
    }

    /// The size that the policies allow at least.
    pub(super) fn lower(&self, current: i64, grown: impl Fn(i64) -> i64) -> i64 {
        let allowed = self.policies.iter().map(|policy| {
            let start = current - grown(policy.period);
            match policy.is_percent {
                true => policy.scaled(start, -1.0) as i64,
                false => start - policy.value,
            }
        });
        self.selected(current, allowed.clone().min(), allowed.max())
    }

    fn selected(&self, current: i64, most: Option<i64>, least: Option<i64>) -> i64 {
        let selected = match self.select {
            Select::Disabled => None,
            Select::Most => most,
            Select::Least => least,
        };
        selected.unwrap_or(current)
    }
}

/// The bounds of an autoscaler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) min: i64,
    pub(super) max: i64,
}

impl Bounds {
    pub(super) fn of(autoscaler: &Value) -> Self {
        Self {
            min: maybe_int(autoscaler, "/spec/minReplicas").unwrap_or(1),
            max: int(autoscaler, "/spec/maxReplicas"),
        }
    }
}

const WITHIN: (&str, &str) = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_FEW: (&str, &str) = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const TOO_MANY: (&str, &str) = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const UP_LIMIT: (&str, &str) = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const DOWN_LIMIT: (&str, &str) = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);
const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const STABLE_UP: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const STABLE_DOWN: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);

/// The size that the target gets when metrics propose one.
pub(super) fn limited(
    autoscaler: &Value,
    memory: &mut Memory,
    (current, proposed): (i64, i64),
    review: &mut Review,
) -> i64 {
    let now = review.now;
    let bounds = Bounds::of(autoscaler);
    let (stable, why_stable, (size, why_limited)) = match behavior(autoscaler) {
        None => {
            let stable = highest(memory, proposed, now);
            (stable, STABLE_DOWN, by_default(current, stable, bounds))
        }
        Some(behavior) => {
            let (up, down) = (Rules::up(behavior), Rules::down(behavior));
            let (stable, why) = stabilized(memory, (&up, &down), (current, proposed), now);
            let size = by_rules(memory, (&up, &down), (current, stable), bounds, now);
            (stable, why, size)
        }
    };
    let why_stable = match stable == proposed {
        true => READY,
        false => why_stable,
    };
    review.condition("AbleToScale", "True", why_stable);
    let is_limited = match size == stable {
        true => "False",
        false => "True",
    };
    review.condition("ScalingLimited", is_limited, why_limited);
    size
}

/// The highest size recommended within the window, this one included.
fn highest(memory: &mut Memory, proposed: i64, now: Timestamp) -> i64 {
    let oldest = before(now, DOWN_WINDOW);
    let recent = memory.recommended.iter().filter(|one| one.at >= oldest);
    let highest = recent.map(|one| one.pods).max();
    record(&mut memory.recommended, proposed, now, |one| {
        one.at < oldest
    });
    highest.map_or(proposed, |highest| highest.max(proposed))
}

fn by_default(current: i64, stable: i64, bounds: Bounds) -> (i64, (&'static str, &'static str)) {
    let fastest = current.saturating_mul(2).max(4);
    let (most, why) = match bounds.max > fastest {
        true => (fastest, UP_LIMIT),
        false => (bounds.max, TOO_MANY),
    };
    if stable < bounds.min {
        (bounds.min, TOO_FEW)
    } else if stable > most {
        (most, why)
    } else {
        (stable, WITHIN)
    }
}

/// The size brought within what was recommended in the windows of both directions.
fn stabilized(
    memory: &mut Memory,
    (up, down): (&Rules, &Rules),
    (current, proposed): (i64, i64),
    now: Timestamp,
) -> (i64, (&'static str, &'static str)) {
    let (of_up, of_down) = (before(now, up.window), before(now, down.window));
    let recent = |oldest| {
        let records = memory.recommended.iter();
        records
            .filter(move |one| one.at > oldest)
            .map(|one| one.pods)
    };
    let lowest = recent(of_up).fold(proposed, i64::min);
    let highest = recent(of_down).fold(proposed, i64::max);
    let stable = current.max(lowest).min(highest);
    record(&mut memory.recommended, proposed, now, |one| {
        one.at < of_up && one.at < of_down
    });
    let why = match proposed >= current {
        true => STABLE_UP,
        false => STABLE_DOWN,
    };
    (stable, why)
}

/// The size brought within bounds and policies.
fn by_rules(
    memory: &Memory,
    (up, down): (&Rules, &Rules),
    (current, stable): (i64, i64),
    bounds: Bounds,
    now: Timestamp,
) -> (i64, (&'static str, &'static str)) {
    let grown = |period: i64| {
        let oldest = before(now, period);
        let sum = |records: &[Record]| -> i64 {
            let recent = records.iter().filter(|one| one.at > oldest);
            recent.map(|one| one.pods).sum()
        };
        sum(&memory.added) - sum(&memory.removed)
    };
    if stable > current {
        let fastest = up.upper(current, grown).max(current);
        let (most, why) = match bounds.max > fastest {
            true => (fastest, UP_LIMIT),
            false => (bounds.max, TOO_MANY),
        };
        if stable > most {
            return (most, why);
        }
    } else if stable < current {
        let slowest = down.lower(current, grown).min(current);
        let (least, why) = match bounds.min < slowest {
            true => (slowest, DOWN_LIMIT),
            false => (bounds.min, TOO_FEW),
        };
        if stable < least {
            return (least, why);
        }
    }
    (stable, WITHIN)
}
