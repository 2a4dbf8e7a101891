//! Logs of containers: the text that tests register, read as a kubelet serves it, or else the log
//! that the node's kubelet serves.
//!
//! ```text
//! append(namespace, pod, container, text) ──▶ lines with times ──since, tail, limit──▶ text/plain, maybe followed
//! GET /containerLogs/NAMESPACE/POD/CONTAINER?.. of the kubelet ──▶ text/plain | its refusal as a Status
//! ```
//!
//! A follower keeps a position in the lines and has no queue: a follower that falls behind the kept
//! lines skips the discarded ones. It ends with its pod, with the container's last line, and with
//! the server.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/rest/log.go`, `pkg/apis/core/validation`
//! (`ValidatePodLogOptions`), `pkg/kubelet/kuberuntime/logs`.

use std::sync::Arc;

use bytes::Bytes;
use form_urlencoded::Serializer;
use futures::stream::{self, StreamExt};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use jiff::{SignedDuration, Timestamp};
use kinform_api::{FieldError, GroupKind, Status, StatusDetails, reason};
use serde_json::Value;
use tokio::sync::watch;

use super::kubelet::Way;
use super::{Act, kubelet};
use crate::http::body::Body;
use crate::http::query::Query;
use crate::http::reply;
use crate::kubelets::Failure;
use crate::object::text;
use crate::state::State;
use crate::state::pod_logs::Key;
use crate::state::pod_logs::Run;
use crate::storage::Shelf;
use crate::storage::committer::Marks;

/// Options of a request for a log.
#[derive(Debug, Default)]
struct LogOptions {
    container: String,
    follow: bool,
    previous: bool,
    with_times: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    limit: Option<usize>,
    /// The same for a kubelet.
    parameters: String,
}

impl LogOptions {
    fn read(query: &Query, pod: &str, now: Timestamp) -> Result<Self, Box<Status>> {
        let number = |name: &str| match query.text(name) {
            "" => Ok(None),
            text => text.parse::<i64>().map(Some).map_err(|_| {
                let message = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
                Box::new(Status::bad_request(message))
            }),
        };
        let flag = |name| query.flag(name).unwrap_or(false);
        let (tail, limit) = (number("tailLines")?, number("limitBytes")?);
        let seconds = number("sinceSeconds")?;
        let time = match query.text("sinceTime") {
            "" => None,
            text => Some(text.parse::<Timestamp>().map_err(|error| {
                Box::new(Status::bad_request(format!(
                    "parsing time {text:?}: {error}"
                )))
            })?),
        };
        let mut errors = Vec::new();
        if let Some(tail) = tail.filter(|tail| *tail < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("tailLines", tail, detail));
        }
        let positive = "must be greater than 0";
        if let Some(limit) = limit.filter(|limit| *limit < 1) {
            errors.push(FieldError::invalid("limitBytes", limit, positive));
        }
        if seconds.is_some() && time.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", detail));
        } else if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
            errors.push(FieldError::invalid("sinceSeconds", seconds, positive));
        }
        if !query.text("stream").is_empty() {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        if !errors.is_empty() {
            let kind = GroupKind::new("", "PodLogOptions");
            return Err(Box::new(Status::invalid(&kind, pod, &errors)));
        }
        let ago = |seconds| {
            now.checked_sub(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::MIN)
        };
        let size = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            container: query.text("container").to_owned(),
            follow: flag("follow"),
            previous: flag("previous"),
            with_times: flag("timestamps"),
            since: time.or(seconds.map(ago)),
            tail: tail.map(size),
            limit: limit.map(size),
            parameters: parameters(query, time),
        })
    }
}

/// Returns the parameters of a log as a kubelet expects them.
fn parameters(query: &Query, time: Option<Timestamp>) -> String {
    let number = |name| query.text(name).parse().ok().map(|of: i64| of.to_string());
    let flag = |name| query.flag(name).filter(|is| *is).map(|_| "true".to_owned());
    let time = time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let all = [
        ("follow", flag("follow")),
        ("limitBytes", number("limitBytes")),
        ("previous", flag("previous")),
        ("sinceSeconds", number("sinceSeconds")),
        ("sinceTime", time),
        ("tailLines", number("tailLines")),
        ("timestamps", flag("timestamps")),
    ];
    let mut out = Serializer::new(String::new());
    for (name, value) in all {
        if let Some(value) = value {
            out.append_pair(name, &value);
        }
    }
    out.finish()
}

/// Answers a request for a log.
///
/// # Errors
/// 400 and 422 for what is asked, 404 without the pod or its node, or the refusal of a kubelet.
///
/// # Cancel safety
/// A connection to a kubelet ends with the future.
pub(super) async fn read(act: &Act<'_>) -> Result<Response<Body>, Box<Status>> {
    let options = LogOptions::read(act.request.query, act.name(), act.state.clock.now())?;
    let pod = act.object()?;
    let state = pod.value();
    let container = kubelet::container(&state, act.name(), &options.container)?;
    let run = if options.previous {
        Run::Previous
    } else {
        Run::Current
    };
    let namespace = pod.namespace().unwrap_or_default();
    let key = Key::new([namespace, act.name(), &container], run);
    let Some(place) = act.state.logs.begin(&key, options.since, options.tail) else {
        let node = text(&state, &["spec", "nodeName"]);
        if !node.is_empty()
            && let Some(way) = kubelet::of_node(act, node)?
        {
            return of_kubelet(act, &way, &container, &options).await;
        }
        return nothing(&state, act.name(), &container, &options);
    };
    let reader = Reader {
        state: act.state.clone(),
        changes: act.state.logs.changes.subscribe(),
        marks: act.state.store.marks(),
        pod: (
            act.target.resource.shelf,
            pod.key().to_owned(),
            pod.uid().to_owned(),
        ),
        key,
        place,
        left: options.limit.unwrap_or(usize::MAX),
        follows: options.follow,
        with_times: options.with_times,
    };
    let chunks = stream::unfold(reader, |mut reader| async move {
        let chunk = reader.chunk().await?;
        Some((Ok(chunk), reader))
    });
    Ok(reply::streamed("text/plain", Body::stream(chunks)))
}

/// Reply with the log that a kubelet serves.
async fn of_kubelet(
    act: &Act<'_>,
    way: &Way<'_>,
    container: &str,
    options: &LogOptions,
) -> Result<Response<Body>, Box<Status>> {
    let namespace = act.target.namespace.as_deref().unwrap_or_default();
    let path = format!("/containerLogs/{namespace}/{}/{container}", act.name());
    let path = match options.parameters.as_str() {
        "" => path,
        parameters => format!("{path}?{parameters}"),
    };
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = path
        .parse()
        .map_err(|error| kubelet::failed(format!("failed to construct request: {error}")))?;
    let told = |failure| match failure {
        Failure::Dial { to, why } | Failure::Reply { to, why } => {
            format!("Get \"https://{to}{path}\": {why}")
        }
        Failure::NoRoom => String::new(),
    };
    let answer = way.ask(act, request, told).await?;
    let code = answer.head.status.as_u16();
    if !(200..=206).contains(&code) {
        let text = answer.refusal().await;
        let text = String::from_utf8_lossy(&text);
        return Err(Box::new(refused(code, act.name(), &text)));
    }
    let stopped = act.state.stopping.clone().cancelled_owned();
    let chunks = stream::unfold(answer, |mut answer| async move {
        let chunk = answer.chunk().await?;
        Some((Ok(chunk), answer))
    });
    let body = Body::stream(chunks.take_until(stopped));
    Ok(reply::streamed("text/plain", body))
}

/// The refusal of a kubelet as clients see it.
///
/// Upstream: `apiserver:pkg/registry/generic/rest/response_checker.go`.
fn refused(code: u16, pod: &str, text: &str) -> Status {
    let (known, message) = match code {
        400 => return Status::bad_request(text),
        500 => return Status::internal_error(text),
        401 => (
            reason::UNAUTHORIZED,
            "the server has asked for the client to provide credentials".to_owned(),
        ),
        403 => (reason::FORBIDDEN, text.to_owned()),
        404 => (
            reason::NOT_FOUND,
            "the server could not find the requested resource".to_owned(),
        ),
        503 => (
            reason::SERVICE_UNAVAILABLE,
            "the server is currently unable to handle the request".to_owned(),
        ),
        501.. => (
            reason::INTERNAL_ERROR,
            format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        ),
        _ => (
            "",
            format!(
                "the server responded with the status code {code} but did not return more \
                 information"
            ),
        ),
    };
    let details = StatusDetails {
        name: pod.to_owned(),
        kind: "pods/log".to_owned(),
        ..StatusDetails::default()
    };
    let message = format!("{message} ( pods/log {pod})");
    Status::failure(code, known, message).with_details(details)
}

/// Reply for a pod without a registered log.
fn nothing(
    pod: &Value,
    name: &str,
    container: &str,
    options: &LogOptions,
) -> Result<Response<Body>, Box<Status>> {
    if options.previous {
        let message =
            format!("previous terminated container {container:?} in pod {name:?} not found");
        return Err(Box::new(Status::bad_request(message)));
    }
    let mut reply = Response::new(Body::full(""));
    if text(pod, &["spec", "nodeName"]).is_empty() {
        *reply.status_mut() = StatusCode::NO_CONTENT;
    } else {
        let plain = HeaderValue::from_static("text/plain");
        reply.headers_mut().insert(CONTENT_TYPE, plain);
    }
    Ok(reply)
}

/// A reader under way.
struct Reader {
    state: Arc<State>,
    changes: watch::Receiver<u64>,
    marks: watch::Receiver<Marks>,
    pod: (Shelf, String, String),
    key: Key,
    place: u64,
    left: usize,
    follows: bool,
    with_times: bool,
}

impl Reader {
    /// Returns the next bytes; `None` at the end.
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.left == 0 {
                return None;
            }
            self.changes.mark_unchanged();
            self.marks.mark_unchanged();
            let (mut chunk, more) =
                self.state
                    .logs
                    .next(&self.key, &mut self.place, self.with_times);
            if !chunk.is_empty() {
                chunk.truncate(self.left);
                self.left -= chunk.len();
                return Some(chunk.freeze());
            }
            if !self.follows || !more || !self.is_there() {
                return None;
            }
            let stopping = self.state.stopping.clone();
            tokio::select! {
                biased;
                () = stopping.cancelled() => return None,
                changed = self.changes.changed() => changed.ok()?,
                changed = self.marks.changed() => changed.ok()?,
            }
        }
    }

    /// Returns whether the pod still exists with the same uid.
    fn is_there(&self) -> bool {
        let (shelf, key, uid) = &self.pod;
        let pod = self.state.store.get(*shelf, key);
        pod.is_some_and(|pod| pod.uid() == uid)
    }
}
