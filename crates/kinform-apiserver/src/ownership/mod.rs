//! Ownership of an object's fields, and server-side apply.
//!
//! ```text
//! write by a manager ─▶ track: fields added and changed ─▶ metadata.managedFields
//! configuration ─▶ check ─▶ merge ─▶ track: removed, taken, in conflict ─▶ object, or 409
//! ```
//!
//! As on a real server, each update records its manager for the fields that it changes, even if no
//! client ever applies. Objects that are seeded without owners have none until the first apply.
//!
//! * `element.rs` `set.rs`: paths, and sets of them; `managed.rs`: sets by manager, read and
//!   written;
//! * `partial.rs`: a partial object that is merged without owners;
//! * `form.rs`: types and schemas as ownership sees them; `compare.rs` `merge.rs` `check.rs`:
//!   values of a form; `track.rs`: ownership after a write;
//! * `resets.rs`: fields that a request cannot write; `scale.rs`: the scale subresource;
//!   `versions.rs`: objects in the versions of other managers;
//!   `replicas.rs`: ownership of the replica count; `empty_lists.rs`: empty lists that storing
//!   turns into null.
//!
//! All functions are pure. A write costs a walk over the object and over its entries. Stored
//! entries are a part of the object's bytes: some 0.2 KB for a config map, 1 KB for a pod.
//!
//! Upstream: `apimachinery:pkg/util/managedfields`, `sigs.k8s.io/structured-merge-diff`.

mod check;
mod compare;
mod conflict;
mod element;
pub(crate) mod empty_lists;
mod form;
pub(crate) mod managed;
mod merge;
pub(crate) mod partial;
pub(crate) mod replicas;
pub(super) mod resets;
pub(crate) mod scale;
mod set;
#[cfg(test)]
mod tests;
mod track;
pub(crate) mod versions;

use std::borrow::Cow;

use jiff::Timestamp;
use kinform_api::Status;
use serde_json::{Map, Value};

use self::check::check;
use self::conflict::{Conflict, MOST_CONFLICTS, conflict};
use self::empty_lists::settle;
use self::form::Form;
use self::managed::{Managed, is_reset};
use self::set::Set;
use self::track::{Refusal, Serves, Track};
use self::versions::{Others, Versions};
use crate::budget::{Meter, too_large};
use crate::object::part::Part;
use crate::object::{at, metadata, text, typed};
use crate::resource::{ResourceInfo, Shape};
use crate::schema::convert;

/// The writer of an object: it comes to own the fields that it sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) resource: &'a ResourceInfo,
    /// The field manager.
    pub(crate) manager: &'a str,
    pub(crate) now: Timestamp,
    pub(crate) meter: &'a Meter,
}

/// The answer to conflicts of an apply: take the fields from their owners, or refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    Yes,
    No,
}

/// BOUND: bytes of a manager's name.
pub(super) const MAX_MANAGER: usize = 128;
/// The annotation in which kubectl keeps the configuration of its last client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager whose server-side applies replace client-side ones.
const KUBECTL: &str = "kubectl";

/// Returns the manager of a request: the one that it names, or the first part of its user agent.
///
/// Upstream: `apiserver:pkg/endpoints/handlers/create.go` (`managerOrUserAgent`).
pub(super) fn manager(named: &str, user_agent: &str) -> String {
    if !named.is_empty() {
        return named.to_owned();
    }
    let agent = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for letter in agent.chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > MAX_MANAGER {
            break;
        }
        name.push(letter);
    }
    name
}

/// Records the owners of a new object's fields.
pub(super) fn created(by: &Writer<'_>, new: &mut Value) {
    updated(by, Part::Main, new, &empty(by.resource));
}

/// Records the owners of an object's fields after an update or a patch. If they cannot be
/// determined, the old entries are kept.
pub(crate) fn updated(by: &Writer<'_>, part: Part, new: &mut Value, old: &Value) {
    updated_in(by, part, (new, old), None);
}

/// Records the owners of an object's fields after an update or a patch, with the objects in the
/// versions of other managers.
pub(crate) fn updated_in(
    by: &Writer<'_>,
    part: Part,
    (new, old): (&mut Value, &Value),
    versions: Option<&Versions>,
) {
    let managed = if part == Part::Scale {
        scaled(by, new, old)
    } else {
        let managed = owners_before(part, new, old);
        metadata::of(new).remove("managedFields");
        if managed.owners.is_empty() && !text(old, &["metadata", "uid"]).is_empty() {
            // The object is not tracked yet.
            Ok(managed)
        } else {
            let (version, time) = (by.resource.api_version(), time(by));
            let (old, new) = (of_version(by, old), of_version(by, new));
            let mut track = track(by, part, (&version, &time));
            track.others.of = versions.map(|versions| (by.resource, versions));
            track.update(&old, &new, managed)
        }
    };
    let entries = match managed {
        // The object is too large with its owners, so they would be left out later.
        Ok(managed) if !managed.fits_beside(new) => None,
        Ok(managed) => managed.entries(),
        Err(_) => at(old, &["metadata", "managedFields"]).cloned(),
    };
    put(new, entries);
    if let (Shape::Builtin(of), true) = (&by.resource.shape, part != Part::Scale) {
        settle(of, new);
    }
}

/// Returns the object whose fields are owned: of a custom one, the part that is stored.
fn of_version<'a>(by: &Writer<'_>, object: &'a Value) -> Cow<'a, Value> {
    match &by.resource.shape {
        Shape::Custom(custom) => convert::of_version(custom.versions(), object, by.meter),
        Shape::Builtin(_) => Cow::Borrowed(object),
    }
}

/// Returns the entries that a request starts from: its own if it has some, or else the stored ones.
fn owners_before(part: Part, new: &Value, old: &Value) -> Managed {
    let stored = || {
        let entries = at(old, &["metadata", "managedFields"]);
        Managed::read(entries.unwrap_or(&Value::Null)).unwrap_or_default()
    };
    match at(new, &["metadata", "managedFields"]) {
        Some(entries) if part == Part::Main && is_reset(entries) => Managed::default(),
        Some(entries) if part == Part::Main => Managed::read(entries)
            .ok()
            .filter(|managed| !managed.owners.is_empty())
            .unwrap_or_else(stored),
        _ => stored(),
    }
}

fn scaled(by: &Writer<'_>, new: &Value, old: &Value) -> Result<Managed, String> {
    let entries = at(old, &["metadata", "managedFields"]);
    let parent = Managed::read(entries.unwrap_or(&Value::Null))?;
    let path = self::scale::replicas_path(by.resource);
    let managed = replicas::inward(&parent, &path);
    if managed.owners.is_empty() {
        return Ok(parent);
    }
    let of = |object: &Value| self::scale::scale_of(by.resource, object);
    let time = time(by);
    let track = track(by, Part::Scale, (replicas::VERSION, &time));
    let managed = track.update(&of(old), &of(new), managed)?;
    let version = by.resource.api_version();
    Ok(replicas::outward(&parent, managed, &path, &version))
}

/// Applies a configuration to an object or creates one. The result contains the new managers.
///
/// # Errors
/// 400 for another kind, 500 for a value of the wrong type, 409 for fields of other managers.
pub(super) fn apply(
    by: &Writer<'_>,
    part: Part,
    live: Option<&Value>,
    (mut configuration, force): (Value, Force),
    versions: Option<&Versions>,
) -> Result<Value, Box<Status>> {
    check_kind(by, part, &mut configuration)?;
    check_owners(&configuration)?;
    let version = match part {
        Part::Scale => replicas::VERSION.to_owned(),
        _ => by.resource.api_version(),
    };
    let time = time(by);
    let mut track = track(by, part, (&version, &time));
    track.others.of = versions.map(|versions| (by.resource, versions));
    check(track.form, &configuration).map_err(|what| {
        let object = place(by, part, &configuration);
        failed(&format!(
            "failed to create typed patch object ({object}): {what}"
        ))
    })?;
    let empty = empty(by.resource);
    let stored = live.unwrap_or(&empty);
    let parent = Managed::read(at(stored, &["metadata", "managedFields"]).unwrap_or(&Value::Null))
        .map_err(|what| failed(&format!("failed to decode managed fields: {what}")))?;
    let path = self::scale::replicas_path(by.resource);
    let (live, managed) = match part {
        Part::Scale => {
            let live = self::scale::scale_of(by.resource, stored);
            (Cow::Owned(bare(live)), replicas::inward(&parent, &path))
        }
        _ => (Cow::Borrowed(stored), parent.clone()),
    };
    let applied = forced(
        &track,
        (&empty, &live),
        lent(&track, &mut configuration),
        (managed, force == Force::Yes),
    )?;
    if let (Part::Scale, true, Some(scale)) = (part, by.resource.is_custom(), &applied.object) {
        // Upstream's converter of custom resources supports no other kind.
        let object = place(by, part, scale);
        return Err(failed(&format!(
            "failed to convert new object ({object}) to proper version: request to convert CR to an \
             invalid group/version: {version}"
        )));
    }
    let managed = match part {
        Part::Scale => {
            let version = by.resource.api_version();
            replicas::outward(&parent, applied.managed, &path, &version)
        }
        _ => applied.managed,
    };
    let mut object = applied.object.unwrap_or_else(|| live.into_owned());
    if track.manager == KUBECTL {
        renew_last_applied(by, &mut object, configuration);
    }
    // The old entries are replaced, so they do not count.
    put(&mut object, None);
    if !managed.fits_beside(&object) {
        return Err(too_large());
    }
    put(&mut object, managed.entries());
    by.meter.check()?;
    Ok(object)
}

/// Lends a configuration that is needed after it was applied: kubectl's. Any other is given away.
fn lent<'a>(track: &Track<'_>, configuration: &'a mut Value) -> Cow<'a, Value> {
    match track.manager {
        KUBECTL => Cow::Borrowed(configuration),
        _ => Cow::Owned(std::mem::take(configuration)),
    }
}

/// Applies a configuration. If all conflicts are with kubectl's client-side applies, applies it
/// again by force.
fn forced(
    track: &Track<'_>,
    (empty, live): (&Value, &Value),
    configuration: Cow<'_, Value>,
    (managed, force): (Managed, bool),
) -> Result<track::Applied, Box<Status>> {
    let objects = (empty, live);
    // Only kubectl's is needed again.
    let again = match &configuration {
        Cow::Borrowed(configuration) => Some(*configuration),
        Cow::Owned(_) => None,
    };
    let conflicts = match track.apply(objects, configuration, managed.clone(), force) {
        Ok(applied) => return Ok(applied),
        Err(Refusal::Broken(what)) => return Err(failed(&what)),
        Err(Refusal::Conflicts(conflicts)) => conflicts,
    };
    if conflicts.len() >= MOST_CONFLICTS {
        return Err(conflict(&conflicts));
    }
    let allowed = last_applied(track, live).unwrap_or_default();
    let left: Vec<Conflict> = conflicts
        .into_iter()
        .filter(|conflict| !allowed.has(&conflict.path))
        .collect();
    let Some(again) = again.filter(|_| left.is_empty()) else {
        return Err(conflict(&left));
    };
    track
        .apply(objects, Cow::Borrowed(again), managed, true)
        .map_err(|refusal| match refusal {
            Refusal::Conflicts(conflicts) => conflict(&conflicts),
            Refusal::Broken(what) => failed(&what),
        })
}

/// Returns the paths that kubectl's last client-side apply set and that are unchanged since.
///
/// Upstream: `apimachinery:pkg/util/managedfields/internal/lastappliedmanager.go`.
fn last_applied(track: &Track<'_>, live: &Value) -> Option<Set> {
    if track.manager != KUBECTL {
        return None;
    }
    let text = at(live, &["metadata", "annotations", LAST_APPLIED])?.as_str()?;
    let mut last: Value = serde_json::from_str(text).ok()?;
    let members = last.as_object_mut()?;
    let version = members.remove("apiVersion");
    members.remove("kind");
    if version? != track.version {
        return None;
    }
    check(track.form, &last).ok()?;
    track.as_last_applied(live, &last)
}

/// Updates the last-applied annotation, if the object has one.
///
/// Upstream: `apimachinery:pkg/util/managedfields/internal/lastappliedupdater.go`.
fn renew_last_applied(by: &Writer<'_>, object: &mut Value, mut configuration: Value) {
    let Some(annotations) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let is_set = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
    if !annotations.get(LAST_APPLIED).is_some_and(is_set) {
        return;
    }
    configuration["apiVersion"] = Value::from(by.resource.api_version());
    configuration["kind"] = Value::from(by.resource.kind.as_str());
    let said = configuration
        .get_mut("metadata")
        .and_then(Value::as_object_mut);
    if let Some(metadata) = said {
        let annotations = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    let text = format!("{configuration}\n");
    let others: usize = annotations
        .iter()
        .filter(|(name, _)| *name != LAST_APPLIED)
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if others + LAST_APPLIED.len() + text.len() > metadata::MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    } else {
        annotations.insert(LAST_APPLIED.to_owned(), Value::from(text));
    }
}

fn track<'a>(by: &'a Writer<'_>, part: Part, (version, time): (&'a str, &'a str)) -> Track<'a> {
    let form = match part {
        Part::Scale => scale_form(),
        _ => Form::of(by.resource),
    };
    Track {
        form,
        version,
        part: match part {
            Part::Main => "",
            Part::Status => "status",
            Part::Scale => "scale",
            Part::Finalize => "finalize",
            Part::EphemeralContainers => "ephemeralcontainers",
            Part::Resize => "resize",
            Part::Approval => "approval",
        },
        serves: match part {
            Part::Scale => Serves::Builtin("Scale"),
            _ if by.resource.is_custom() => Serves::Group(&by.resource.group),
            _ => Serves::Builtin(&by.resource.kind),
        },
        manager: by.manager,
        resets: Set::of_paths(resets::of(by.resource, part)),
        others: Others::default(),
        time,
    }
}

fn scale_form() -> Form<'static> {
    kinform_schema::builtin("autoscaling", "v1", "Scale").map_or(Form::Deduced, Form::of_type)
}

/// Returns an object without any field set, as the server would create it.
fn empty(resource: &ResourceInfo) -> Value {
    let nothing = Value::Object(Map::new());
    match &resource.shape {
        Shape::Custom(_) => nothing,
        Shape::Builtin(of) => typed::read(of, nothing.clone(), &mut Vec::new()).unwrap_or(nothing),
    }
}

fn time(by: &Writer<'_>) -> String {
    match metadata::time(by.now) {
        Value::String(time) => time,
        _ => String::new(),
    }
}

fn put(object: &mut Value, entries: Option<Value>) {
    let metadata = metadata::of(object);
    match entries {
        Some(entries) => _ = metadata.insert("managedFields".to_owned(), entries),
        None => _ = metadata.remove("managedFields"),
    }
}

/// A value without its kind, as objects are stored.
fn bare(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    value
}

/// Takes the kind away from a configuration of the resource's kind.
fn check_kind(by: &Writer<'_>, part: Part, configuration: &mut Value) -> Result<(), Box<Status>> {
    let (version, kind) = match part {
        Part::Scale => (replicas::VERSION.to_owned(), "Scale"),
        _ => (by.resource.api_version(), by.resource.kind.as_str()),
    };
    let said = (
        text(configuration, &["apiVersion"]),
        text(configuration, &["kind"]),
    );
    if said == (version.as_str(), kind) {
        *configuration = bare(configuration.take());
        return Ok(());
    }
    let (version, kind) = said;
    let core = if version.contains('/') { "" } else { "/" };
    let message = format!("invalid object type: {core}{version}, Kind={kind}");
    Err(Box::new(Status::bad_request(message)))
}

/// Refuses a configuration that has owners of its own.
fn check_owners(configuration: &Value) -> Result<(), Box<Status>> {
    match at(configuration, &["metadata", "managedFields"]) {
        Some(Value::Array(_)) => {
            let message = "metadata.managedFields must be nil";
            Err(Box::new(Status::bad_request(message)))
        }
        _ => Ok(()),
    }
}

/// An object in messages: namespace, name, kind.
pub(super) fn place(by: &Writer<'_>, part: Part, object: &Value) -> String {
    let (group, version, kind) = match part {
        Part::Scale => ("autoscaling", "v1", "Scale"),
        _ => (
            by.resource.group.as_str(),
            by.resource.version.as_str(),
            by.resource.kind.as_str(),
        ),
    };
    let (namespace, name) = (
        text(object, &["metadata", "namespace"]),
        text(object, &["metadata", "name"]),
    );
    format!("{namespace}/{name}; {group}/{version}, Kind={kind}")
}

/// Returns a 500, for errors that upstream reports as internal.
pub(super) fn failed(what: &str) -> Box<Status> {
    Box::new(Status::failure(500, "", what))
}
