//! The parameters with which a binding asks its policy.
//!
//! ```text
//! Binding + resource of the parameters ──by name, by labels──▶ [parameter or null] | error
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/policy/generic/policy_dispatcher.go`
//! (`CollectParams`).

use std::sync::Arc;

use kinform_api::selector::LabelSelector;
use serde_json::Value;

use super::stored::{Binding, ParamRef};
use crate::admission::Question;
use crate::budget::Meter;
use crate::conversion;
use crate::resource::ResourceInfo;
use crate::storage::Stored;

/// Returns the parameters of a binding; `None` among them stands for null.
///
/// # Errors
/// The reference does not fit, or finds nothing where something must be found.
pub(super) fn of(
    question: &Question<'_>,
    kind: Option<&ResourceInfo>,
    binding: &Binding,
) -> Result<Vec<Option<Value>>, String> {
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
    let found = find(question, resource, (reference, namespace));
    if found.is_empty() && reference.denies_absence {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(why.to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}

fn find(
    question: &Question<'_>,
    resource: &ResourceInfo,
    (reference, namespace): (&ParamRef, Option<&str>),
) -> Vec<Value> {
    let store = &question.state.store;
    let shown = |stored: &Arc<Stored>| {
        let mut object = match resource.is_converted() {
            // As in upstream's cache, a parameter that was never converted is not there.
            true => conversion::at_hand(question.state, resource, stored)?.value(),
            false => resource.to_shown(stored.value(), &Meter::of_object()),
        };
        object["apiVersion"] = Value::from(resource.api_version());
        object["kind"] = Value::from(resource.kind.as_str());
        Some(object)
    };
    if !reference.name.is_empty() {
        let key = match namespace {
            Some(namespace) => format!("{namespace}/{}", reference.name),
            None => reference.name.clone(),
        };
        let found = store.get(resource.shelf, &key);
        return found.iter().filter_map(shown).collect();
    }
    let view = store.view(resource.shelf);
    let all = view.snapshot.iter();
    let selected = all.filter(|stored| {
        stored.namespace() == namespace && has_labels(reference.selector.as_ref(), stored)
    });
    selected.filter_map(shown).collect()
}

fn has_labels(selector: Option<&LabelSelector>, stored: &Stored) -> bool {
    selector.is_none_or(|of| of.matches(|key| stored.label(key).map(str::to_owned)))
}
