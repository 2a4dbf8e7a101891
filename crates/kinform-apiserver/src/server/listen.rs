//! Sockets: accepts connections, does TLS, and hands each to HTTP.
//!
//! ```text
//! accept ──▶ TLS ──▶ HTTP (speak.rs) ──request──▶ Api ──reply──▶ connection
//! ```
//!
//! Each connection is a task of the server's tracker; stopping lets replies end, then cuts. Bounds:
//! the time for a handshake, the size of bodies; those of connections are in `connections.rs`, those
//! of HTTP in `speak.rs`.
//!
//! Upstream: `apiserver:pkg/server/secure_serving.go`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kinform_api::Status;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::connections::{Connections, Seat};
use super::identity::Identity;
use super::{origin, speak, subject};
use crate::access::User;
use crate::api;
use crate::http::body::Body;
use crate::http::negotiate::Encoding;
use crate::http::reply;
use crate::state::State;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// BOUND: bytes of an oversized body that are read and dropped.
const DRAINED: usize = 16 << 20;
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections until the server stops.
pub(super) async fn accept(
    listener: TcpListener,
    state: Arc<State>,
    identity: Identity,
    tasks: TaskTracker,
) {
    let connections = Arc::<Connections>::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = state.stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "accept failed");
                // A connection that broke before it was accepted, or no descriptors.
                if error.kind() == std::io::ErrorKind::ConnectionAborted {
                    continue;
                }
                connections.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if state.faults.is_refusing() {
            reset(&stream);
            continue;
        }
        let seat = tokio::select! {
            biased;
            () = state.stopping.cancelled() => return,
            seat = connections.enter() => seat,
        };
        let (state, identity) = (state.clone(), identity.clone());
        tasks.spawn(connection(stream, state, identity, (seat, tasks.clone())));
    }
}

/// Makes the peer see a reset instead of an orderly end.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn connection(
    stream: TcpStream,
    state: Arc<State>,
    identity: Identity,
    (seat, tasks): (Arc<Seat>, TaskTracker),
) {
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = identity.tls.as_ref().map(|tls| tls.config.clone()) else {
        return speak::serve(stream, state, None, (seat, tasks)).await;
    };
    let acceptor = TlsAcceptor::from(acceptor);
    let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
    let done = tokio::select! {
        biased;
        () = state.stopping.cancelled() => return,
        () = seat.displaced() => return tracing::debug!("a client made room"),
        done = handshake => done,
    };
    match done {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates();
            let user = shown.and_then(|chain| subject::user(chain.first()?));
            if user.is_some() {
                seat.become_known();
            }
            speak::serve(stream, state, user.map(Arc::new), (seat, tasks)).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

/// Answers a request of a connection.
pub(super) async fn answer(
    state: &Arc<State>,
    (certificate, seat): (Option<&Arc<User>>, &Seat),
    request: Request<Incoming>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Err(status) = origin::check(&head, &state.names) {
        return reply::status(&status, Encoding::Json);
    }
    let caller = state
        .access
        .authenticate(&state.store, &head.headers, certificate);
    if caller.is_known() {
        seat.become_known();
    }
    let limit = state.limits.body;
    api::answer(state, head, read(body, limit).boxed(), caller).await
}

/// Reads a body up to the limit. More is refused, but read on for a while: a client that is still
/// writing when its connection closes never sees the answer.
async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, Status> {
    let (mut kept, mut seen) = (BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Status::bad_request(format!("cannot read the body: {error}")))?;
        let data = frame.into_data().unwrap_or_default();
        seen = seen.saturating_add(data.len());
        if seen <= limit {
            kept.extend_from_slice(&data);
        } else if seen > limit.saturating_add(DRAINED) {
            break;
        }
    }
    if seen > limit {
        return Err(Status::request_entity_too_large(limit));
    }
    Ok(kept.freeze())
}

/// Checks a body that is complete already against the limit.
pub(super) fn ready(body: Bytes, limit: usize) -> Result<Bytes, Status> {
    if body.len() > limit {
        Err(Status::request_entity_too_large(limit))
    } else {
        Ok(body)
    }
}
