//! The field numbers of an object's metadata.
//!
//! Upstream: `metav1.ObjectMeta` (`generated.proto`).

/// The number of `metadata` in every kind.
pub(super) const METADATA: u32 = 1;
pub(super) const NAME: u32 = 1;
pub(super) const NAMESPACE: u32 = 3;
pub(super) const UID: u32 = 5;
pub(super) const RESOURCE_VERSION: u32 = 6;
pub(super) const DELETION_TIMESTAMP: u32 = 9;
pub(super) const LABELS: u32 = 11;
pub(super) const ANNOTATIONS: u32 = 12;
pub(super) const OWNER_REFERENCES: u32 = 13;
pub(super) const MANAGED_FIELDS: u32 = 17;
