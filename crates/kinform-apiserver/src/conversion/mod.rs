//! Conversion of custom objects between the versions of a definition, by its webhook.
//!
//! ```text
//! stored objects ──defaults of their version──▶ webhook, in batches ──pruned──▶ objects of a version
//! object of a version ──▶ webhook ──pruned, marked──▶ stored object
//! ```
//!
//! Get and writes call the webhook and fail with the call. Lists and watches of a version that is not
//! stored read a mirror of the shelf (`storage/mirror.rs`), which a task fills: they work on while the
//! webhook is down. Nothing is called for an object that has the wanted version.
//!
//! Converted objects are pruned, but neither validated nor given defaults of the wanted version, as on
//! a real server.
//!
//! BOUND: 30 seconds and one reply of `hooks/` for a call, 256 objects or 1 MiB in one.
//!
//! * `review.rs`: requests and answers; `fill.rs`: the task that fills a mirror; `failure.rs`: the
//!   replies about a call that failed.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/conversion`,
//! `pkg/apiserver/customresource_handler.go` (the codecs around it).

pub(crate) mod failure;
mod fill;
mod review;

use std::sync::Arc;
use std::time::Duration;

use kinform_api::Status;
use serde_json::Value;

pub(crate) use self::fill::mirror;
use self::review::Request;
use crate::budget::{Meter, OBJECT, encoded_size, too_large};
use crate::hooks::Endpoint;
use crate::object::metadata;
use crate::random;
use crate::resource::{Conversion, ResourceInfo, Shape, StoredVersions};
use crate::schema::convert as schemas;
use crate::state::State;
use crate::storage::mirror::Broken;
use crate::storage::{Draft, Stored};

/// The name under which webhooks are called: that of admission, as on a real server.
const AGENT: &str = "kube-apiserver-admission";
/// BOUND: the time of one call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// BOUND: objects of one call, and their bytes before the last one.
const OBJECTS: usize = 256;
const BYTES: usize = 1 << 20;

/// An object that is not converted yet: its place, its version and its content.
type Open = (usize, String, Value);

/// Returns a stored object as readers of a version see it, under its revision.
///
/// # Errors
/// 500 about the call of the webhook.
///
/// # Cancel safety
/// The call ends with its future.
pub(crate) async fn read(
    state: &State,
    resource: &ResourceInfo,
    stored: &Arc<Stored>,
) -> Result<Arc<Stored>, Box<Status>> {
    let shown = shown(state, resource, std::slice::from_ref(stored)).await;
    let shown = shown.map_err(|broken| failure::not_read(resource, &broken))?;
    match shown.into_iter().next() {
        Some(shown) => Ok(shown),
        None => Err(too_large()),
    }
}

/// Returns a stored object as readers of a version see it, if no webhook must be called for that: it
/// has the version, or was converted for lists and watches.
pub(crate) fn at_hand(
    state: &State,
    resource: &ResourceInfo,
    stored: &Stored,
) -> Option<Arc<Stored>> {
    let (version, object) = decoded(resource, stored);
    if version == resource.version {
        return sealed(resource, object, stored.revision());
    }
    let mirror = state.mirrors.known(resource)?;
    let view = mirror.view();
    let known = view.snapshot.get(stored.key())?;
    (known.revision() == stored.revision()).then(|| known.clone())
}

/// Returns stored objects as readers of a version see them, in the same order and under their revisions.
///
/// # Errors
/// The first object of a call that failed.
pub(crate) async fn shown(
    state: &State,
    resource: &ResourceInfo,
    objects: &[Arc<Stored>],
) -> Result<Vec<Arc<Stored>>, Broken> {
    let mut all: Vec<Option<Arc<Stored>>> = vec![None; objects.len()];
    let mut open: Vec<Open> = Vec::new();
    let mut bytes = 0;
    for (place, stored) in objects.iter().enumerate() {
        let (version, object) = decoded(resource, stored);
        if version == resource.version {
            all[place] = sealed(resource, object, stored.revision());
            continue;
        }
        let is_full = open.len() >= OBJECTS || bytes >= BYTES;
        let is_other = open.first().is_some_and(|(_, of, _)| *of != version);
        if is_full || is_other {
            call(
                state,
                resource,
                objects,
                (std::mem::take(&mut open), &mut all),
            )
            .await?;
            bytes = 0;
        }
        bytes += stored.bytes().len();
        open.push((place, version, object));
    }
    if !open.is_empty() {
        call(state, resource, objects, (open, &mut all)).await?;
    }
    let broken = |place: usize| broken(&objects[place], "the object is too large".to_owned());
    let all = all.into_iter().enumerate();
    all.map(|(place, shown)| shown.ok_or_else(|| broken(place)))
        .collect()
}

/// Converts stored objects of one version, and puts each at its place.
async fn call(
    state: &State,
    resource: &ResourceInfo,
    objects: &[Arc<Stored>],
    (open, all): (Vec<Open>, &mut [Option<Arc<Stored>>]),
) -> Result<(), Broken> {
    let Some((first, version, _)) = open.first() else {
        return Ok(());
    };
    let (first, version) = (*first, version.clone());
    let (places, values): (Vec<usize>, Vec<Value>) = open
        .into_iter()
        .map(|(place, _, value)| (place, value))
        .unzip();
    let converted = convert(state, resource, (&version, &resource.version), values).await;
    let converted = converted.map_err(|why| broken(&objects[first], why))?;
    for (place, object) in places.into_iter().zip(converted) {
        all[place] = sealed(resource, object, objects[place].revision());
    }
    Ok(())
}

fn broken(stored: &Stored, why: String) -> Broken {
    Broken {
        key: stored.key().into(),
        revision: stored.revision(),
        why,
    }
}

/// Returns the version of a stored object, and the object as its version reads it.
fn decoded(resource: &ResourceInfo, stored: &Stored) -> (String, Value) {
    let mut object = stored.value();
    metadata::of(&mut object).remove("resourceVersion");
    let Some((conversion, versions)) = resource.conversion() else {
        return (resource.version.clone(), object);
    };
    let version = versions.unmark(&mut object);
    if let Some(schema) = conversion.schemas.get(&version) {
        schemas::decoded(schema, &mut object, &Meter::of_object());
    }
    (version, object)
}

/// Returns an object under a revision; `None` if it is too large.
fn sealed(resource: &ResourceInfo, object: Value, revision: u64) -> Option<Arc<Stored>> {
    if encoded_size(&object) > 2 * OBJECT {
        return None;
    }
    let draft = Draft::new(&resource.fields, object)?;
    Some(Arc::new(draft.seal(revision)))
}

/// Returns the stored form of an object of a version, and the object as it will be read again.
///
/// # Errors
/// 500 about the call of the webhook, 413 for an answer that is too large.
pub(crate) async fn stored(
    state: &State,
    resource: &ResourceInfo,
    object: Value,
) -> Result<(Value, Value), Box<Status>> {
    let Some((conversion, versions)) = resource.conversion() else {
        return Ok((object.clone(), object));
    };
    let StoredVersions { now, .. } = versions;
    if *now == resource.version {
        let mut stored = object.clone();
        if let Some(schema) = conversion.schemas.get(now) {
            schemas::coerced(schema, &mut stored);
        }
        versions.mark(now, &mut stored);
        return Ok((stored, object));
    }
    let there = (resource.version.as_str(), now.as_str());
    let mut stored = one(state, resource, there, object).await?;
    if encoded_size(&stored) > OBJECT {
        return Err(too_large());
    }
    let shown = one(state, resource, (there.1, there.0), stored.clone()).await?;
    versions.mark(now, &mut stored);
    Ok((stored, shown))
}

/// Returns an object of one version as readers of another one see it. Both have a kind.
///
/// # Errors
/// 500 about the call of the webhook.
pub(crate) async fn between(
    state: &State,
    (from, to): (&ResourceInfo, &ResourceInfo),
    mut object: Value,
) -> Result<Value, Box<Status>> {
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    let mut object = match from.conversion() {
        None => to.to_shown(from.to_stored(object), &Meter::of_object()),
        Some(_) => {
            let versions = (from.version.as_str(), to.version.as_str());
            one(state, from, versions, object).await?
        }
    };
    object["apiVersion"] = Value::from(to.api_version());
    object["kind"] = Value::from(to.kind.as_str());
    Ok(object)
}

/// Returns an object of a resource in another version.
///
/// # Errors
/// 500 about the call of the webhook.
pub(crate) async fn to_version(
    state: &State,
    resource: &ResourceInfo,
    version: &str,
    object: Value,
) -> Result<Value, Box<Status>> {
    one(state, resource, (&resource.version, version), object).await
}

async fn one(
    state: &State,
    resource: &ResourceInfo,
    versions: (&str, &str),
    object: Value,
) -> Result<Value, Box<Status>> {
    let mut object = object;
    let version = metadata::of(&mut object).remove("resourceVersion");
    let converted = convert(state, resource, versions, vec![object]).await;
    let converted = converted.map_err(|why| failure::not_written(&why))?;
    let Some(mut object) = converted.into_iter().next() else {
        return Err(too_large());
    };
    if let Some(version) = version {
        metadata::of(&mut object).insert("resourceVersion".to_owned(), version);
    }
    Ok(object)
}

/// Converts objects between versions: one call. They are pruned by the schema of the new version.
async fn convert(
    state: &State,
    resource: &ResourceInfo,
    (from, to): (&str, &str),
    mut objects: Vec<Value>,
) -> Result<Vec<Value>, String> {
    let (Some((conversion, _)), Shape::Custom(_)) = (resource.conversion(), &resource.shape) else {
        return Ok(objects);
    };
    let Conversion {
        client,
        review,
        schemas,
    } = conversion;
    let [from, wanted] = [from, to].map(|version| format!("{}/{version}", resource.group));
    for object in &mut objects {
        object["apiVersion"] = Value::from(from.as_str());
        object["kind"] = Value::from(resource.kind.as_str());
    }
    let uid = random::uid();
    let request = Request {
        uid: &uid,
        review,
        kind: &resource.kind,
        from: &from,
        to: &wanted,
    };
    let (endpoint, body) = (Endpoint::of(client), request.body(&objects));
    let called = state
        .hooks
        .call(&state.store, &endpoint, body, (TIMEOUT, AGENT));
    let mut converted = request.converted(&objects, called.await)?;
    for object in &mut converted {
        if let Some(members) = object.as_object_mut() {
            members.remove("apiVersion");
            members.remove("kind");
        }
        if let Some(schema) = schemas.get(to) {
            schemas::coerced(schema, object);
        }
    }
    Ok(converted)
}
