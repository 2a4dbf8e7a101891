//! kube-rs' controller template, moved over: what both columns share.
//!
//! ```text
//! document.rs (the type) ─▶ bin/kube_runtime.rs │ bin/kinform.rs: the controller, written twice
//! ```
//!
//! A `Document` with `hide` gets a status that says so and an event, and another event when it is
//! deleted. A move to kinform leaves the type as it is, so it counts for neither column.
//!
//! Upstream counterpart: `controller-rs:src`, from whose behaviour this is written.

pub mod document;

pub use document::{Document, DocumentSpec, DocumentStatus};
