//! The match of a webhook: that it is asked, and about which version of the object.
//!
//! ```text
//! rules (exact, else an equivalent version) ──▶ namespace's labels ──▶ object's labels ──▶ Match
//! ```
//!
//! The configurations of admission are never asked about: a webhook that refuses everything could
//! not be removed.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/webhook/generic/webhook.go`,
//! `pkg/admission/plugin/webhook/predicates`.

use std::borrow::Cow;
use std::sync::Arc;

use kinform_api::selector::LabelSelector;
use serde_json::Value;

use super::configuration::{Matching, Webhook};
use crate::admission::{Kind, Objects, Operation, Question};
use crate::budget::Meter;
use crate::object::{at, text};
use crate::resource::ResourceInfo;
use crate::state::State;

/// A webhook that is asked about a question.
#[derive(Debug)]
pub(super) struct Match {
    /// The version of the resource that its rule names.
    pub(super) resource: Arc<ResourceInfo>,
    /// The objects are converted: the rule names another version than the request's.
    is_converted: bool,
}

/// The objects of a question in the version of a rule.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    object: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
}

impl Seen<'_> {
    pub(super) fn of(&self) -> Objects<'_> {
        Objects {
            object: self.object.as_deref(),
            old: self.old.as_deref(),
        }
    }
}

/// Returns the version of a resource about which a webhook is asked, as far as its rules say.
pub(super) fn version(
    state: &State,
    webhook: &Webhook,
    resource: &ResourceInfo,
    part: (&str, Operation),
) -> Option<Option<Arc<ResourceInfo>>> {
    if resource.group == "admissionregistration.k8s.io" {
        return None;
    }
    let matches = |of: &ResourceInfo| webhook.rules.iter().any(|rule| rule.matches(of, part));
    if matches(resource) {
        return Some(None);
    }
    if webhook.matching == Matching::Exact {
        return None;
    }
    let entries = state.registry.entries();
    let mut others = entries.iter().filter(|of| of.shelf == resource.shelf);
    others.find(|of| matches(of)).map(|of| Some(of.clone()))
}

/// Returns the match of a webhook, if it is asked.
pub(super) fn of(
    question: &Question<'_>,
    webhook: &Webhook,
    objects: Objects<'_>,
) -> Option<Match> {
    let part = (question.subresource, question.operation);
    let other = version(question.state, webhook, question.resource, part)?;
    let selected = webhook
        .namespaces
        .as_ref()
        .is_none_or(|of| in_namespace(question, of, objects))
        && webhook
            .objects
            .as_ref()
            .is_none_or(|of| has_labels(of, objects));
    selected.then(|| Match {
        is_converted: other.is_some(),
        resource: other.unwrap_or_else(|| Arc::new(question.resource.clone())),
    })
}

/// Returns whether the labels of the question's namespace are selected. A namespace is judged by its
/// own labels, the new ones where there are new ones; other objects without a namespace always match.
fn in_namespace(question: &Question<'_>, selector: &LabelSelector, objects: Objects<'_>) -> bool {
    if question.resource.is_core("namespaces") {
        let object = objects.object.filter(|_| question.subresource.is_empty());
        let own = object.or(objects.old);
        return own.is_some_and(|own| selects(selector, own));
    }
    let Some(namespace) = question.namespace else {
        return true;
    };
    let store = &question.state.store;
    let found = store.get(store.shelf("namespaces"), namespace);
    selector.matches(|key| {
        found
            .as_ref()
            .and_then(|of| of.label(key).map(str::to_owned))
    })
}

/// Returns whether the labels of the object, or of the old one, are selected.
fn has_labels(selector: &LabelSelector, objects: Objects<'_>) -> bool {
    let mut both = objects.object.into_iter().chain(objects.old);
    both.any(|object| selects(selector, object))
}

fn selects(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches(|key| at(object, &["metadata", "labels", key]).and_then(Value::as_str))
}

impl Match {
    /// The objects in the version of the rule.
    pub(super) fn objects<'a>(&self, question: &Question<'_>, of: Objects<'a>) -> Seen<'a> {
        let seen = |value: &'a Value| match self.is_converted {
            true => Cow::Owned(convert(
                question,
                (question.resource, &self.resource),
                value.clone(),
            )),
            false => Cow::Borrowed(value),
        };
        Seen {
            object: of.object.map(seen),
            old: of.old.map(seen),
        }
    }

    /// An object of the rule's version in that of the request.
    pub(super) fn back(&self, question: &Question<'_>, object: Value) -> Value {
        match self.is_converted {
            true => convert(question, (&self.resource, question.resource), object),
            false => object,
        }
    }
}

/// Converts an object between versions of one resource. The kinds of subresources have one version.
fn convert(
    question: &Question<'_>,
    (from, to): (&ResourceInfo, &ResourceInfo),
    mut object: Value,
) -> Value {
    if question.kind != Kind::of(question.resource) || text(&object, &["kind"]) != from.kind {
        return object;
    }
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    let mut object = to.to_shown(from.to_stored(object), &Meter::of_object());
    object["apiVersion"] = Value::from(to.api_version());
    object["kind"] = Value::from(to.kind.as_str());
    object
}
