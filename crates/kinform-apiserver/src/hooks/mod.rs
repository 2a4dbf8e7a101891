//! Calls of webhooks over HTTPS, or of functions of a test.
//!
//! ```text
//! Endpoint { URL | service, bundle } + body ──address──▶ kept connection | function ──▶ body | error text
//! ```
//!
//! The body is a review in JSON and comes back as one; `admission/` and the conversion of custom
//! resources give it a meaning. Errors are in the words of Go's client, because clients see them.
//!
//! Only loopback is dialled, unless the server was told otherwise: a manifest must not make a test
//! server call into a network. A service reference is resolved by a given address, by a function, or
//! by an `ExternalName` service that leads to loopback.
//!
//! * `address.rs`: the destination of a call; `client.rs`: TLS and kept connections;
//! * `trust.rs`: which certificates a bundle trusts.
//!
//! Upstream: `kubernetes/apiserver:pkg/util/webhook/client.go`.

mod address;
mod client;
mod trust;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERER, RETRY_AFTER};
use http::{Request, Response};
use kinform_api::Status;

use self::address::Way;
use self::client::Clients;
use crate::clock;
use crate::storage::Store;

pub(crate) use self::address::Endpoint;

/// BOUND: redirects that one call follows, as Go's client.
const REDIRECTS: usize = 10;
/// BOUND: further tries of a busy webhook, as upstream's client.
const RETRIES: usize = 10;
/// The least wait before another try of a busy webhook.
const RETRY: Duration = Duration::from_secs(1);

/// A webhook that is a function of the same process.
pub(crate) type Function = Arc<
    dyn Fn(Request<Bytes>) -> Pin<Box<dyn Future<Output = Response<Bytes>> + Send>> + Send + Sync,
>;

/// The ways to webhooks.
#[derive(Default)]
pub(crate) struct Hooks {
    /// Calls addresses beyond loopback, too.
    pub(crate) anywhere: bool,
    /// The addresses of services, by `namespace/name`.
    pub(crate) services: HashMap<String, SocketAddr>,
    functions: Mutex<HashMap<String, Function>>,
    clients: Clients,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("anywhere", &self.anywhere)
            .field("services", &self.services)
            .finish_non_exhaustive()
    }
}

impl Hooks {
    /// Answers calls of a service (`namespace/name`) by a function.
    pub(crate) fn serve(&self, service: String, function: Function) {
        let mut functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        functions.insert(service, function);
    }

    /// Sends a review and returns the body of the reply.
    ///
    /// A webhook that is busy (429 or 5xx with `Retry-After`) is asked again until the time is over.
    ///
    /// # Errors
    /// The reason in the words of Go's client.
    ///
    /// # Cancel safety
    /// The call ends with its future.
    pub(crate) async fn call(
        &self,
        store: &Store,
        endpoint: &Endpoint,
        body: Bytes,
        (timeout, agent): (Duration, &'static str),
    ) -> Result<Bytes, String> {
        let until = clock::instant() + timeout;
        let seconds = timeout.as_secs_f64().ceil().max(1.0);
        let url = format!("{}?timeout={seconds}s", endpoint.url());
        let late = || format!("Post \"{url}\": context deadline exceeded");
        let calls = self.until_answered(store, endpoint, (&url, agent), body);
        match tokio::time::timeout_at(until, calls).await {
            Ok(answer) => answer,
            Err(_) => Err(late()),
        }
    }

    async fn until_answered(
        &self,
        store: &Store,
        endpoint: &Endpoint,
        (url, agent): (&str, &'static str),
        body: Bytes,
    ) -> Result<Bytes, String> {
        let failed = |why: String| format!("Post \"{url}\": {why}");
        let mut to = (
            self.way(store, endpoint).await.map_err(failed)?,
            url.to_owned(),
        );
        let (mut redirects, mut retries) = (0, 0);
        let mut referer = None;
        loop {
            let (way, url) = &to;
            let mut request = request(url, agent, body.clone())?;
            if let Some(referer) = &referer {
                request
                    .headers_mut()
                    .insert(REFERER, HeaderValue::clone(referer));
            }
            let reply = match way {
                Way::Function(function) => function(request).await,
                Way::Address(address, name) => {
                    let client = self.clients.of(*address, name, endpoint.bundle())?;
                    client
                        .send(request)
                        .await
                        .map_err(|why| format!("Post \"{url}\": {why}"))?
                }
            };
            let next = match retries < RETRIES {
                true => verdict(reply)?,
                false => final_verdict(reply)?,
            };
            match next {
                Verdict::Body(body) => return Ok(body),
                Verdict::Busy(wait) => {
                    retries += 1;
                    tokio::time::sleep(wait).await;
                }
                Verdict::Redirect(location) => {
                    redirects += 1;
                    if redirects > REDIRECTS {
                        return Err(failed(format!("stopped after {REDIRECTS} redirects")));
                    }
                    referer = HeaderValue::from_str(url).ok();
                    to = self.redirected(&to, &location).await.map_err(failed)?;
                }
            }
        }
    }
}

fn request(url: &str, agent: &'static str, body: Bytes) -> Result<Request<Bytes>, String> {
    Request::post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, */*")
        .header("user-agent", agent)
        .header("accept-encoding", "gzip")
        .body(body)
        .map_err(|error| error.to_string())
}

/// The meaning of a reply.
enum Verdict {
    Body(Bytes),
    /// Another try after this time.
    Busy(Duration),
    Redirect(String),
}

fn verdict(reply: Response<Bytes>) -> Result<Verdict, String> {
    if matches!(reply.status().as_u16(), 429 | 500..)
        && let Some(after) = header(&reply, RETRY_AFTER)
    {
        let wait = after.parse().map_or(RETRY, Duration::from_secs);
        return Ok(Verdict::Busy(wait.max(RETRY)));
    }
    final_verdict(reply)
}

fn header(reply: &Response<Bytes>, name: HeaderName) -> Option<&str> {
    let value = reply.headers().get(name)?;
    value.to_str().ok()
}

/// The meaning of a reply that is not asked for again.
fn final_verdict(reply: Response<Bytes>) -> Result<Verdict, String> {
    let code = reply.status().as_u16();
    // Of other redirects, Go's client makes a GET, which is no review.
    if let (307 | 308, Some(location)) = (code, header(&reply, LOCATION)) {
        return Ok(Verdict::Redirect(location.to_owned()));
    }
    let media = header(&reply, CONTENT_TYPE).unwrap_or_default().to_owned();
    let body = reply.into_body();
    if (200..300).contains(&code) {
        if body.is_empty() {
            return Err(format!(
                "0-length response with status code: {code} and content type: {media}"
            ));
        }
        return Ok(Verdict::Body(body));
    }
    let status = Status::from_slice(&body).filter(|status| !status.message.is_empty());
    Err(match (code, status) {
        (_, Some(status)) => status.message,
        (404, None) => "the server could not find the requested resource".to_owned(),
        (400, None) => "the server rejected our request for an unknown reason".to_owned(),
        (401, None) => "the server has asked for the client to provide credentials".to_owned(),
        (403, None) => "unknown".to_owned(),
        (500.., None) => {
            let text = String::from_utf8_lossy(&body);
            let text = text.trim();
            format!("an error on the server ({text:?}) has prevented the request from succeeding")
        }
        _ => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    })
}
