//! The field numbers of an object's metadata.
//!
//! Upstream: `metav1.ObjectMeta` (`generated.proto`).

/// The number of `metadata` in every kind.
pub(crate) const METADATA: u32 = 1;
pub(crate) const NAME: u32 = 1;
pub(crate) const NAMESPACE: u32 = 3;
pub(crate) const UID: u32 = 5;
pub(crate) const RESOURCE_VERSION: u32 = 6;
pub(crate) const GENERATION: u32 = 7;
pub(crate) const DELETION_TIMESTAMP: u32 = 9;
pub(crate) const LABELS: u32 = 11;
pub(crate) const ANNOTATIONS: u32 = 12;
pub(crate) const OWNER_REFERENCES: u32 = 13;
pub(crate) const FINALIZERS: u32 = 14;
pub(crate) const MANAGED_FIELDS: u32 = 17;
