//! The sizes that the metrics of an autoscaler propose, and the greatest of them.
//!
//! ```text
//! each metric ─▶ goal + usage ─▶ size, status of the metric │ why not
//!                                       └─▶ greatest size │ no size: all failed, or some and it is smaller
//! ```
//!
//! Resource and ContainerResource metrics are given; there is no source of Pods, Object and External
//! metrics, which fail as in a cluster without their APIs.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podautoscaler/horizontal.go`
//! (`computeReplicasForMetrics`).

use serde_json::{Value, json};

use super::metrics::Metrics;
use super::replicas::{Answer, Goal, Question, Tolerances, answer};
use super::review::Review;
use crate::json::{maybe_int, text};
use crate::quantity::{self, Suffixes, milli, printed};
use crate::selector;

/// The deviation that changes nothing, unless a rule states another.
const TOLERANCE: f64 = 0.1;

/// The proposal of the metrics of an autoscaler.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proposed {
    pub(super) size: i64,
    /// The metric that the size follows from.
    pub(super) metric: String,
    pub(super) statuses: Vec<Value>,
}

/// Metrics that propose no size: their statuses and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) statuses: Vec<Value>,
    pub(super) why: String,
}

/// A metric that has no value.
struct Refused {
    reason: &'static str,
    why: String,
    /// The kind of metric, before the reason in the error of all.
    of: String,
}

/// A metric that has a value.
struct Found {
    size: i64,
    metric: String,
    status: Value,
}

/// Proposes a size, and sets the condition ScalingActive.
///
/// # Errors
/// No metric has a value, or some have none and the others propose a smaller size.
pub(super) fn propose(
    autoscaler: &Value,
    current: i64,
    metrics: &Metrics,
    review: &mut Review,
) -> Result<Proposed, Failure> {
    let specs = autoscaler
        .pointer("/spec/metrics")
        .and_then(Value::as_array);
    let specs = specs.map(Vec::as_slice).unwrap_or_default();
    let mut proposed = Proposed {
        size: 0,
        metric: String::new(),
        statuses: Vec::new(),
    };
    let (mut failed, mut first) = (0, None);
    for spec in specs {
        match value_of(autoscaler, spec, current, metrics) {
            Ok(found) => {
                proposed.statuses.push(found.status);
                if proposed.size == 0 || found.size > proposed.size {
                    (proposed.size, proposed.metric) = (found.size, found.metric);
                }
            }
            Err(refused) => {
                // As upstream: a status of the metric that says nothing.
                proposed.statuses.push(json!({"type": ""}));
                review.warn(refused.reason, &refused.why);
                failed += 1;
                first = first.or(Some(refused));
            }
        }
    }
    if let Some(first) = first.filter(|_| failed >= specs.len() || proposed.size < current) {
        let message = format!(
            "the HPA was unable to compute the replica count: {}",
            first.why
        );
        review.condition("ScalingActive", "False", (first.reason, &message));
        let why = format!(
            "invalid metrics ({failed} invalid out of {}), first error is: failed to get {}: {}",
            specs.len(),
            first.of,
            first.why
        );
        return Err(Failure {
            statuses: proposed.statuses,
            why,
        });
    }
    let message = format!(
        "the HPA was able to successfully calculate a replica count from {}",
        proposed.metric
    );
    review.condition("ScalingActive", "True", ("ValidMetricFound", &message));
    Ok(proposed)
}

fn value_of(
    autoscaler: &Value,
    spec: &Value,
    current: i64,
    metrics: &Metrics,
) -> Result<Found, Refused> {
    let part = |member: &str| spec.get(member).unwrap_or(&Value::Null);
    match text(spec, "/type") {
        "Resource" => of_resource(autoscaler, part("resource"), false, current, metrics),
        "ContainerResource" => {
            let part = part("containerResource");
            of_resource(autoscaler, part, true, current, metrics)
        }
        "Pods" => Err(of_pods(part("pods"))),
        "Object" => Err(of_object(autoscaler, part("object"))),
        "External" => Err(of_external(autoscaler, part("external"))),
        other => Err(Refused {
            reason: "InvalidMetricSourceType",
            why: format!("unknown metric source type {other:?}"),
            of: "metric value".to_owned(),
        }),
    }
}

/// A metric about a resource of pods, or of one of their containers.
fn of_resource(
    autoscaler: &Value,
    spec: &Value,
    is_of_container: bool,
    current: i64,
    metrics: &Metrics,
) -> Result<Found, Refused> {
    let resource = text(spec, "/name");
    let container = is_of_container.then(|| text(spec, "/container"));
    let (reason, of) = match container {
        None => (
            "FailedGetResourceMetric",
            format!("{resource} resource metric value"),
        ),
        Some(container) => (
            "FailedGetContainerResourceMetric",
            format!("{container} container metric value"),
        ),
    };
    let refused = |why| Refused {
        reason,
        why,
        of: of.clone(),
    };
    let (goal, measure) = goal(spec).ok_or_else(|| {
        let why = "invalid resource metric source: neither an average utilization target nor an \
                   average value (usage) target was set";
        refused(why.to_owned())
    })?;
    let question = Question {
        current,
        goal,
        tolerances: tolerances(autoscaler),
        resource,
        container,
        pods: &metrics.pods,
        now: metrics.now,
    };
    let usage = metrics.usage(resource, container);
    let usage =
        usage.map_err(|why| format!("unable to get metrics for resource {resource}: {why}"));
    let answer = usage.and_then(|usage| answer(&question, &usage));
    let answer =
        answer.map_err(|why| refused(format!("failed to get {resource} {measure}: {why}")))?;
    let value = current_value(resource, &answer);
    let status = match container {
        None => json!({"type": "Resource", "resource": {"name": resource, "current": value}}),
        Some(container) => json!({"type": "ContainerResource", "containerResource": {
            "name": resource, "container": container, "current": value,
        }}),
    };
    let metric = match (goal, container) {
        (Goal::Average(_), _) => format!("{resource} resource"),
        (_, None) => format!("{resource} resource utilization (percentage of request)"),
        (_, Some(_)) => {
            format!("{resource} container resource utilization (percentage of request)")
        }
    };
    Ok(Found {
        size: answer.replicas,
        metric,
        status,
    })
}

/// The usage as the status of a metric has it.
fn current_value(resource: &str, answer: &Answer) -> Value {
    let suffixes = match resource {
        "memory" => Suffixes::Binary,
        _ => Suffixes::Decimal,
    };
    let mut value = json!({"averageValue": printed(answer.average, suffixes)});
    if let Some(utilization) = answer.utilization {
        value["averageUtilization"] = utilization.into();
    }
    value
}

/// The goal of a resource metric, and its name in errors.
fn goal(spec: &Value) -> Option<(Goal, &'static str)> {
    let average = text(spec, "/target/averageValue");
    if let Some(average) = quantity::parsed(average).filter(|_| !average.is_empty()) {
        let average = i64::try_from(average).unwrap_or(i64::MAX);
        return Some((Goal::Average(average), "usage"));
    }
    let utilization = maybe_int(spec, "/target/averageUtilization")?;
    Some((Goal::Utilization(utilization), "utilization"))
}

fn tolerances(autoscaler: &Value) -> Tolerances {
    let stated = |direction: &str| {
        let tolerance = text(autoscaler, &format!("/spec/behavior/{direction}/tolerance"));
        // A tolerance is at most a few units: it fits.
        let thousandths = i32::try_from(milli(tolerance)).ok();
        thousandths
            .filter(|_| !tolerance.is_empty())
            .map_or(TOLERANCE, |thousandths| f64::from(thousandths) / 1000.0)
    };
    Tolerances {
        down: stated("scaleDown"),
        up: stated("scaleUp"),
    }
}

const NO_CUSTOM: &str = "unable to fetch metrics from custom metrics API: no custom metrics API \
                         (custom.metrics.k8s.io) registered";

fn of_pods(spec: &Value) -> Refused {
    let metric = text(spec, "/metric/name");
    Refused {
        reason: "FailedGetPodsMetric",
        why: format!("unable to get metric {metric}: {NO_CUSTOM}"),
        of: "pods metric value".to_owned(),
    }
}

fn of_object(autoscaler: &Value, spec: &Value) -> Refused {
    let namespace = text(autoscaler, "/metadata/namespace");
    let (metric, kind, name) = (
        text(spec, "/metric/name"),
        text(spec, "/describedObject/kind"),
        text(spec, "/describedObject/name"),
    );
    let why = format!("unable to get metric {metric} on {kind} {namespace}/{name}: {NO_CUSTOM}");
    Refused {
        reason: "FailedGetObjectMetric",
        why,
        of: "object metric value".to_owned(),
    }
}

fn of_external(autoscaler: &Value, spec: &Value) -> Refused {
    let namespace = text(autoscaler, "/metadata/namespace");
    let metric = text(spec, "/metric/name");
    let labels = selector::printed(spec.pointer("/metric/selector"));
    let named = match text(spec, "/target/averageValue") {
        "" => format!("external metric {metric}"),
        _ => format!("{metric} external metric"),
    };
    let why = format!(
        "failed to get {named}: unable to get external metric {namespace}/{metric}/{labels}: unable \
         to fetch metrics from external metrics API: the server could not find the requested \
         resource (get {metric}.external.metrics.k8s.io)"
    );
    Refused {
        reason: "FailedGetExternalMetric",
        why,
        of: format!("{metric} external metric value"),
    }
}
