//! A status, written when it changes.
//!
//! ```text
//! object → StatusEdit → change(..) → equal? no request
//!                                  → merge patch of status, with uid and version ──409──▶ on the fresh object
//! ```
//!
//! The change is a function of the status, so that it can run again on a newer one; the object that
//! it was decided on stays the same, so a condition observes that object's generation. Fields of
//! the status that the type does not know are kept.
//!
//! Upstream counterpart: `controller-runtime:pkg/client` (`Status().Patch`),
//! `apimachinery:pkg/api/meta/conditions.go`.

use std::fmt;
use std::ops::{Deref, DerefMut};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kinform_api::mutant;
use kube_client::Client;
use kube_core::object::HasStatus;
use kube_core::{DynamicObject, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::TRIES;
use super::conditions::{self, ConditionStatus};
use super::difference::difference;
use super::place::{Form, Place, Write, invalid};
use super::update::{Written, guard};
use crate::env::wall_clock;
use crate::error::{Error, ErrorKind};

/// A status that is being changed: derefs to the type, and knows conditions.
pub struct StatusEdit<S> {
    status: S,
    wanted: Vec<Condition>,
    removed: Vec<String>,
}

impl<S> StatusEdit<S> {
    /// Sets a condition in the list `conditions` of the status. Its time moves only if its status
    /// does; its `observedGeneration` is that of the object that is reconciled.
    pub fn condition(
        &mut self,
        type_: &str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: &str,
    ) {
        let wanted = conditions::condition(type_, status, reason, message);
        self.removed.retain(|removed| removed != type_);
        self.wanted.retain(|known| known.type_ != type_);
        self.wanted.push(wanted);
    }

    /// Removes a condition.
    pub fn remove_condition(&mut self, type_: &str) {
        self.wanted.retain(|known| known.type_ != type_);
        self.removed.push(type_.to_owned());
    }
}

impl<S> Deref for StatusEdit<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.status
    }
}

impl<S> DerefMut for StatusEdit<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.status
    }
}

impl<S> fmt::Debug for StatusEdit<S> {
    /// The conditions that it sets, never the status.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.wanted.iter().map(|condition| &condition.type_);
        f.debug_struct("StatusEdit")
            .field("conditions", &types.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Writes the status of `object` if `change` changes it: a patch of the subresource `status` that
/// names uid and version. After a conflict, `change` runs again on the newer status, five times at
/// most. Returns the status as the server has it then.
///
/// # Errors
/// - The server refuses, or the type has no such subresource.
/// - The object is gone, or another one has its name ([`Error::is_not_found`]).
/// - A condition is set, and the type has no list of conditions ([`Error::is_invalid`]).
///
/// # Cancel safety
/// The write may have happened.
pub async fn write_status<K>(
    client: &Client,
    manager: &str,
    object: &K,
    change: impl Fn(&mut StatusEdit<K::Status>),
) -> Result<Written<K::Status>, Error>
where
    K: Resource + HasStatus + 'static,
    K::DynamicType: Default,
    K::Status: Serialize + DeserializeOwned + Default,
{
    let status = match object.status() {
        Some(status) => serde_json::to_value(status),
        None => Ok(Value::Null),
    };
    let place = Place::of(object, &K::DynamicType::default(), None)?;
    let status = status.map_err(|error| place.unwritable(error))?;
    write_at(&place, client, manager, object, status, change).await
}

/// The same for types whose status kube's traits do not name: those of k8s-openapi, or any type
/// with a status of one's own choice, [`Value`] included.
///
/// # Errors
/// As [`write_status`].
///
/// # Cancel safety
/// As [`write_status`].
pub async fn write_status_as<K, S>(
    client: &Client,
    manager: &str,
    object: &K,
    change: impl Fn(&mut StatusEdit<S>),
) -> Result<Written<S>, Error>
where
    K: Resource + Serialize + 'static,
    K::DynamicType: Default,
    S: Serialize + DeserializeOwned + Default,
{
    let place = Place::of(object, &K::DynamicType::default(), None)?;
    let mut body = serde_json::to_value(object).map_err(|error| place.unwritable(error))?;
    let status = body["status"].take();
    write_at(&place, client, manager, object, status, change).await
}

async fn write_at<K: Resource, S>(
    place: &Place,
    client: &Client,
    manager: &str,
    object: &K,
    mut status: Value,
    change: impl Fn(&mut StatusEdit<S>),
) -> Result<Written<S>, Error>
where
    S: Serialize + DeserializeOwned + Default,
{
    let generation = object.meta().generation;
    let uid = object.meta().uid.clone();
    let mut version = object.meta().resource_version.clone();
    let mut last = None;
    for _ in 0..TRIES {
        let (edited, difference) = edited(place, &status, generation, &change)?;
        let difference = match difference {
            Some(difference) => difference,
            None if mutant!("K22") => json!({}),
            None => return Ok(Written::Unchanged(edited)),
        };
        let mut patch = json!({"status": difference});
        guard(&mut patch, uid.as_deref(), version.as_deref());
        let write = Write {
            verb: "write the status of",
            subresource: Some("/status"),
            form: Form::MergePatch,
            manager,
            force: false,
            body: &patch,
        };
        match place.write::<DynamicObject>(client, &write).await {
            Ok(mut written) => {
                let status = decoded(place, written.data["status"].take())?;
                return Ok(Written::Updated(status));
            }
            Err(error) if error.is_conflict() => last = Some(error),
            Err(error) => return Err(error),
        }
        let mut fresh = place
            .get::<DynamicObject>(client)
            .await?
            .ok_or_else(|| place.gone())?;
        if fresh.metadata.uid != uid {
            return Err(place.gone());
        }
        version = fresh.metadata.resource_version;
        status = fresh.data["status"].take();
    }
    Err(last.unwrap_or_else(|| place.gone()))
}

/// The status after the change, and the difference that it makes.
fn edited<S>(
    place: &Place,
    status: &Value,
    generation: Option<i64>,
    change: &impl Fn(&mut StatusEdit<S>),
) -> Result<(S, Option<Value>), Error>
where
    S: Serialize + DeserializeOwned + Default,
{
    let written = |status: &S| serde_json::to_value(status).map_err(|e| place.unwritable(e));
    let mut edit = StatusEdit {
        status: decoded::<S>(place, status.clone())?,
        wanted: Vec::new(),
        removed: Vec::new(),
    };
    // A status that is not there yet is different from its default.
    let before = match status {
        Value::Null => json!({}),
        _ => written(&edit.status)?,
    };
    change(&mut edit);
    let mut after = written(&edit.status)?;
    if after.is_null() {
        after = json!({});
    }
    let StatusEdit {
        wanted, removed, ..
    } = edit;
    if !wanted.is_empty() || !removed.is_empty() {
        let types: Vec<String> = wanted.iter().map(|one| one.type_.clone()).collect();
        put_conditions(place, &mut after, wanted, &removed, generation)?;
        // As the type has them: a field that it lacks would differ in every run.
        after = written(&decoded::<S>(place, after)?)?;
        let kept = after["conditions"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let is_kept = |type_: &String| kept.iter().any(|one| one["type"] == type_.as_str());
        if !types.iter().all(is_kept) {
            return Err(invalid(format!(
                "the status of {place} has no list of conditions: its type needs `conditions: Vec<Condition>`"
            )));
        }
    }
    let difference = difference(&before, &after);
    Ok((decoded(place, after)?, difference))
}

/// Sets and removes entries of the list; fields of an entry that [`Condition`] lacks stay.
fn put_conditions(
    place: &Place,
    status: &mut Value,
    wanted: Vec<Condition>,
    removed: &[String],
    generation: Option<i64>,
) -> Result<(), Error> {
    let Value::Object(members) = status else {
        return Err(invalid(format!("the status of {place} is no JSON object")));
    };
    let list = members.entry("conditions").or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    let Value::Array(list) = list else {
        return Err(invalid(format!("the conditions of {place} are no list")));
    };
    list.retain(|known| !removed.iter().any(|type_| known["type"] == type_.as_str()));
    for mut condition in wanted {
        condition.observed_generation = generation;
        condition.last_transition_time = Time(wall_clock());
        let known = list
            .iter()
            .position(|known| known["type"] == condition.type_.as_str());
        let mut entry = serde_json::to_value(condition).map_err(|error| place.unwritable(error))?;
        let Some(known) = known.map(|at| &mut list[at]) else {
            list.push(entry);
            continue;
        };
        if known["status"] == entry["status"] && !known["lastTransitionTime"].is_null() {
            entry["lastTransitionTime"] = known["lastTransitionTime"].take();
        }
        if let (Value::Object(known), Value::Object(entry)) = (known, entry) {
            // Conditions of built-in kinds are stored without texts that are empty.
            let is_news = |key: &String, value: &Value| value != "" || known.contains_key(key);
            let news: Vec<_> = entry
                .into_iter()
                .filter(|(key, value)| is_news(key, value))
                .collect();
            known.extend(news);
        }
    }
    Ok(())
}

fn decoded<S: DeserializeOwned + Default>(place: &Place, status: Value) -> Result<S, Error> {
    match status {
        Value::Null => Ok(S::default()),
        status => serde_json::from_value(status).map_err(|error| undecodable(place, error)),
    }
}

fn undecodable(place: &Place, error: serde_json::Error) -> Error {
    Error::new(
        ErrorKind::Decode,
        format!("the status of {place} does not decode"),
    )
    .with_cause(error)
}
