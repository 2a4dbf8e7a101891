//! The ranks of the rooms in `kinform-apiserver`.
//!
//! ```text
//! clock ◀─ budget ◀─ object storage ◀─ schema columns ◀─ resource ◀─ http ◀─ access hooks kubelets manifest ownership
//!   ◀─ builtin encode definition ◀─ state ◀─ conversion ◀─ admission openapi ◀─ read write discovery ◀─ controllers ◀─ actions admin seed ◀─ api ◀─ server
//! ```
//!
//! A room imports from lower ranks only, never sideways. The write path is the reason: admission, a
//! control plane and a disk enter there, and each depends on known rooms only.

use super::law::{Law, Order};

/// The ranks, lowest first.
pub(super) const LAW: Law = Law {
    package: "kinform-apiserver",
    key: "layers.apiserver",
    order: Order::Ranks(&[
        &["digest", "der", "clock", "random"],
        &["budget"],
        &["object", "storage", "protobuf"],
        &["schema", "columns"],
        &["resource"],
        &["http", "journal"],
        &[
            "access",
            "fault",
            "hooks",
            "kubelets",
            "manifest",
            "ownership",
        ],
        &["builtin", "encode", "definition"],
        &["state"],
        &["conversion"],
        &["admission", "openapi"],
        &["read", "write", "discovery"],
        &["controllers"],
        &["actions", "admin", "seed"],
        &["api"],
        &["server"],
    ]),
};
