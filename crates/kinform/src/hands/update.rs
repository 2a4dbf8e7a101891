//! Read, change, write: for objects whose fields a controller shares with others.
//!
//! ```text
//! read from the server → change(typed) → equal? no request
//!                                      → merge patch of the difference, with the version ──409──▶ again
//!                      └─ none: create ──409──▶ again
//! ```
//!
//! The change runs on the server's state, never on a cache's, and again on the newer state after a
//! conflict. Only the difference is sent, so fields that the type does not know are kept. Status is
//! not part of it. A field that the change clears and the server sets by default is a write in every
//! pass: state the default, or use an apply.
//!
//! Upstream counterpart: `controller-runtime:pkg/controller/controllerutil` (`CreateOrUpdate`,
//! `CreateOrPatch`), which reads the cache, and patches without a version.

use kube_client::Client;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::TRIES;
use super::difference::difference;
use super::place::{Form, Place, Write, invalid};
use crate::error::Error;

/// The result of a write that may not have been needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written<K> {
    /// The object is new.
    Created(K),
    /// The object was changed.
    Updated(K),
    /// The object was in the desired state: no write was sent.
    Unchanged(K),
}

impl<K> Written<K> {
    /// The object as the server has it.
    pub fn into_inner(self) -> K {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }

    /// Returns whether the server's object changed.
    pub fn is_changed(&self) -> bool {
        !matches!(self, Self::Unchanged(_))
    }
}

/// Creates `object`, changed by `change`, if the server has no object of its name; else patches the
/// server's object with the difference that `change` makes.
///
/// # Errors
/// The server refuses; `change` changes name or namespace; or other writers overtook it five times
/// ([`Error::is_conflict`]).
///
/// # Cancel safety
/// The write may have happened.
pub async fn create_or_update<K>(
    client: &Client,
    manager: &str,
    object: K,
    mut change: impl FnMut(&mut K),
) -> Result<Written<K>, Error>
where
    K: Resource + Serialize + DeserializeOwned + Clone + 'static,
    K::DynamicType: Default,
{
    let place = Place::of(&object, &K::DynamicType::default(), None)?;
    let change = |object: &mut K| {
        change(object);
        Ok(())
    };
    create_or_update_at(&place, client, manager, object, change).await
}

/// The same at a place that is known, with a change that can fail.
pub(crate) async fn create_or_update_at<K>(
    place: &Place,
    client: &Client,
    manager: &str,
    object: K,
    mut change: impl FnMut(&mut K) -> Result<(), Error>,
) -> Result<Written<K>, Error>
where
    K: Resource + Serialize + DeserializeOwned + Clone + 'static,
    K::DynamicType: Default,
{
    let mut last = None;
    for _ in 0..TRIES {
        let tried = match place.get::<K>(client).await? {
            None => {
                let mut wanted = object.clone();
                changed(place, &mut wanted, &mut change)?;
                let body = with_type::<K>(place, &wanted)?;
                place
                    .create(client, manager, &body)
                    .await
                    .map(Written::Created)
            }
            Some(known) => update(place, client, manager, known, &mut change).await,
        };
        match tried {
            Err(error) if error.is_conflict() => last = Some(error),
            done => return done,
        }
    }
    Err(last.unwrap_or_else(|| place.gone()))
}

async fn update<K>(
    place: &Place,
    client: &Client,
    manager: &str,
    known: K,
    change: &mut impl FnMut(&mut K) -> Result<(), Error>,
) -> Result<Written<K>, Error>
where
    K: Resource + Serialize + DeserializeOwned + Clone + 'static,
{
    let mut wanted = known.clone();
    changed(place, &mut wanted, change)?;
    let Some(mut patch) = difference(
        &without_status(place, &known)?,
        &without_status(place, &wanted)?,
    ) else {
        return Ok(Written::Unchanged(known));
    };
    guard(
        &mut patch,
        known.meta().uid.as_deref(),
        known.meta().resource_version.as_deref(),
    );
    let write = Write {
        verb: "update",
        subresource: None,
        form: Form::MergePatch,
        manager,
        force: false,
        body: &patch,
    };
    place.write(client, &write).await.map(Written::Updated)
}

/// Changes the object with this JSON merge patch, if it still has its uid.
///
/// # Errors
/// The server refuses.
///
/// # Cancel safety
/// The write may have happened.
pub async fn patch<K>(client: &Client, manager: &str, object: &K, patch: Value) -> Result<K, Error>
where
    K: Resource + DeserializeOwned + 'static,
    K::DynamicType: Default,
{
    let place = Place::of(object, &K::DynamicType::default(), None)?;
    let mut patch = patch;
    guard(&mut patch, object.meta().uid.as_deref(), None);
    let write = Write {
        verb: "patch",
        subresource: None,
        form: Form::MergePatch,
        manager,
        force: false,
        body: &patch,
    };
    place.write(client, &write).await
}

/// Deletes the object, if it still has its uid. Returns whether there was one.
///
/// # Errors
/// The server refuses: also if another object has the name now ([`Error::is_conflict`]).
///
/// # Cancel safety
/// The deletion may have happened.
pub async fn delete<K>(client: &Client, object: &K) -> Result<bool, Error>
where
    K: Resource + 'static,
    K::DynamicType: Default,
{
    let place = Place::of(object, &K::DynamicType::default(), None)?;
    let options = match &object.meta().uid {
        Some(uid) => json!({"preconditions": {"uid": uid}}),
        None => json!({}),
    };
    place.delete(client, &options).await
}

/// Makes a patch fail if the object is another one, or has another version.
pub(crate) fn guard(patch: &mut Value, uid: Option<&str>, version: Option<&str>) {
    let Value::Object(members) = patch else {
        return;
    };
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.extend(uid.map(|uid| ("uid".to_owned(), uid.into())));
        metadata.extend(version.map(|version| ("resourceVersion".to_owned(), version.into())));
    }
}

fn changed<K: Resource>(
    place: &Place,
    object: &mut K,
    change: &mut impl FnMut(&mut K) -> Result<(), Error>,
) -> Result<(), Error> {
    let key = (object.meta().namespace.clone(), object.meta().name.clone());
    change(object)?;
    let meta = object.meta();
    if (&meta.namespace, &meta.name) == (&key.0, &key.1) {
        return Ok(());
    }
    Err(invalid(format!(
        "{place}: a change must not change name or namespace"
    )))
}

fn with_type<K: Resource + Serialize>(place: &Place, object: &K) -> Result<Value, Error>
where
    K::DynamicType: Default,
{
    let kind = K::DynamicType::default();
    let mut body = serde_json::to_value(object).map_err(|error| place.unwritable(error))?;
    if let Value::Object(members) = &mut body {
        members.insert("apiVersion".into(), K::api_version(&kind).into());
        members.insert("kind".into(), K::kind(&kind).into());
    }
    Ok(body)
}

fn without_status<K: Serialize>(place: &Place, object: &K) -> Result<Value, Error> {
    let mut body = serde_json::to_value(object).map_err(|error| place.unwritable(error))?;
    if let Value::Object(members) = &mut body {
        members.remove("status");
    }
    Ok(body)
}
