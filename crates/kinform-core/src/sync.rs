//! The atomics and cells that threads share.
//!
//! ```text
//! std, arc-swap ──▶ here ──▶ store/shared, informer/ring, informer/writer
//! models of them (schedules/core/sync.rs) ──▶ here, under cfg(kinform_shuttle)
//! ```
//!
//! Code that several threads run at once takes its primitives from here, so that `cargo xtask
//! schedules` runs that very code under a scheduler of its choice. An ordinary build has the real
//! ones and nothing else.
//!
//! Upstream counterpart: none.

pub(crate) use std::sync::atomic::{AtomicU64, fence};

pub(crate) use arc_swap::{ArcSwap, ArcSwapOption};
