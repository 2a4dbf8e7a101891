//! Custom resource definitions: from a definition to the served resources.
//!
//! ```text
//! definition -> checked, defaulted -> conditions, one step at a time -> Established -> resources served
//!            -> deleted -> objects removed -> finalizer removed
//! ```
//!
//! * `served.rs`: the definition as an object, its defaults, and the resources that it serves;
//! * `check/`: the errors of a definition;
//! * `conditions.rs`: its conditions, one step at a time, as upstream's controllers write them;
//! * `custom_object.rs`: an object of its kind, read by the schema and checked.
//!
//! Upstream: `kubernetes/apiextensions-apiserver`.

pub(crate) mod check;
pub(crate) mod conditions;
pub(crate) mod custom_object;
pub(crate) mod served;

/// The finalizer that holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
