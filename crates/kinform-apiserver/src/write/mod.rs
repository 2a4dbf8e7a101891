//! The write pipeline: what a request makes of the stored state, without doing it.
//!
//! ```text
//! request body + stored state + clock + names -> Outcome { action, answer } | Status
//! ```
//!
//! The verbs are pure. `handle.rs` commits their actions under the storage's compare-and-swap and, if
//! another request was faster, asks again with the new state: version checks happen against the state
//! given, so a repeat refuses what upstream refuses and retries what it retries. A commit returns what it
//! wrote; the router calls `controllers/` with it. `addresses.rs` looks at the services before one is
//! written.
//!
//! Objects are `serde_json::Value`s without `apiVersion` and `kind`, as they are stored.
//!
//! * `body.rs`: bytes to a value of the right kind; `options.rs`: options of a write, from query and body;
//! * `object_meta.rs`: metadata that the server sets, keeps and checks; `names.rs`: names and generated ones;
//!   `strategy.rs`: status, generation; `defaults/`: the defaults of built-in types, as data;
//!   `validation/`: what is wrong with objects of built-in kinds, as data; `condition.rs`: both's conditions;
//!   `inert.rs`: objects that nothing here would act on;
//! * `addresses.rs`: addresses and node ports of services; `requester.rs`: who asks for a certificate;
//! * `create.rs` `update.rs` `patch.rs` `delete.rs` `scale.rs`: the verbs; `view.rs`: parts that are views
//!   of their object; `strategic/`: the patch that knows types; `apply.rs`: the patch that knows owners;
//!   `settle.rs`: what storing does to an object;
//! * `fields/`: who owns which field, and how configurations are merged;
//! * `request.rs`, `handle.rs`: from request to reply; `commit.rs`: compare and swap; `collection.rs`:
//!   delete of many.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers`, `pkg/registry/rest`,
//! `pkg/registry/generic/registry/store.go`.

mod addresses;
mod apply;
pub(crate) mod body;
mod collection;
pub(crate) mod commit;
mod condition;
mod create;
mod defaults;
pub(crate) mod delete;
pub(crate) mod fields;
pub(crate) mod handle;
pub(crate) mod inert;
mod names;
mod object_meta;
pub(crate) mod options;
mod patch;
#[cfg(test)]
mod races;
pub(crate) mod request;
mod requester;
mod scale;
mod settle;
mod strategic;
mod strategy;
pub(crate) mod update;
mod validation;
mod view;

use jiff::Timestamp;
use kinform_api::Status;
use serde_json::Value;

use crate::object::metadata;
use crate::object::part::Part;
use crate::resource::ResourceInfo;
use crate::storage::Store;

pub(crate) use self::body::decode_body;
pub(crate) use self::handle::by;
pub(crate) use self::options::{DeleteOptions, WriteOptions};

/// Where and with what a request is handled.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) resource: &'a ResourceInfo,
    /// The namespace of the URL; nothing for what belongs to the cluster.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) options: &'a WriteOptions,
    pub(crate) now: Timestamp,
    /// Chosen before: a uid for a new object, and five letters for a generated name.
    pub(crate) fresh: Fresh,
}

/// What chance gives to a new object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fresh {
    pub(crate) uid: String,
    pub(crate) suffix: String,
    /// The addresses that services have; looked at where a service is written.
    pub(crate) taken: addresses::Taken,
}

/// What is known of the namespace that an object is created in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceState {
    /// It exists; also for objects of the cluster.
    Active,
    /// It is being deleted.
    Terminating,
    /// It does not exist.
    Missing,
}

/// Returns the state of a namespace; of `None`, objects of the cluster, always active.
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

/// What to do, and what to answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The HTTP code.
    pub(crate) code: u16,
    pub(crate) action: Action,
    pub(crate) answer: Answer,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// What to do to the storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Nothing: a dry run, or nothing would change.
    Nothing,
    /// Store this as a new object; if its name is taken, that is a conflict.
    Create(Value),
    /// Store this over the state that was given.
    Replace(Value),
    /// Remove the object. Watches are told this last state under the deletion's version.
    Remove,
}

/// What to answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The object as it is stored after the action.
    Stored,
    /// The same as a `Scale`, made by [`scale::scale_of`].
    StoredScale,
    /// This value. Unless it says its own, it is of the resource's `apiVersion` and `kind`.
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

/// Records who owns what of an object that is made here and shown, not stored.
pub(crate) fn own_fields(cx: &Context<'_>, object: &mut Value) {
    fields::created(cx, object);
}

/// Records who owns what of a status that was changed.
pub(crate) fn own_status(cx: &Context<'_>, new: &mut Value, old: &Value) {
    fields::updated(cx, Part::Status, new, old);
}
