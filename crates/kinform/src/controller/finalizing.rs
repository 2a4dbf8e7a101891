//! The finalizer of a controller: stored before the first reconcile, removed after the cleanup.
//!
//! ```text
//! object without it          → add (tests uid and list) → reconcile the object as stored
//! object deleted, with it    → cleanup → remove → done
//! object deleted, without it → done: others finish
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/finalizer`, `kube-runtime:finalizer`, both of which
//! end the run after the add.

use std::sync::{Arc, LazyLock};

use futures::future::BoxFuture;
use kinform_api::FieldPath;
use kube_core::PartialObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::action::{Action, Ctx};
use super::outcome::BoxError;
use super::sieve::Sieve;
use super::worker::Ended;
use crate::hands::Place;
use crate::hands::finalizer::{Change, Known, Settled, settle};
use crate::object::Obj;

/// The result of a cleanup that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// All is cleaned up: the finalizer is removed.
    Done,
    /// It is under way: the cleanup is called again as the action says.
    NotYet(Action),
}

impl From<()> for Cleanup {
    fn from((): ()) -> Self {
        Self::Done
    }
}

type CleanupFn<K, C> =
    Arc<dyn Fn(Arc<K>, Ctx<C>) -> BoxFuture<'static, Result<Cleanup, BoxError>> + Send + Sync>;

/// A finalizer with its cleanup.
pub(super) struct Finalizing<K, C> {
    pub(super) name: String,
    pub(super) cleanup: CleanupFn<K, C>,
}

/// The next step for an object with a finalizer.
pub(super) enum Step<K> {
    /// The object has its finalizer: reconcile it.
    Reconcile(Arc<K>),
    End(Ended),
}

/// An object as it is stored, and its version.
struct Stored<K> {
    object: K,
    version: String,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Stored<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = serde_json::Value::deserialize(deserializer)?;
        let version = value["metadata"]["resourceVersion"].as_str();
        Ok(Self {
            version: version.unwrap_or_default().to_owned(),
            object: serde_json::from_value(value).map_err(D::Error::custom)?,
        })
    }
}

impl<K: 'static> Finalizing<K, ()> {
    /// The same in a controller with a context: the cleanup was set before it.
    pub(super) fn with_context<C: Send + Sync + 'static>(self) -> Finalizing<K, C> {
        let cleanup = self.cleanup;
        Finalizing {
            name: self.name,
            cleanup: Arc::new(move |object, ctx| cleanup(object, ctx.without_context())),
        }
    }
}

impl<K: DeserializeOwned, C> Finalizing<K, C> {
    /// Does what the finalizer needs before, or instead of, a reconcile.
    pub(super) async fn step(
        &self,
        object: &Obj<K>,
        typed: Arc<K>,
        ctx: &Ctx<C>,
        sieve: &Sieve,
    ) -> Step<K> {
        let known = known(object);
        let is_there = known.finalizers.contains(&self.name);
        match (known.is_terminating, is_there) {
            (false, true) => Step::Reconcile(typed),
            (true, false) => Step::End(Ended::Done(Action::await_change())),
            (false, false) => self.add(typed, known, ctx, sieve).await,
            (true, true) => Step::End(self.clean_up(typed, known, ctx).await),
        }
    }

    async fn add(&self, typed: Arc<K>, known: Known, ctx: &Ctx<C>, sieve: &Sieve) -> Step<K> {
        match self.settled::<Stored<K>>(Change::Add, known, ctx).await {
            Ok(Settled::Written(stored)) => {
                sieve.wrote(ctx.key(), &stored.version);
                Step::Reconcile(Arc::new(stored.object))
            }
            // The cache lags behind: its next event brings the object with the finalizer.
            Ok(Settled::Already) => Step::Reconcile(typed),
            Ok(Settled::Terminating | Settled::Gone) => {
                Step::End(Ended::Done(Action::await_change()))
            }
            Err(error) => Step::End(Ended::Failed(error)),
        }
    }

    async fn clean_up(&self, typed: Arc<K>, known: Known, ctx: &Ctx<C>) -> Ended {
        match (self.cleanup)(typed, ctx.clone()).await {
            Ok(Cleanup::Done) => {}
            Ok(Cleanup::NotYet(action)) => return Ended::Done(action),
            Err(error) => return Ended::Failed(error),
        }
        match self
            .settled::<PartialObjectMeta>(Change::Remove, known, ctx)
            .await
        {
            Ok(_) => Ended::Done(Action::await_change()),
            Err(error) => Ended::Failed(error),
        }
    }

    async fn settled<T: DeserializeOwned>(
        &self,
        change: Change,
        known: Known,
        ctx: &Ctx<C>,
    ) -> Result<Settled<T>, BoxError> {
        let client = ctx.client()?;
        let (key, site) = (ctx.key(), &ctx.site);
        let place = Place::new(&site.resource.resource, key.namespace(), key.name());
        let settled = settle(&place, &client, &site.manager, &self.name, change, known).await;
        Ok(settled?)
    }
}

fn known<K>(object: &Obj<K>) -> Known {
    static FINALIZERS: LazyLock<FieldPath> = LazyLock::new(|| {
        let path = "metadata.finalizers[*]".parse();
        path.expect("the path is a literal")
    });
    // Of a raw object: metadata is always there.
    let finalizers = object.raw().at(&FINALIZERS);
    Known {
        uid: object.uid().to_owned(),
        finalizers: finalizers.into_iter().map(Into::into).collect(),
        is_terminating: object.is_terminating(),
    }
}
