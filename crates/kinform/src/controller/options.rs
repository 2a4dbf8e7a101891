//! Options of a controller about its identity, its events and its finalizer.
//!
//! ```text
//! Controller ──named, client, filter, finalizer──▶ Controller
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/builder` (`Named`, `WithEventFilter`),
//! `controller-runtime:pkg/finalizer`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;

use super::Controller;
use super::action::Ctx;
use super::echo::Echoes;
use super::elision::Elides;
use super::finalizing::{Cleanup, Finalizing};
use super::outcome::BoxError;
use super::predicate::Predicate;
use crate::error::{Error, ErrorKind};
use crate::events::EventRecorder;

/// The argument of the reconcile function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Object,
    Key,
}

impl<K: Send + Sync + 'static, C: Send + Sync + 'static> Controller<K, C> {
    /// Sets the controller's name, for logs and as its field manager. Default: the kind in lower
    /// case.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.naming.controller = Some(name.into());
        self
    }

    /// Sets the name of the program, which is then a part of the field manager:
    /// `OPERATOR/CONTROLLER`. Default: none.
    #[doc(alias = "WithFieldOwner")]
    pub fn operator_name(mut self, name: impl Into<String>) -> Self {
        self.naming.operator = Some(name.into());
        self
    }

    /// Sets the recorder of events that the controller itself writes: about keys whose reconciles
    /// start each other, and fields that two writers set by turns. Default: none; an operator gives
    /// its own.
    pub fn events(mut self, events: EventRecorder) -> Self {
        self.naming.events = Some(events);
        self
    }

    /// Lets the event of a write queue no key whose own reconcile made that write: the reply has told
    /// it. Default: they queue keys as other events do.
    ///
    /// An event is ignored only if its version is certainly an own write, made through
    /// [`Ctx::client`] or a method of [`Ctx`]: the write created or deleted the object, or it stated
    /// the version that it changed, as [`Ctx::status`] does. A server-side apply may change nothing and
    /// is then answered with the version of another writer, so the event of an apply that updates is
    /// heard.
    pub fn ignore_own_echo(mut self) -> Self {
        self.echoes = Echoes::Ignored;
        self
    }

    /// Sets the client that [`Ctx`] writes with. Default: the client of the informer.
    pub fn client(mut self, client: Client) -> Self {
        self.naming.client = Some(client);
        self
    }

    /// Reconciles only for events of the primary resource that `predicate` accepts; of several
    /// filters, all must. Events of owned and watched objects are not filtered.
    ///
    /// The controller does not see a hidden event; its next run for that key sees the newest state.
    /// [`predicate`](crate::predicate) describes the events that each predicate hides.
    #[doc(alias = "WithEventFilter")]
    pub fn filter(self, predicate: Predicate) -> Self {
        self.sieve.add(predicate);
        self
    }

    /// Refuses deletes through [`Ctx`] while the controller's view is older than `limit`, those of
    /// collections included. Each asks as [`Ctx::require_fresh`] does. [`Ctx::delete`] then needs an
    /// object with a uid, so that no namesake is deleted. Default: deletes need no fresh view.
    ///
    /// A refused delete was not sent. Its error is [`Error::is_stale`], within the error of
    /// kube-client for requests of [`Ctx::client`].
    pub fn destructive_needs_fresh(mut self, limit: Duration) -> Self {
        self.view.set_destructive_limit(limit);
        self
    }

    /// Sends each apply, also one that would change nothing: see [`Ctx::apply`].
    pub fn without_elided_applies(mut self) -> Self {
        self.elides = Elides::Nothing;
        self
    }

    /// Fails if the controller has a finalizer that it cannot keep: without objects or a client.
    pub(super) fn keeps_finalizer(&self, argument: Argument) -> Result<(), Error> {
        if self.finalizing.is_none() {
            return Ok(());
        }
        if argument == Argument::Key {
            let message = "a controller of bare keys keeps no finalizer: use `run`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.naming.client.is_none() && self.primary.client().is_none() {
            let message = "a finalizer needs a client: set one with `Controller::client`";
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(())
    }

    /// Keeps the finalizer `name` on every object, and calls `cleanup` when the object is deleted.
    ///
    /// The finalizer is stored before the first reconcile of an object, which goes on with the
    /// object that has it; the event of that write starts no further reconcile. While the object is
    /// being deleted, `cleanup` is called instead of the reconcile function, again after each error,
    /// until it succeeds; then the finalizer is removed. `cleanup` returns `Ok(())`, or
    /// [`Cleanup::NotYet`] to be called again later. It must not fail because the work was done
    /// before: it can be called again after it succeeded. An object that is gone meanwhile is no
    /// error. Only for [`run`](Self::run).
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kinform::{Action, Controller, Ctx, Error, Informer};
    /// async fn cleanup(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<(), Error> {
    ///     // .. remove what the cluster's garbage collector cannot know.
    ///     Ok(())
    /// }
    /// # async fn reconcile(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Error> { Ok(Action::await_change()) }
    /// # async fn example(maps: Informer<ConfigMap>) -> Result<(), Error> {
    /// Controller::of(&maps).finalizer("example.com/cleanup", cleanup).run(reconcile).await
    /// # }
    /// ```
    pub fn finalizer<F, R, T, E>(mut self, name: impl Into<String>, cleanup: F) -> Self
    where
        F: Fn(Arc<K>, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<Cleanup>,
        E: Into<BoxError>,
    {
        let cleanup = Arc::new(move |object, ctx| {
            let cleanup = cleanup(object, ctx);
            Box::pin(async move { cleanup.await.map(Into::into).map_err(Into::into) }) as _
        });
        self.finalizing = Some(Finalizing {
            name: name.into(),
            cleanup,
        });
        self
    }
}
