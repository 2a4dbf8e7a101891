//! Update, of an object or of one of its parts.
//!
//! ```text
//! body + stored state -> Replace(object) | Remove (last finalizer gone) | Nothing (no change) 200
//! ```
//!
//! A version in the body that is not the stored one is a conflict. Without one the newest state is
//! taken, where the type allows it. An update that changes nothing keeps its version and is heard by
//! nobody.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/rest/update.go`,
//! `pkg/registry/generic/registry/store.go` (`Update`), `pkg/storage/etcd3/store.go`.

use kinform_api::{FieldError, GroupKind, ShownValue, Status};
use serde_json::Value;

use super::body::{Decoded, match_url};
use super::create::{create, refuse};
use crate::resource::ResourceInfo;

use super::object_meta;
use super::{Action, Answer, Context, NamespaceState, Outcome};
use crate::builtin::strategy;
use crate::builtin::{service_addresses, subresources};
use crate::definition::served;
use crate::object::part::Part;
use crate::object::{at, metadata, text};
use crate::ownership::managed::keep_times;
use crate::ownership::{self, scale};
use crate::write::content;

/// What an update makes of the stored state; without one, it creates where the type allows it.
///
/// # Errors
/// 404 if there is nothing to update, 409 for another version or uid, 400 and 422 for what is wrong.
pub(crate) fn update(
    cx: &Context<'_>,
    name: &str,
    part: Part,
    body: Decoded,
    (current, namespace): (Option<&Value>, NamespaceState),
) -> Result<Outcome, Box<Status>> {
    let Some(current) = current else {
        if part == Part::Main && cx.resource.rules.create_on_update {
            let mut body = body;
            match_url(cx, Some(name), &mut body.object)?;
            metadata::of(&mut body.object).remove("resourceVersion");
            return create(cx, body, namespace);
        }
        return Err(Box::new(Status::not_found(
            &cx.resource.group_resource(),
            name,
        )));
    };
    let mut object = body.object;
    match_url(cx, Some(name), &mut object)?;
    if part == Part::Scale {
        object = scale::into_object(cx.resource, &object, current)?;
    }
    check_uid(cx, &object, current)?;
    replace(cx, part, object, current).map(|outcome| outcome.warned(body.warnings))
}

/// Writes a whole object over the stored one.
pub(super) fn replace(
    cx: &Context<'_>,
    part: Part,
    mut new: Value,
    old: &Value,
) -> Result<Outcome, Box<Status>> {
    ownership::updated(&cx.writer(), part, &mut new, old);
    overwrite(cx, part, new, old)
}

/// The same for an object whose owners are known.
pub(super) fn overwrite(
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
        errors.extend(strategy::errors(cx.resource, &new));
        errors.extend(strategy::main_change_errors(cx.resource, &new, old));
    }
    let content = content::content(cx.resource, part, &new, Some(old));
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
    let answer = |stored: &Value| {
        let mut shown = stored.clone();
        if let Some(version) = &version {
            metadata::of(&mut shown).insert("resourceVersion".to_owned(), version.clone());
        }
        match part {
            Part::Scale => Answer::Object(scale::scale_of(cx.resource, &shown)),
            _ => Answer::Object(shown),
        }
    };
    let mut before = old.clone();
    metadata::of(&mut before).remove("resourceVersion");
    keep_times(&mut new, &before);
    if is_finished(cx.resource, &new) {
        let action = if cx.options.dry_run {
            Action::Nothing
        } else {
            Action::Remove
        };
        return Outcome::new(200, action, answer(&new));
    }
    if new == before {
        return Outcome::new(200, Action::Nothing, answer(old));
    }
    if cx.options.dry_run {
        return Outcome::new(200, Action::Nothing, answer(&new));
    }
    let stored = if part == Part::Scale {
        Answer::StoredScale
    } else {
        Answer::Stored
    };
    Outcome::new(200, Action::Replace(new), stored)
}

/// Whether nothing holds an object that is being deleted any more.
pub(crate) fn is_finished(resource: &ResourceInfo, object: &Value) -> bool {
    metadata::is_terminating(object) && !object_meta::is_held(resource, object)
}

fn check_uid(cx: &Context<'_>, new: &Value, old: &Value) -> Result<(), Box<Status>> {
    let (said, stored) = (
        text(new, &["metadata", "uid"]),
        text(old, &["metadata", "uid"]),
    );
    if said.is_empty() || said == stored {
        return Ok(());
    }
    let name = text(old, &["metadata", "name"]);
    let key = match cx.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    let named = (key.as_str(), name);
    Err(other_uid(
        cx.resource,
        named,
        (said, stored),
        cx.options.dry_run,
    ))
}

/// A conflict: another object of the name is meant.
pub(crate) fn other_uid(
    resource: &ResourceInfo,
    (key, name): (&str, &str),
    (said, stored): (&str, &str),
    dry_run: bool,
) -> Box<Status> {
    let place = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        ("", "nodes") => "minions",
        (_, plural) => plural,
    };
    let key = format!("{place}/{key}");
    // A dry run does not get as far as the storage, which has a prefix.
    let prefix = if dry_run { "" } else { "/registry" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {prefix}/{key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {said}, UID in object meta: \
         {stored}"
    );
    Box::new(Status::conflict(&resource.group_resource(), name, &why))
}

/// A conflict if the version is another one, and a refusal if there has to be one.
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
        // By the resource, not by the kind: it is the storage that says so.
        let of = GroupKind::new(&*cx.resource.group, &*cx.resource.plural);
        return Err(Box::new(Status::invalid(&of, name, &[error])));
    }
    if said == stored {
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
