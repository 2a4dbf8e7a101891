//! The watch of one object: the lease, or this process's candidate.
//!
//! ```text
//! GET ..?fieldSelector=metadata.name=NAME&watch=true ──lines──▶ Seen<T>: the object, or its last state
//!   └── ends, fails, is refused ──a pause──▶ again
//! ```
//!
//! It makes the election faster, not safer: the election reads and writes the lease anyway. So a
//! failure here is no error, and a watch that has no rights is tried again, seldom.
//!
//! BOUND: a watch lasts a minute, so a dead one is replaced after that.
//! Upstream counterpart: none; client-go polls.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::Request;
use http_body_util::BodyExt;
use kinform::{BackoffPolicy, ResourceVersion, Status, WatchOptions};
use kinform_core::backoff::Backoff;
use kinform_core::time::Instant;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::Value;

use super::clock::Clock;
use super::lease_client::{MAX_ANSWER_BYTES, one_line};

/// BOUND: the time that one watch is asked to last.
const LASTS: Duration = Duration::from_secs(60);

/// An event of the watch.
#[derive(Debug)]
pub(super) enum Seen<T> {
    Present(T),
    /// It was deleted in this state.
    Gone(T),
}

/// The object to watch.
pub(super) struct Watched<T> {
    /// The path of its collection.
    pub(super) collection: String,
    pub(super) name: String,
    /// Reads an object, or says in words why it is none.
    pub(super) read: fn(Value) -> Result<T, String>,
    /// The rights that are missing if the watch is refused; `None` if it can be done without.
    pub(super) needs: Option<String>,
}

/// Watches one object for ever.
pub(super) struct ObjectWatch<T> {
    client: Client,
    watched: Watched<T>,
    clock: Clock,
    /// The limit of the head of a reply.
    request_timeout: Duration,
    backoff: Backoff,
    phase: Phase,
    /// History is gone: the next watch begins with the present.
    is_expired: bool,
    /// The missing rights were logged.
    has_told: bool,
}

enum Phase {
    Resting { until: Instant },
    Opening(BoxFuture<'static, Result<Lines, End>>),
    Reading { lines: Lines, since: Instant },
}

/// The end of a watch.
enum End {
    /// The server ended it.
    Clean,
    /// History is gone.
    Expired,
    Failed(String),
    /// 401 or 403.
    Refused(u16),
}

impl<T> ObjectWatch<T> {
    pub(super) fn new(
        client: Client,
        watched: Watched<T>,
        clock: Clock,
        request_timeout: Duration,
        longest_pause: Duration,
    ) -> Self {
        let first = PAUSE.min(longest_pause);
        let policy = BackoffPolicy {
            first,
            cap: longest_pause,
            jitter_factor: 1.0,
            reset_after: longest_pause,
        };
        Self {
            client,
            watched,
            clock,
            request_timeout,
            backoff: Backoff::new(policy),
            phase: Phase::Resting {
                until: Instant::ZERO,
            },
            is_expired: false,
            has_told: false,
        }
    }

    /// Waits for the next event; a new watch begins after the version `known`. `jitter` is in
    /// `[0, 1)`.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn next(&mut self, known: Option<ResourceVersion>, jitter: f64) -> Seen<T> {
        loop {
            match &mut self.phase {
                Phase::Resting { until } => {
                    self.clock.sleep_until(*until).await;
                    let known = known.clone().filter(|_| !self.is_expired);
                    self.phase = Phase::Opening(self.open(known));
                }
                Phase::Opening(opening) => match opening.await {
                    Ok(lines) => {
                        let since = self.clock.now();
                        self.backoff.healthy(since);
                        self.is_expired = false;
                        self.phase = Phase::Reading { lines, since };
                    }
                    Err(end) => self.rest(end, jitter),
                },
                Phase::Reading { lines, since } => {
                    // The server ends it first, unless the connection is dead.
                    let last = *since + LASTS + self.request_timeout;
                    let line = tokio::select! {
                        biased;
                        line = lines.next() => line,
                        () = self.clock.sleep_until(last) => Err(End::Failed("it outlived its timeout".to_owned())),
                    };
                    match line.and_then(|line| seen(&line, self.watched.read)) {
                        Ok(Some(seen)) => return seen,
                        Ok(None) => {}
                        Err(end) => self.rest(end, jitter),
                    }
                }
            }
        }
    }

    fn rest(&mut self, end: End, jitter: f64) {
        let now = self.clock.now();
        let has_lasted = match self.phase {
            Phase::Reading { since, .. } => now.since(since) >= PAUSE,
            Phase::Resting { .. } | Phase::Opening(_) => false,
        };
        let pause = match &end {
            Clean if has_lasted => Duration::ZERO,
            _ => self.backoff.failed(now, jitter),
        };
        match end {
            Clean => {}
            Expired => self.is_expired = true,
            Failed(message) => self.log(&message, pause),
            Refused(code) => {
                let message = format!("the server answered {code}");
                match &self.watched.needs {
                    Some(needs) if !self.has_told => {
                        tracing::warn!(path = %self.watched.collection, "{message} to a watch; {needs}");
                        self.has_told = true;
                    }
                    _ => self.log(&message, pause),
                }
            }
        }
        self.phase = Phase::Resting { until: now + pause };
    }

    fn log(&self, message: &str, pause: Duration) {
        let name = &self.watched.name;
        tracing::debug!(%name, %message, ?pause, "the watch ended");
    }

    fn open(&self, known: Option<ResourceVersion>) -> BoxFuture<'static, Result<Lines, End>> {
        let options = WatchOptions {
            field_selector: Some(format!("metadata.name={}", self.watched.name)),
            resource_version: known,
            timeout: Some(LASTS),
            ..WatchOptions::default()
        };
        let uri = format!("{}?{}", self.watched.collection, options.to_query());
        let request = Request::get(uri)
            .header("accept", "application/json")
            .body(Body::empty());
        let (client, limit) = (self.client.clone(), self.request_timeout);
        let answer = async move {
            let request = request.map_err(|error| Failed(error.to_string()))?;
            let response = client.send(request).await;
            let response = response.map_err(|error| Failed(error.to_string()))?;
            let code = response.status().as_u16();
            match code {
                200 => Ok(Lines::new(response.into_body())),
                410 => Err(Expired),
                401 | 403 => Err(Refused(code)),
                _ => Err(Failed(format!("the server answered {code}"))),
            }
        };
        let late = |_| Err(Failed("no answer in time".to_owned()));
        let answer = tokio::time::timeout(limit, answer);
        answer
            .map(move |answer| answer.unwrap_or_else(late))
            .boxed()
    }
}

use End::{Clean, Expired, Failed, Refused};

/// The pause after a watch that failed, at first, and the least time that a good one lasts.
const PAUSE: Duration = Duration::from_millis(250);

/// The event of a line; `None` for an empty line and a bookmark.
fn seen<T>(line: &[u8], read: fn(Value) -> Result<T, String>) -> Result<Option<Seen<T>>, End> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut event: Value =
        serde_json::from_slice(line).map_err(|error| Failed(error.to_string()))?;
    let kind = event
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let as_seen = match kind {
        "ADDED" | "MODIFIED" => Seen::Present,
        "DELETED" => Seen::Gone,
        "BOOKMARK" => return Ok(None),
        "ERROR" => {
            let status = Status::from_slice(event["object"].to_string().as_bytes());
            let status = status.unwrap_or_default();
            let is_old = status.is_expired() || status.is_gone();
            let message = || Failed(one_line(&status.message));
            return Err(if is_old { Expired } else { message() });
        }
        _ => return Err(Failed("an event of an unknown type".to_owned())),
    };
    let object = event["object"].take();
    Ok(Some(as_seen(read(object).map_err(Failed)?)))
}

/// The lines of a body.
struct Lines {
    chunks: BoxStream<'static, Result<Bytes, kube_client::Error>>,
    // BOUND: one line, of as many bytes as an answer.
    rest: Vec<u8>,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self {
            chunks: body.into_data_stream().into_stream().boxed(),
            rest: Vec::new(),
        }
    }

    /// The next line. A body that ends inside of a line is cut off, and that line is no event.
    ///
    /// Cancel safety: nothing is lost.
    async fn next(&mut self) -> Result<Vec<u8>, End> {
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let tail = self.rest.split_off(at + 1);
                return Ok(std::mem::replace(&mut self.rest, tail));
            }
            if self.rest.len() > MAX_ANSWER_BYTES {
                return Err(Failed("an event is too large".to_owned()));
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.rest.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(Failed(error.to_string())),
                None => return Err(Clean),
            }
        }
    }
}
