//! The scale subresource: the replica count of an object, presented as a kind of its own.
//!
//! ```text
//! object -> Scale          Scale + object -> object
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/apps/deployment/storage`,
//! `apiextensions-apiserver:pkg/registry/customresource/etcd.go`.

use kinform_api::{FieldError, Status};
use serde_json::{Map, Value, json};

use crate::object::{at, text, typed};
use crate::resource::{ResourceInfo, ScalePaths, Shape};

/// Returns the `Scale` of an object, with `apiVersion` and `kind`.
pub(crate) fn scale_of(resource: &ResourceInfo, object: &Value) -> Value {
    let paths = paths(resource);
    let mut metadata = Map::new();
    for name in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = at(object, &["metadata", name]) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    let number = |path: &str| at_path(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(selector) = selector(&paths, object).filter(|text| !text.is_empty()) {
        status["selector"] = Value::from(selector);
    }
    let mut spec = Map::new();
    if number(&paths.spec_replicas) != 0 {
        spec.insert(
            "replicas".to_owned(),
            Value::from(number(&paths.spec_replicas)),
        );
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// Refuses to show the `Scale` of a custom object without a replica count.
pub(crate) fn check(resource: &ResourceInfo, object: &Value) -> Result<(), Box<Status>> {
    let path = paths(resource).spec_replicas;
    if !resource.is_custom() || at_path(object, &path).is_some() {
        return Ok(());
    }
    let why = format!("the spec replicas field \".{path}\" does not exist");
    Err(Box::new(Status::internal_error(&why)))
}

/// Reads a body as a `Scale`.
pub(crate) fn read(value: Value) -> Result<Value, typed::TypeError> {
    let kind = text(&value, &["kind"]);
    let of = kinform_schema::builtin("autoscaling", "v1", "Scale")
        .filter(|_| matches!(kind, "" | "Scale"))
        .ok_or_else(|| typed::TypeError(format!("no kind {kind:?} is expected here")))?;
    typed::read(of, value, &mut Vec::new())
}

/// Returns the object with the replica count and the resource version of a `Scale`.
pub(crate) fn into_object(
    resource: &ResourceInfo,
    scale: &Value,
    current: &Value,
) -> Result<Value, Box<Status>> {
    let replicas = at(scale, &["spec", "replicas"])
        .and_then(Value::as_i64)
        .unwrap_or(0);
    if replicas < 0 && !resource.is_custom() {
        let detail = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", replicas, detail);
        let name = text(current, &["metadata", "name"]);
        let kind = kinform_api::GroupKind::new("autoscaling", "Scale");
        return Err(Box::new(Status::invalid(&kind, name, &[error])));
    }
    let mut object = current.clone();
    let paths = paths(resource);
    let mut place = &mut object;
    for name in paths.spec_replicas.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[name];
    }
    *place = Value::from(replicas);
    let mut metadata = current.get("metadata").cloned().unwrap_or_default();
    for name in ["resourceVersion", "uid"] {
        metadata[name] = at(scale, &["metadata", name]).cloned().unwrap_or_default();
    }
    if text(&metadata, &["resourceVersion"]).is_empty() {
        // Without a resource version, the replica count is set unconditionally.
        let version = at(current, &["metadata", "resourceVersion"]);
        metadata["resourceVersion"] = version.cloned().unwrap_or_default();
    }
    object["metadata"] = metadata;
    Ok(object)
}

/// Returns the path of an object's requested replica count.
pub(super) fn replicas_path(resource: &ResourceInfo) -> String {
    paths(resource).spec_replicas
}

fn paths(resource: &ResourceInfo) -> ScalePaths {
    let custom = match &resource.shape {
        Shape::Custom(custom) => custom.scale.clone(),
        Shape::Builtin(_) => None,
    };
    custom.unwrap_or_else(|| ScalePaths {
        spec_replicas: "spec.replicas".to_owned(),
        status_replicas: "status.replicas".to_owned(),
        label_selector: Some("spec.selector".to_owned()),
    })
}

fn at_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(object, |value, name| value.get(name))
}

/// Returns the selector of the counted objects, as text.
fn selector(paths: &ScalePaths, object: &Value) -> Option<String> {
    let value = at_path(object, paths.label_selector.as_deref()?)?;
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    // A replication controller's selector is the map itself.
    let labels = value.get("matchLabels").unwrap_or(value).as_object();
    let label = |(key, value): (&String, &Value)| Some(format!("{key}={}", value.as_str()?));
    let mut terms: Vec<String> = labels.into_iter().flatten().filter_map(label).collect();
    for term in value
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let values = term.get("values").and_then(Value::as_array);
        let values: Vec<&str> = values
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let (key, values) = (text(term, &["key"]), values.join(","));
        terms.push(match text(term, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    Some(terms.join(","))
}
