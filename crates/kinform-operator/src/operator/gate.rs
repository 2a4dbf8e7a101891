//! The guard of a client that is made before its election starts.
//!
//! ```text
//! request → Gate ──election started──▶ Guard → server
//!             └──not yet──▶ NotLeading
//! ```
//!
//! Upstream: no counterpart.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use kinform::source::TransportBody;
use kube_client::client::Body;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::leader::{Guard, NotLeading, Term};

/// The place of a guard that comes later.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    guard: Arc<OnceLock<Guard>>,
    lease: Arc<str>,
}

impl Gate {
    pub(super) fn new(lease: &str) -> Self {
        Self {
            guard: Arc::default(),
            lease: lease.into(),
        }
    }

    /// Sets the guard, once.
    pub(super) fn set(&self, guard: Guard) {
        let _ = self.guard.set(guard);
    }

    /// Namespace and name of the lease.
    #[cfg(feature = "inspect")]
    pub(super) fn lease(&self) -> &str {
        &self.lease
    }

    /// The term that runs now.
    pub(super) fn term(&self) -> Option<Term> {
        self.guard.get()?.term()
    }

    pub(super) fn over<S>(&self, inner: S) -> Gated<S> {
        Gated {
            inner,
            gate: self.clone(),
        }
    }
}

/// A service behind a [`Gate`].
#[derive(Clone, Debug)]
pub(super) struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<TransportBody>, Error = BoxError>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each call waits for a clone of the service.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.gate.guard.get() {
            Some(guard) => {
                let guarded = guard.layer(self.inner.clone());
                guard.fence().layer(guarded).oneshot(request).boxed()
            }
            None => {
                let refused = NotLeading::refused(&self.gate.lease);
                std::future::ready(Err(refused.into())).boxed()
            }
        }
    }
}
