//! Webhooks: admission and conversion requests of an API server, answered by typed functions.
//!
//! ```text
//! POST body (bounded) → review → typed function → verdict, patch or converted objects → reply
//! ```
//!
//! Three outcomes stay apart. *Allow* and *deny* are answers of the user's code. *Fail* is anything
//! else: an error, a panic, a late answer, a body that is no review. A failure is an HTTP error, so
//! that `failurePolicy` decides; it never poses as a denial.
//!
//! Never: a cache, a lease, another replica. An API server calls webhooks before a first list can
//! succeed.
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook`.

mod admission;
mod certificates;
mod conversion;
mod convert;
mod deadline;
mod error;
mod patch;
mod refusal;
mod review;
mod stats;
pub mod testing;
mod unknown;
mod verdict;

#[cfg(test)]
mod conversion_tests;
#[cfg(test)]
mod roll_out_tests;
#[cfg(test)]
mod tests;

pub use admission::{CONVERT_PATH, Webhooks, mutate_path, validate_path};
pub use certificates::{Certificates, Managed};
pub use conversion::Conversion;
pub use error::Error;
pub use review::{AdmissionRequest, Operation};
pub use stats::{PathStats, WebhookStats};
pub use verdict::Verdict;
