//! HTTP on one connection: 1.1, or 2 where TLS has chosen it.
//!
//! ```text
//! head ──▶ body, up to its limit ──▶ Handler ──▶ reply
//!            │ 413, 408, 400           │ 500 after a panic, 504 when late
//! ```
//!
//! To stop, a connection of HTTP/1.1 ends with its next answer, or soon if it is idle; one of HTTP/2
//! sends GOAWAY and answers the requests that it has.
//!
//! Upstream counterpart: Go's `net/http.Server` with `http.MaxBytesReader`.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::Server;
use super::body::{Body, Sent};
use super::seats::Seat;

/// BOUND: bytes of an oversized body that are read and dropped.
const DRAINED: usize = 16 << 20;
/// BOUND: bytes that a client of HTTP/2 may send before they are read, of a stream and in all.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// BOUND: the time for a request that a client was sending on an idle connection at a stop.
const LINGER: Duration = Duration::from_millis(200);
/// Interval of pings on a silent connection of HTTP/2, and the time for their answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// The protocol of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Serves one connection until it ends or the server stops.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    protocol: Protocol,
    server: Arc<Server>,
    seat: Arc<Seat>,
) {
    let service = {
        let (server, seat) = (server.clone(), seat.clone());
        service_fn(move |request: Request<Incoming>| {
            let (server, request_guard) = (server.clone(), seat.begin_request());
            async move {
                let reply = tokio::select! {
                    biased;
                    () = server.cut.cancelled() => {
                        refusal(StatusCode::SERVICE_UNAVAILABLE, "the server has stopped")
                    }
                    reply = answer(&server, request) => reply,
                };
                Ok::<_, Infallible>(reply.map(|body| Sent::new(body, request_guard, &server.stop)))
            }
        })
    };
    let http = builder(&server, protocol);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Closing an idle connection would lose a request that is on its way.
    let lingered = async {
        server.stop.cancelled().await;
        tokio::time::sleep(LINGER).await;
    };
    let done = tokio::select! {
        biased;
        done = connection.as_mut() => done,
        () = lingered => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                done = connection => done,
                () = server.cut.cancelled() => return tracing::debug!("a connection was cut"),
                () = late_head(&server, &seat) => return tracing::debug!("a head took too long"),
            }
        }
        () = server.cut.cancelled() => return tracing::debug!("a connection was cut"),
        () = seat.displaced() => return tracing::debug!("a client made room"),
        () = late_head(&server, &seat) => return tracing::debug!("a head took too long"),
    };
    if let Err(error) = done {
        tracing::trace!(%error, "connection ended");
    }
}

/// Ends when the first head of a connection has been awaited for too long. Those that follow have
/// the time of an idle connection.
async fn late_head(server: &Server, seat: &Seat) {
    tokio::time::sleep(server.limits.head_time).await;
    if seat.has_begun() {
        std::future::pending().await
    }
}

fn builder(server: &Server, protocol: Protocol) -> auto::Builder<Tracked> {
    let limits = &server.limits;
    let mut http = auto::Builder::new(Tracked(server.tasks.clone()));
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_time)
        .max_buf_size(limits.head as usize);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.head)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    match protocol {
        Protocol::Http1 => http.http1_only(),
        Protocol::Http2 => http.http2_only(),
    }
}

/// Answers one request within its time.
async fn answer(server: &Server, request: Request<Incoming>) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    let is_http1 = request.version() < Version::HTTP_2;
    let mut reply = in_time(server, request).await;
    if is_http1 && server.stop.is_cancelled() {
        let close = HeaderValue::from_static("close");
        reply.headers_mut().insert(CONNECTION, close);
    }
    if is_head { without_body(reply) } else { reply }
}

async fn in_time(server: &Server, request: Request<Incoming>) -> Response<Body> {
    let deadline = Instant::now() + server.limits.answer_time;
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout_at(deadline, read(body, server.limits.body)).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return refused,
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the body came too slowly"),
    };
    let request = Request::from_parts(head, body);
    // A panic of user code ends its own request: it holds no lock or state of ours.
    let called = AssertUnwindSafe(async { (server.handler)(request).await }).catch_unwind();
    match tokio::time::timeout_at(deadline, called).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => {
            tracing::error!("the code that answers a request panicked");
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "the handler panicked")
        }
        Err(_) => refusal(StatusCode::GATEWAY_TIMEOUT, "the answer took too long"),
    }
}

/// Reads a body up to the limit. More is refused, but read on for a while: a client that is still
/// writing when its connection closes never sees the answer.
async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, Response<Body>> {
    let (mut kept, mut seen) = (BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| refusal(StatusCode::BAD_REQUEST, "the body ended before its end"))?;
        let data = frame.into_data().unwrap_or_default();
        seen = seen.saturating_add(data.len());
        if seen <= limit {
            kept.extend_from_slice(&data);
        } else if seen > limit.saturating_add(DRAINED) {
            break;
        }
    }
    if seen > limit {
        let text = format!("the body has more than {limit} bytes");
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &text));
    }
    Ok(kept.freeze())
}

/// A reply of one line.
fn refusal(code: StatusCode, line: &str) -> Response<Body> {
    let mut reply = Response::new(Body::from(Bytes::from(format!("{line}\n"))));
    *reply.status_mut() = code;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, text);
    reply
}

/// The reply to a HEAD request: only the head, which has the length of the body.
///
/// HTTP/1.1 drops the body by itself. HTTP/2 sends it, and clients take that as an error.
fn without_body(reply: Response<Body>) -> Response<Body> {
    let (mut head, body) = reply.into_parts();
    // A stream has no length, and ends as it is dropped.
    if let Body::Whole(body) = body {
        head.headers.insert(CONTENT_LENGTH, body.len().into());
    }
    Response::from_parts(head, Body::Whole(Bytes::new()))
}

/// Runs the streams of HTTP/2 as tasks that the server waits for when it stops.
#[derive(Clone, Debug)]
struct Tracked(TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tracked {
    fn execute(&self, stream: F) {
        drop(self.0.spawn(stream));
    }
}
