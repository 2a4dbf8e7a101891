//! Create.
//!
//! ```text
//! body + namespace's state -> Create(object) 201 | 400, 403, 404, 422, 500
//! ```
//!
//! Whether the name is taken is known to the storage only: it refuses the action, and the server
//! answers 409, or asks again with other letters if the name was generated.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/rest/create.go`,
//! `pkg/admission/plugin/namespace/lifecycle`.

use kinform_api::{FieldError, GroupKind, GroupResource, Status};
use serde_json::Value;

use super::body::{Decoded, match_url};
use super::object_meta;
use super::{Action, Answer, Context, NamespaceState, Outcome};
use crate::builtin::service_addresses;
use crate::builtin::strategy;
use crate::definition::served;
use crate::object::part::Part;
use crate::object::{metadata, text};
use crate::ownership;
use crate::resource::Shape;
use crate::write::content;

/// What a create makes.
///
/// # Errors
/// Whatever a real server refuses: a namespace that is missing or going, a body that is invalid.
pub(crate) fn create(
    cx: &Context<'_>,
    body: Decoded,
    namespace: NamespaceState,
) -> Result<Outcome, Box<Status>> {
    let Decoded {
        mut object,
        warnings,
    } = body;
    match_url(cx, None, &mut object)?;
    ownership::created(&cx.writer(), &mut object);
    insert(cx, object, namespace).map(|outcome| outcome.warned(warnings))
}

/// Stores a new object whose owners are known.
pub(super) fn insert(
    cx: &Context<'_>,
    mut object: Value,
    namespace: NamespaceState,
) -> Result<Outcome, Box<Status>> {
    admit(cx, &object, namespace)?;
    object_meta::prepare_create(cx, &mut object);
    strategy::prepare_create(cx.resource, cx.fresh(), &mut object);
    served::prepare_create(cx.resource, &mut object);
    let mut errors = object_meta::errors(cx, &object, None);
    errors.extend(strategy::errors(cx.resource, &object));
    let content = content::content(cx.resource, Part::Main, &object, None);
    errors.extend(content.errors);
    let warnings = content.warnings;
    errors.extend(strategy::new_errors(cx.resource, &object));
    refuse(cx, &object, &errors)?;
    refuse(
        cx,
        &object,
        &service_addresses::errors(cx.resource, cx.asked(), &object),
    )?;
    // A dry run does not get as far as the storage, which refuses this.
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

/// Refuses new objects where there is no place for them.
fn admit(cx: &Context<'_>, object: &Value, namespace: NamespaceState) -> Result<(), Box<Status>> {
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
pub(super) fn refuse(
    cx: &Context<'_>,
    object: &Value,
    errors: &[FieldError],
) -> Result<(), Box<Status>> {
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
