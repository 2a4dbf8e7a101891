//! One write under a hard fence, from its plan to its reply.
//!
//! ```text
//! create, update, patch          stamp ───────────────────────▶ reply
//! JSON patch                     touch ──▶ patch + stamp ─────▶ reply
//! delete                         touch ──▶ at its version ────▶ reply
//! status without a version       touch ──▶ at its version ────▶ reply
//! status with a version          as it is ──refused by the policy──▶ touch ──▶ at its version
//! ```
//!
//! A touch that fails is the reply of the write. A dry run is passed on, stamped if it can be.
//! A refusal by the policy is tried again while this term runs, until the server has seen the lease.
//!
//! Upstream has no counterpart.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use kinform::Status;
use kinform::source::TransportBody;
use kinform_api::mutant;
use kube_client::client::Body;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceExt};

use super::FenceError;
use super::place::Place;
use super::policy::is_refusal;
use super::stamp::{self, Precondition};
use crate::leader::shared::Shared;

/// BOUND: bytes of a write, of a refusal, and of an object that was touched. The server's own limit
/// is lower.
const MAX_BYTES: usize = 8 << 20;
/// The pause before a write that the policy refused is sent again.
const PAUSE: Duration = Duration::from_millis(20);
/// The field manager of touches.
const MANAGER: &str = "kinform-fence";

const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

type Reply = Response<TransportBody>;

/// Sends one write.
pub(super) struct Sender {
    pub(super) inner: BoxCloneService<Request<Body>, Reply, BoxError>,
    pub(super) shared: Arc<Shared>,
    /// The stamp: the term that ran when the write began.
    pub(super) term: String,
    pub(super) patience: Duration,
}

/// A touched object, or the reply that the write gets instead.
enum Touch {
    Stamped(Precondition),
    Failed(Reply),
}

impl Sender {
    pub(super) async fn send(mut self, request: Request<Body>) -> Result<Reply, BoxError> {
        let (head, body) = request.into_parts();
        let bytes = whole(body).await?;
        let place = Place::of(head.uri.path());
        let is_dry = has_pair(&head.uri, "dryRun=All");
        if head.method == Method::DELETE {
            return self.delete(head, bytes, place, is_dry).await;
        }
        let is_json_patch = content_type(&head) == JSON_PATCH;
        let is_status = place.subresource.as_deref() == Some("status");
        let object = place.object;
        match object.filter(|_| !is_dry && (is_json_patch || is_status)) {
            Some(object) if is_json_patch => self.json_patch(head, bytes, object, is_status).await,
            Some(object) => self.status(head, bytes, object).await,
            None if is_json_patch => self.insist(head, bytes).await,
            None => {
                let stamped = self.stamped(&head, &bytes, None)?;
                self.insist(head, stamped).await
            }
        }
    }

    /// A patch of operations, on an object that was touched.
    async fn json_patch(
        &mut self,
        head: Parts,
        bytes: Bytes,
        object: String,
        is_status: bool,
    ) -> Result<Reply, BoxError> {
        let stamped = match self
            .touch(head.clone(), object, Precondition::default())
            .await?
        {
            Touch::Stamped(stamped) => stamped,
            Touch::Failed(reply) => return Ok(reply),
        };
        let version = stamped.version.filter(|_| is_status);
        let body = parse(&bytes).and_then(|mut body| {
            stamp::append(&mut body, &self.term, version.as_deref())?;
            Ok(bytes_of(&body))
        });
        let body = body.map_err(|reason| refused(&head, reason))?;
        self.insist(head, body).await
    }

    /// A status, at a version of the stamped object.
    async fn status(
        &mut self,
        head: Parts,
        bytes: Bytes,
        object: String,
    ) -> Result<Reply, BoxError> {
        let known = parse(&bytes).map(|body| Precondition::of(&body));
        let known = known.map_err(|reason| refused(&head, reason))?;
        if known.version.is_some() {
            let stamped = self.stamped(&head, &bytes, None)?;
            let reply = self.once(head.clone(), stamped).await?;
            let (reply, is_fenced) = examined(reply).await?;
            if !is_fenced {
                return Ok(reply);
            }
        }
        match self.touch(head.clone(), object, known).await? {
            Touch::Failed(reply) => Ok(reply),
            Touch::Stamped(object) => {
                let version = object.version.filter(|_| !mutant!("L17"));
                let stamped = self.stamped(&head, &bytes, version.as_deref())?;
                self.insist(head, stamped).await
            }
        }
    }

    async fn delete(
        &mut self,
        head: Parts,
        bytes: Bytes,
        place: Place,
        is_dry: bool,
    ) -> Result<Reply, BoxError> {
        let options = match bytes.is_empty() {
            true => Value::Null,
            false => parse(&bytes).map_err(|reason| refused(&head, reason))?,
        };
        let Some(object) = place.object else {
            let path = head.uri.path().to_owned();
            return Err(FenceError::Collection { path }.into());
        };
        if is_dry || options.get("dryRun").is_some_and(|dry| !dry.is_null()) {
            return self.once(head, bytes).await;
        }
        let known = stamp::preconditions(&options);
        match self.touch(head.clone(), object, known).await? {
            Touch::Failed(reply) => Ok(reply),
            Touch::Stamped(stamped) => {
                let options = stamp::delete(options, &stamped);
                let options = options.map_err(|reason| refused(&head, reason))?;
                self.insist(head, bytes_of(&options)).await
            }
        }
    }

    /// The body of an object or of a patch that is one, with the term, at this version.
    fn stamped(
        &self,
        head: &Parts,
        bytes: &Bytes,
        version: Option<&str>,
    ) -> Result<Bytes, FenceError> {
        let stamped = parse(bytes).and_then(|mut body| {
            stamp::stamp(&mut body, &self.term)?;
            if let Some(version) = version {
                stamp::demand(&mut body, version);
            }
            Ok(bytes_of(&body))
        });
        stamped.map_err(|reason| refused(head, reason))
    }

    /// Stamps the object itself.
    async fn touch(
        &mut self,
        mut head: Parts,
        object: String,
        known: Precondition,
    ) -> Result<Touch, BoxError> {
        head.method = Method::PATCH;
        let query = format!("{object}?fieldManager={MANAGER}");
        let mut uri = head.uri.into_parts();
        uri.path_and_query = Some(query.try_into()?);
        head.uri = Uri::from_parts(uri)?;
        let json = HeaderValue::from_static("application/json");
        head.headers.insert(ACCEPT, json);
        let merge = HeaderValue::from_static(MERGE_PATCH);
        head.headers.insert(CONTENT_TYPE, merge);
        let body = bytes_of(&stamp::touch(&self.term, &known));
        let reply = self.insist(head, body).await?;
        if !reply.status().is_success() {
            return Ok(Touch::Failed(reply));
        }
        let bytes = whole(reply.into_body()).await?;
        let object: Value = serde_json::from_slice(&bytes)?;
        Ok(Touch::Stamped(Precondition::of(&object)))
    }

    /// Sends a write until the server has seen the lease of its term.
    async fn insist(&mut self, head: Parts, body: Bytes) -> Result<Reply, BoxError> {
        let end = Instant::now() + self.patience;
        loop {
            let reply = self.once(head.clone(), body.clone()).await?;
            let (reply, is_fenced) = examined(reply).await?;
            let is_current = self.shared.stamp().as_ref() == Some(&self.term);
            if !is_fenced || !is_current || Instant::now() >= end {
                return Ok(reply);
            }
            sleep(PAUSE).await;
        }
    }

    fn once(&self, mut head: Parts, body: Bytes) -> BoxFuture<'static, Result<Reply, BoxError>> {
        head.headers.remove(CONTENT_LENGTH);
        let request = Request::from_parts(head, Body::from(body));
        self.inner.clone().oneshot(request).boxed()
    }
}

/// Returns whether a reply is a refusal of the policy; the reply is whole again.
async fn examined(reply: Reply) -> Result<(Reply, bool), BoxError> {
    if reply.status() != StatusCode::FORBIDDEN {
        return Ok((reply, false));
    }
    let (head, body) = reply.into_parts();
    let bytes = whole(body).await?;
    let status = Status::from_slice(&bytes);
    let is_fenced = status.is_some_and(|status| is_refusal(&status.message));
    let body = Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync();
    Ok((Response::from_parts(head, body), is_fenced))
}

/// Reads a body to its end.
async fn whole<B>(body: B) -> Result<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let body = body.map_err(std::io::Error::other);
    match Limited::new(body, MAX_BYTES).collect().await {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) => Err(error),
    }
}

fn parse(bytes: &Bytes) -> Result<Value, &'static str> {
    serde_json::from_slice(bytes).map_err(|_| "it is no JSON")
}

fn bytes_of(body: &Value) -> Bytes {
    body.to_string().into()
}

fn refused(head: &Parts, reason: &str) -> FenceError {
    FenceError::Body {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        reason: reason.to_owned(),
    }
}

fn content_type(head: &Parts) -> &str {
    let value = head.headers.get(CONTENT_TYPE);
    let text = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

fn has_pair(uri: &Uri, pair: &str) -> bool {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .any(|found| found == pair)
}
