//! The second half of a write: from a proposal to an outcome.
//!
//! ```text
//! Proposal + stored state -> version, system fields, strategy, validation -> Outcome
//! ```
//!
//! Pure. Runs after everything that may change the object (patches, ownership, admission that
//! mutates) and again whenever the stored state changed before the commit.
//!
//! A version in the object that is not the stored one is a conflict. Without one the newest state
//! is taken, where the type allows it. An update that changes nothing keeps its version and reaches
//! no watch.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/rest/{create,update}.go`,
//! `pkg/registry/generic/registry/store.go`, `pkg/storage/etcd3/store.go`.

use kinform_api::{FieldError, GroupKind, GroupResource, ShownValue, Status, mutant};
use serde_json::Value;

use super::object_meta;
use super::proposal::{Owners, Proposal};
use super::{Action, Answer, Context, NamespaceState, Outcome, content};
use crate::budget::{OBJECT, encoded_size, too_large};
use crate::builtin::{deletion, service_addresses, strategy, subresources};
use crate::definition::served;
use crate::object::part::Part;
use crate::object::{at, metadata, text};
use crate::ownership::managed::keep_times;
use crate::ownership::scale;
use crate::resource::{ResourceInfo, Shape};

/// Completes a proposal: over the stored object, or as a new one.
///
/// # Errors
/// Everything that a real server refuses: a namespace that is missing or terminating, another
/// version, an object that is invalid.
pub(crate) fn complete(
    cx: &Context<'_>,
    part: Part,
    proposal: Proposal,
    (current, namespace): (Option<&Value>, NamespaceState),
) -> Result<Outcome, Box<Status>> {
    let Proposal {
        object,
        warnings,
        owners,
    } = proposal;
    cx.meter.check()?;
    let outcome = match current {
        None => insert(cx, object, namespace),
        Some(current) => replace(cx, part, object, current),
    };
    // First: a validation that was cut off may report errors that the object does not have.
    cx.meter.check()?;
    let mut outcome = outcome?;
    bound(&mut outcome, owners)?;
    Ok(outcome.warned(warnings))
}

/// Bounds the size of the object that is stored: leaves its managed fields out if they make it too
/// large, as upstream does when its storage refuses it.
fn bound(outcome: &mut Outcome, owners: Owners) -> Result<(), Box<Status>> {
    let (Action::Create(object) | Action::Replace(object)) = &mut outcome.action else {
        return Ok(());
    };
    if encoded_size(object) <= OBJECT {
        return Ok(());
    }
    let owned = match owners {
        Owners::Spared => metadata::of(object).remove("managedFields"),
        Owners::Needed => None,
    };
    match owned.is_some() && encoded_size(object) <= OBJECT {
        true => Ok(()),
        false => Err(too_large()),
    }
}

/// Completes a new object.
fn insert(
    cx: &Context<'_>,
    mut object: Value,
    namespace: NamespaceState,
) -> Result<Outcome, Box<Status>> {
    check_place(cx, &object, namespace)?;
    object_meta::prepare_create(cx, &mut object);
    strategy::prepare_create(cx.resource, cx.fresh(), &mut object);
    served::prepare_create(cx.resource, &mut object);
    let mut errors = object_meta::errors(cx, &object, None);
    errors.extend(strategy::errors(cx.resource, &object, cx.meter));
    let content = content::content(cx.resource, Part::Main, (&object, None), cx.meter);
    errors.extend(content.errors);
    let warnings = content.warnings;
    errors.extend(strategy::new_errors(cx.resource, &object, cx.meter));
    refuse(cx, &object, &errors)?;
    refuse(
        cx,
        &object,
        &service_addresses::errors(cx.resource, cx.asked(), &object),
    )?;
    // A dry run does not reach the storage, which refuses this.
    let has_version = !text(&object, &["metadata", "resourceVersion"]).is_empty();
    if has_version && !cx.options.dry_run {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Box::new(Status::failure(500, "", message)));
    }
    metadata::of(&mut object).remove("resourceVersion");
    if cx.options.dry_run {
        return Ok(Outcome::new(201, Action::Nothing, Answer::Object(object)).warned(warnings));
    }
    Ok(Outcome::new(201, Action::Create(object), Answer::Stored).warned(warnings))
}

/// Refuses a new object in a missing or terminating namespace.
pub(super) fn check_place(
    cx: &Context<'_>,
    object: &Value,
    namespace: NamespaceState,
) -> Result<(), Box<Status>> {
    if let Shape::Custom(custom) = &cx.resource.shape
        && custom.terminating
    {
        let why = "create not allowed while custom resource definition is terminating";
        let name = text(object, &["metadata", "name"]);
        let of = cx.resource.group_resource();
        return Err(Box::new(Status::forbidden(&of, name, why)));
    }
    let name = text(object, &["metadata", "name"]);
    let of = cx.namespace.unwrap_or_default();
    match namespace {
        NamespaceState::Active => Ok(()),
        NamespaceState::Missing => Err(Box::new(Status::not_found(
            &GroupResource::new("", "namespaces"),
            of,
        ))),
        NamespaceState::Terminating => Err(Box::new(Status::namespace_terminating(
            &cx.resource.group_resource(),
            name,
            of,
        ))),
    }
}

/// A 422 if there are errors.
fn refuse(cx: &Context<'_>, object: &Value, errors: &[FieldError]) -> Result<(), Box<Status>> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = text(object, &["metadata", "name"]);
    let kind = match cx.resource.group.as_str() {
        // Both views of events are checked as one.
        "events.k8s.io" => GroupKind::new("", cx.resource.kind.as_str()),
        _ => cx.resource.group_kind(),
    };
    Err(Box::new(Status::invalid(&kind, name, errors)))
}

/// Completes an object that replaces the stored one.
fn replace(
    cx: &Context<'_>,
    part: Part,
    mut new: Value,
    old: &Value,
) -> Result<Outcome, Box<Status>> {
    check_version(cx, &new, old)?;
    object_meta::prepare_update(&mut new, old);
    strategy::prepare_update(cx.resource, part, cx.fresh(), (&mut new, old));
    if part == Part::Main {
        served::prepare_update(cx.resource, &mut new);
    }
    strategy::count_generation(cx.resource, part, &mut new, old);
    let mut errors = object_meta::errors(cx, &new, Some(old));
    errors.extend(metadata::change_errors(&new, old));
    if cx.resource.is_custom() || matches!(part, Part::Main | Part::Scale) {
        errors.extend(strategy::errors(cx.resource, &new, cx.meter));
        errors.extend(strategy::main_change_errors(
            cx.resource,
            (&new, old),
            cx.meter,
        ));
    }
    let content = content::content(cx.resource, part, (&new, Some(old)), cx.meter);
    errors.extend(content.errors);
    errors.extend(strategy::change_errors(cx.resource, &new, old));
    errors.extend(subresources::errors(cx.resource, part, &new, old));
    let refused = refuse(cx, &new, &errors).and_then(|()| {
        refuse(
            cx,
            &new,
            &service_addresses::change_errors(cx.resource, cx.asked(), &new, old),
        )
    });
    match refused {
        Ok(()) => Ok(finish(cx, part, new, old).warned(content.warnings)),
        Err(status) if content.warnings.is_empty() => Err(status),
        Err(status) => Ok(Outcome::refused(status).warned(content.warnings)),
    }
}

fn finish(cx: &Context<'_>, part: Part, mut new: Value, old: &Value) -> Outcome {
    let version = at(old, &["metadata", "resourceVersion"]).cloned();
    let answer = |shown: Value| match part {
        Part::Scale => Answer::Object(scale::scale_of(cx.resource, &shown)),
        _ => Answer::Object(shown),
    };
    // Compared and shown under the stored version; a copy of the object would be large.
    if let Some(version) = version {
        metadata::of(&mut new).insert("resourceVersion".to_owned(), version);
    }
    keep_times(&mut new, old);
    if is_finished(cx.resource, &new) {
        let action = if cx.options.dry_run {
            Action::Nothing
        } else {
            Action::Remove
        };
        return Outcome::new(200, action, answer(new));
    }
    if new == *old || cx.options.dry_run {
        return Outcome::new(200, Action::Nothing, answer(new));
    }
    metadata::of(&mut new).remove("resourceVersion");
    let stored = if part == Part::Scale {
        Answer::StoredScale
    } else {
        Answer::Stored
    };
    Outcome::new(200, Action::Replace(new), stored)
}

/// Returns whether an object is being deleted and no finalizer, grace period or namespace content
/// holds it.
pub(crate) fn is_finished(resource: &ResourceInfo, object: &Value) -> bool {
    metadata::is_terminating(object) && !deletion::is_held(resource, object)
}

/// A conflict if the version is another one, and a refusal if the type requires a version.
fn check_version(cx: &Context<'_>, new: &Value, old: &Value) -> Result<(), Box<Status>> {
    let path = ["metadata", "resourceVersion"];
    let (said, stored) = (text(new, &path), text(old, &path));
    let name = text(old, &["metadata", "name"]);
    if said.is_empty() {
        if cx.resource.rules.unconditional_update {
            return Ok(());
        }
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            ShownValue::raw("0"),
            "must be specified for an update",
        );
        // Named by the resource, not by the kind: the storage reports it.
        let of = GroupKind::new(&*cx.resource.group, &*cx.resource.plural);
        return Err(Box::new(Status::invalid(&of, name, &[error])));
    }
    if said == stored || mutant!("S1") {
        return Ok(());
    }
    if said.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing {said:?}: invalid syntax");
        return Err(Box::new(Status::failure(500, "", message)));
    }
    Err(Box::new(Status::modified(
        &cx.resource.group_resource(),
        name,
    )))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::budget::{Deadline, Meter};
    use crate::clock;
    use crate::resource::{Found, Registry};
    use crate::storage::{HistoryLimits, Store};
    use crate::write::{Fresh, WriteOptions};

    #[tokio::test(start_paused = true)]
    async fn a_validation_that_was_cut_off_is_late_and_not_invalid() {
        let store = Store::new(HistoryLimits::default());
        let Found::Resource(pods) = Registry::built_in(&store).find("", "v1", "pods") else {
            panic!("no pods")
        };
        let stopping = CancellationToken::new();
        stopping.cancel();
        let at = clock::instant();
        let late = Meter::until(Deadline { at, stopping });
        let code = |meter: &Meter| {
            let cx = Context {
                resource: &pods,
                namespace: Some("a"),
                options: &WriteOptions::default(),
                now: Timestamp::UNIX_EPOCH,
                fresh: Fresh::default(),
                meter,
            };
            let proposal = Proposal {
                object: json!({"metadata": {"name": "p", "namespace": "a"},
                    "spec": {"containers": vec![json!({"image": "x"}); 900]}}),
                warnings: Vec::new(),
                owners: Owners::Spared,
            };
            let state = (None, NamespaceState::Active);
            let refused = complete(&cx, Part::Main, proposal, state).unwrap_err();
            refused.code
        };
        assert_eq!((code(&Meter::endless()), code(&late)), (422, 504));
    }
}
