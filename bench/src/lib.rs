//! The cost of informers: kinform, kube-rs and client-go on the same bytes, in the same run.
//!
//! ```text
//! seed ─▶ corpus (files) ─▶ replay server ─HTTP─▶ subject (a process) ─▶ rows
//!                                                 kinform | kube-rs | client-go
//! rows of all subjects ─▶ JSON, a Markdown table, plots
//! ```
//!
//! No server is measured: the replay server sends files. Each subject is a process of its own that
//! does one scenario and reports its cost: CPU time, allocations, bytes. Wall time on a shared
//! machine is noise, so no figure of a cache is made of it.

pub mod backing;
pub mod control_plane;
pub mod corpus;
pub mod discovery;
pub mod machine;
pub mod measured;
pub mod meter;
pub mod operators;
pub mod replay;
pub mod report;
pub mod row;
pub mod scenario;
pub mod shape;
pub mod subject;
pub mod targets;
pub mod writer;
