//! The write pipeline: computes the effect of a request on the stored state.
//!
//! ```text
//! request + stored state ──propose──▶ Proposal ──complete──▶ Outcome { action, answer } | Status ──commit──▶ Written
//!                                        └─▶ admission: mutate    └─▶ admission: validate
//! ```
//!
//! Both halves are pure. Admission (`admit.rs`) is asked after each of them and may take its time. `handle.rs` commits their actions under the storage's compare-and-swap. If
//! another request was faster, it runs both halves again on the new state. Version checks use the
//! given state, so a repeat refuses and retries the same writes as upstream. A commit returns the
//! written object; the router calls `controllers/` with it.
//!
//! Objects are `serde_json::Value`s without `apiVersion` and `kind`, as they are stored.
//!
//! * `request.rs`, `handle.rs`: from request to reply; `attempt.rs`: a request under way;
//!   `commit.rs`: compare and swap; `collection.rs`: delete of many;
//! * `admit.rs`: admission around both halves; `converted.rs`: the stored form of objects;
//! * `body.rs`: bytes to a value of the right kind; `options.rs`: options of a write, from query
//!   and body;
//! * `create.rs` `update.rs` `patch.rs` `apply.rs`: from a request to a `proposal.rs`;
//!   `complete.rs`: from there to an outcome; `delete.rs`: from options to an outcome;
//! * `object_meta.rs`: metadata that the server sets, keeps and checks; `content.rs`: checks that
//!   definitions and schemas ask for; `requester.rs`: the user behind a certificate signing
//!   request; `inert.rs`: objects that this server would never act on.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers`, `pkg/registry/rest`,
//! `pkg/registry/generic/registry/store.go`.

pub(crate) mod admit;
mod apply;
mod attempt;
pub(crate) mod body;
mod collection;
pub(crate) mod commit;
pub(crate) mod complete;
mod content;
mod converted;
mod create;
pub(crate) mod delete;
pub(crate) mod handle;
pub(crate) mod inert;
mod object_meta;
pub(crate) mod options;
mod patch;
mod proposal;
#[cfg(test)]
mod races;
pub(crate) mod request;
mod requester;
pub(crate) mod update;

use std::sync::Arc;

use jiff::Timestamp;
use kinform_api::Status;
use serde_json::Value;

use crate::budget::Meter;
use crate::builtin::defaults;
use crate::builtin::service_addresses::Asked;
use crate::builtin::service_addresses::Range;
use crate::builtin::service_addresses::Taken;
use crate::builtin::strategy;
use crate::object::metadata;
use crate::object::part::Part;
use crate::ownership;
use crate::ownership::Force;
use crate::ownership::Writer;
use crate::ownership::versions::Versions;
use crate::resource::ResourceInfo;
use crate::storage::Store;

pub(crate) use self::body::decode_body;
pub(crate) use self::handle::by;
pub(crate) use self::options::{DeleteOptions, WriteOptions};

/// Context in which a request is handled.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) resource: &'a ResourceInfo,
    /// Namespace of the URL; `None` for cluster-scoped objects.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) options: &'a WriteOptions,
    pub(crate) now: Timestamp,
    /// Generated beforehand: a uid for a new object, and five letters for a generated name.
    pub(crate) fresh: Fresh,
    /// The bytes and steps that the request has left.
    pub(crate) meter: &'a Meter,
}

impl Context<'_> {
    /// The writer, as ownership of fields sees it.
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            resource: self.resource,
            manager: &self.options.manager,
            now: self.now,
            meter: self.meter,
        }
    }

    /// The objects of the write in other versions.
    fn versions(&self) -> Option<&Versions> {
        self.fresh.versions.as_deref()
    }

    /// Answer of an apply to conflicts.
    fn force(&self) -> Force {
        match self.options.force {
            true => Force::Yes,
            false => Force::No,
        }
    }

    /// The state of the server that enters the object.
    fn fresh(&self) -> strategy::Fresh<'_> {
        strategy::Fresh {
            now: defaults::Now {
                at: self.now,
                uid: &self.fresh.uid,
            },
            taken: &self.fresh.taken,
        }
    }

    /// The state against which addresses and ports of a service are checked.
    fn asked(&self) -> Asked<'_> {
        Asked {
            taken: &self.fresh.taken,
            range: match self.options.dry_run {
                true => Range::Unchecked,
                false => Range::Checked,
            },
        }
    }
}

/// Generated values of a new object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fresh {
    pub(crate) uid: String,
    pub(crate) suffix: String,
    /// The objects of the write in other versions, where a webhook converts.
    pub(crate) versions: Option<Arc<Versions>>,
    /// The addresses and ports of services; filled only for writes of services.
    pub(crate) taken: Taken,
}

/// State of the namespace in which an object is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceState {
    /// It exists; also for cluster-scoped objects.
    Active,
    /// It is being deleted.
    Terminating,
    /// It does not exist.
    Missing,
}

/// Returns the state of a namespace; `None`, for cluster-scoped objects, is always active.
pub(crate) fn namespace_state(store: &Store, name: Option<&str>) -> NamespaceState {
    let Some(name) = name else {
        return NamespaceState::Active;
    };
    match store.get(store.shelf("namespaces"), name) {
        None => NamespaceState::Missing,
        Some(object) if metadata::is_terminating(&object.value()) => NamespaceState::Terminating,
        Some(_) => NamespaceState::Active,
    }
}

/// Action to take, and the reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The HTTP code.
    pub(crate) code: u16,
    pub(crate) action: Action,
    pub(crate) answer: Answer,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// An outcome whose object has its stored form.
#[derive(Debug)]
struct Ready {
    outcome: Outcome,
    /// The object that the reply shows, if it is not the stored one.
    shown: Option<Value>,
}

impl From<Outcome> for Ready {
    /// An outcome whose object is stored as it is.
    fn from(outcome: Outcome) -> Self {
        let shown = None;
        Self { outcome, shown }
    }
}

/// Change of the storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// No change: a dry run, or an update without a difference.
    Nothing,
    /// Stores a new object; a conflict if its name is taken.
    Create(Value),
    /// Replaces the given state.
    Replace(Value),
    /// Removes the object. Watches report this last state under the version of the deletion.
    Remove,
}

/// Content of the reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The object as it is stored after the action.
    Stored,
    /// The stored object as a `Scale`, made by [`scale::scale_of`].
    StoredScale,
    /// This value. Unless it has its own, its `apiVersion` and `kind` are the resource's.
    Object(Value),
    /// This status.
    Status(Box<Status>),
}

impl Outcome {
    fn new(code: u16, action: Action, answer: Answer) -> Self {
        Self {
            code,
            action,
            answer,
            warnings: Vec::new(),
        }
    }

    /// A refusal that comes with warnings.
    fn refused(status: Box<Status>) -> Self {
        Self::new(status.code, Action::Nothing, Answer::Status(status))
    }

    fn warned(mut self, warnings: Vec<String>) -> Self {
        self.warnings = [warnings, self.warnings].concat();
        self
    }
}

/// Records the field owners of an object that is shown, not stored.
pub(crate) fn own_fields(cx: &Context<'_>, object: &mut Value) {
    ownership::created(&cx.writer(), object);
}

/// Records the field owners of a changed status.
pub(crate) fn own_status(cx: &Context<'_>, new: &mut Value, old: &Value) {
    ownership::updated(&cx.writer(), Part::Status, new, old);
}
