//! Counts of the requests that a client sends.
//!
//! ```text
//! request → Counting → server → code → rest_client_requests_total{code, method, host}
//! ```
//!
//! It is the innermost service of a client, so that each try counts. A request without a reply has
//! the code `<error>`, as upstream's.
//!
//! Upstream counterpart: `controller-runtime:pkg/metrics/client_go_adapter.go`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tower::{BoxError, Service};

use super::family::{Family, Labels, Source};

/// BOUND: combinations of code, method and host. Servers choose the codes; beyond it they are
/// counted as one.
const MAX_SERIES: usize = 1_000;

/// The counters of a client, shared with the service that counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(Arc<Mutex<BTreeMap<Series, u64>>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    code: String,
    method: String,
    host: String,
}

impl Requests {
    fn count(&self, code: String, (method, host): (String, String)) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut series = Series { code, method, host };
        if counts.len() >= MAX_SERIES && !counts.contains_key(&series) {
            let other = || "other".to_owned();
            series = Series {
                code: other(),
                method: other(),
                host: other(),
            };
        }
        *counts.entry(series).or_default() += 1;
    }

    /// Wraps the service of a client.
    pub(crate) fn counting<S>(&self, inner: S) -> Counting<S> {
        Counting {
            inner,
            requests: self.clone(),
        }
    }
}

impl Source for Requests {
    fn families(&self) -> Vec<Family> {
        let mut total = Family::counter(
            "rest_client_requests_total",
            "Requests by code, method and host.",
        );
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (Series { code, method, host }, count) in counts.iter() {
            let labels: Labels = vec![
                ("code", code.clone()),
                ("method", method.clone()),
                ("host", host.clone()),
            ];
            total.count(&labels, *count);
        }
        vec![total]
    }
}

/// Counts the replies of a service.
#[derive(Clone, Debug)]
pub(crate) struct Counting<S> {
    inner: S,
    requests: Requests,
}

impl<S, A, B> Service<Request<A>> for Counting<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let host = request.uri().authority().map(ToString::to_string);
        let about = (request.method().to_string(), host.unwrap_or_default());
        let requests = self.requests.clone();
        let reply = self.inner.call(request);
        reply
            .inspect(move |reply| {
                let code = reply
                    .as_ref()
                    .map(|reply| reply.status().as_str().to_owned());
                requests.count(code.unwrap_or_else(|_| "<error>".to_owned()), about);
            })
            .boxed()
    }
}
