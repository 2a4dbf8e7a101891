//! Endpoints as their Service asks for them, be they in slices or in Endpoints.
//!
//! ```text
//! Service → whether it has endpoints, the pods that it selects, the labels that its endpoints get
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kinform::{Enqueue, Informer, Obj, ObjectKey};
use serde_json::Value;

use crate::json::{is_terminating, name, text, texts};

const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation with the time of the change that the latest write is for.
pub(crate) const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Returns whether controllers write the endpoints of a Service.
pub(crate) fn has_endpoints(service: &Value) -> bool {
    let has_selector = !texts(service, "/spec/selector").is_empty();
    let is_name_only = text(service, "/spec/type") == "ExternalName";
    has_selector && !is_name_only && !is_terminating(service)
}

/// Returns whether pods that are not ready count as ready.
pub(crate) fn publishes_not_ready(service: &Value) -> bool {
    let publishes = service.pointer("/spec/publishNotReadyAddresses");
    publishes.and_then(Value::as_bool) == Some(true)
}

/// Returns whether a Service's selector selects a pod. A Service without one selects none.
fn selects(service: &Value, pod: &Obj<Pod>) -> bool {
    let selector = texts(service, "/spec/selector");
    let has = |(key, value): (&String, &String)| pod.label(key).as_deref() == Some(value);
    !selector.is_empty() && selector.iter().all(has)
}

/// The Services that select a pod.
pub(crate) fn services_of(services: &Informer<Value>, pod: &Obj<Pod>) -> Vec<Enqueue> {
    let services = services.snapshot();
    let namespace = pod.namespace().unwrap_or_default();
    let all = services.in_namespace(namespace);
    let selecting = all.typed().filter(|service| selects(service, pod));
    let key = |service: Arc<Value>| ObjectKey::new(Some(namespace), name(&service));
    selecting.map(key).map(Enqueue::from).collect()
}

/// The pods that a Service selects.
pub(crate) fn pods_of(service: &Value, pods: &Informer<Pod>) -> Vec<Arc<Pod>> {
    let namespace = text(service, "/metadata/namespace");
    let pods = pods.snapshot().in_namespace(namespace).to_objs();
    let selected = pods.into_iter().filter(|pod| selects(service, pod));
    selected.filter_map(|pod| pod.typed().ok()).collect()
}

/// The labels of what holds the endpoints of a Service: its own, and those of the controller.
pub(crate) fn labels(service: &Value, of_controller: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut labels = texts(service, "/metadata/labels");
    labels.remove(HEADLESS);
    for (key, value) in of_controller {
        labels.insert((*key).to_owned(), (*value).to_owned());
    }
    if text(service, "/spec/clusterIP") == "None" {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}
