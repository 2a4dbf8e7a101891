//! kube-rs' controller template, moved over: what both columns share.
//!
//! ```text
//! document.rs (the type) ─┐
//! observed.rs (metrics)  ─┼─▶ bin/kube_runtime.rs │ bin/kinform.rs: the controller, written twice
//! web.rs (its port)      ─┘
//! ```
//!
//! A `Document` with `hide` gets a status that says so and an event, and another event when it is
//! deleted. A move to kinform leaves the files here as they are, so they count for neither column.
//!
//! Upstream counterpart: `controller-rs:src`, from whose behaviour this is written.

pub mod document;
pub mod observed;
pub mod web;

pub use document::{Document, DocumentSpec, DocumentStatus};
pub use observed::Observed;
