//! The stage of the ports: a server, a network that can be cut, and the programs as processes.
//!
//! ```text
//! Cluster (server, Proxy) ◀── kubeconfig ── Program (a column as a process) ─▶ trace, pages, memory
//!    └─ Port: objects, writes                  └─ trace.rs: runs, duplicates
//! ```
//!
//! The tests of a port and its measurement run on it. Both columns get the same server, the same
//! writes and the same troubles.

use std::error::Error;

pub mod cluster;
pub mod documents;
pub mod hosts;
pub mod lines;
pub mod measure;
pub mod port;
pub mod program;
pub mod table;
pub mod trace;
pub mod wait;

pub use cluster::Cluster;
pub use port::Port;
pub use program::{Column, Page, Program};

/// The error of a stage: a text for people.
pub type StageError = Box<dyn Error + Send + Sync>;
