//! Leader election: one replica at a time works.
//!
//! ```text
//! lease (own thread, own connection) → Election (kinform-core) → term → controllers, guard
//! ```
//!
//! Upstream counterpart: `client-go:tools/leaderelection`.
