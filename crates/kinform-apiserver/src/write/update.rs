//! Update of an object or of one of its subresources.
//!
//! ```text
//! body + stored state -> uid, owners of its fields -> Proposal
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/rest/update.go`,
//! `pkg/registry/generic/registry/store.go` (`Update`), `pkg/storage/etcd3/store.go`.

use kinform_api::Status;
use serde_json::Value;

use super::body::{Decoded, match_url};
use super::create;
use super::proposal::{Owners, Proposal};
use crate::resource::ResourceInfo;

use super::Context;
use crate::object::part::Part;
use crate::object::{metadata, text};
use crate::ownership::{self, scale};

/// Proposes the result of an update of the stored state; without one, creates the object where the
/// type allows it.
///
/// # Errors
/// 400 for a name that is not the URL's, 409 for another uid than the object's (also if there is no
/// object), 404 if the object does not exist.
pub(crate) fn propose(
    cx: &Context<'_>,
    name: &str,
    part: Part,
    Decoded {
        mut object,
        warnings,
    }: Decoded,
    current: Option<&Value>,
) -> Result<Proposal, Box<Status>> {
    match_url(cx, Some(name), &mut object)?;
    let Some(current) = current else {
        // The storage compares uids before anything else: an absent object has none.
        check_uid(cx, name, &object, &Value::Null)?;
        if part == Part::Main && cx.resource.rules.create_on_update {
            metadata::of(&mut object).remove("resourceVersion");
            return create::propose(cx, Decoded { object, warnings });
        }
        return Err(Box::new(Status::not_found(
            &cx.resource.group_resource(),
            name,
        )));
    };
    if part == Part::Scale {
        object = scale::into_object(cx.resource, &object, current)?;
    }
    check_uid(cx, name, &object, current)?;
    ownership::updated_in(&cx.writer(), part, (&mut object, current), cx.versions());
    Ok(Proposal {
        object,
        warnings,
        owners: Owners::Spared,
    })
}

fn check_uid(cx: &Context<'_>, name: &str, new: &Value, old: &Value) -> Result<(), Box<Status>> {
    let (said, stored) = (
        text(new, &["metadata", "uid"]),
        text(old, &["metadata", "uid"]),
    );
    if said.is_empty() || said == stored {
        return Ok(());
    }
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

/// A conflict: the request is about another object of this name.
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
    // A dry run does not reach the storage, which has a prefix.
    let prefix = if dry_run { "" } else { "/registry" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {prefix}/{key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {said}, UID in object meta: \
         {stored}"
    );
    Box::new(Status::conflict(&resource.group_resource(), name, &why))
}
