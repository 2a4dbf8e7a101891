//! Logs of containers that never ran: the text that tests register, read as a kubelet serves it.
//!
//! ```text
//! append(namespace, pod, container, text) ──▶ lines with times ──since, tail, limit──▶ text/plain, maybe followed
//! ```
//!
//! Followers own a place in the lines and no queue: one who is slower than the lines that are kept skips
//! what is gone. A follower ends with its pod, with the container's last line, and with the server.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/rest/log.go`, `pkg/apis/core/validation`
//! (`ValidatePodLogOptions`), `pkg/kubelet/kuberuntime/logs`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kinform_api::{FieldError, GroupKind, Status};
use serde_json::Value;
use tokio::sync::watch;

use super::Act;
use crate::api::Api;
use crate::http::body::Body;
use crate::http::query::Query;
use crate::http::reply;
use crate::object::{at, text};
use crate::storage::Shelf;

/// BOUND: bytes of a container's log; the oldest lines go first.
const KEPT: usize = 4 << 20;
/// BOUND: containers with a log.
const CONTAINERS: usize = 10_000;
/// The size of a chunk of a reply.
const CHUNK: usize = 64 << 10;

/// The logs of all containers.
///
/// What is registered for a container stays when its pod goes: a pod of the same name has it again.
#[derive(Debug)]
pub struct PodLogs {
    containers: Mutex<HashMap<Key, Log>>,
    changes: watch::Sender<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    namespace: String,
    pod: String,
    container: String,
    run: Run,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Run {
    Current,
    Previous,
}

#[derive(Debug, Default)]
struct Log {
    lines: VecDeque<(Timestamp, Bytes)>,
    /// The number of the first line that is kept.
    first: u64,
    bytes: usize,
    has_ended: bool,
}

impl Default for PodLogs {
    fn default() -> Self {
        Self {
            containers: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }
}

impl PodLogs {
    /// Adds lines to the log of a container; each gets the time of this moment. A last line without its
    /// end gets one.
    pub fn append(&self, namespace: &str, pod: &str, container: &str, text: &str) {
        self.add(Key::new([namespace, pod, container], Run::Current), text);
    }

    /// Adds lines to the log of the container that ran before.
    pub fn append_previous(&self, namespace: &str, pod: &str, container: &str, text: &str) {
        self.add(Key::new([namespace, pod, container], Run::Previous), text);
    }

    /// The container says no more: whoever follows its log comes to an end.
    pub fn finish(&self, namespace: &str, pod: &str, container: &str) {
        let key = Key::new([namespace, pod, container], Run::Current);
        if let Some(log) = self.lock().get_mut(&key) {
            log.has_ended = true;
        }
        self.changes.send_modify(|count| *count += 1);
    }

    fn add(&self, key: Key, text: &str) {
        let mut logs = self.lock();
        if logs.len() >= CONTAINERS && !logs.contains_key(&key) {
            return;
        }
        let log = logs.entry(key).or_default();
        let now = Timestamp::now();
        for line in text.lines() {
            let line = Bytes::from(format!("{line}\n"));
            log.bytes += line.len();
            log.lines.push_back((now, line));
        }
        while log.bytes > KEPT {
            let Some((_, line)) = log.lines.pop_front() else {
                break;
            };
            log.bytes -= line.len();
            log.first += 1;
        }
        drop(logs);
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Log>> {
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a reader begins: the number of its first line. Nothing if there is no such log.
    fn begin(&self, key: &Key, options: &LogOptions) -> Option<u64> {
        let logs = self.lock();
        let log = logs.get(key)?;
        let recent = log
            .lines
            .partition_point(|(at, _)| options.since.is_some_and(|since| *at < since));
        let tail = options
            .tail
            .map_or(0, |tail| log.lines.len().saturating_sub(tail));
        Some(log.first + recent.max(tail) as u64)
    }

    /// The next chunk from a place, and whether more may come.
    fn next(&self, key: &Key, place: &mut u64, with_times: bool) -> (BytesMut, bool) {
        let mut out = BytesMut::new();
        let logs = self.lock();
        let Some(log) = logs.get(key) else {
            return (out, false);
        };
        *place = (*place).max(log.first);
        let from = usize::try_from(*place - log.first).unwrap_or(usize::MAX);
        for (at, line) in log.lines.iter().skip(from) {
            if with_times {
                out.extend_from_slice(
                    at.strftime("%Y-%m-%dT%H:%M:%S%.9fZ ")
                        .to_string()
                        .as_bytes(),
                );
            }
            out.extend_from_slice(line);
            *place += 1;
            if out.len() >= CHUNK {
                break;
            }
        }
        (out, !log.has_ended)
    }
}

impl Key {
    fn new([namespace, pod, container]: [&str; 3], run: Run) -> Self {
        Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            run,
        }
    }
}

/// How a log is read.
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
    fn read(query: &Query, pod: &str) -> Result<Self, Box<Status>> {
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
            Timestamp::now()
                .checked_sub(SignedDuration::from_secs(seconds))
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
    let options = LogOptions::read(act.request.query, act.name())?;
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
    let Some(place) = act.api.logs.begin(&key, &options) else {
        return nothing(&state, act.name(), &container, &options);
    };
    let reader = Reader {
        api: act.api.clone(),
        changes: act.api.logs.changes.subscribe(),
        revisions: act.api.store.revisions(),
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

/// What is said where no log was registered.
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

/// The container whose log is meant.
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
    api: Arc<Api>,
    changes: watch::Receiver<u64>,
    revisions: watch::Receiver<u64>,
    pod: (Shelf, String, String),
    key: Key,
    place: u64,
    left: usize,
    follows: bool,
    with_times: bool,
}

impl Reader {
    /// The next bytes; nothing at the end.
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.left == 0 {
                return None;
            }
            self.changes.mark_unchanged();
            self.revisions.mark_unchanged();
            let (mut chunk, more) = self
                .api
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
            let stopping = self.api.stopping.clone();
            tokio::select! {
                biased;
                () = stopping.cancelled() => return None,
                changed = self.changes.changed() => changed.ok()?,
                changed = self.revisions.changed() => changed.ok()?,
            }
        }
    }

    /// Whether the pod is still the same one.
    fn is_there(&self) -> bool {
        let (shelf, key, uid) = &self.pod;
        let pod = self.api.store.get(*shelf, key);
        pod.is_some_and(|pod| pod.uid() == uid)
    }
}
