//! Cells of administrative kinds: certificate requests, policies, resource claims, API services.
//!
//! ```text
//! object + argument -> cell
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/printers/internalversion/printers.go`,
//! `kube-aggregator:pkg/registry/apiservice/rest`.

use serde_json::Value;

use super::{at, condition, human, items, text};

/// Returns `Local`, or the service that serves a version.
pub(super) fn api_service(object: &Value) -> Value {
    let Some(service) = at(object, "spec.service") else {
        return Value::from("Local");
    };
    let (namespace, name) = (text(service, "namespace"), text(service, "name"));
    Value::from(format!("{namespace}/{name}"))
}

/// Returns whether an API service is available, with the reason if it is not.
pub(super) fn api_available(object: &Value) -> Value {
    let mut conditions = items(object, "status.conditions");
    let found = conditions.find(|it| text(it, "type") == "Available");
    Value::from(
        match found.map(|it| (text(it, "status"), text(it, "reason"))) {
            Some(("True", _)) => "True".to_owned(),
            Some((status, reason)) => format!("{status} ({reason})"),
            // A real server reports its own versions as available.
            None if at(object, "spec.service").is_none() => "True".to_owned(),
            None => "Unknown".to_owned(),
        },
    )
}

/// Seconds as a duration.
pub(super) fn seconds(object: &Value, path: &str) -> Value {
    let seconds = at(object, path).and_then(Value::as_i64);
    Value::from(seconds.map_or_else(|| "<none>".to_owned(), human))
}

/// Returns the state of a certificate signing request.
pub(super) fn signing_status(object: &Value) -> Value {
    let is = |kind: &str| condition(object, kind).is_some();
    let mut status = match (is("Denied"), is("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if is("Failed") {
        status.push_str(",Failed");
    }
    if !text(object, "status.certificate").is_empty() {
        status.push_str(",Issued");
    }
    Value::from(status)
}

/// Returns the state of a pod certificate request.
pub(super) fn pod_certificate(object: &Value) -> Value {
    let known = ["Issued", "Denied", "Failed"];
    let found = known
        .iter()
        .find(|it| condition(object, it) == Some("True"));
    Value::from(*found.unwrap_or(&"Pending"))
}

/// Returns the parent reference of an IP address.
pub(super) fn parent_ref(object: &Value) -> Value {
    let of = |name: &str| at(object, "spec.parentRef").map_or("", |parent| text(parent, name));
    let mut shown = of("resource").to_owned();
    for (before, part) in [
        ('.', of("group")),
        ('/', of("namespace")),
        ('/', of("name")),
    ] {
        if !part.is_empty() {
            shown.push(before);
            shown.push_str(part);
        }
    }
    Value::from(shown)
}

/// The kind of a policy's parameters.
pub(super) fn param_kind(object: &Value) -> Value {
    let Some(kind) = at(object, "spec.paramKind") else {
        return Value::from("<unset>");
    };
    Value::from(format!(
        "{}/{}",
        text(kind, "apiVersion"),
        text(kind, "kind")
    ))
}

/// Returns the parameters that a binding passes to a policy.
pub(super) fn param_ref(object: &Value) -> Value {
    let Some(given) = at(object, "spec.paramRef") else {
        return Value::from("<unset>");
    };
    if let Some(selector) = at(given, "selector") {
        return Value::from(as_go_prints(selector));
    }
    let namespace = match text(given, "namespace") {
        "" => "*",
        namespace => namespace,
    };
    Value::from(format!("{namespace}/{}", text(given, "name")))
}

/// Formats a label selector as Go's `String` method does, which upstream's cell shows.
fn as_go_prints(selector: &Value) -> String {
    let labels = at(selector, "matchLabels").and_then(Value::as_object);
    let labels: String = labels
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let terms: String = items(selector, "matchExpressions")
        .map(|term| {
            let values: Vec<&str> = items(term, "values").filter_map(Value::as_str).collect();
            let (key, operator) = (text(term, "key"), text(term, "operator"));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )
}

/// Returns the states of a resource claim.
pub(super) fn claim_state(object: &Value) -> Value {
    let mut states = Vec::new();
    if at(object, "metadata.deletionTimestamp").is_some() {
        states.push("deleted");
    }
    if at(object, "status.allocation").is_some() {
        states.push("allocated");
    }
    if items(object, "status.reservedFor").next().is_some() {
        states.push("reserved");
    }
    if states.is_empty() {
        states.push("pending");
    }
    Value::from(states.join(","))
}

/// Returns the resource that a storage version migration migrates.
pub(super) fn migrated(object: &Value) -> Value {
    let of = |name: &str| at(object, "spec.resource").map_or("", |it| text(it, name));
    Value::from(match of("group") {
        "" => of("resource").to_owned(),
        group => format!("{}.{group}", of("resource")),
    })
}

/// Returns the progress of a storage version migration.
pub(super) fn migration_status(object: &Value) -> Value {
    let known = ["Succeeded", "Failed", "Running"];
    let found = known
        .iter()
        .find(|it| condition(object, it) == Some("True"));
    Value::from(*found.unwrap_or(&"Unknown"))
}
