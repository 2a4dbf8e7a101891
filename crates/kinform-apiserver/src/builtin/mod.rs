//! Built-in kinds: defaults, strategies, validation and strategic merge, as data and pure
//! functions.
//!
//! ```text
//! ResourceInfo + Part + object (+ as it was) -> object with defaults | [FieldError] | merged object
//! ```
//!
//! These modules know neither requests nor the storage.
//!
//! * `defaults/`: default values; `status.rs`, `strategy.rs`: status, generation and kept fields;
//! * `validation/`: the checks of each kind; `warnings.rs`: deprecated members; `names.rs`: names and generated ones;
//! * `strategic_merge/`: the patch that knows types;
//! * `deletion.rs`: protected objects, finalizers and grace periods;
//! * `subresources.rs`: ephemeral containers, resize and approval; `service_addresses.rs`:
//!   addresses and node ports of services;
//! * `condition.rs`: conditions of the rules that stand in data files.
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis`, `pkg/registry`.

pub(crate) mod condition;
pub(crate) mod defaults;
pub(crate) mod deletion;
pub(crate) mod names;
pub(crate) mod service_addresses;
mod status;
pub(crate) mod strategic_merge;
pub(crate) mod strategy;
pub(crate) mod subresources;
pub(crate) mod validation;
pub(crate) mod warnings;
