//! HTTP on one connection: 1.1, or 2 if the client begins so.
//!
//! ```text
//! first bytes ──▶ HTTP/1.1 | HTTP/2 ──request──▶ Api ──reply──▶ stream | connection
//! ```
//!
//! Over TLS clients choose by ALPN, in clear by prior knowledge. A body that is cut off breaks an
//! HTTP/1.1 connection and resets one stream of HTTP/2; a stalled body holds its own stream only.
//! A reply that switches protocols hands the connection over to a tunnel, which is a task of the
//! server. To stop, a connection sends GOAWAY (or ends keep-alive), waits for replies to end, then cuts.
//! Bounds: the time for a request's head, the size of heads, streams at a time, windows, and the
//! buffer for a slow reader.
//!
//! Upstream: `apiserver:pkg/server/secure_serving.go`. A real server speaks HTTP/2 over TLS only.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use super::activity::{Activity, Held, Watched};
use super::connections::Seat;
use super::{GRACE, listen};
use crate::access::User;
use crate::http::body::Body;
use crate::kubelets::Handover;
use crate::state::State;

/// BOUND: bytes of a request's head.
const HEAD: u32 = 64 << 10;
/// BOUND: the time from the beginning of a request's head to its end; of the first one, from the
/// beginning of the connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time that an idle connection of HTTP/1.1 is kept: longer than clients keep theirs, so that they
/// end it.
const IDLE_TIME: Duration = Duration::from_secs(120);
/// BOUND: requests at a time on one connection of HTTP/2, watches among them. Upstream's number.
const STREAMS: u32 = 1000;
/// BOUND: bytes that a client may send before they are read, for one request and for all of a
/// connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// BOUND: bytes that wait for a client to read them, for one stream.
const SEND_BUFFER: usize = 128 << 10;
/// Interval of pings on a silent HTTP/2 connection, and the time that a client has to reply.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// Serves one connection until it ends or the server stops.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    state: Arc<State>,
    certificate: Option<Arc<User>>,
    (seat, tasks): (Arc<Seat>, TaskTracker),
) {
    let stopping = state.stopping.clone();
    let activity = Activity::new(seat);
    let of_requests = activity.clone();
    let http = builder(tasks.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (state, certificate) = (state.clone(), certificate.clone());
        let (activity, tasks) = (of_requests.clone(), tasks.clone());
        async move {
            let upgrade = hyper::upgrade::on(&mut request);
            let _request = activity.begin_request(request.version());
            let is_head = request.method() == Method::HEAD;
            let (seat, certificate) = (activity.seat(), certificate.as_ref());
            let mut reply = listen::answer(&state, (certificate, seat), request).await;
            let handover = reply.extensions_mut().remove::<Handover>();
            if let Some(tunnel) = handover.and_then(Handover::take) {
                tasks.spawn(tunnel.run(upgrade, state.stopping.clone()));
            }
            if is_head {
                reply = without_body(reply);
            }
            reply.map(|body| Held { body, _request })
        }
        .map(Ok::<_, Infallible>)
    });
    let stream = Watched::new(stream, activity.clone());
    let connection = http.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let done = tokio::select! {
        biased;
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(GRACE, connection).await {
                Ok(done) => done,
                Err(_) => return tracing::debug!("a client did not let its connection end"),
            }
        }
        done = connection.as_mut() => done,
        () = activity.seat().displaced() => return tracing::debug!("a client made room"),
        () = activity.late_head(HEAD_TIME) => return tracing::debug!("a head took too long"),
    };
    if let Err(error) = done {
        // Clients end watches by closing the connection.
        tracing::trace!(%error, "connection ended");
    }
}

/// Returns the reply to a HEAD request: only the head, which tells the length of the body.
///
/// HTTP/1.1 drops the body by itself. HTTP/2 sends it, and clients take that as an error.
fn without_body(reply: Response<Body>) -> Response<Body> {
    let (mut head, body) = reply.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::full(Bytes::new()))
}

fn builder(tasks: TaskTracker) -> auto::Builder<Tracked> {
    let mut http = auto::Builder::new(Tracked(tasks));
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIME)
        .max_buf_size(HEAD as usize);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    http
}

/// Runs the streams of HTTP/2 as tasks that the server waits for when it stops.
#[derive(Clone, Debug)]
struct Tracked(TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tracked {
    fn execute(&self, stream: F) {
        drop(self.0.spawn(stream));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::Instant;

    use super::super::Server;
    use super::super::connections::Connections;
    use super::*;

    const READY: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// Returns the client's end of a connection that is served.
    async fn connected(server: &Server, connections: &Arc<Connections>) -> DuplexStream {
        let (client, stream) = tokio::io::duplex(64 << 10);
        let (state, seat) = (server.state().clone(), connections.enter().await);
        tokio::spawn(serve(stream, state, None, (seat, TaskTracker::new())));
        client
    }

    /// Reads to the end of the connection; returns the seconds until then, and the bytes.
    async fn end(client: &mut DuplexStream) -> (u64, String) {
        let (started, mut read) = (Instant::now(), Vec::new());
        client.read_to_end(&mut read).await.unwrap();
        let text = String::from_utf8_lossy(&read).into_owned();
        (started.elapsed().as_secs(), text)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_ten_seconds_and_an_idle_connection_more() {
        let server = Server::builder().in_process();
        let connections = Arc::<Connections>::default();
        let mut silent = connected(&server, &connections).await;
        assert_eq!(end(&mut silent).await.0, 10);
        let mut slow = connected(&server, &connections).await;
        slow.write_all(&READY[..20]).await.unwrap();
        assert_eq!(end(&mut slow).await.0, 10);

        let mut idle = connected(&server, &connections).await;
        idle.write_all(READY).await.unwrap();
        let (seconds, reply) = end(&mut idle).await;
        assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
        assert_eq!(seconds, 120);

        let mut kept = connected(&server, &connections).await;
        kept.write_all(READY).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        kept.write_all(READY).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        kept.write_all(&READY[..20]).await.unwrap();
        let (seconds, reply) = end(&mut kept).await;
        assert_eq!((seconds, reply.matches("200 OK").count()), (10, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_lasts_is_not_cut_for_bytes_of_the_next_request() {
        let server = Server::builder().in_process();
        let mut client = connected(&server, &Arc::default()).await;
        let watch = format!(
            "GET /api/v1/pods?watch=1&timeoutSeconds=60 HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {}\r\n\r\n",
            server.token()
        );
        client.write_all(watch.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.write_all(READY).await.unwrap();
        let (_, replies) = end(&mut client).await;
        assert!(
            replies.contains("\r\n0\r\n\r\nHTTP/1.1 200 OK"),
            "{replies}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_valid_token_keeps_a_connection() {
        let server = Server::builder().in_process();
        let connections = Arc::<Connections>::default();
        let mut clients = Vec::new();
        for token in [server.token(), "nope"] {
            let mut client = connected(&server, &connections).await;
            let head = format!(
                "GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
            );
            client.write_all(head.as_bytes()).await.unwrap();
            client.read_u8().await.unwrap();
            clients.push(client);
        }
        let mut crowd = Vec::new();
        for _ in 0..3000 {
            crowd.push(connections.enter().await);
        }
        assert_eq!(end(&mut clients[1]).await.0, 0, "displaced");
        assert_eq!(end(&mut clients[0]).await.0, 120, "idle to its end");
    }
}
