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
use http::Request;
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

impl<S, B> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Into<BoxError>,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each call waits for a clone of the service.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.gate.guard.get() {
            Some(guard) => guard.layer(self.inner.clone()).oneshot(request).boxed(),
            None => {
                let refused = NotLeading::refused(&self.gate.lease);
                std::future::ready(Err(refused.into())).boxed()
            }
        }
    }
}
