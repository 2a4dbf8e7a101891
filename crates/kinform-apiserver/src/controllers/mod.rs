//! Controllers that clients of a test server cannot do without: they carry out what follows from a write.
//!
//! ```text
//! Written ──follow──▶ definitions settled, pods finished, namespaces drained ──garbage──▶ dependents gone
//! ```
//!
//! The router calls them after each write and before its reply goes out, so that watches see the events
//! in the order in which upstream's controllers would write them.
//!
//! * `follow.rs`: what follows from a write of each kind; `namespace.rs`: namespaces that empty themselves;
//! * `garbage/`: the garbage collector; `restore.rs`: objects as another server had them.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller`, `apiextensions-apiserver:pkg/controller`.

pub(crate) mod follow;
pub(crate) mod garbage;
pub(crate) mod namespace;
pub(crate) mod restore;
