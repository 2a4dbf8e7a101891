//! Informers as the feed of a controller.
//!
//! ```text
//! Informer<K> → Feed<K> (its handlers, its cache, its state) → Controller
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/builder` (`For`, `Owns`, `Watches`).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kinform_api::ObjectKey;
use kube_client::Client;

use super::Controller;
use super::feed::{Enqueue, Feed, Hear, Heard, Holder, Listening};
use crate::error::Error;
use crate::handler::Handlers;
use crate::informer::{Informer, Registration};
use crate::object::Obj;
use crate::source::ResourceInfo;

impl<K: Send + Sync + 'static> Controller<K> {
    /// A controller that reconciles the objects of `informer`. The informer's factory starts the
    /// informer, not the controller.
    #[doc(alias = "For")]
    pub fn of(informer: &Informer<K>) -> Self {
        let mut controller = Self::over(Arc::new(informer.clone()));
        controller.view.add(informer.cores());
        controller
    }
}

impl<K: Send + Sync + 'static, C: Send + Sync + 'static> Controller<K, C> {
    /// Reconciles the controlling owner of an object of `informer` when that changes or is gone.
    #[doc(alias = "handleObject")]
    pub fn owns<T: Send + Sync + 'static>(mut self, informer: &Informer<T>) -> Self {
        self.view.add(informer.cores());
        self.owns_feed(Arc::new(informer.clone()))
    }

    /// Reconciles the keys that `keys_of` returns for an object of `informer` when that changes or
    /// is gone; at a change, for the old and for the new state. A key may come with a
    /// [`Priority`](crate::Priority). The function runs where handlers run: it must not block.
    pub fn watches<T, I>(
        mut self,
        informer: &Informer<T>,
        keys_of: impl Fn(&Obj<T>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + Sync + 'static,
        I: IntoIterator<Item: Into<Enqueue>>,
    {
        self.view.add(informer.cores());
        self.watches_feed(Arc::new(informer.clone()), keys_of)
    }
}

impl<K: Send + Sync + 'static> Feed<K> for Informer<K> {
    fn resource(&self) -> &ResourceInfo {
        self.resource()
    }

    fn get(&self, key: &ObjectKey) -> Option<Obj<K>> {
        self.get(key)
    }

    fn all(&self) -> Vec<Obj<K>> {
        self.list().to_objs()
    }

    fn listen(
        &self,
        hear: Hear<K>,
        resync_period: Option<Duration>,
    ) -> Result<Box<dyn Listening>, Error> {
        let [added, updated, deleted, resynced, ended] = [(); 5].map(|()| Arc::clone(&hear));
        let mut handlers = Handlers::new();
        if let Some(period) = resync_period {
            handlers = handlers.resync_period(period);
        }
        let handlers = handlers
            .named("controller")
            .on_add(move |object| {
                let initial = object.is_initial();
                added(Heard::Added { object, initial });
            })
            .on_update(move |old, new| updated(Heard::Updated { old, new }))
            .on_delete(move |object| deleted(Heard::Deleted(object)))
            .on_resync(move |object| resynced(Heard::Resynced(object)))
            .on_batch_end(move || ended(Heard::BatchEnd));
        Ok(Box::new(self.add_handler(handlers)?))
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Error>> {
        let informer = self.clone();
        Box::pin(async move { informer.synced().await })
    }

    fn stopped(&self) -> BoxFuture<'static, ()> {
        let informer = self.clone();
        Box::pin(async move { drop(informer.state_when(|state| state.is_stopped()).await) })
    }

    fn client(&self) -> Option<Client> {
        self.client()
    }

    fn holder(&self) -> Holder {
        let cores = self.cores().clone();
        Arc::new(move |key| cores.holder(key))
    }
}

impl Listening for Registration {
    fn heard_first(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.synced().map(drop))
    }

    fn remove(self: Box<Self>) {
        // One poll removes them; waiting for the call under way is not needed, since the queue
        // refuses its key.
        let _ = (*self).remove().now_or_never();
    }
}
