//! All HTTP that the operator serves: probes, metrics, webhooks, the inspector.
//!
//! ```text
//! accept ──▶ seat ──▶ TLS ──▶ HTTP (speak.rs): head, bounded body ──▶ Handler ──▶ reply
//! stop ──▶ no new connection, keep-alive ends ──▶ running answers, up to a grace ──▶ cut
//! ```
//!
//! A handler gets a request whose body is complete and within its limit, and returns a reply, which is
//! whole or streamed (`body.rs`).
//! Its panic is a 500, an answer that takes too long a 504; both end that request alone.
//! Never: a choice of TLS provider, a compressed reply, HTTP/2 in clear.
//!
//! Invariant: [`Bound::serve`] returns after all of its tasks have ended.
//!
//! Upstream counterpart: `controller-runtime:pkg/internal/httpserver`.

mod body;
mod seats;
mod speak;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use body::Body;
use seats::{Seat, Seats};

/// A reply under way.
pub(crate) type Answer = BoxFuture<'static, Response<Body>>;

/// Code that answers requests. The body of a request is complete and within [`Limits::body`].
pub(crate) type Handler = Arc<dyn Fn(Request<Bytes>) -> Answer + Send + Sync>;

/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// BOUND: connections that clients had opened before a stop and that are still accepted after it.
const LAST_ACCEPTED: usize = 128;

/// Bounds of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a request's body.
    pub(crate) body: usize,
    /// Bytes of a request's head.
    pub(crate) head: u32,
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Requests at a time on one connection of HTTP/2.
    pub(crate) streams: u32,
    /// Time for a TLS handshake, and then for the first head.
    pub(crate) head_time: Duration,
    /// Time that a connection of HTTP/1.1 waits for its next request.
    pub(crate) idle_time: Duration,
    /// Time from a request's head to its reply.
    pub(crate) answer_time: Duration,
    /// Time for running answers after a stop.
    pub(crate) grace: Duration,
}

impl Limits {
    /// The limits of probes, metrics and other small requests.
    pub(crate) const fn probes() -> Self {
        Self {
            // BOUND: probes have no body; a review of rights is small.
            body: 64 << 10,
            // BOUND: Go's servers take 1 MiB; a head with a token has a few KiB.
            head: 64 << 10,
            // BOUND: kubelet, Prometheus, API servers and people; an idle one makes room.
            connections: 512,
            // BOUND: as many as Go's HTTP/2 server allows.
            streams: 250,
            // BOUND: a client that connects has a request to send.
            head_time: Duration::from_secs(10),
            // BOUND: longer than Go's clients keep an idle connection (90 s), so that they end it.
            idle_time: Duration::from_secs(120),
            // BOUND: the longest timeout that an API server grants a webhook.
            answer_time: Duration::from_secs(30),
            // BOUND: only probes and scrapes are cut; the process has little time to end.
            grace: Duration::from_secs(2),
        }
    }

    /// The limits of the inspector.
    #[cfg(feature = "inspect")]
    pub(crate) const fn inspector() -> Self {
        Self {
            // BOUND: eight viewers, and the requests of scripts.
            connections: 64,
            ..Self::probes()
        }
    }

    /// The limits of webhooks.
    pub(crate) const fn webhooks() -> Self {
        Self {
            // BOUND: an object and an old object of 3 MiB, and what stands around them. Upstream's.
            body: 7 << 20,
            // BOUND: no answer lasts longer.
            grace: Duration::from_secs(30),
            ..Self::probes()
        }
    }
}

/// A listener that is bound, and serves nobody yet.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Binds to `HOST:PORT`; without a host to all addresses of both families.
    ///
    /// # Errors
    /// The address is malformed, in use, forbidden, or not of this host.
    ///
    /// # Cancel safety
    /// Nothing is bound when dropped.
    pub(crate) async fn bind(address: &str) -> Result<Self, BindError> {
        let failed = |cause| BindError::new(address, cause);
        let listener = match address.strip_prefix(':') {
            Some(port) => {
                let port = port.parse().map_err(|_| failed(malformed()))?;
                match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                    // A host without IPv6.
                    Err(error) if is_no_family(&error) => {
                        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
                    }
                    bound => bound,
                }
            }
            None => TcpListener::bind(address).await,
        };
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The address with the port that was bound.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then ends keep-alive, waits for running answers up to
    /// [`Limits::grace`], cuts the others and returns when all tasks have ended. A handler that
    /// blocks its thread is waited for.
    ///
    /// HTTP/2 is spoken if `tls` offers it by ALPN.
    ///
    /// # Cancel safety
    /// Dropping it cuts all connections.
    pub(crate) async fn serve(
        self,
        tls: Option<Arc<rustls::ServerConfig>>,
        limits: Limits,
        handler: Handler,
        stop: CancellationToken,
    ) {
        let server = Arc::new(Server {
            limits,
            handler,
            tls: tls.map(TlsAcceptor::from),
            stop,
            cut: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let _cut_if_dropped = server.cut.clone().drop_guard();
        accept(self.listener, &server).await;
        server.tasks.close();
        let ended = tokio::time::timeout(limits.grace, server.tasks.wait()).await;
        if ended.is_err() {
            server.cut.cancel();
            server.tasks.wait().await;
        }
    }
}

/// One server: the data that its connections share.
struct Server {
    limits: Limits,
    handler: Handler,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
    /// Ends what is still running after the grace.
    cut: CancellationToken,
    tasks: TaskTracker,
}

/// Accepts connections until the stop; drops the listener.
async fn accept(listener: TcpListener, server: &Arc<Server>) {
    let seats = Seats::new(server.limits.connections);
    loop {
        let accepted = tokio::select! {
            biased;
            () = server.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                // No descriptors are left, mostly.
                tracing::debug!(%error, "accept failed");
                seats.displace();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let seat = tokio::select! {
            biased;
            () = server.stop.cancelled() => break,
            seat = seats.enter() => seat,
        };
        server.tasks.spawn(connection(stream, server.clone(), seat));
    }
    // Clients that the kernel has connected already would see a reset.
    for _ in 0..LAST_ACCEPTED {
        let (Some(Ok((stream, _))), Some(seat)) = (
            listener.accept().now_or_never(),
            seats.enter().now_or_never(),
        ) else {
            return;
        };
        server.tasks.spawn(connection(stream, server.clone(), seat));
    }
}

async fn connection(stream: TcpStream, server: Arc<Server>, seat: Arc<Seat>) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = server.tls.clone() else {
        return speak::serve(stream, speak::Protocol::Http1, server, seat).await;
    };
    let handshake = tokio::time::timeout(server.limits.head_time, tls.accept(stream));
    let done = tokio::select! {
        biased;
        () = server.cut.cancelled() => return,
        () = seat.displaced() => return tracing::debug!("a client made room"),
        done = handshake => done,
    };
    match done {
        Ok(Ok(stream)) => {
            let protocol = match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => speak::Protocol::Http2,
                _ => speak::Protocol::Http1,
            };
            speak::serve(stream, protocol, server, seat).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address:?}: {hint}")]
pub(crate) struct BindError {
    address: String,
    hint: String,
    #[source]
    cause: io::Error,
}

impl BindError {
    fn new(address: &str, cause: io::Error) -> Self {
        let hint = match cause.kind() {
            io::ErrorKind::AddrInUse => "the port is in use by another process".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this host does not have the address".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "this process may not use the port; those above 1023 are free".to_owned()
            }
            io::ErrorKind::InvalidInput => {
                "an address is HOST:PORT or :PORT, for example \":8081\"".to_owned()
            }
            _ => cause.to_string(),
        };
        // BOUND: a flag with nonsense is shown in part.
        let address = address.chars().take(100).collect();
        Self {
            address,
            hint,
            cause,
        }
    }
}

fn malformed() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidInput)
}

/// Returns whether the error says that the host does not speak the address family.
fn is_no_family(error: &io::Error) -> bool {
    // EAFNOSUPPORT has no stable kind: 97 on Linux, 47 on the BSDs and macOS.
    error.kind() == io::ErrorKind::AddrNotAvailable || matches!(error.raw_os_error(), Some(97 | 47))
}

#[cfg(test)]
mod tests;
