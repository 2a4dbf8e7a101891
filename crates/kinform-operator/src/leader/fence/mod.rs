//! The hard fence: the server refuses the writes of an older term.
//!
//! ```text
//! write ──plan──▶ stamped with the term ──────────────────────────▶ Guard ──▶ server + FencePolicy
//!          ├─ delete, JSON patch: touch (a patch of the stamp) first ─▶ at the version that it made
//!          └─ status: at its version; touched if the server asks ─────▶ 403 if the term is old
//! ```
//!
//! The guard's look does not cover a process that is frozen between the look and the first byte. With
//! this layer, each write carries its term in the annotation [`TERM_ANNOTATION`], and an admission
//! policy ([`FencePolicy`]) compares it with the lease. A delete and the status of a custom resource
//! carry no annotation: the object does, and their version is that of the stamped object.
//!
//! INVARIANT: a request is stamped before the guard looks, so its stamp is never of a later term than
//! the look.
//! INVARIANT: nothing that the layer cannot fence is sent: it is a [`FenceError`].
//!
//! The policy refuses a term that the server has not seen yet, too: such a write is sent again.
//!
//! `place` reads the path of a request, `stamp` changes bodies, `policy` is the server's side.
//!
//! Upstream has no counterpart.

mod place;
mod policy;
mod send;
mod stamp;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::UPGRADE;
use http::{Method, Request, Response};
use kinform::source::TransportBody;
use kube_client::client::Body;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer, Service};

pub use self::policy::{FencePolicy, TERM_ANNOTATION};

use super::shared::Shared;

/// A write that a hard fence cannot cover. It was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A collection is deleted: its objects have no version in common.
    #[error("under a hard fence, objects are deleted one by one: {path}")]
    Collection {
        /// The path of the collection.
        path: String,
    },
    /// The body is no JSON object with metadata, and no JSON patch.
    #[error("a hard fence cannot write the term into this body ({reason}): {method} {path}")]
    Body {
        /// The method of the request.
        method: String,
        /// Its path.
        path: String,
        /// The reason.
        reason: String,
    },
}

/// The layer above a guard. Without a hard fence it passes all requests on.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    shared: Arc<Shared>,
    /// The time that the server has to see a new lease; `None` without a hard fence.
    patience: Option<Duration>,
}

impl Fence {
    pub(super) fn new(shared: Arc<Shared>, patience: Option<Duration>) -> Self {
        Self { shared, patience }
    }
}

/// The service of [`Fence`].
#[derive(Clone, Debug)]
pub(crate) struct Fenced<S> {
    inner: S,
    fence: Fence,
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        let fence = self.clone();
        Fenced { inner, fence }
    }
}

/// Returns whether a request writes an object; streams into a pod do not.
fn writes(request: &Request<Body>) -> bool {
    let is_read = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    let streams = ["exec", "attach", "portforward", "proxy"];
    let subresource = place::Place::of(request.uri().path()).subresource;
    let is_stream = subresource.is_some_and(|name| streams.contains(&name.as_str()));
    !is_read && !is_stream && !request.headers().contains_key(UPGRADE)
}

impl<S> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>, Response = Response<TransportBody>, Error = BoxError>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let term = self.fence.shared.stamp();
        let (Some(patience), Some(term)) = (self.fence.patience, term) else {
            // Outside of a term the guard refuses it.
            return self.inner.call(request).boxed();
        };
        if !writes(&request) {
            return self.inner.call(request).boxed();
        }
        // The service that is ready is used; its place is taken by a clone.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        let shared = Arc::clone(&self.fence.shared);
        let sender = send::Sender {
            inner: BoxCloneService::new(inner),
            shared,
            term,
            patience,
        };
        sender.send(request).boxed()
    }
}
