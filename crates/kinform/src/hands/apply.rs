//! Server-side apply of an object that a controller declares.
//!
//! ```text
//! object + owner + manager → checked, stripped → PATCH apply?fieldManager=..&force → the stored object
//!                                           └─ would change nothing: no request (`applied.rs`)
//! ```
//!
//! An apply owns each field that it sends, and gives up each field that it sent before and does not
//! send now. So no field may be in it that its author did not mean: nulls, status and the server's
//! fields are left out, and an object that was read from a server is refused, since it has the
//! fields of everybody else.
//!
//! Upstream counterpart: `client-go:applyconfigurations`, `controller-runtime:pkg/client` (`Apply`).

use std::fmt;
use std::future::IntoFuture;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_client::Client;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::applied::Memory;
use super::difference::without_nulls;
use super::owner::{Owner, controlled_by_another, set_controller_in};
use super::place::{Form, Place, Scoped, Write, has_namespace, invalid, scope_of};
use crate::error::{Error, ErrorKind};

/// Fields of metadata that only the server sets.
const SERVERS: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Applies an object when it is awaited.
#[must_use = "an object is applied when this is awaited"]
pub struct Apply<'a, K: Resource> {
    client: Result<Client, Error>,
    object: &'a K,
    kind: K::DynamicType,
    manager: String,
    owner: Owned,
    default_namespace: Option<String>,
    force: bool,
    memory: Option<Memory>,
}

/// The owner that the applied object gets.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Nobody,
    By(Owner),
    /// By an object that is gone.
    ByMissing(String),
}

impl<'a, K: Resource + 'static> Apply<'a, K> {
    /// An apply of `object` as the field manager `manager`, by force and without an owner.
    pub fn new(client: Client, manager: impl Into<String>, object: &'a K) -> Self
    where
        K::DynamicType: Default,
    {
        Self::of_kind(
            Ok(client),
            manager.into(),
            object,
            K::DynamicType::default(),
        )
    }

    pub(crate) fn of_kind(
        client: Result<Client, Error>,
        manager: String,
        object: &'a K,
        kind: K::DynamicType,
    ) -> Self {
        Self {
            client,
            object,
            kind,
            manager,
            owner: Owned::Nobody,
            default_namespace: None,
            force: true,
            memory: None,
        }
    }

    /// An owner, and the namespace of an object that names none.
    pub(crate) fn of_owner(mut self, owner: Owned, namespace: Option<&str>) -> Self {
        self.owner = owner;
        self.default_namespace = namespace.map(str::to_owned);
        self
    }

    /// Not sent if it would change nothing, or if another owner controls the object.
    pub(crate) fn remembering(mut self, memory: Option<Memory>) -> Self {
        self.memory = memory;
        self
    }

    /// Makes `owner` the controlling owner.
    pub fn owned_by(mut self, owner: Owner) -> Self {
        self.owner = Owned::By(owner);
        self
    }

    /// Sets no owner.
    pub fn without_owner(mut self) -> Self {
        self.owner = Owned::Nobody;
        self
    }

    /// Fails with a conflict ([`Error::is_conflict`]) if another manager owns a field with another
    /// value, instead of taking the field over.
    pub fn without_force(mut self) -> Self {
        self.force = false;
        self
    }

    /// Applies as another field manager: one for each purpose, the same for ever.
    pub fn manager(mut self, manager: impl Into<String>) -> Self {
        self.manager = manager.into();
        self
    }

    /// The place and the body of the request.
    fn prepared(&self) -> Result<(Place, Value), Error>
    where
        K: Serialize,
    {
        let place = Place::of(self.object, &self.kind, self.default_namespace.as_deref())?;
        let meta = self.object.meta();
        if meta.managed_fields.is_some() || meta.resource_version.is_some() {
            return Err(invalid(format!(
                "{place} was read from a server: an apply of it would own the fields of all others; build the object anew with the fields that this controller decides"
            )));
        }
        let mut body =
            serde_json::to_value(self.object).map_err(|error| place.unwritable(error))?;
        without_nulls(&mut body);
        let Value::Object(members) = &mut body else {
            return Err(invalid(format!("{place} is no JSON object")));
        };
        members.insert("apiVersion".into(), K::api_version(&self.kind).into());
        members.insert("kind".into(), K::kind(&self.kind).into());
        members.remove("status");
        let mut meta = meta.clone();
        if has_namespace::<K>() && meta.namespace.is_none() {
            meta.namespace.clone_from(&self.default_namespace);
        }
        match &self.owner {
            Owned::By(owner) if self.is_owner_itself(owner, meta.namespace.as_deref()) => {}
            Owned::By(owner) => {
                let namespace = match scope_of::<K>() {
                    Scoped::Cluster => None,
                    Scoped::Namespace | Scoped::AsStated => meta.namespace.clone(),
                };
                set_controller_in(&mut meta, namespace.as_deref(), owner)?;
            }
            Owned::ByMissing(key) => {
                let message = format!("{place} cannot be owned by {key}, which is gone");
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            Owned::Nobody => {}
        }
        let mut metadata = serde_json::to_value(&meta).map_err(|error| place.unwritable(error))?;
        if let Value::Object(members) = &mut metadata {
            members.retain(|key, value| !SERVERS.contains(&key.as_str()) && !value.is_null());
        }
        members.insert("metadata".into(), metadata);
        Ok((place, body))
    }

    /// A controller that applies fields to its own primary object does not own it.
    fn is_owner_itself(&self, owner: &Owner, namespace: Option<&str>) -> bool {
        let name = self.object.meta().name.as_deref();
        owner.kind == K::kind(&self.kind)
            && owner.api_version.split('/').next() == K::api_version(&self.kind).split('/').next()
            && name == Some(&owner.name)
            && namespace == owner.namespace.as_deref()
    }
}

impl<'a, K> IntoFuture for Apply<'a, K>
where
    K: Resource + Serialize + DeserializeOwned + 'static,
{
    type Output = Result<K, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let prepared = self.prepared();
        let Self {
            client,
            manager,
            force,
            memory,
            owner,
            ..
        } = self;
        async move {
            let (place, body) = prepared?;
            let client = client?;
            let sending = memory
                .as_ref()
                .and_then(|memory| memory.sending(&place, &manager, force, &body));
            let remembered = memory.as_ref().zip(sending);
            if let Some((memory, sending)) = remembered
                && let Some(object) = memory.elided(&place, sending)
            {
                return Ok(object);
            }
            if let (Some(memory), Owned::By(owner)) = (&memory, &owner)
                && let Some(other) = memory.other_controller(&place, owner)
            {
                return Err(controlled_by_another(&place.to_string(), &other, owner));
            }
            let write = Write {
                verb: "apply",
                subresource: None,
                form: Form::Apply,
                manager: &manager,
                force,
                body: &body,
            };
            let written = place.write::<K>(&client, &write).await;
            if let (Some((memory, sending)), Ok(object)) = (remembered, &written) {
                memory.answered(sending, object.meta());
            }
            written.map_err(|error| owned_by_another(&place, error))
        }
        .boxed()
    }
}

/// The error of an apply that would make a second controlling owner.
///
/// The server merges the references of all managers, so only it can know.
fn owned_by_another(place: &Place, error: Error) -> Error {
    // The words of the server: apimachinery:pkg/api/validation (`ValidateOwnerReferences`).
    let is_second = error.http_code() == Some(422)
        && error
            .to_string()
            .contains("can have Controller set to true");
    if !is_second {
        return error;
    }
    let message = format!("{place} is controlled by another owner");
    Error::new(ErrorKind::Owned, message).with_cause(error)
}

impl<K: Resource> fmt::Debug for Apply<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apply")
            .field("name", &self.object.meta().name)
            .field("manager", &self.manager)
            .field("owner", &self.owner)
            .field("force", &self.force)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube_core::DynamicObject;
    use kube_core::discovery::ApiResource;

    use super::*;

    #[test]
    fn a_dynamic_object_without_a_namespace_gets_none_from_the_key() {
        let kind = ApiResource::erase::<Namespace>(&());
        let object = DynamicObject::new("n", &kind);
        let apply = Apply::of_kind(Err(invalid("no client")), "m".into(), &object, kind);
        let (_, body) = apply.of_owner(Owned::Nobody, Some("a")).prepared().unwrap();
        assert_eq!(body["metadata"], serde_json::json!({"name": "n"}));
    }
}
