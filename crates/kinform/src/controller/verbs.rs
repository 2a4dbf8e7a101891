//! The writes of a reconcile function, as methods of its context.
//!
//! ```text
//! Ctx (key, object, client, field manager) + what is wanted → hands → the stored object
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/client`, `pkg/controller/controllerutil`.

use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_core::Resource;
use kube_core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::action::Ctx;
use crate::error::{Error, ErrorKind};
use crate::hands::owner::{Owner, set_controller};
use crate::hands::{
    self, Apply, Owned, Place, StatusEdit, Written, create_or_update_at, write_status,
    write_status_as,
};
use crate::source::ResourceInfo;

impl<C> Ctx<C> {
    /// The client of the controller: the one given to it, else its informer's. The controller's
    /// caches have the writes made through it when this key is reconciled next, see
    /// [`Controller::without_own_writes`](super::Controller::without_own_writes).
    ///
    /// It is made when it is asked for first in a run; the runtime then has a task for it.
    ///
    /// # Errors
    /// It was given none, and its informer reads from a source of the program's own
    /// ([`Error::is_config`]).
    pub fn client(&self) -> Result<Client, Error> {
        let client = self.site.client.as_ref();
        let client = client.map(|client| self.writer.client(&self.key, client, &self.site.view));
        client.ok_or_else(|| {
            let message = format!(
                "the controller {:?} has no client: give it one with `Controller::client`",
                self.site.name
            );
            Error::new(ErrorKind::Config, message)
        })
    }

    /// Shows that the controller's caches have everything that the server had `limit` ago; with zero,
    /// everything that it has at this call. For decisions that an old view would make wrong: a
    /// delete, the creation of something that must exist once.
    ///
    /// The server is asked if that is not known: one list of one item a cache, whoever waits. The
    /// cache of a resource that does not change gets to the server's version by a short watch, in
    /// about a second. A cache gets there within 5 s, or this is an error. That a watch is alive
    /// proves nothing: it may lag.
    ///
    /// ```no_run
    /// # use std::{sync::Arc, time::Duration};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kinform::{Action, Ctx, Error};
    /// async fn reconcile(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Error> {
    ///     cx.require_fresh(Duration::from_secs(10)).await?;
    ///     // .. decide on the caches ..
    ///     Ok(Action::await_change())
    /// }
    /// ```
    ///
    /// # Errors
    /// A cache was not shown to be fresh in time ([`Error::is_stale`]): returned from the reconcile
    /// function, it retries the key in a second and counts as no failure. Or a cache is stopped, or
    /// the versions of its server have no order ([`Error::is_invalid`]).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn require_fresh(&self, limit: Duration) -> Result<(), Error> {
        self.site.view.require_fresh(limit).await
    }

    /// The primary resource.
    #[must_use]
    pub fn resource(&self) -> &ResourceInfo {
        &self.site.resource
    }

    /// The controller's name.
    #[must_use]
    pub fn controller_name(&self) -> &str {
        &self.site.name
    }

    /// The field manager of the controller's writes.
    #[must_use]
    pub fn field_manager(&self) -> &str {
        &self.site.manager
    }

    /// The object of the key as an owner of others.
    ///
    /// # Errors
    /// The object is gone ([`Error::is_not_found`]).
    pub fn owner(&self) -> Result<Owner, Error> {
        self.owner_or_key().map_err(|key| {
            let message = format!("{} {key} is gone and cannot own", self.site.resource.kind);
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// Applies `object` (server-side apply) as the controller's field manager, by force: it gets
    /// exactly the fields of `object` from this controller. The object of the key becomes the
    /// controlling owner of `object`. If `object` states no namespace, it gets the key's. Nulls,
    /// status and the fields that only the server sets are not sent. Returns the object as the server
    /// has it then.
    ///
    /// An apply that would change nothing is not sent: this term applied the same bytes, and a
    /// cache of the controller has the object with the uid, generation (without one, the version),
    /// labels, annotations, owners and finalizers that were answered then. Returns the object as
    /// that cache has it, without `managedFields`. See
    /// [`Controller::without_elided_applies`](super::Controller::without_elided_applies).
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use kinform::{Action, Ctx, Error};
    /// # fn secret_for(map: &ConfigMap) -> Secret { Secret::default() }
    /// async fn reconcile(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Error> {
    ///     cx.apply(&secret_for(&map)).await?;
    ///     Ok(Action::await_change())
    /// }
    /// ```
    ///
    /// # Errors
    /// - `object` was read from a server, has no name, or cannot be owned by the object of the key:
    ///   one of a namespace owns objects of that namespace only ([`Error::is_invalid`]). See
    ///   [`Apply::without_owner`].
    /// - Another owner controls it ([`Error::is_owned_by_another`]), by `object`'s own references, a
    ///   cache of the controller or the server's. To the server all objects of a controller are one
    ///   field manager: that two of them name one child is found in the cache alone.
    /// - The object of the key is gone ([`Error::is_not_found`]).
    /// - The controller has no client, or the server refuses.
    ///
    /// # Cancel safety
    /// The write may have happened.
    pub fn apply<'a, K: Resource + 'static>(&self, object: &'a K) -> Apply<'a, K>
    where
        K::DynamicType: Default,
    {
        self.apply_as(object, K::DynamicType::default())
    }

    /// The same for an object whose type is known at run time. A `DynamicObject` must state its
    /// namespace, if it has one.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_as<'a, K: Resource + 'static>(
        &self,
        object: &'a K,
        kind: K::DynamicType,
    ) -> Apply<'a, K> {
        let owner = match self.owner_or_key() {
            Ok(owner) => Owned::By(owner),
            Err(key) => Owned::ByMissing(key),
        };
        let elisions = self.site.elisions.as_ref();
        let memory = elisions.map(|elisions| elisions.memory(&self.key));
        Apply::of_kind(self.client(), self.site.manager.clone(), object, kind)
            .of_owner(owner, self.key.namespace())
            .remembering(memory)
    }

    /// Brings the object with the name of `object` into the state that `change` makes of it, owned
    /// by the object of the key: creates what `change` makes of `object` if there is none, patches
    /// what differs otherwise. It is read from the server.
    ///
    /// # Errors
    /// As [`create_or_update`](crate::create_or_update) and [`owner`](Self::owner); and another
    /// owner controls it, or its owner is forbidden, as of [`apply`](Self::apply).
    ///
    /// # Cancel safety
    /// The write may have happened.
    pub async fn create_or_update<K>(
        &self,
        object: K,
        mut change: impl FnMut(&mut K) + Send,
    ) -> Result<Written<K>, Error>
    where
        K: Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        let (client, owner) = (self.client()?, self.owner()?);
        let mut object = object;
        let kind = K::DynamicType::default();
        let place = Place::of(&object, &kind, self.key.namespace())?;
        if hands::has_namespace::<K>() && object.meta().namespace.is_none() {
            object.meta_mut().namespace = self.key.namespace().map(str::to_owned);
        }
        let change = move |object: &mut K| {
            change(object);
            set_controller(object, &owner).map(drop)
        };
        let manager = &self.site.manager;
        let written = create_or_update_at(&place, &client, manager, object, change).await?;
        if let Written::Unchanged(object) = &written {
            let (resource, _) = place.object();
            self.writer.found(&self.key, resource, object.meta());
        }
        Ok(written)
    }

    /// Changes an object with this JSON merge patch, if it still has its uid.
    ///
    /// # Errors
    /// The server refuses.
    ///
    /// # Cancel safety
    /// The write may have happened.
    pub async fn patch<K>(&self, object: &K, patch: Value) -> Result<K, Error>
    where
        K: Resource + DeserializeOwned + Sync + 'static,
        K::DynamicType: Default,
    {
        hands::patch(&self.client()?, &self.site.manager, object, patch).await
    }

    /// Deletes an object, if it still has its uid. Returns whether there was one.
    ///
    /// # Errors
    /// - The server refuses: also if another object has the name now ([`Error::is_conflict`]).
    /// - The view must be fresh for it, and is not ([`Error::is_stale`]), or `object` has no uid
    ///   ([`Error::is_invalid`]): see
    ///   [`Controller::destructive_needs_fresh`](super::Controller::destructive_needs_fresh).
    ///
    /// # Cancel safety
    /// The deletion may have happened.
    pub async fn delete<K>(&self, object: &K) -> Result<bool, Error>
    where
        K: Resource + Sync + 'static,
        K::DynamicType: Default,
    {
        let client = self.client()?;
        if self.site.view.destructive_limit().is_some() && object.meta().uid.is_none() {
            let message =
                "an object without a uid may be another one by now: delete one that was read";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        hands::delete(&client, object).await
    }

    /// Writes the status of `object` if `change` changes it, and only what changes. After a
    /// conflict, `change` runs again on the newer status. Conditions observe the generation of
    /// `object`.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use kinform::{Action, Ctx, Error};
    /// # use kube_core::{Resource, object::HasStatus};
    /// # #[derive(Default, serde::Serialize, serde::Deserialize)]
    /// # struct FooStatus { available_replicas: i32 }
    /// # async fn example<Foo>(foo: Arc<Foo>, cx: Ctx<()>) -> Result<(), Error>
    /// # where Foo: HasStatus<Status = FooStatus> + Resource<DynamicType = ()> + Send + Sync + 'static {
    /// cx.status(&foo, |status| {
    ///     status.available_replicas = 3;
    ///     status.condition("Ready", true, "Available", "all replicas are available");
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`write_status`].
    ///
    /// # Cancel safety
    /// The write may have happened.
    pub async fn status<K>(
        &self,
        object: &Arc<K>,
        change: impl Fn(&mut StatusEdit<K::Status>) + Send + Sync,
    ) -> Result<Written<K::Status>, Error>
    where
        K: Resource + HasStatus + Send + Sync + 'static,
        K::DynamicType: Default,
        K::Status: Serialize + DeserializeOwned + Default + Send,
    {
        write_status(&self.client()?, &self.site.manager, &**object, change).await
    }

    /// The same for a type of k8s-openapi, or with a type of one's own for the status:
    /// `|status: &mut StatusEdit<DeploymentStatus>| ..`.
    ///
    /// # Errors
    /// As [`write_status`].
    ///
    /// # Cancel safety
    /// The write may have happened.
    pub async fn status_as<K, S>(
        &self,
        object: &Arc<K>,
        change: impl Fn(&mut StatusEdit<S>) + Send + Sync,
    ) -> Result<Written<S>, Error>
    where
        K: Resource + Serialize + Send + Sync + 'static,
        K::DynamicType: Default,
        S: Serialize + DeserializeOwned + Default + Send,
    {
        write_status_as(&self.client()?, &self.site.manager, &**object, change).await
    }

    /// The owner, or the key of an object that is gone.
    fn owner_or_key(&self) -> Result<Owner, String> {
        let object = self.object.as_ref().ok_or_else(|| self.key.to_string())?;
        let kind = self.site.resource.type_meta();
        Ok(Owner {
            api_version: kind.api_version,
            kind: kind.kind,
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            namespace: object.namespace().map(str::to_owned),
            blocks_deletion: true,
        })
    }
}
