//! One call of the user's function, with all types but the context's erased.
//!
//! ```text
//! key → object of the cache → gone? on_gone → decoded → finalizer's step → reconcile → Ended
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/reconcile` (`AsReconciler`).

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;

use super::action::{Action, Ctx};
use super::feed::Feed;
use super::finalizing::{Finalizing, Step};
use super::outcome::BoxError;
use super::sieve::Sieve;
use super::worker::{Call, Ended, record_version};

/// A user's function for deleted objects.
pub(super) type OnGone<C> =
    Arc<dyn Fn(Ctx<C>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync>;

/// The parts of a call.
pub(super) struct Caller<K, C> {
    pub(super) feed: Arc<dyn Feed<K>>,
    pub(super) on_gone: Option<OnGone<C>>,
    pub(super) finalizing: Option<Arc<Finalizing<K, C>>>,
    pub(super) sieve: Arc<Sieve>,
}

impl<K: Send + Sync + 'static, C: Send + Sync + 'static> Caller<K, C> {
    /// The call of a function of the decoded object.
    pub(super) fn typed<F, R, E>(self, reconcile: F) -> Call<C>
    where
        K: DeserializeOwned + Any,
        F: Fn(Arc<K>, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let Self {
            feed,
            on_gone,
            finalizing,
            sieve,
        } = self;
        let reconcile = Arc::new(reconcile);
        Arc::new(move |mut ctx| {
            let Some(object) = feed.get(ctx.key()) else {
                return match &on_gone {
                    Some(on_gone) => ended(on_gone(ctx)),
                    None => Box::pin(async { Ended::Gone }),
                };
            };
            record_version(object.resource_version());
            let typed = match object.typed() {
                Ok(typed) => typed,
                // It decodes again once there is room in the memory budget, and nothing tells of that.
                Err(error) if error.is_given_up() => {
                    return Box::pin(async move { Ended::Failed(error.into()) });
                }
                Err(error) => return Box::pin(async move { Ended::Undecodable(error.into()) }),
            };
            ctx.object = Some(object.cast());
            let Some(finalizing) = &finalizing else {
                return ended(reconcile(typed, ctx));
            };
            let (finalizing, sieve) = (Arc::clone(finalizing), Arc::clone(&sieve));
            let reconcile = Arc::clone(&reconcile);
            Box::pin(async move {
                match finalizing.step(&object, typed, &ctx, &sieve).await {
                    Step::Reconcile(typed) => ended(reconcile(typed, ctx)).await,
                    Step::End(end) => end,
                }
            })
        })
    }

    /// The call of a function of the bare key.
    pub(super) fn keys<F, R, E>(self, reconcile: F) -> Call<C>
    where
        F: Fn(kinform_api::ObjectKey, Ctx<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let feed = self.feed;
        Arc::new(move |mut ctx| {
            ctx.object = feed.get(ctx.key()).map(|object| object.cast());
            ended(reconcile(ctx.key().clone(), ctx))
        })
    }
}

/// Awaits a reconcile and makes its result an [`Ended`]. `Work::process` catches a panic.
fn ended<R, E>(reconciling: R) -> BoxFuture<'static, Ended>
where
    R: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<BoxError>,
{
    Box::pin(async move {
        match reconciling.await {
            Ok(action) => Ended::Done(action),
            Err(error) => Ended::Failed(error.into()),
        }
    })
}
