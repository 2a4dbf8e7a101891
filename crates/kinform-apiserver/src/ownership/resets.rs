//! The fields that a request cannot write: it may contain them, but the server restores them.
//!
//! ```text
//! resource + subresource -> paths that the stored object keeps; no manager comes to own them
//! ```
//!
//! Upstream: `GetResetFields` of the strategies in `kubernetes/kubernetes:pkg/registry`.

use crate::object::part::Part;
use crate::resource::ResourceInfo;

/// Returns the paths that a request for this part does not write, with members joined by dots.
pub(crate) fn of(resource: &ResourceInfo, part: Part) -> &'static [&'static str] {
    let of = (resource.group.as_str(), resource.plural.as_str());
    match part {
        Part::Main if of == ("certificates.k8s.io", "certificatesigningrequests") => {
            &["spec", "status"]
        }
        Part::Main | Part::Finalize if resource.has_status() => &["status"],
        Part::Main | Part::Finalize | Part::Scale => &[],
        Part::EphemeralContainers | Part::Resize => &["status"],
        Part::Approval => &["spec"],
        Part::Status if resource.is_custom() => &["metadata", "spec"],
        Part::Status => of_status(of),
    }
}

fn of_status(of: (&str, &str)) -> &'static [&'static str] {
    match of {
        ("apps", "deployments") => &["spec", "metadata.labels"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec", "status.conditions"],
        ("", "pods") => &[
            "spec",
            "metadata.deletionTimestamp",
            "metadata.ownerReferences",
        ],
        (
            "admissionregistration.k8s.io"
            | "apiregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "internal.apiserver.k8s.io"
            | "resource.k8s.io"
            | "scheduling.k8s.io"
            | "storage.k8s.io"
            | "storagemigration.k8s.io",
            _,
        )
        | ("certificates.k8s.io", _)
        | ("networking.k8s.io", "servicecidrs") => &["metadata", "spec"],
        _ => &["spec"],
    }
}
