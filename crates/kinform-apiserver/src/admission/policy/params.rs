//! The bindings with which a policy is asked, and their parameters.
//!
//! ```text
//! bindings that match + resource of the parameters ──by name, by labels──▶ [parameter or null] | error
//! ```
//!
//! A parameter that is stored in another version is converted, by its webhook if it has one.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/policy/generic/policy_dispatcher.go`
//! (`CollectParams`).

use std::sync::Arc;

use kinform_api::selector::LabelSelector;
use serde_json::Value;

use super::stored::{Binding, ParamRef, Policy};
use crate::admission::matching;
use crate::admission::{Objects, Question};
use crate::budget::Meter;
use crate::conversion;
use crate::resource::ResourceInfo;
use crate::storage::Stored;

/// A parameter, as it is stored or was converted: many may wait for their turn.
#[derive(Debug)]
pub(super) struct Param {
    resource: Arc<ResourceInfo>,
    stored: Arc<Stored>,
}

impl Param {
    /// The parameter as expressions see it.
    pub(super) fn value(&self) -> Value {
        let resource = &self.resource;
        let mut object = match resource.is_converted() {
            true => self.stored.value(),
            false => resource.to_shown(self.stored.value(), &Meter::of_object()),
        };
        object["apiVersion"] = Value::from(resource.api_version());
        object["kind"] = Value::from(resource.kind.as_str());
        object
    }
}

/// The parameters of a binding, `None` for null; or why it has none.
type Params = Result<Vec<Option<Param>>, String>;

/// Returns the bindings of a policy that match these objects, with their parameters.
pub(super) async fn of_bindings<'p>(
    question: &Question<'_>,
    policy: &'p Policy,
    kind: Option<&Arc<ResourceInfo>>,
    objects: Objects<'_>,
) -> Vec<(&'p Binding, Params)> {
    let mut found = Vec::new();
    for binding in &policy.bindings {
        if matching::of(question, &binding.constraints, objects).is_some() {
            let params = of(question, kind, binding).await;
            let params = params.map_err(|why| format!("failed to configure binding: {why}"));
            found.push((binding, params));
        }
    }
    found
}

/// Returns the parameters of a binding.
///
/// # Errors
/// The reference does not fit, finds nothing where something must be found, or what it finds cannot
/// be converted.
async fn of(
    question: &Question<'_>,
    kind: Option<&Arc<ResourceInfo>>,
    binding: &Binding,
) -> Params {
    let (Some(resource), Some(reference)) = (kind, &binding.params) else {
        return Ok(vec![None]);
    };
    let namespace = match (resource.is_namespaced(), reference.namespace.as_str()) {
        (true, "") => Some(question.namespace.ok_or(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped \
             resources",
        )?),
        (true, given) => Some(given),
        (false, "") => None,
        (false, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(why.to_owned());
        }
    };
    let found = find(question, resource, (reference, namespace)).await?;
    if found.is_empty() && reference.denies_absence {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(why.to_owned());
    }
    let of_stored = |stored| Param {
        resource: resource.clone(),
        stored,
    };
    Ok(found.into_iter().map(of_stored).map(Some).collect())
}

async fn find(
    question: &Question<'_>,
    resource: &ResourceInfo,
    (reference, namespace): (&ParamRef, Option<&str>),
) -> Result<Vec<Arc<Stored>>, String> {
    let store = &question.state.store;
    let found: Vec<Arc<Stored>> = match (reference.name.as_str(), namespace) {
        ("", _) => {
            let view = store.view(resource.shelf);
            let all = view.snapshot.iter();
            let selected = all.filter(|stored| {
                stored.namespace() == namespace && has_labels(reference.selector.as_ref(), stored)
            });
            selected.cloned().collect()
        }
        (name, namespace) => {
            let key = match namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.to_owned(),
            };
            store.get(resource.shelf, &key).into_iter().collect()
        }
    };
    if !resource.is_converted() {
        return Ok(found);
    }
    let converted = conversion::shown(question.state, resource, &found).await;
    converted.map_err(|broken| format!("params {:?} cannot be read: {}", broken.key, broken.why))
}

fn has_labels(selector: Option<&LabelSelector>, stored: &Stored) -> bool {
    selector.is_none_or(|of| of.matches(|key| stored.label(key).map(str::to_owned)))
}
