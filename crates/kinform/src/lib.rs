//! Informers for Kubernetes: shared caches with indexes, handlers, work queues and controllers.
//!
//! ```text
//! source → reflector → delta fifo → store + indexes → fan-out → handlers → work queue → reconcile
//! └─ here: HTTP   └──────────── machines of kinform-core, driven from here ──────────┘
//! ```
//!
//! This crate is the shell: tasks, timers and sockets, on tokio and `kube-client`. Every decision is
//! made by a machine of `kinform-core`; every clock and random number comes from [`env`].
//!
//! Upstream counterpart: `client-go:tools/cache`, `client-go:informers`.

pub mod env;
mod error;
mod object;
pub mod source;
mod state;

pub use crate::error::Error;
pub use crate::object::Obj;
pub use crate::state::{InformerState, Trouble};
