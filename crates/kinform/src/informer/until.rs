//! Waiting until an object of the cache is in a state.
//!
//! ```text
//! key + condition on Option<Obj> → look ──false──▶ the next publication of the store → look
//!                                   └──true──▶ the object of that look
//! ```
//!
//! Reads the cache alone: no request, no timer but the deadline. A state that came and went between
//! two looks is not seen.
//!
//! Upstream counterpart: `kube-runtime:wait` (`await_condition`), which opens a watch for each wait
//! and has no deadline.
//! Complexity: one look-up for each publication of the informer.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kinform_api::{FieldPath, ObjectKey, PathSegment};

use super::own_writes::when;
use super::{Core, Informer};
use crate::error::{Error, ErrorKind};
use crate::object::Obj;

/// Waits until a condition holds, when it is awaited.
#[must_use = "this waits when it is awaited"]
pub struct Until<K, F> {
    informer: Informer<K>,
    key: ObjectKey,
    condition: F,
}

impl<K> Informer<K> {
    /// Waits until `condition` holds of the object of this key as the cache has it; `None` is an
    /// object that the cache does not have, also before the first list. See the module
    /// [`until`](crate::until) for conditions.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use kinform::{Informer, ObjectKey, until};
    /// # async fn example(deployments: Informer<Deployment>, key: ObjectKey) -> Result<(), kinform::Error> {
    /// let available = until::condition("Available", "True");
    /// deployments.until(&key, available).within(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The informer is stopped before.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[doc(alias = "await_condition")]
    pub fn until<F>(&self, key: &ObjectKey, condition: F) -> Until<K, F>
    where
        F: FnMut(Option<&Obj<K>>) -> bool,
    {
        Until {
            informer: self.clone(),
            key: key.clone(),
            condition,
        }
    }
}

impl<K, F> Until<K, F>
where
    K: Send + Sync + 'static,
    F: FnMut(Option<&Obj<K>>) -> bool + Send + 'static,
{
    /// Waits no longer than `limit`. Returns the object of which the condition holds; `None` if it
    /// holds of its absence.
    ///
    /// # Errors
    /// The time ended first ([`Error::is_timeout`]), or the informer is stopped.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn within(self, limit: Duration) -> Result<Option<Obj<K>>, Error> {
        let env = self.informer.env();
        let deadline = env.now() + limit;
        let (key, resource) = (self.key.clone(), self.informer.resource().to_string());
        tokio::select! {
            biased;
            found = self.into_future() => found,
            () = env.sleep_until(deadline) => {
                let message = format!("{resource}: {key} did not meet the condition within {limit:?}");
                Err(Error::new(ErrorKind::TimedOut, message))
            }
        }
    }
}

impl<K, F> IntoFuture for Until<K, F>
where
    K: Send + Sync + 'static,
    F: FnMut(Option<&Obj<K>>) -> bool + Send + 'static,
{
    type Output = Result<Option<Obj<K>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            informer,
            key,
            mut condition,
        } = self;
        async move {
            let mut found = None;
            let watched = || -> Vec<Arc<Core>> {
                let members = informer.cores().members();
                members
                    .iter()
                    .map(|member| Arc::clone(&member.core))
                    .collect()
            };
            let is_so = |_: &[Arc<Core>]| {
                let object = informer.get(&key);
                let holds = condition(object.as_ref());
                found = object.filter(|_| holds);
                Ok(holds)
            };
            when(informer.cores().changed(), watched, is_so).await?;
            Ok(found)
        }
        .boxed()
    }
}

impl<K, F> fmt::Debug for Until<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The object exists.
pub fn exists<K>() -> impl FnMut(Option<&Obj<K>>) -> bool + Send + Clone + 'static {
    |object| object.is_some()
}

/// The object with this uid is gone: there is none, or another one has its name.
pub fn gone<K>(
    uid: impl Into<String>,
) -> impl FnMut(Option<&Obj<K>>) -> bool + Send + Clone + 'static {
    let uid = uid.into();
    move |object| object.is_none_or(|object| object.uid() != uid)
}

/// The condition of this type in `status.conditions` has this status: `True`, `False` or `Unknown`.
///
/// The condition is read from the stored bytes; each condition of the list needs a type and a
/// status, as the API requires. A cache that may
/// [give up](crate::InformerBuilder::reducible_to) `status.conditions` does not tell it of an object that lost
/// them.
pub fn condition<K>(
    type_: impl Into<String>,
    status: impl Into<String>,
) -> impl FnMut(Option<&Obj<K>>) -> bool + Send + Clone + 'static {
    let (type_, status) = (type_.into(), status.into());
    let [types, statuses] = ["type", "status"].map(|member| {
        let field = |name: &str| PathSegment::Field(name.to_owned());
        let path = [
            field("status"),
            field("conditions"),
            PathSegment::Each,
            field(member),
        ];
        FieldPath::new(path).expect("four segments are a path")
    });
    move |object| {
        let Some(object) = object else { return false };
        // Nothing is known of an object that lost them: its next state has them.
        let (Ok(types), Ok(statuses)) = (object.at(&types), object.at(&statuses)) else {
            return false;
        };
        types.len() == statuses.len()
            && types
                .iter()
                .zip(&statuses)
                .any(|(known, is)| *known == type_ && *is == status)
    }
}
