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

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::UPGRADE;
use http::uri::PathAndQuery;
use http::{Request, Uri};
use kinform::source::{ClientOptions, client_through, client_with};
use kinform_api::mutant;
use kube_client::{Client, Config};
use tower::layer::layer_fn;
use tower::{BoxError, Layer, Service};

use kinform_core::election::Term;

use super::fence::Fence;
use super::not_leading::NotLeading;
use super::shared::{Look, Shared};
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

/// The service of [`Guard`].
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    inner: S,
    guard: Guard,
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

    /// A look at the term, and the time that a request has.
    fn admit(&self) -> Result<(Look, Duration), NotLeading> {
        let look = self.shared.look();
        let limits =
            look.map(|look| (look, self.request_timeout.min(look.ends_at.since(look.now))));
        // A timeout of 0 ms would be no limit for the server.
        let admitted = limits.filter(|(_, limit)| *limit >= Duration::from_millis(1));
        admitted.ok_or_else(|| NotLeading::refused(&self.shared.lease))
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        let guard = self.clone();
        Guarded { inner, guard }
    }
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (look, limit) = match self.guard.admit() {
            Ok(admitted) => admitted,
            Err(refused) => return Box::pin(std::future::ready(Err(refused.into()))),
        };
        if !lasts(&request) {
            match limited(request.uri(), limit) {
                Ok(uri) => *request.uri_mut() = uri,
                Err(error) => return Box::pin(std::future::ready(Err(error.into()))),
            }
        }
        let shared = Arc::clone(&self.guard.shared);
        let inner = self.inner.call(request);
        Box::pin(async move {
            let (mut over, mut inner) = (pin!(shared.over(&look)), pin!(inner));
            std::future::poll_fn(|cx| {
                // Its timer may be late: the clock decides, each time the request makes progress.
                let is_over = !shared.is_running(&look) || over.as_mut().poll(cx).is_ready();
                if is_over && !mutant!("L11") {
                    return Poll::Ready(Err(NotLeading::dropped(&shared.lease).into()));
                }
                inner.as_mut().poll(cx).map_err(Into::into)
            })
            .await
        })
    }
}

/// Returns whether a request lasts as long as its client wants: watches, followed logs, upgrades.
fn lasts<B>(request: &Request<B>) -> bool {
    let mut pairs = pairs(request.uri());
    request.headers().contains_key(UPGRADE)
        || pairs.any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true" | "follow=1"))
}

/// The same address, with this timeout.
fn limited(uri: &Uri, limit: Duration) -> Result<Uri, http::Error> {
    let kept = pairs(uri).filter(|pair| !pair.starts_with("timeout=") && !pair.is_empty());
    let mut text = format!("{}?", uri.path());
    for pair in kept {
        text.push_str(pair);
        text.push('&');
    }
    text.push_str(&format!("timeout={}ms", limit.as_millis()));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text)?);
    Ok(Uri::from_parts(parts)?)
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_added_to_any_address_and_replaces_another() {
        let limit = Duration::from_micros(1_500_900);
        for (from, to) in [
            ("/a", "/a?timeout=1500ms"),
            ("/a?", "/a?timeout=1500ms"),
            ("/a?b=c&d=%20", "/a?b=c&d=%20&timeout=1500ms"),
            ("/a?timeout=30s&b=c", "/a?b=c&timeout=1500ms"),
            ("/a?timeoutSeconds=3", "/a?timeoutSeconds=3&timeout=1500ms"),
            ("https://h:1/a?b=c", "https://h:1/a?b=c&timeout=1500ms"),
        ] {
            let uri = limited(&from.parse().unwrap(), limit).unwrap();
            assert_eq!(uri.to_string(), to);
        }
    }

    #[test]
    fn watches_logs_that_are_followed_and_upgrades_last() {
        let request = |uri: &str| Request::get(uri).body(()).unwrap();
        assert!(lasts(&request("/a?watch=true")));
        assert!(lasts(&request("/a?b=c&watch=1")));
        assert!(lasts(&request("/log?follow=true")));
        assert!(!lasts(&request("/a?watch=false")));
        assert!(!lasts(&request("/a?fieldSelector=watch%3Dtrue")));
        assert!(!lasts(&request("/a")));
        let mut exec = request("/exec");
        exec.headers_mut()
            .insert(UPGRADE, "websocket".parse().unwrap());
        assert!(lasts(&exec));
    }
}
