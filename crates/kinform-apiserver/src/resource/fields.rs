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
        ("", "replicationcontrollers") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests" | "clustertrustbundles") => {
            &["spec.signerName"]
        }
        ("certificates.k8s.io", "podcertificaterequests") => {
            &["spec.signerName", "spec.podName", "spec.nodeName"]
        }
        ("resource.k8s.io", "resourceslices") => {
            &["spec.nodeName", "spec.driver", "spec.pool.name"]
        }
        _ => &[],
    };
    let mut fields: Vec<_> = names
        .iter()
        .map(|name| SelectableField::new(name))
        .collect();
    match (group, plural) {
        ("", "events") => fields.push(SelectableField::at("source", "source.component")),
        // Upstream knows the name and never fills it in.
        ("", "pods") => fields.push(SelectableField::at("status.podIPs", "")),
        ("batch", "jobs") => {
            fields = vec![SelectableField::at("status.successful", "status.succeeded")]
        }
        _ => {}
    }
    fields
}

/// The value that a selector compares if an object lacks a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// This text.
    Text(&'static str),
    /// The value of another selectable field.
    Field(&'static str),
}

/// Returns what stands for an absent field of a built-in resource: Go's zero value of a flag or a
/// number, which has no empty text.
pub(crate) fn absent(group: &str, plural: &str, name: &str) -> Absent {
    match (group, plural, name) {
        ("", "nodes", "spec.unschedulable") | ("", "pods", "spec.hostNetwork") => {
            Absent::Text("false")
        }
        ("", "replicationcontrollers", "status.replicas")
        | ("batch", "jobs", "status.successful") => Absent::Text("0"),
        ("", "events", "source") => Absent::Field("reportingComponent"),
        _ => Absent::Text(""),
    }
}

/// Returns whether selectors of a built-in resource know `metadata.namespace`. Those with fields of
/// their own know it only if they say so.
pub(crate) fn knows_namespace(group: &str, plural: &str) -> bool {
    !matches!(
        (group, plural),
        ("", "namespaces" | "nodes")
            | ("certificates.k8s.io", _)
            | ("resource.k8s.io", "resourceslices")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Registry;
    use crate::storage::{HistoryLimits, Store};

    #[test]
    fn every_absent_value_belongs_to_a_selectable_field_that_is_no_text() {
        let registry = Registry::built_in(&Store::new(HistoryLimits::default()));
        let mut special = Vec::new();
        for entry in registry.entries().iter() {
            for field in &entry.fields {
                match absent(&entry.group, &entry.plural, field.name()) {
                    Absent::Text("") => {}
                    Absent::Field(other) => {
                        assert!(entry.fields.iter().any(|field| field.name() == other));
                        special.push(format!("{}: {}", entry.plural, field.name()));
                    }
                    Absent::Text(_) => special.push(format!("{}: {}", entry.plural, field.name())),
                }
            }
        }
        special.sort_unstable();
        assert_eq!(
            special,
            [
                "events: source",
                "jobs: status.successful",
                "nodes: spec.unschedulable",
                "pods: spec.hostNetwork",
                "replicationcontrollers: status.replicas",
            ]
        );
    }
}
