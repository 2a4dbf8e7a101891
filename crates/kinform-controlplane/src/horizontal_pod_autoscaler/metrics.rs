//! The given metrics: the resource usage of pods.
//!
//! ```text
//! PodMetrics objects (metrics.k8s.io/v1beta1) ─┐
//! pod annotation kinform.dev/cpu-usage: 250m  ─┴─▶ usage of a resource, by pod
//! ```
//!
//! Nothing measures pods that are played. A server may have PodMetrics by a definition of its user; a
//! pod without one has the usage that its annotations state, measured now. An annotation that cannot
//! be parsed counts as absent, with a warning in the log.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podautoscaler/metrics/client.go`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Client, Error as ClientError};
use serde_json::Value;

use super::replicas::{Sample, Usage};
use crate::json::{name, text, time};
use crate::quantity;
use crate::scale_subresource::{get, message};
use crate::writer::collection;

const API: &str = "/apis/metrics.k8s.io/v1beta1";
/// The message of client-go about a resource that is not served.
const NOT_SERVED: &str =
    "the server could not find the requested resource (get pods.metrics.k8s.io)";
/// The window of a sample that states none that can be parsed.
const WINDOW: Duration = Duration::from_secs(60);

/// The pods of an autoscaler, and the PodMetrics about them.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) now: Timestamp,
    /// The objects, or the reason why there are none.
    listed: Result<Vec<Value>, String>,
}

impl Metrics {
    /// Reads the PodMetrics with the labels of a selector.
    pub(super) async fn read(
        client: &Client,
        (namespace, selector): (&str, &str),
        pods: Vec<Arc<Pod>>,
        now: Timestamp,
    ) -> Self {
        let path = collection(API, namespace, "pods");
        let path = format!("{path}?labelSelector={}", encoded(selector));
        let listed = match get(client, &path).await {
            Ok(list) => Ok(items(list)),
            Err(ClientError::Api(status)) if status.code == 404 => Err(NOT_SERVED.to_owned()),
            Err(error) => Err(message(error)),
        };
        Self { pods, now, listed }
    }

    /// Pods with nothing but their annotations.
    #[cfg(test)]
    pub(super) fn of_annotations(pods: Vec<Arc<Pod>>, now: Timestamp) -> Self {
        let listed = Err(NOT_SERVED.to_owned());
        Self { pods, now, listed }
    }

    /// The usage of a resource by each pod, or by one of its containers.
    ///
    /// # Errors
    /// No pod has a usage, and there are no PodMetrics.
    pub(super) fn usage(&self, resource: &str, container: Option<&str>) -> Result<Usage, String> {
        let mut usage = Usage::new();
        if container.is_none() {
            usage.extend(self.pods.iter().filter_map(|pod| {
                let name = pod.metadata.name.clone()?;
                Some((name, stated(pod, resource, self.now)?))
            }));
        }
        let failed = "unable to fetch metrics from resource metrics API";
        match &self.listed {
            Ok(listed) if listed.is_empty() && usage.is_empty() => {
                return Err("no metrics returned from resource metrics API".to_owned());
            }
            Err(why) if usage.is_empty() => return Err(format!("{failed}: {why}")),
            _ => {}
        }
        let listed = self.listed.iter().flatten();
        usage.extend(listed.filter_map(|object| {
            let sample = measured(object, resource, container, self.now)?;
            Some((name(object).to_owned(), sample))
        }));
        Ok(usage)
    }
}

fn items(mut list: Value) -> Vec<Value> {
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// A selector as part of a query.
fn encoded(selector: &str) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    for byte in selector.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The usage that a pod's annotation states.
fn stated(pod: &Pod, resource: &str, now: Timestamp) -> Option<Sample> {
    let annotations = pod.metadata.annotations.as_ref()?;
    let key = format!("kinform.dev/{resource}-usage");
    let text = annotations.get(&key)?;
    let Some(value) = thousandths(text) else {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        tracing::warn!(pod = name, key, "the annotation is no quantity");
        return None;
    };
    Some(Sample {
        value,
        at: now,
        window: Duration::ZERO,
    })
}

fn thousandths(text: &str) -> Option<i64> {
    let parsed = quantity::parsed(text.trim())?;
    i64::try_from(parsed).ok()
}

/// The usage that a PodMetrics object has: of all containers, or of one.
fn measured(
    object: &Value,
    resource: &str,
    container: Option<&str>,
    now: Timestamp,
) -> Option<Sample> {
    let containers = object.get("containers")?.as_array()?;
    let mut chosen = containers
        .iter()
        .filter(|one| container.is_none_or(|wanted| text(one, "/name") == wanted))
        .peekable();
    chosen.peek()?;
    let mut usages = chosen.map(|one| thousandths(one.get("usage")?.get(resource)?.as_str()?));
    let value = usages.try_fold(0_i64, |sum, usage| Some(sum.saturating_add(usage?)))?;
    let window = text(object, "/window").parse::<jiff::SignedDuration>().ok();
    Some(Sample {
        value,
        at: time(object, "/timestamp").unwrap_or(now),
        window: window.map_or(WINDOW, |window| window.unsigned_abs()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn metrics(annotations: &[Value], listed: Result<Vec<Value>, String>) -> Metrics {
        let pod = |(at, annotations): (usize, &Value)| {
            let pod = json!({"metadata": {"name": format!("p{at}"), "annotations": annotations}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        Metrics {
            pods: annotations.iter().enumerate().map(pod).collect(),
            now: NOW.parse().unwrap(),
            listed,
        }
    }

    fn values(usage: Result<Usage, String>) -> Result<Vec<(String, i64)>, String> {
        Ok(usage?
            .into_iter()
            .map(|(name, sample)| (name, sample.value))
            .collect())
    }

    #[test]
    fn annotations_state_what_no_object_measures() {
        let annotated = [
            json!({"kinform.dev/cpu-usage": "250m"}),
            json!({"kinform.dev/cpu-usage": "much"}),
            json!({"kinform.dev/cpu-usage": "1", "kinform.dev/memory-usage": "1Ki"}),
        ];
        let object = json!({"metadata": {"name": "p2"}, "timestamp": "2026-01-01T00:00:09Z",
            "window": "30s", "containers": [
                {"name": "a", "usage": {"cpu": "100m"}}, {"name": "b", "usage": {"cpu": "2"}}]});
        let given = metrics(&annotated, Ok(vec![object]));
        let found = values(given.usage("cpu", None)).unwrap();
        assert_eq!(found, [("p0".to_owned(), 250), ("p2".to_owned(), 2100)]);
        let sample = given.usage("cpu", None).unwrap()["p2"];
        assert_eq!(sample.window, Duration::from_secs(30));
        assert_eq!(sample.at.to_string(), "2026-01-01T00:00:09Z");
        let found = values(given.usage("memory", None)).unwrap();
        assert_eq!(found, [("p2".to_owned(), 1_024_000)]);
        let found = values(given.usage("cpu", Some("a"))).unwrap();
        assert_eq!(found, [("p2".to_owned(), 100)]);
        assert_eq!(values(given.usage("cpu", Some("c"))), Ok(Vec::new()));
    }

    #[test]
    fn without_any_usage_the_reason_is_upstreams() {
        let why = |listed| values(metrics(&[json!({})], listed).usage("cpu", None)).unwrap_err();
        assert_eq!(
            why(Err(NOT_SERVED.to_owned())),
            "unable to fetch metrics from resource metrics API: the server could not find the \
             requested resource (get pods.metrics.k8s.io)"
        );
        assert_eq!(
            why(Ok(vec![])),
            "no metrics returned from resource metrics API"
        );
    }

    #[test]
    fn a_selector_is_encoded_for_a_query() {
        assert_eq!(encoded("app=x,env in (a)"), "app%3Dx%2Cenv%20in%20%28a%29");
    }
}
