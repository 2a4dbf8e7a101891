//! The order of the machines in `kinform-core`.
//!
//! ```text
//! wire backoff time stats ◀─ object ◀─ scope ◀─ delta ◀─ reflector │ fifo │ store ◀─ snapshot ◀─ informer
//!                             ▲─ causes ◀─ queue (also on backoff, bucket) │ loops
//! recording is on object, and shares framing with snapshot; scope is on shards
//! election stands alone, on backoff, dice and time; shards is on time, and names election in documents
//! ```

use super::law::{Law, Order};

/// For each room the rooms right below it; the imports of those are allowed as well.
pub(super) const LAW: Law = Law {
    package: "kinform-core",
    key: "layers.core",
    order: Order::Above(&[
        ("time", &[]),
        ("stats", &["time"]),
        ("dice", &[]),
        ("sync", &[]),
        ("backoff", &["stats", "dice"]),
        ("bucket", &["stats"]),
        ("budget", &["time"]),
        ("wire", &["stats"]),
        ("object", &["wire", "backoff"]),
        ("scope", &["object", "shards"]),
        ("delta", &["scope"]),
        ("reflector", &["delta"]),
        ("fifo", &["delta"]),
        ("store", &["delta", "sync"]),
        ("framing", &[]),
        ("snapshot", &["store", "framing"]),
        ("recording", &["object", "framing"]),
        ("informer", &["reflector", "fifo", "snapshot", "budget"]),
        ("causes", &["object"]),
        ("loops", &["causes"]),
        ("queue", &["backoff", "bucket", "causes"]),
        ("election", &["backoff"]),
        ("shards", &["election"]),
    ]),
};
