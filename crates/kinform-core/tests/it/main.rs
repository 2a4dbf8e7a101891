//! The machines of kinform, as their users see them.
#![expect(
    clippy::unwrap_used,
    reason = "this binary holds tests and what they share"
)]

mod cluster;
mod convergence;
mod informer;
mod listeners;
mod objects;
mod store;
