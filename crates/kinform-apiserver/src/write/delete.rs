//! Delete.
//!
//! ```text
//! options + stored state -> Remove | Replace(object with deletionTimestamp) | Nothing 200
//! ```
//!
//! An object that is held (`builtin/deletion.rs`) is only marked; the update that removes its last
//! finalizer removes the object (`complete.rs`). The garbage collector handles dependents: as
//! upstream's server, this module sets finalizers for it.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/rest/delete.go`,
//! `pkg/registry/generic/registry/store.go` (`Delete`).

use jiff::{SignedDuration, Timestamp};
use kinform_api::{GroupResource, Status, StatusDetails};
use serde_json::Value;

use super::options::DeleteOptions;
use super::{Action, Answer, Context, Outcome};
use crate::builtin::deletion;
use crate::definition::served;
use crate::object::{at, metadata, text};
use crate::resource::{Generation, Propagation};

/// Applies a delete to the stored state.
///
/// # Errors
/// 404 if the object does not exist, 409 for another uid or version, 403 for a protected object.
pub(crate) fn delete(
    cx: &Context<'_>,
    name: &str,
    options: &DeleteOptions,
    current: Option<&Value>,
) -> Result<Outcome, Box<Status>> {
    let Some(current) = current else {
        return Err(Box::new(Status::not_found(
            &cx.resource.group_resource(),
            name,
        )));
    };
    check_preconditions(cx, name, options, current)?;
    deletion::check(cx.resource, name)?;
    let dry_run = options.dry_run || cx.options.dry_run;
    let marked = mark(cx, options, current);
    if deletion::is_held(cx.resource, &marked) {
        if marked == *current || dry_run {
            return Ok(Outcome::new(200, Action::Nothing, Answer::Object(marked)));
        }
        let mut stored = marked;
        metadata::of(&mut stored).remove("resourceVersion");
        return Ok(Outcome::new(200, Action::Replace(stored), Answer::Stored));
    }
    let action = if dry_run {
        Action::Nothing
    } else {
        Action::Remove
    };
    let answer = if cx.resource.rules.returns_deleted {
        let shown = if deletion::answers_marked(cx.resource) {
            marked
        } else {
            current.clone()
        };
        Answer::Object(shown)
    } else {
        Answer::Status(Box::new(deleted(cx, name, current)))
    };
    Ok(Outcome::new(200, action, answer))
}

/// Reply to a delete that removed the object immediately.
fn deleted(cx: &Context<'_>, name: &str, current: &Value) -> Status {
    Status::success(StatusDetails {
        name: name.to_owned(),
        group: cx.resource.group.clone(),
        kind: cx.resource.plural.clone(),
        uid: text(current, &["metadata", "uid"]).to_owned(),
        ..StatusDetails::default()
    })
}

fn check_preconditions(
    cx: &Context<'_>,
    name: &str,
    options: &DeleteOptions,
    current: &Value,
) -> Result<(), Box<Status>> {
    let conditions = [
        ("UID", &options.uid, text(current, &["metadata", "uid"])),
        (
            "ResourceVersion",
            &options.resource_version,
            text(current, &["metadata", "resourceVersion"]),
        ),
    ];
    for (what, wanted, stored) in conditions {
        let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != stored) else {
            continue;
        };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record \
             ({stored}). The object might have been {}",
            if what == "UID" {
                "deleted and then recreated"
            } else {
                "modified"
            }
        );
        // Upstream names the kind here, without its group, not the resource.
        let kind = GroupResource::new(cx.resource.group.as_str(), cx.resource.kind.as_str());
        return Err(Box::new(Status::conflict(&kind, name, &why)));
    }
    Ok(())
}

/// The object as it is stored at the start of its deletion.
fn mark(cx: &Context<'_>, options: &DeleteOptions, current: &Value) -> Value {
    let mut marked = current.clone();
    let before = metadata::is_terminating(current);
    put_finalizers(cx, options, &mut marked);
    if cx.resource.is_definition() {
        served::mark_terminating(&mut marked, cx.now);
        return marked;
    }
    let grace = deletion::grace_period(cx.resource, options.grace_period_seconds, current);
    let stored_grace =
        at(current, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    if before && stored_grace.is_none_or(|stored| stored <= grace) {
        return marked;
    }
    let generation = at(current, &["metadata", "generation"]).and_then(Value::as_i64);
    let metadata = metadata::of(&mut marked);
    let at = cx
        .now
        .checked_add(SignedDuration::from_secs(grace))
        .unwrap_or(cx.now);
    let begun = if before {
        shortened(current, stored_grace, grace).unwrap_or(at)
    } else {
        at
    };
    metadata.insert("deletionTimestamp".to_owned(), metadata::time(begun));
    let counts = !matches!(
        cx.resource.rules.generation,
        Generation::Absent | Generation::Constant
    );
    if let Some(generation) = generation.filter(|generation| counts && *generation > 0 && !before) {
        metadata.insert("generation".to_owned(), Value::from(generation + 1));
    }
    deletion::mark(cx.resource, &mut marked, grace);
    marked
}

/// The end of a shorter grace period, counted from when the deletion began.
fn shortened(current: &Value, stored: Option<i64>, grace: i64) -> Option<Timestamp> {
    let end: Timestamp = text(current, &["metadata", "deletionTimestamp"])
        .parse()
        .ok()?;
    end.checked_sub(SignedDuration::from_secs(stored? - grace))
        .ok()
}

/// Sets the finalizers for the garbage collector.
fn put_finalizers(cx: &Context<'_>, options: &DeleteOptions, object: &mut Value) {
    let kept: Vec<Value> = metadata::finalizers(object)
        .filter(|name| {
            options.propagation.is_none()
                || !matches!(*name, metadata::FOREGROUND | metadata::ORPHAN)
        })
        .map(Value::from)
        .collect();
    let said = kept
        .iter()
        .any(|name| *name == metadata::FOREGROUND || *name == metadata::ORPHAN);
    let policy = match options.propagation {
        None if said => Propagation::Background,
        None => cx.resource.rules.propagation,
        Some(policy) => policy,
    };
    let mut finalizers = kept;
    match policy {
        Propagation::Foreground => finalizers.push(Value::from(metadata::FOREGROUND)),
        Propagation::Orphan => finalizers.push(Value::from(metadata::ORPHAN)),
        Propagation::Background => {}
    }
    let metadata = metadata::of(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
    }
}
