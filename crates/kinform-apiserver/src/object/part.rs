//! The parts of an object that a request can write: the object itself, or one of its subresources.
//!
//! ```text
//! PUT /api/v1/namespaces/default/pods/web/status -> Part::Status
//! ```
//!
//! Upstream: the subresources that `kubernetes/apiserver:pkg/endpoints/installer.go` installs.

/// The part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The object, without its status if that is a subresource.
    Main,
    /// `status`.
    Status,
    /// The number of replicas, through the `Scale` kind.
    Scale,
    /// `spec.finalizers` of a namespace.
    Finalize,
    /// Ephemeral containers, which are added to a running pod.
    EphemeralContainers,
    /// The resources of the containers of a running pod.
    Resize,
    /// The decision about a certificate signing request.
    Approval,
}
