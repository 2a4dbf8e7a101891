//! The number of pods that a metric of pods asks for.
//!
//! ```text
//! usage of each pod + pods + target ─▶ usage ÷ target ─▶ number of pods │ current number, if close
//! ```
//!
//! Pods that are not ready, or whose usage is unknown, count in the direction that changes less: as
//! unused when more pods are needed, as used to the target when fewer are.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podautoscaler/replica_calculator.go`,
//! `metrics/utilization.go`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pods::{condition, is_terminating, phase};
use crate::quantity::milli;

/// The time after its start in which the CPU usage of a pod that is not ready does not count.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(5 * 60);
/// The time after its start in which a pod that was never ready may turn unready.
const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);

/// The usage of one pod, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) value: i64,
    pub(super) at: Timestamp,
    /// The time over which the usage was measured.
    pub(super) window: Duration,
}

/// The usage of pods by their names.
pub(super) type Usage = BTreeMap<String, Sample>;

/// The value that the average of the pods is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Percent of the requests.
    Utilization(i64),
    /// Thousandths a pod.
    Average(i64),
}

/// The deviations of usage from the goal that change nothing, as parts of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerances {
    fn cover(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// The pods that a metric is about, and what is asked about them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) current: i64,
    pub(super) goal: Goal,
    pub(super) tolerances: Tolerances,
    pub(super) resource: &'a str,
    /// The container whose usage counts; `None` is the whole pod.
    pub(super) container: Option<&'a str>,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) now: Timestamp,
}

/// The answer: the number of pods, and the usage that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) replicas: i64,
    pub(super) utilization: Option<i64>,
    /// Thousandths a pod.
    pub(super) average: i64,
}

/// The number of pods that usage asks for.
///
/// # Errors
/// No usage counts, or a request is missing.
pub(super) fn answer(question: &Question<'_>, usage: &Usage) -> Result<Answer, String> {
    if question.pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    let groups = Groups::of(question, usage);
    let mut values: BTreeMap<&str, i64> = usage
        .iter()
        .filter(|(name, _)| !groups.unready.contains(&***name))
        .filter(|(name, _)| !groups.ignored.contains(&***name))
        .map(|(name, sample)| (name.as_str(), sample.value))
        .collect();
    if values.is_empty() {
        let why = "did not receive metrics for targeted pods (pods might be unready)";
        return Err(why.to_owned());
    }
    let requests = match question.goal {
        Goal::Utilization(_) => requests(question)?,
        Goal::Average(_) => BTreeMap::new(),
    };
    let measured = measure(question.goal, &values, &requests)?;
    let answer = |replicas| Answer {
        replicas,
        utilization: measured.utilization,
        average: measured.average,
    };
    let ratio = measured.ratio;
    let fills_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !fills_unready && groups.missing.is_empty() {
        let replicas = match question.tolerances.cover(ratio) {
            true => question.current,
            false => times(ratio, groups.ready),
        };
        return Ok(answer(replicas));
    }
    for name in &groups.missing {
        let request = requests.get(name).copied().unwrap_or(0);
        let assumed = match (ratio.partial_cmp(&1.0), question.goal) {
            (Some(Ordering::Greater), _) => 0,
            (Some(Ordering::Less), Goal::Average(goal)) => goal,
            (Some(Ordering::Less), Goal::Utilization(goal)) => {
                request.saturating_mul(goal.max(100)) / 100
            }
            _ => continue,
        };
        values.insert(*name, assumed);
    }
    if fills_unready {
        values.extend(groups.unready.iter().map(|name| (*name, 0)));
    }
    let filled = measure(question.goal, &values, &requests)?.ratio;
    let turns = (ratio < 1.0 && filled > 1.0) || (ratio > 1.0 && filled < 1.0);
    if question.tolerances.cover(filled) || turns {
        return Ok(answer(question.current));
    }
    let replicas = times(filled, values.len());
    let goes_other_way = (filled < 1.0 && replicas > question.current)
        || (filled > 1.0 && replicas < question.current);
    Ok(answer(match goes_other_way {
        true => question.current,
        false => replicas,
    }))
}

/// Usage in relation to a goal.
struct Measured {
    ratio: f64,
    utilization: Option<i64>,
    average: i64,
}

fn measure(
    goal: Goal,
    values: &BTreeMap<&str, i64>,
    requests: &BTreeMap<&str, i64>,
) -> Result<Measured, String> {
    let sum = |values: &mut dyn Iterator<Item = i64>| values.fold(0, i64::saturating_add);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX).max(1);
    match goal {
        Goal::Average(goal) => {
            let average = sum(&mut values.values().copied()) / count(values.len());
            Ok(Measured {
                ratio: part(average, goal),
                utilization: None,
                average,
            })
        }
        Goal::Utilization(goal) => {
            let known = values
                .iter()
                .filter_map(|(name, value)| Some((*value, *requests.get(name)?)));
            let used = sum(&mut known.clone().map(|(value, _)| value));
            let asked = sum(&mut known.clone().map(|(_, request)| request));
            if asked == 0 {
                return Err("no metrics returned matched known pods".to_owned());
            }
            let utilization = used.saturating_mul(100) / asked;
            Ok(Measured {
                ratio: part(utilization, goal),
                utilization: Some(utilization),
                average: used / count(known.count()),
            })
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ratios are floats upstream, too"
)]
fn part(value: i64, of: i64) -> f64 {
    value as f64 / of as f64
}

/// A ratio of a number of pods, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the product is cut to the numbers that a scale can have"
)]
fn times(ratio: f64, pods: usize) -> i64 {
    (ratio * pods as f64).ceil().clamp(0.0, f64::from(i32::MAX)) as i64
}

/// The pods by the way in which they count.
#[derive(Default)]
struct Groups<'a> {
    ready: usize,
    unready: BTreeSet<&'a str>,
    missing: BTreeSet<&'a str>,
    ignored: BTreeSet<&'a str>,
}

impl<'a> Groups<'a> {
    fn of(question: &Question<'a>, usage: &Usage) -> Self {
        let mut groups = Self::default();
        for pod in question.pods {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            if is_terminating(pod) || phase(pod) == "Failed" {
                groups.ignored.insert(name);
            } else if phase(pod) == "Pending" {
                groups.unready.insert(name);
            } else if let Some(sample) = usage.get(name) {
                match question.resource == "cpu" && is_starting(pod, sample, question.now) {
                    true => drop(groups.unready.insert(name)),
                    false => groups.ready += 1,
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }
}

/// Returns whether the CPU usage of a pod is that of its start.
pub(super) fn is_starting(pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
    let ready = condition(pod, "Ready");
    let started = pod.status.as_ref().and_then(|s| s.start_time.as_ref());
    let (Some(ready), Some(started)) = (ready, started) else {
        return true;
    };
    let after = |start: Timestamp, time| start.checked_add(time).unwrap_or(Timestamp::MAX);
    let changed = ready.last_transition_time.as_ref();
    let changed = changed.map_or(Timestamp::MIN, |time| time.0);
    let is_unready = ready.status == "False";
    if after(started.0, CPU_INITIALIZATION) > now {
        let window = SignedDuration::try_from(sample.window).unwrap_or(SignedDuration::MAX);
        is_unready || sample.at < after(changed, window)
    } else {
        is_unready && after(started.0, INITIAL_READINESS) > changed
    }
}

/// The requests of the pods, in thousandths.
fn requests<'a>(question: &Question<'a>) -> Result<BTreeMap<&'a str, i64>, String> {
    let of_pod = |pod: &'a Arc<Pod>| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        Ok((name, request(pod, question.resource, question.container)?))
    };
    question.pods.iter().map(of_pod).collect()
}

/// The request of a pod, or of one of its containers.
pub(super) fn request(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let thousandths = |text: &str| i64::try_from(milli(text)).unwrap_or(i64::MAX);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(spec) = pod.spec.as_ref() else {
        return Ok(0);
    };
    let of_pod = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    if let (Some(of_pod), None) = (of_pod.filter(|all| !all.is_empty()), container)
        && let Some(asked) = of_pod.get(resource)
    {
        return Ok(thousandths(&asked.0));
    }
    let stays = |one: &&Container| one.restart_policy.as_deref() == Some("Always");
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let all = spec.containers.iter().chain(inits.iter().filter(stays));
    let mut sum = 0_i64;
    let mut is_found = container.is_none();
    for one in all.filter(|one| container.is_none_or(|wanted| wanted == one.name)) {
        is_found = true;
        let asked = one.resources.as_ref().and_then(|r| r.requests.as_ref());
        let asked = asked.and_then(|all| all.get(resource)).ok_or_else(|| {
            format!(
                "missing request for {resource} in container {} of Pod {name}",
                one.name
            )
        })?;
        sum = sum.saturating_add(thousandths(&asked.0));
    }
    match (is_found, container) {
        (false, Some(container)) => Err(format!("container {container} not found in Pod {name}")),
        _ => Ok(sum),
    }
}
