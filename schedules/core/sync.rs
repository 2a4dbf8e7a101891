//! The atomics and cells of kinform-core as models: shuttle's, or, with the feature `loom`, loom's.
//!
//! ```text
//! crates/kinform-core/src/lib.rs ──cfg(kinform_shuttle)──▶ here ──▶ shuttle.rs │ loom.rs
//! ```
//!
//! Shuttle chooses schedules by chance, and all its accesses are in one order. Loom tries every one of
//! a small program, and every value that the orderings of the code allow a load to see.
//!
//! Upstream counterpart: `arc-swap`, `std::sync::atomic`.

#[cfg(feature = "loom")]
#[path = "loom.rs"]
mod models;
#[cfg(not(feature = "loom"))]
#[path = "shuttle.rs"]
mod models;

pub(crate) use models::{ArcSwap, ArcSwapOption, AtomicU64, fence};
