//! Logs of containers that never ran: the text that tests register, read as a kubelet serves it.
//!
//! ```text
//! append(namespace, pod, container, text) ──▶ lines with times ──since, tail, limit──▶ text/plain, maybe followed
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
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kinform_api::{FieldError, GroupKind, Status};
use serde_json::Value;
use tokio::sync::watch;

use super::Act;
use crate::http::body::Body;
use crate::http::query::Query;
use crate::http::reply;
use crate::object::{at, text};
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
        })
    }
}

/// Answers a request for a log.
pub(super) fn read(act: &Act<'_>) -> Result<Response<Body>, Box<Status>> {
    let options = LogOptions::read(act.request.query, act.name(), act.state.clock.now())?;
    let pod = act.object()?;
    let state = pod.value();
    let container = container(&state, act.name(), &options.container)?;
    let run = if options.previous {
        Run::Previous
    } else {
        Run::Current
    };
    let namespace = pod.namespace().unwrap_or_default();
    let key = Key::new([namespace, act.name(), &container], run);
    let Some(place) = act.state.logs.begin(&key, options.since, options.tail) else {
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

/// Name of the container whose log is requested.
fn container(pod: &Value, name: &str, asked: &str) -> Result<String, Box<Status>> {
    let names = |list: &str| {
        let list = at(pod, &["spec", list]).and_then(Value::as_array);
        let name = |of: &Value| text(of, &["name"]).to_owned();
        list.into_iter()
            .flatten()
            .map(name)
            .collect::<Vec<String>>()
    };
    let own = names("containers");
    let (first, later) = (names("initContainers"), names("ephemeralContainers"));
    if !asked.is_empty() {
        let known = own.iter().chain(&first).chain(&later).any(|of| of == asked);
        return match known {
            true => Ok(asked.to_owned()),
            false => Err(Box::new(Status::bad_request(format!(
                "container {asked} is not valid for pod {name}"
            )))),
        };
    }
    if let [one] = own.as_slice()
        && first.is_empty()
        && later.is_empty()
    {
        return Ok(one.clone());
    }
    let mut message = format!(
        "a container name must be specified for pod {name}, choose one of: [{}]",
        own.join(" ")
    );
    for (what, names) in [("init", first), ("ephemeral", later)] {
        if !names.is_empty() {
            let names = names.join(" ");
            message.push_str(&format!(" or one of the {what} containers: [{names}]"));
        }
    }
    Err(Box::new(Status::bad_request(message)))
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
