//! A request as admission sees it.
//!
//! ```text
//! request + stored state ──write/, actions/──▶ Question, Objects ──▶ plugins, policies, webhooks
//! ```
//!
//! The same question is asked in both phases; the objects differ. Objects have `apiVersion` and
//! `kind`, and are of the version of the request.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/{attributes,interfaces}.go`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::access::User;
use crate::budget::Meter;
use crate::resource::ResourceInfo;
use crate::state::State;

/// The operation that a request performs, in the words of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new object; also an update or an apply that creates it.
    Create,
    /// A change of an object, by whatever verb.
    Update,
    /// A delete of one object.
    Delete,
    /// A connection to a pod, a service or a node.
    Connect,
}

impl Operation {
    /// The name in rules and reviews.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The group, version and kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> Kind<'a> {
    pub(crate) fn new(group: &'a str, version: &'a str, kind: &'a str) -> Self {
        Self {
            group,
            version,
            kind,
        }
    }

    /// The kind of a resource's objects.
    pub(crate) fn of(resource: &'a ResourceInfo) -> Self {
        Self::new(&resource.group, &resource.version, &resource.kind)
    }
}

/// A request that asks for admission.
pub(crate) struct Question<'a> {
    pub(crate) state: &'a State,
    pub(crate) user: &'a User,
    /// The resource of the path: for a subresource, that of its parent.
    pub(crate) resource: &'a ResourceInfo,
    /// The subresource of the path, or `""`.
    pub(crate) subresource: &'a str,
    /// The kind of the objects: `Scale` for the scale subresource.
    pub(crate) kind: Kind<'a>,
    pub(crate) operation: Operation,
    pub(crate) namespace: Option<&'a str>,
    /// The name; empty while it is not generated yet, and for each object of a delete of many.
    pub(crate) name: &'a str,
    /// Makes the options of the request, as a review shows them.
    pub(crate) options: &'a (dyn Fn() -> Value + Sync),
    pub(crate) dry_run: bool,
    /// The bytes, steps and time that the request has left.
    pub(crate) meter: &'a Meter,
    /// Warnings for the client, whether the request is admitted or not.
    pub(crate) warnings: &'a Warnings,
    /// Annotations of the request's record.
    pub(crate) annotations: &'a Annotations,
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("operation", &self.operation)
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Question<'_> {
    /// The namespace of the question. An object that is a namespace is in itself.
    pub(crate) fn place(&self) -> Option<&str> {
        match self.resource.is_core("namespaces") {
            true => Some(self.name).filter(|name| !name.is_empty()),
            false => self.namespace,
        }
    }
}

/// The objects of a question. Both are absent in no question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objects<'a> {
    /// The object as it would be stored; `None` for a delete.
    pub(crate) object: Option<&'a Value>,
    /// The object as it is stored; `None` for a create.
    pub(crate) old: Option<&'a Value>,
}

/// BOUND: warnings of one request; a reply has room for fewer (`http/reply.rs`).
const WARNINGS: usize = 1000;

/// Warnings that admission has for the client of one request.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds a warning.
    pub(crate) fn add(&self, text: impl Into<String>) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < WARNINGS {
            list.push(text.into());
        }
    }

    /// Takes the warnings, in the order in which they were added.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Annotations that admission has for the record of one request, as for an audit log.
#[derive(Debug, Default)]
pub(crate) struct Annotations(Mutex<BTreeMap<String, String>>);

impl Annotations {
    /// Sets an annotation; the first value of a key stays.
    pub(crate) fn set(&self, key: String, value: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key).or_insert(value);
    }

    /// Takes the annotations.
    pub(crate) fn take(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
