//! The fields that `fieldSelector` supports, in addition to `metadata.name` and
//! `metadata.namespace`.
//!
//! ```text
//! resource -> [name, path]
//! ```
//!
//! A selector on any other field is a 400: the server never scans for a field that it does not
//! index.
//!
//! Upstream: the conversion functions in `kubernetes/kubernetes:pkg/apis/*/v1/conversion.go`, and
//! `selectableFields` of custom resource definitions.

use crate::storage::SelectableField;

/// The selectable fields of a built-in resource.
pub(crate) fn of_builtin(group: &str, plural: &str) -> Vec<SelectableField> {
    if (group, plural) == ("events.k8s.io", "events") {
        return super::events::renamed_fields();
    }
    let names: &[&str] = match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        _ => &[],
    };
    let mut fields: Vec<_> = names
        .iter()
        .map(|name| SelectableField::new(name))
        .collect();
    match (group, plural) {
        ("", "events") => fields.push(SelectableField::at("source", "source.component")),
        ("batch", "jobs") => {
            fields = vec![SelectableField::at("status.successful", "status.succeeded")]
        }
        _ => {}
    }
    fields
}
