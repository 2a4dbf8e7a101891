//! The requests of the doctor: one reply with its times, or the beginning of a stream.
//!
//! ```text
//! path ──▶ Reply { code, headers, body, times } | Unanswered        watch ──▶ Stream { events, times }
//! ```
//!
//! Requests go the way that an informer's go: the same client, credentials and proxies. No request is
//! made twice, none changes anything, and each has a deadline.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, DATE, HeaderName, VIA};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kinform::source::{SourceError, SourceErrorKind};
use kinform_api::Status;
use kube_client::Client;
use kube_client::client::Body;
use serde::Deserialize;
use tokio::time::Instant;

/// BOUND: bytes of one reply.
const MAX_BODY: usize = 64 << 20;
/// BOUND: bytes of an event that is not complete yet.
const MAX_LINE: usize = 16 << 20;
/// The annotation of the bookmark that ends the initial events.
const END: &str = "k8s.io/initial-events-end";

/// The reason why there is no reply.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) kind: SourceErrorKind,
    pub(super) message: String,
}

/// A reply.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) body: Bytes,
    /// The message of a refusal.
    pub(super) message: String,
    /// The time that the server states, and that of this machine before and after.
    pub(super) clock: Option<Clock>,
    pub(super) is_packed: bool,
    /// The proxies that state their names.
    pub(super) via: Option<String>,
}

/// Two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) before: Timestamp,
    pub(super) stated: Timestamp,
    pub(super) after: Timestamp,
}

/// The beginning of a watch.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) code: u16,
    /// The message of a refusal, or of an ERROR event.
    pub(super) message: String,
    /// The code of an ERROR event.
    pub(super) error: Option<u16>,
    /// The time until the first byte.
    pub(super) first: Option<Duration>,
    /// The version of the bookmark that ends the initial events.
    pub(super) end: Option<String>,
    /// The keys of the objects that were added.
    pub(super) keys: BTreeSet<String>,
    /// Returns whether the server ended the stream.
    pub(super) is_over: bool,
}

/// An object, as far as the doctor reads it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    pub(super) metadata: Metadata,
}

/// Metadata of an object or a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(super) next: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl Named {
    /// `namespace/name`.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: serde_json::Value,
}

/// Sends GETs.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) client: &'a Client,
}

impl Probe<'_> {
    /// One reply, read to its end.
    pub(super) async fn get(
        self,
        path: &str,
        accept: &str,
        packing: &'static str,
        limit: Duration,
    ) -> Result<Reply, Unanswered> {
        let before = Timestamp::now();
        let late = || Unanswered {
            kind: SourceErrorKind::Deadline,
            message: format!("no answer to GET {path} within {} s", limit.as_secs()),
        };
        let all = async {
            let response = self.send(path, accept, packing).await?;
            let header = |name: HeaderName| {
                response
                    .headers()
                    .get(name)?
                    .to_str()
                    .ok()
                    .map(str::to_owned)
            };
            let stated = header(DATE)
                .and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(&date).ok());
            let clock = stated.map(|stated| Clock {
                before,
                stated,
                after: Timestamp::now(),
            });
            let (code, is_packed, via) = (
                response.status().as_u16(),
                response.headers().contains_key(CONTENT_ENCODING),
                header(VIA),
            );
            let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
            let body = body.map_err(|error| Unanswered {
                kind: SourceErrorKind::Transport,
                message: format!("GET {path}: {error}"),
            })?;
            let body = body.to_bytes();
            Ok(Reply {
                code,
                message: message_of(&body),
                body,
                clock,
                is_packed,
                via,
            })
        };
        tokio::time::timeout(limit, all)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// The events of a watch until its initial events end, the server ends it, or the time is up.
    pub(super) async fn watch(
        self,
        path: &str,
        accept: &str,
        limit: Duration,
    ) -> Result<Stream, Unanswered> {
        let (started, deadline) = (Instant::now(), Instant::now() + limit);
        let mut stream = Stream::default();
        let response =
            match tokio::time::timeout_at(deadline, self.send(path, accept, "identity")).await {
                Ok(response) => response?,
                // A proxy that holds a stream back holds its head back, too.
                Err(_) => return Ok(stream),
            };
        stream.code = response.status().as_u16();
        let mut body = response.into_body();
        let mut line = Vec::new();
        loop {
            let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
                Err(_) => return Ok(stream),
                Ok(None | Some(Err(_))) => {
                    stream.is_over = true;
                    break;
                }
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            stream.first.get_or_insert_with(|| started.elapsed());
            if stream.code != 200 {
                line.extend_from_slice(&data);
                continue;
            }
            for byte in data {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                stream.hear(&line);
                line.clear();
            }
            if stream.end.is_some() || stream.error.is_some() || line.len() > MAX_LINE {
                return Ok(stream);
            }
        }
        if stream.code != 200 {
            stream.message = message_of(&line);
        }
        Ok(stream)
    }

    async fn send(
        self,
        path: &str,
        accept: &str,
        packing: &'static str,
    ) -> Result<http::Response<Body>, Unanswered> {
        let request = http::Request::get(path)
            .header(ACCEPT, accept)
            .header(ACCEPT_ENCODING, packing)
            .body(Body::empty());
        let request = request.map_err(|error| Unanswered {
            kind: SourceErrorKind::Request,
            message: format!("GET {path}: {error}"),
        })?;
        self.client.send(request).await.map_err(|error| {
            let error = SourceError::from(error);
            Unanswered {
                kind: error.kind(),
                message: error.to_string(),
            }
        })
    }
}

impl Stream {
    fn hear(&mut self, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            return;
        };
        let object = event.object;
        match &*event.kind {
            "ERROR" => {
                let status: Status = serde_json::from_value(object).unwrap_or_default();
                self.error = Some(status.code);
                self.message = status.message;
            }
            "ADDED" => {
                let object: Named = serde_json::from_value(object).unwrap_or_default();
                self.keys.insert(object.key());
            }
            "DELETED" => {
                let object: Named = serde_json::from_value(object).unwrap_or_default();
                self.keys.remove(&object.key());
            }
            "BOOKMARK" => {
                let object: Named = serde_json::from_value(object).unwrap_or_default();
                if object.metadata.annotations.contains_key(END) {
                    self.end = Some(object.metadata.resource_version);
                }
            }
            _ => {}
        }
    }
}

fn message_of(body: &[u8]) -> String {
    serde_json::from_slice::<Status>(body)
        .map(|status| status.message)
        .unwrap_or_default()
}
