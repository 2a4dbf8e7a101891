//! The order of the modules in `kinform`, the shell.
//!
//! ```text
//! env error sync index_key ◀─ reporter report state metrics retry share reflector_options ◀─ object
//!   ◀─ source ◀─ snapshot recording ◀─ informer ◀─ store lister index handler changes ◀─ factory registry select
//!   ◀─ workqueue hands events ◀─ controller ◀─ overlay expiring parallel clusters join
//! ```
//!
//! Modules on one step may import each other, but without circles: `lister` reads `store`.

use super::law::{Law, Order};

/// The steps, lowest first.
pub(super) const LAW: Law = Law {
    package: "kinform",
    key: "layers.shell",
    order: Order::Tiers(&[
        &["env", "error", "sync", "index_key"],
        &["memory"],
        &[
            "reporter",
            "report",
            "state",
            "metrics",
            "retry",
            "share",
            "reflector_options",
        ],
        &["object"],
        &["source"],
        &["snapshot", "recording"],
        &["informer"],
        &["store", "lister", "index", "handler", "changes"],
        &["factory", "registry", "select"],
        &["workqueue", "hands", "events"],
        &["controller"],
        &["overlay", "expiring", "parallel", "clusters", "join"],
    ]),
};
