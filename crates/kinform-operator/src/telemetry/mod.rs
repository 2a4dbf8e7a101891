//! Metrics in Prometheus' text formats.
//!
//! ```text
//! controllers, informers, client, lease, process, the user's registry → scrape → text
//! ```
//!
//! Names, labels and buckets are upstream's where upstream has the metric, so that dashboards work
//! unchanged; ours begin with `kinform_`. Numbers are read at the scrape.
//!
//! `crate::access` decides who may scrape over HTTPS.
//!
//! Upstream counterpart: `controller-runtime:pkg/metrics`.

pub(crate) mod controllers;
pub(crate) mod family;
pub(crate) mod informers;
pub(crate) mod process;
pub(crate) mod requests;
mod text;
#[cfg(feature = "webhook")]
pub(crate) mod webhooks;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use prometheus_client::registry::Registry;

use self::family::{Source, Sources};
use self::text::{Format, classic};

/// The path of the metrics.
const PATH: &str = "/metrics";

/// Everything that is scraped.
#[derive(Clone, Default)]
pub(crate) struct Telemetry(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    sources: Vec<Arc<dyn Source>>,
    users: Registry,
}

impl Telemetry {
    pub(crate) fn add(&self, source: Arc<dyn Source>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.sources.push(source);
    }

    /// Lets the user register metrics of its own.
    pub(crate) fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).users);
    }

    /// Replies to a request of the metrics' port.
    pub(crate) fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "404 page not found\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        }
        let accept = request.headers().get(ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        let format = Format::negotiate(accept.unwrap_or_default());
        match self.scrape() {
            Ok(text) => {
                let body = match format {
                    Format::OpenMetrics => text,
                    Format::Classic => classic(&text),
                };
                let mut response = Response::new(Bytes::from(body));
                let content_type = HeaderValue::from_static(format.content_type());
                response.headers_mut().insert(CONTENT_TYPE, content_type);
                response
            }
            Err(std::fmt::Error) => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "a metric cannot be encoded\n",
            ),
        }
    }

    fn scrape(&self) -> Result<String, std::fmt::Error> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ours = Registry::default();
        ours.register_collector(Box::new(Sources(inner.sources.clone())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode_registry(&mut text, &ours)?;
        prometheus_client::encoding::text::encode_registry(&mut text, &inner.users)?;
        prometheus_client::encoding::text::encode_eof(&mut text)?;
        Ok(text)
    }
}

fn plain(status: StatusCode, body: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(body.as_bytes()));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
