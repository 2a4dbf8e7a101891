//! Everything around a controller: leader election, probes, metrics, webhooks, flags, ordered stop.
//!
//! ```text
//! flags → Operator: HTTP → webhooks → informers synced → lease → controllers
//! SIGTERM → not ready → intake → running reconciles → lease released → webhooks → events → HTTP
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager`.

#[cfg(any(feature = "inspect", feature = "metrics"))]
mod access;
mod candidate;
#[cfg(feature = "clap")]
mod entry;
mod error;
#[cfg(feature = "clap")]
mod flags;
#[cfg(feature = "inspect")]
pub mod inspect;
pub mod leader;
mod operator;
mod probes;
#[cfg(feature = "clap")]
mod quantity;
mod serve;
mod settings;
mod sharding;
mod signals;
mod sync;
#[cfg(feature = "metrics")]
mod telemetry;
#[cfg(feature = "webhook")]
pub mod webhook;

#[cfg(feature = "clap")]
pub use crate::entry::main;
pub use crate::error::Error;
#[cfg(feature = "clap")]
pub use crate::flags::{Flags, LogFormat, ShardBy};
#[cfg(feature = "inspect")]
pub use crate::inspect::Inspector;
pub use crate::operator::{Addresses, Operator, OperatorBuilder, Part, When};
pub use crate::settings::{
    CertificateFiles, Fencing, LeaseSettings, MetricsAccess, OnLoss, Settings, ShardSettings,
};
pub use kinform;
