//! A finalizer on an object: added before there is anything to clean up, removed afterwards.
//!
//! ```text
//! uid + list as known → JSON patch {test uid, test list, replace} ──refused──▶ read, decide again
//!                     → Stored(object) | Gone
//! ```
//!
//! The patch tests uid and list, so it never overwrites another writer's finalizer and never
//! touches an object that has the name of the one meant. An object that is gone is no error. To one
//! that is being deleted no finalizer is added: the server forbids it.
//!
//! Upstream counterpart: `controller-runtime:pkg/finalizer`, `kube-runtime:finalizer`.

use kinform_api::mutant;
use kube_client::Client;
use kube_core::{ObjectMeta, PartialObjectMeta, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::TRIES;
use super::place::{Form, Place, Write, invalid};
use crate::error::Error;

/// The state of an object that decides about its finalizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) uid: String,
    pub(crate) finalizers: Vec<String>,
    pub(crate) is_terminating: bool,
}

/// The result of adding or removing a finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled<T> {
    /// It was written; the object as it is stored.
    Written(T),
    /// It was so already.
    Already,
    /// It cannot be added: the object is being deleted.
    Terminating,
    /// The object is gone, or another one has its name.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Remove,
}

/// Adds the finalizer `name` to the object, unless it is being deleted. Finalizers of others stay.
///
/// A controller does this by itself: [`Controller::finalizer`](crate::Controller::finalizer).
///
/// # Errors
/// The object has no uid: it was not read from a server; the server refuses; or other writers
/// overtook it five times.
///
/// # Cancel safety
/// The write may have happened.
#[doc(alias = "AddFinalizer")]
pub async fn add<K>(
    client: &Client,
    manager: &str,
    object: &K,
    name: &str,
) -> Result<Settled<K>, Error>
where
    K: Resource + DeserializeOwned + 'static,
    K::DynamicType: Default,
{
    settle_object(client, manager, object, name, Change::Add).await
}

/// Removes the finalizer `name` from the object, all copies of it. Finalizers of others stay; the
/// last one is the end of an object that is being deleted.
///
/// # Errors
/// As [`add`].
///
/// # Cancel safety
/// The write may have happened.
#[doc(alias = "RemoveFinalizer")]
pub async fn remove<K>(
    client: &Client,
    manager: &str,
    object: &K,
    name: &str,
) -> Result<Settled<K>, Error>
where
    K: Resource + DeserializeOwned + 'static,
    K::DynamicType: Default,
{
    settle_object(client, manager, object, name, Change::Remove).await
}

/// The same for an object that the caller has.
async fn settle_object<K>(
    client: &Client,
    manager: &str,
    object: &K,
    name: &str,
    change: Change,
) -> Result<Settled<K>, Error>
where
    K: Resource + DeserializeOwned + 'static,
    K::DynamicType: Default,
{
    let place = Place::of(object, &K::DynamicType::default(), None)?;
    let meta = object.meta();
    let Some(uid) = meta.uid.clone() else {
        return Err(invalid(format!(
            "{place} has no uid: it was not read from a server"
        )));
    };
    let known = Known::of(uid, meta);
    settle(&place, client, manager, name, change, known).await
}

impl Known {
    fn of(uid: String, meta: &ObjectMeta) -> Self {
        Self {
            uid,
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            is_terminating: meta.deletion_timestamp.is_some(),
        }
    }
}

/// Adds the finalizer to the object, or removes it.
pub(crate) async fn settle<T: DeserializeOwned>(
    place: &Place,
    client: &Client,
    manager: &str,
    finalizer: &str,
    change: Change,
    mut known: Known,
) -> Result<Settled<T>, Error> {
    let uid = known.uid.clone();
    let mut last = None;
    for _ in 0..TRIES {
        let is_there = known.finalizers.iter().any(|name| name == finalizer);
        match change {
            Change::Add if is_there => return Ok(Settled::Already),
            Change::Remove if !is_there => return Ok(Settled::Already),
            Change::Add if known.is_terminating => return Ok(Settled::Terminating),
            Change::Add | Change::Remove => {}
        }
        let body = patch(&known, finalizer, change);
        let write = Write {
            verb: match change {
                Change::Add => "add a finalizer to",
                Change::Remove => "remove a finalizer of",
            },
            subresource: None,
            form: Form::JsonPatch,
            manager,
            force: false,
            body: &body,
        };
        match place.write(client, &write).await {
            Ok(object) => return Ok(Settled::Written(object)),
            Err(error) if error.is_not_found() => return Ok(Settled::Gone),
            // A test that fails is 422; a version that changed between the server's read and write 409.
            Err(error) if error.is_conflict() || error.http_code() == Some(422) => {
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
        let Some(fresh) = place.get::<PartialObjectMeta>(client).await? else {
            return Ok(Settled::Gone);
        };
        if fresh.metadata.uid.as_ref() != Some(&uid) {
            return Ok(Settled::Gone);
        }
        known = Known::of(uid.clone(), &fresh.metadata);
    }
    Err(last.unwrap_or_else(|| place.gone()))
}

/// A patch that fails unless uid and finalizers are as known.
fn patch(known: &Known, finalizer: &str, change: Change) -> Value {
    let path = "/metadata/finalizers";
    let list = &known.finalizers;
    // A list that is not there equals null.
    let tested = if list.is_empty() {
        Value::Null
    } else {
        json!(list)
    };
    let others = list.iter().filter(|name| *name != finalizer).cloned();
    let mut wanted: Vec<String> = others.collect();
    if change == Change::Add {
        wanted.push(finalizer.to_owned());
    }
    let write = match wanted.is_empty() {
        true => json!({"op": "remove", "path": path}),
        false => json!({"op": "add", "path": path, "value": wanted}),
    };
    let mut patch = Vec::new();
    if !mutant!("K21") {
        patch.push(json!({"op": "test", "path": "/metadata/uid", "value": known.uid}));
    }
    if !mutant!("K20") {
        patch.push(json!({"op": "test", "path": path, "value": tested}));
    }
    patch.push(write);
    patch.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_tests_what_it_was_decided_on() {
        // controller-runtime: finalizer_test.go, controllerutil_test.go (AddFinalizer, RemoveFinalizer)
        let write = |list: &[&str], change| {
            let known = Known {
                uid: "u".into(),
                finalizers: list.iter().map(|&name| name.into()).collect(),
                is_terminating: false,
            };
            let mut patch = patch(&known, "x/y", change);
            assert_eq!(
                patch[0],
                json!({"op": "test", "path": "/metadata/uid", "value": "u"})
            );
            (
                patch[1]["value"].take(),
                patch[2]["op"].take(),
                patch[2]["value"].take(),
            )
        };
        let null = Value::Null;
        for (list, change, expected) in [
            (
                &[][..],
                Change::Add,
                (null.clone(), json!("add"), json!(["x/y"])),
            ),
            (
                &["a"],
                Change::Add,
                (json!(["a"]), json!("add"), json!(["a", "x/y"])),
            ),
            (
                &["x/y"],
                Change::Remove,
                (json!(["x/y"]), json!("remove"), null),
            ),
            (
                &["x/y", "a", "x/y"],
                Change::Remove,
                (json!(["x/y", "a", "x/y"]), json!("add"), json!(["a"])),
            ),
        ] {
            assert_eq!(write(list, change), expected, "{list:?} {change:?}");
        }
    }
}
