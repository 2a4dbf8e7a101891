//! The writes that a reconcile function needs, and the rules of the fields that they touch.
//!
//! ```text
//! object + manager → apply | create_or_update | patch | delete ─┐
//! status + change  → status (conditions)                        ├→ place.rs → one request → answer
//! finalizer        → finalizer (a patch that tests)             ┘
//! owner.rs, conditions.rs, difference.rs: pure, on metadata, lists and JSON
//! ```
//!
//! Functions on a client; `Ctx` has the same as methods that know the key's object, the client and
//! the field manager. Only what changes is sent: fields that a type does not know are never
//! touched. A write that others can overtake names the version that it was decided on, and is
//! decided again on the newer state after a conflict, a bounded number of times.
//! Never: waits for a cache, keeps a task. An apply of a controller that would change nothing is
//! not sent (`applied.rs`); its controller's caches say so.
//!
//! Upstream counterpart: `controller-runtime:pkg/controller/controllerutil`,
//! `apimachinery:pkg/api/meta/conditions.go`, `kube-runtime:finalizer`.

mod applied;
mod apply;
pub mod conditions;
mod difference;
pub mod finalizer;
pub mod owner;
mod place;
mod status;
mod update;

pub(crate) use self::applied::{Applied, Caches, Memory};
pub use self::apply::Apply;
pub(crate) use self::apply::Owned;
pub(crate) use self::place::{Place, has_namespace};
pub use self::status::{StatusEdit, write_status, write_status_as};
pub(crate) use self::update::create_or_update_at;
pub use self::update::{Written, create_or_update, delete, patch};

/// BOUND: tries of a write that conflicts with other writers'.
const TRIES: u32 = 5;
