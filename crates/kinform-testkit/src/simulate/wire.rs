//! The way of one process to the server: requests are recorded, and meet the plan's faults.
//!
//! ```text
//! operator's Client ─▶ Wire { count, fault, note } ─▶ Link { cut, refuse, stall } ─▶ Service
//!        ▲──── notifications, one at a time, each a little late ────┘
//! ```
//!
//! A request goes on as the process sent it, but asks for JSON: the wire reads replies and
//! notifications, to know what the process has seen. Replies that are no watch are passed on whole.
//! A wire belongs to one process. When that ends, the link is disconnected for good: tasks that the
//! process left behind reach nothing, as those of a dead process.
//! Never: changes an object, a notification, or their order on a watch.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use http::header::{ACCEPT, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kinform_api::Status;
use kube_client::Client;
use kube_client::client::Body as RequestBody;
use serde_json::Value;

use super::asked::Asked;
use super::hearing::Hearing;
use super::hub::{Hub, Order};
use super::line::Line;
use super::plan::Mishap;
use super::seen::version;
use super::stranger;
use super::trace::Write;
use crate::link::{Link, ReplyBody, reset};

/// The way of one process to the server. Clones are the same way.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Line>);

impl Wire {
    /// The way of the process with this number.
    pub(crate) fn new(hub: &Arc<Hub>, link: Link, process: usize) -> Self {
        Self(Arc::new(Line::new(hub, link, process)))
    }

    /// The network under it.
    pub(crate) fn link(&self) -> &Link {
        &self.0.link
    }

    fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// A client of the process, without retries of its own.
    pub(crate) fn client(&self) -> Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request| wire.clone().call(request));
        Client::new(service, "default")
    }

    /// Disconnects the process for good.
    pub(crate) fn disconnect(&self) {
        self.0.link.disconnect();
    }

    async fn call(self, request: Request<RequestBody>) -> io::Result<Response<ReplyBody>> {
        let (mut head, body) = request.into_parts();
        let asked = Asked::of(&head);
        in_json(&mut head);
        let hub = self.hub();
        hub.hop().await;
        if !asked.is_traffic() && !asked.is_watch {
            hub.request();
            hub.throttle().await;
        }
        let request = Request::from_parts(head, body);
        if asked.is_watch {
            return self.watch(&asked, request).await;
        }
        if asked.is_write() {
            return self.write(&asked, request).await;
        }
        if asked.is_read() {
            if let Some(Mishap::Refuse(code)) = hub.read() {
                hub.note(self.0.who(), format!("{} ─▶ {code}", asked.words()));
                return Ok(once(refusal(code)));
            }
            let reply = self.whole(request).await?;
            self.read(&asked, &reply);
            hub.hop().await;
            return Ok(once(reply));
        }
        let reply = self.whole(request).await;
        hub.hop().await;
        reply.map(once)
    }

    /// A write: the plan's fault, the request, and what the process had not seen at that time.
    async fn write(
        &self,
        asked: &Asked,
        request: Request<RequestBody>,
    ) -> io::Result<Response<ReplyBody>> {
        let hub = self.hub();
        let mishap = hub.write();
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        match mishap {
            Some(Mishap::CrashBefore) => self.die(Mishap::CrashBefore).await,
            Some(Mishap::Refuse(code)) => {
                let write = self.written(named(asked, &body), asked, Some(code));
                let entry = hub.note(self.0.who(), asked.words());
                hub.trace().wrote(entry, &format!(" ─▶ {code}"), write);
                return Ok(once(refusal(code)));
            }
            Some(Mishap::Overtake) => stranger::overtake(hub, asked, &body).await,
            _ => {}
        }
        let request = Request::from_parts(head, RequestBody::from(body));
        let mut write = self.written(String::new(), asked, None);
        let entry = hub.note(self.0.who(), asked.words());
        let reply = self.whole(request).await;
        let (outcome, name) = match &reply {
            Ok(reply) => (outcome(reply), named(asked, reply.body())),
            Err(error) => (format!(" ─▶ {error}"), asked.key().unwrap_or_default()),
        };
        write.about.push_str(&name);
        write.code = reply.as_ref().ok().map(|reply| reply.status().as_u16());
        hub.trace().wrote(entry, &outcome, write);
        hub.order(Order::Look);
        match mishap {
            Some(Mishap::CrashAfter) => self.die(Mishap::CrashAfter).await,
            Some(Mishap::LoseReply) => return Err(reset()),
            _ => {}
        }
        if let Ok(reply) = &reply {
            self.read(asked, reply);
        }
        hub.hop().await;
        reply.map(once)
    }

    /// A write of the object of this key, with what the process has not seen now.
    fn written(&self, key: String, asked: &Asked, code: Option<u16>) -> Write {
        let unseen = match self.hub().server() {
            Some((_, store)) => self.0.see(|seen| seen.behind(&store)),
            None => Vec::new(),
        };
        Write {
            about: format!("{} {key}", asked.shelf),
            unseen,
            code,
        }
    }

    async fn watch(
        &self,
        asked: &Asked,
        request: Request<RequestBody>,
    ) -> io::Result<Response<ReplyBody>> {
        let reply = self.0.link.clone().call(request).await?;
        if asked.is_traffic() || !reply.status().is_success() {
            return Ok(reply);
        }
        self.0.see(|seen| seen.opened(&asked.shelf));
        let line = Arc::clone(&self.0);
        let shelf = asked.shelf.clone();
        Ok(reply.map(|body| {
            let chunks: BoxStream<'static, _> = Box::pin(body.into_data_stream());
            let frames = Hearing::new(line, shelf, chunks).frames();
            StreamBody::new(frames.boxed())
        }))
    }

    /// The process ends here: nothing comes back.
    async fn die(&self, mishap: Mishap) {
        self.disconnect();
        self.hub().order(Order::Meet(self.0.process, mishap));
        std::future::pending().await
    }

    async fn whole(&self, request: Request<RequestBody>) -> io::Result<Response<Bytes>> {
        let reply = self.0.link.clone().call(request).await?;
        let (head, body) = reply.into_parts();
        let body = BodyExt::collect(body).await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    /// Notes the versions of a reply.
    fn read(&self, asked: &Asked, reply: &Response<Bytes>) {
        if !reply.status().is_success() {
            return;
        }
        if let Ok(value) = serde_json::from_slice::<Value>(reply.body()) {
            // A creation shows nothing of others.
            if reply.status() != StatusCode::CREATED {
                self.hub().show(version(&value));
            }
            self.0.see(|seen| seen.replied(asked, &value));
        }
    }
}

/// Asks for JSON, and for what else was asked in JSON.
fn in_json(head: &mut http::request::Parts) {
    let accepted = head.headers.get(ACCEPT);
    let accepted = accepted
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or("");
    let json: Vec<&str> = accepted
        .split(',')
        .map(str::trim)
        .filter(|one| one.contains("json"))
        .collect();
    let json = match json.is_empty() {
        true => "application/json".to_owned(),
        false => json.join(", "),
    };
    if let Ok(json) = HeaderValue::from_str(&json) {
        head.headers.insert(ACCEPT, json);
    }
    // What is compressed cannot be read here.
    head.headers.remove(http::header::ACCEPT_ENCODING);
}

fn once(reply: Response<Bytes>) -> Response<ReplyBody> {
    reply.map(|body| {
        let frame = stream::iter([Ok(Frame::data(body))]);
        StreamBody::new(frame.boxed())
    })
}

fn refusal(code: u16) -> Response<Bytes> {
    let status = match code {
        429 => Status::too_many_requests("too many requests, please try again later", 1),
        503 => Status::failure(503, "ServiceUnavailable", "the server is currently unable"),
        504 => Status::failure(504, "Timeout", "Timeout: request did not complete"),
        code => Status::failure(code, "InternalError", "Internal error occurred: simulated"),
    };
    let body = serde_json::to_vec(&status).unwrap_or_default();
    let mut reply = Response::new(Bytes::from(body));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(http::header::CONTENT_TYPE, json);
    if code == 429 {
        let second = HeaderValue::from_static("1");
        reply
            .headers_mut()
            .insert(http::header::RETRY_AFTER, second);
    }
    reply
}

/// The outcome of a write in words.
fn outcome(reply: &Response<Bytes>) -> String {
    let code = reply.status().as_u16();
    let value: Value = serde_json::from_slice(reply.body()).unwrap_or_default();
    if !reply.status().is_success() {
        let message = value["message"].as_str().unwrap_or_default();
        let end = message
            .char_indices()
            .nth(120)
            .map_or(message.len(), |(at, _)| at);
        return format!(" ─▶ {code} {}", &message[..end]);
    }
    match value["metadata"]["resourceVersion"].as_str() {
        Some(version) => format!(" ─▶ {code} @{version}"),
        None => format!(" ─▶ {code}"),
    }
}

/// The key of the object that was written, also of one that the server named.
fn named(asked: &Asked, body: &[u8]) -> String {
    if let Some(key) = asked.key() {
        return key;
    }
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let metadata = &value["metadata"];
    // A refusal has it in its details; in a request it can be generated, as pictures name it.
    let names = [&metadata["name"], &value["details"]["name"]];
    let name = names.iter().find_map(|name| name.as_str());
    let base = metadata["generateName"].as_str();
    let name = match (name, base) {
        (Some(name), _) => name.to_owned(),
        (None, Some(base)) => format!("{base}*"),
        (None, None) => "?".to_owned(),
    };
    match &asked.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    }
}
