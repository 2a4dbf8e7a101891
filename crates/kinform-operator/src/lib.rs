//! Everything around a controller: leader election, probes, metrics, webhooks, flags, ordered stop.
//!
//! ```text
//! flags → Operator: HTTP → webhooks → informers synced → lease → controllers
//! SIGTERM → not ready → intake → running reconciles → lease released → webhooks → events → HTTP
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager`.

pub mod leader;
mod serve;
#[cfg(feature = "webhook")]
pub mod webhook;
