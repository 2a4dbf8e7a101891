//! The primitives of code that runs under a scheduler too.
//!
//! ```text
//! std, tokio ──▶ here ──▶ leader/shared.rs
//! ```
//!
//! `cargo xtask schedules` compiles that file once more, from the same source, with models of the
//! primitives in this module's place: so it takes them from here alone.
//!
//! Upstream counterpart: none.

pub(crate) use std::sync::atomic::AtomicU64;

pub(crate) use tokio::sync::watch;
