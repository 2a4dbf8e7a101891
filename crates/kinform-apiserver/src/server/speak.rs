//! HTTP on one connection: 1.1, or 2 if the client begins so.
//!
//! ```text
//! first bytes ──▶ HTTP/1.1 | HTTP/2 ──request──▶ Api ──reply──▶ stream | connection
//! ```
//!
//! Over TLS clients choose by ALPN, in clear by prior knowledge. A body that is cut off breaks an
//! HTTP/1.1 connection and resets one stream of HTTP/2; a stalled body holds its own stream only.
//! To stop, a connection sends GOAWAY (or ends keep-alive), waits for replies to end, then cuts.
//! Bounds: the time before the first request, the size of heads, streams at a time, windows, and
//! the buffer for a slow reader.
//!
//! Upstream: `apiserver:pkg/server/secure_serving.go`. A real server speaks HTTP/2 over TLS only.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use super::{GRACE, listen};
use crate::access::User;
use crate::state::State;

/// BOUND: bytes of a request's head.
const HEAD: u32 = 64 << 10;
/// Also how long an idle connection is kept: longer than clients keep theirs, so that they end it.
const HEAD_TIME: Duration = Duration::from_secs(120);
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
    tasks: TaskTracker,
) {
    let stopping = state.stopping.clone();
    let asked = Arc::new(AtomicBool::new(false));
    let has_asked = asked.clone();
    let service = service_fn(move |request| {
        asked.store(true, Ordering::Relaxed);
        let (state, certificate) = (state.clone(), certificate.clone());
        async move { listen::answer(&state, certificate.as_ref(), request).await }
            .map(Ok::<_, Infallible>)
    });
    let http = builder(tasks);
    let connection = http.serve_connection(TokioIo::new(stream), service);
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
        () = silence(&has_asked) => return tracing::debug!("a client asked nothing"),
    };
    if let Err(error) = done {
        // Clients end watches by closing the connection.
        tracing::trace!(%error, "connection ended");
    }
}

/// Ends when the time for a first request is over and no request has come.
async fn silence(has_asked: &AtomicBool) {
    tokio::time::sleep(HEAD_TIME).await;
    if has_asked.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}

fn builder(tasks: TaskTracker) -> auto::Builder<Tracked> {
    let mut http = auto::Builder::new(Tracked(tasks));
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
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
