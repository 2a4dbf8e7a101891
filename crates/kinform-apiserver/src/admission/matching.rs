//! The match of a webhook or a policy: that it is asked, and about which version of the object.
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

use kinform_api::Status;
use kinform_api::selector::LabelSelector;
use serde_json::Value;

use super::rule::Rule;
use super::{Kind, Objects, Operation, Question};
use crate::conversion;
use crate::object::label_selector::label_selector;
use crate::object::{at, text};
use crate::resource::ResourceInfo;
use crate::state::State;

/// The questions about which a webhook or a policy is asked.
#[derive(Debug)]
pub(super) struct Constraints {
    rules: Vec<Rule>,
    /// Requests that these rules match are passed over.
    excluded: Vec<Rule>,
    /// The effect of a list without rules.
    without_rules: WithoutRules,
    versions: Versions,
    namespaces: Option<LabelSelector>,
    objects: Option<LabelSelector>,
}

/// The effect of a list without rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutRules {
    /// Nothing matches.
    Nothing,
    /// Everything matches: a binding does not narrow its policy.
    Everything,
}

/// The treatment of other versions of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Versions {
    /// A rule matches only its own version.
    Exact,
    /// An object of another version is converted.
    Equivalent,
}

impl Constraints {
    /// Reads the selectors of a webhook, or of the constraints of a policy, and the rules in these
    /// members.
    pub(super) fn of(value: &Value, members: [&str; 2], without_rules: WithoutRules) -> Self {
        let selector = |name| label_selector(at(value, &[name]).unwrap_or(&Value::Null));
        let [rules, excluded] = members.map(|name| {
            let list = value[name].as_array().into_iter().flatten();
            list.map(Rule::of).collect()
        });
        Self {
            rules,
            excluded,
            without_rules,
            versions: match text(value, &["matchPolicy"]) {
                "Exact" => Versions::Exact,
                _ => Versions::Equivalent,
            },
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }
}

/// The question that is matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// The subresource and the operation.
    pub(super) part: (&'a str, Operation),
    /// The name of the object; `None` while it is not known.
    pub(super) name: Option<&'a str>,
}

/// A webhook or a policy that is asked about a question.
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

/// Returns the version of a resource about which is asked, as far as the rules say: `None` for the
/// version of the request.
pub(super) fn version(
    state: &State,
    constraints: &Constraints,
    resource: &ResourceInfo,
    asked: Asked<'_>,
) -> Option<Option<Arc<ResourceInfo>>> {
    if resource.group == "admissionregistration.k8s.io" {
        return None;
    }
    let excludes = |of| matched(state, (&constraints.excluded, constraints), of, asked).is_some();
    let is_excluded = asked.name.is_some() && excludes(resource);
    if is_excluded {
        return None;
    }
    if constraints.rules.is_empty() {
        let is_asked = constraints.without_rules == WithoutRules::Everything;
        return is_asked.then_some(None);
    }
    matched(state, (&constraints.rules, constraints), resource, asked)
}

/// Returns the version of a resource that one of the rules names.
fn matched(
    state: &State,
    (rules, constraints): (&[Rule], &Constraints),
    resource: &ResourceInfo,
    asked: Asked<'_>,
) -> Option<Option<Arc<ResourceInfo>>> {
    let matches = |of: &ResourceInfo| {
        let mut rules = rules.iter();
        rules.any(|rule| rule.matches(of, asked.part) && asked.name.is_none_or(|of| rule.names(of)))
    };
    if matches(resource) {
        return Some(None);
    }
    if constraints.versions == Versions::Exact {
        return None;
    }
    let entries = state.registry.entries();
    let mut others = entries.iter().filter(|of| of.shelf == resource.shelf);
    others.find(|of| matches(of)).map(|of| Some(of.clone()))
}

/// Returns the match of a webhook or a policy, if it is asked.
pub(super) fn of(
    question: &Question<'_>,
    constraints: &Constraints,
    objects: Objects<'_>,
) -> Option<Match> {
    let asked = Asked {
        part: (question.subresource, question.operation),
        name: Some(question.name),
    };
    let other = version(question.state, constraints, question.resource, asked)?;
    let selected = constraints
        .namespaces
        .as_ref()
        .is_none_or(|of| in_namespace(question, of, objects))
        && constraints
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
    ///
    /// # Errors
    /// 500 about the conversion webhook of the resource.
    pub(super) async fn objects<'a>(
        &self,
        question: &Question<'_>,
        of: Objects<'a>,
    ) -> Result<Seen<'a>, Box<Status>> {
        Ok(Seen {
            object: self.seen(question, of.object).await?,
            old: self.seen(question, of.old).await?,
        })
    }

    async fn seen<'a>(
        &self,
        question: &Question<'_>,
        object: Option<&'a Value>,
    ) -> Result<Option<Cow<'a, Value>>, Box<Status>> {
        let versions = (question.resource, &*self.resource);
        Ok(match (object, self.is_converted) {
            (Some(object), true) => Some(Cow::Owned(
                convert(question, versions, object.clone()).await?,
            )),
            (object, _) => object.map(Cow::Borrowed),
        })
    }

    /// An object of the rule's version in that of the request.
    ///
    /// # Errors
    /// 500 about the conversion webhook of the resource.
    pub(super) async fn back(
        &self,
        question: &Question<'_>,
        object: Value,
    ) -> Result<Value, Box<Status>> {
        match self.is_converted {
            true => convert(question, (&self.resource, question.resource), object).await,
            false => Ok(object),
        }
    }
}

/// Converts an object between versions of one resource. The kinds of subresources have one version.
async fn convert(
    question: &Question<'_>,
    (from, to): (&ResourceInfo, &ResourceInfo),
    object: Value,
) -> Result<Value, Box<Status>> {
    if question.kind != Kind::of(question.resource) || text(&object, &["kind"]) != from.kind {
        return Ok(object);
    }
    let converted = conversion::between(question.state, (from, to), object).await;
    converted.map_err(|status| Box::new(Status::internal_error(&status.message)))
}
