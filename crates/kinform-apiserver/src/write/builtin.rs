//! What a few built-in types get beyond the common rules: the defaults that clients read back.
//!
//! ```text
//! resource + object -> the object with defaults, with the state that a create begins in
//! ```
//!
//! Not upstream's whole defaulting: the fields that controllers and people look at. A service gets no
//! cluster address, since nobody routes to it.
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/*/v1/defaults.go` and the strategies' `PrepareForCreate`.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::{metadata, text};
use crate::resource::ResourceInfo;

/// Defaults, and the state that a new object begins in.
pub(super) fn prepare_create(resource: &ResourceInfo, object: &mut Value) {
    defaults(resource, object);
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            let name = text(object, &["metadata", "name"]).to_owned();
            let labels = metadata::of(object)
                .entry("labels")
                .or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = Value::from(name);
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        ("", "pods") => object["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"}),
        ("", "persistentvolumeclaims" | "persistentvolumes") => {
            object["status"] = json!({"phase": "Pending"});
        }
        _ => {}
    }
}

/// Defaults, and what a type keeps from its stored state.
pub(super) fn prepare_update(resource: &ResourceInfo, new: &mut Value, old: &Value) {
    defaults(resource, new);
    if resource.is_core("namespaces") {
        // Only the finalize subresource changes these.
        new["spec"] = old.get("spec").cloned().unwrap_or_default();
    }
}

fn defaults(resource: &ResourceInfo, object: &mut Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pod(&mut object["spec"]),
        ("", "secrets") => secret(object),
        ("", "services") => service(&mut object["spec"]),
        ("", "persistentvolumeclaims") => {
            put(&mut object["spec"], "volumeMode", json!("Filesystem"));
        }
        ("", "replicationcontrollers") | ("apps", "replicasets") => {
            put(&mut object["spec"], "replicas", json!(1));
            template(object);
        }
        ("apps", "deployments") => deployment(object),
        ("apps", "statefulsets") => {
            let spec = &mut object["spec"];
            put(spec, "replicas", json!(1));
            put(spec, "podManagementPolicy", json!("OrderedReady"));
            put(spec, "revisionHistoryLimit", json!(10));
            put(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
            template(object);
        }
        ("apps", "daemonsets") => {
            let spec = &mut object["spec"];
            put(spec, "revisionHistoryLimit", json!(10));
            put(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
            template(object);
        }
        ("batch", "jobs") => {
            let spec = &mut object["spec"];
            put(spec, "parallelism", json!(1));
            put(spec, "completions", json!(1));
            put(spec, "backoffLimit", json!(6));
            put(spec, "suspend", json!(false));
            template(object);
        }
        _ => {}
    }
}

fn deployment(object: &mut Value) {
    let spec = &mut object["spec"];
    put(spec, "replicas", json!(1));
    put(spec, "revisionHistoryLimit", json!(10));
    put(spec, "progressDeadlineSeconds", json!(600));
    let strategy = &mut spec["strategy"];
    put(strategy, "type", json!("RollingUpdate"));
    if text(strategy, &["type"]) == "RollingUpdate" {
        put(strategy, "rollingUpdate", json!({}));
        put(
            &mut strategy["rollingUpdate"],
            "maxUnavailable",
            json!("25%"),
        );
        put(&mut strategy["rollingUpdate"], "maxSurge", json!("25%"));
    }
    template(object);
}

fn template(object: &mut Value) {
    pod(&mut object["spec"]["template"]["spec"]);
}

fn pod(spec: &mut Value) {
    put(spec, "restartPolicy", json!("Always"));
    put(spec, "dnsPolicy", json!("ClusterFirst"));
    put(spec, "schedulerName", json!("default-scheduler"));
    put(spec, "terminationGracePeriodSeconds", json!(30));
    put(spec, "securityContext", json!({}));
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            put(
                container,
                "terminationMessagePath",
                json!("/dev/termination-log"),
            );
            put(container, "terminationMessagePolicy", json!("File"));
            let image = text(container, &["image"]);
            let is_latest = image.ends_with(":latest")
                || !image
                    .rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .contains([':', '@']);
            let policy = if is_latest { "Always" } else { "IfNotPresent" };
            put(container, "imagePullPolicy", json!(policy));
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            ports
                .into_iter()
                .flatten()
                .for_each(|port| put(port, "protocol", json!("TCP")));
        }
    }
}

fn service(spec: &mut Value) {
    put(spec, "type", json!("ClusterIP"));
    put(spec, "sessionAffinity", json!("None"));
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        put(port, "protocol", json!("TCP"));
        let same = port.get("port").cloned().unwrap_or_default();
        if port
            .get("targetPort")
            .is_none_or(|target| *target == 0 || *target == "")
        {
            port["targetPort"] = same;
        }
    }
}

/// Text given in the clear goes where the bytes are.
fn secret(object: &mut Value) {
    put(object, "type", json!("Opaque"));
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(given)) = object.remove("stringData") else {
        return;
    };
    if given.is_empty() {
        return;
    }
    let data = object
        .entry("data")
        .or_insert_with(|| Value::Object(Map::new()));
    for (key, value) in given {
        let bytes = value.as_str().unwrap_or_default();
        data[key] = Value::from(base64::engine::general_purpose::STANDARD.encode(bytes));
    }
}

/// Sets a member that is absent. A parent that is absent, too, becomes an object.
fn put(object: &mut Value, name: &str, value: Value) {
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    let Some(object) = object.as_object_mut() else {
        return;
    };
    if object
        .get(name)
        .is_none_or(|old| old.is_null() || *old == "")
    {
        object.insert(name.to_owned(), value);
    }
}
