//! Lets requests pass only during a term.
//!
//! ```text
//! request ──term?──▶ timeout=REST ──▶ inner service ──▶ reply
//!            └no──▶ NotLeading          └── term over: dropped, NotLeading
//! ```
//!
//! The layer belongs as near to the connections as possible: below limiter, credentials and retries,
//! so that a request that waited is looked at again. Further up it is safe, too, since it looks
//! whenever the request makes progress, but for `timeout=`, which is then counted from earlier.
//!
//! The server ends a request after `timeout=`: the rest of the term, and the request timeout of the
//! lease at most. So a request of a lost term is over before another process leads.
//!
//! Not covered: a process that is frozen between the last look and the first byte, and a server or
//! proxy that holds a request back before it counts the timeout. A hard fence covers both.
//!
//! Upstream has no counterpart.

use std::sync::Arc;
use std::time::Duration;

use kinform::source::{ClientOptions, client_through, client_with};
use kube_client::{Client, Config};
use tower::Layer;
use tower::layer::layer_fn;

use kinform_core::election::Term;

use super::fence::Fence;
use super::guarded::Guarded;
use super::shared::Shared;
use crate::error::Error;
use crate::settings::Fencing;

/// A layer that lets requests pass only during a term: see
/// [`Leadership::guard`](super::Leadership::guard). The layer alone does not stamp writes for a hard
/// fence; [`client`](Self::client) and [`over`](Self::over) do.
#[derive(Clone, Debug)]
pub struct Guard {
    shared: Arc<Shared>,
    request_timeout: Duration,
    fencing: Fencing,
}

impl Guard {
    pub(super) fn new(shared: Arc<Shared>, request_timeout: Duration, fencing: Fencing) -> Self {
        Self {
            shared,
            request_timeout,
            fencing,
        }
    }

    /// The layer of the hard fence; it belongs directly above the guard.
    pub(crate) fn fence(&self) -> Fence {
        let patience = (self.fencing == Fencing::Hard).then_some(self.request_timeout);
        Fence::new(Arc::clone(&self.shared), patience)
    }

    /// A client for `config` that sends requests during a term only. Must be called inside a tokio
    /// runtime, which then owns its connections.
    ///
    /// The guard is below limiter and credentials: they have no part in the time of `timeout=`.
    ///
    /// # Errors
    /// The certificates or credentials in `config` cannot be used.
    pub fn client(&self, config: Config, options: &ClientOptions) -> Result<Client, Error> {
        let fenced = |transport| self.fence().layer(self.layer(transport));
        Ok(client_with(config, options, layer_fn(fenced))?)
    }

    /// A client that sends its requests through `client` during a term only. Must be called inside a
    /// tokio runtime, which then has a task for it.
    ///
    /// # Order guarantees
    /// The guard is above limiter and credentials of `client`. A request that waits there is dropped
    /// at the end of the term, too, but its `timeout=` was counted before it waited.
    pub fn over(&self, client: &Client) -> Client {
        let fenced = |transport| self.fence().layer(self.layer(transport));
        client_through(client, layer_fn(fenced))
    }

    /// The term that runs now, by the clock.
    pub fn term(&self) -> Option<Term> {
        self.shared.term()
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded::new(inner, Arc::clone(&self.shared), self.request_timeout)
    }
}
