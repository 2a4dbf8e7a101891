//! One request during a term: looks before it is sent, and each time that it makes progress.
//!
//! ```text
//! request ──term?──▶ timeout=REST ──▶ inner service ──▶ reply
//!            └no──▶ NotLeading          └── term over: dropped, NotLeading
//! ```
//!
//! `guard.rs` is the layer that makes it, and says what it covers.
//! INVARIANT: a request whose term is over makes no further progress: the clock is asked each time,
//! whether or not a message or a timer has come.
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
use kinform_api::mutant;
use tower::{BoxError, Service};

use super::not_leading::NotLeading;
use super::shared::{Look, Shared};

/// The service of [`Guard`](super::Guard).
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    inner: S,
    shared: Arc<Shared>,
    request_timeout: Duration,
}

impl<S> Guarded<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, request_timeout: Duration) -> Self {
        Self {
            inner,
            shared,
            request_timeout,
        }
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
        let (look, limit) = match self.admit() {
            Ok(admitted) => admitted,
            Err(refused) => return Box::pin(std::future::ready(Err(refused.into()))),
        };
        if !lasts(&request) {
            match limited(request.uri(), limit) {
                Ok(uri) => *request.uri_mut() = uri,
                Err(error) => return Box::pin(std::future::ready(Err(error.into()))),
            }
        }
        let shared = Arc::clone(&self.shared);
        let inner = self.inner.call(request);
        Box::pin(async move {
            let (mut over, mut inner) = (pin!(shared.over(&look)), pin!(inner));
            std::future::poll_fn(|cx| {
                // Its timer may be late: the clock decides, each time the request makes progress.
                let is_running = mutant!("C7") || shared.is_running(&look);
                let is_over = !is_running || over.as_mut().poll(cx).is_ready();
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
