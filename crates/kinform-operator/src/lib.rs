//! Everything around a controller: leader election, probes, metrics, webhooks, flags, ordered stop.
//!
//! ```text
//! flags → Operator: HTTP → webhooks → informers synced → lease → controllers
//! SIGTERM → not ready → intake → running reconciles → lease released → webhooks → events → HTTP
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager`.

mod error;
pub mod leader;
#[expect(dead_code, reason = "its users are written next")]
mod serve;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use crate::error::Error;
