//! The state of an election and the guard of its requests, from the operator's sources.
//!
//! ```text
//! driver ──begin, extend, end──▶ Shared ──▶ Guarded ──▶ a service that says when it sends
//! ```
//!
//! Their clock and the writes that a term leaves are stand-ins.

mod clock;
#[path = "../../../crates/kinform-operator/src/leader/guarded.rs"]
mod guarded;
mod last_writes;
#[path = "../../../crates/kinform-operator/src/leader/not_leading.rs"]
#[expect(dead_code, reason = "a scenario calls a part of it")]
mod not_leading;
pub(crate) mod scenario;
#[path = "../../../crates/kinform-operator/src/leader/shared.rs"]
#[expect(dead_code, reason = "a scenario calls a part of it")]
mod shared;

use self::guarded::Guarded;
