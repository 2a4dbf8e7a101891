//! Connections to the kubelets of nodes, which serve logs and the streams of `exec`, `attach` and
//! `portforward`.
//!
//! ```text
//! Node.status ──Kubelet──▶ address ──dial──▶ TLS ──request──▶ Answer ──▶ chunks | Tunnel
//! ```
//!
//! Only addresses that Node objects state are dialled, and only if the server was told to call
//! kubelets. Their certificates are not verified, and no credential is sent: neither the client's
//! nor one of this server. Each exchange has a connection of its own.
//!
//! INVARIANT: an answer and a tunnel hold a permit until they are dropped.
//!
//! * `address.rs`: the address and the port of a node's kubelet; `dial.rs`: TCP and TLS;
//! * `tunnel.rs`: the bytes of an upgraded connection, in both directions.
//!
//! Upstream: `kubernetes/kubernetes:pkg/kubelet/client/kubelet_client.go`,
//! `kubernetes/apimachinery:pkg/util/proxy/{dial,upgradeaware}.go`.

mod address;
mod dial;
mod tunnel;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, StatusCode, header, response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use self::address::Kubelet;
pub(crate) use self::tunnel::{Handover, Tunnel};

/// BOUND: exchanges with kubelets at a time. Each has a socket; a tunnel has 64 KiB of buffers.
pub(crate) const EXCHANGES: usize = 1024;
/// BOUND: bytes of the head of a kubelet's reply.
const HEAD: usize = 64 << 10;
/// BOUND: bytes of a reply that explains a refusal. Upstream's number, of logs.
const REFUSAL: usize = 50_000;
/// BOUND: the time without a byte after which a stream ends, as at a kubelet
/// (`streamingConnectionIdleTimeout`).
const IDLE: Duration = Duration::from_secs(4 * 3600);

/// The room for exchanges with kubelets.
#[derive(Debug)]
pub(crate) struct Kubelets {
    pub(crate) room: Arc<Semaphore>,
}

impl Default for Kubelets {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(EXCHANGES)),
        }
    }
}

/// The reason why a kubelet did not answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There are too many exchanges.
    NoRoom,
    /// There is no connection to it.
    Dial {
        /// The host and port that were dialled.
        to: String,
        /// In Go's words.
        why: String,
    },
    /// Its reply did not come, or is not one.
    Reply {
        /// The host and port that were dialled.
        to: String,
        /// In Go's words.
        why: String,
    },
}

/// The answer of a kubelet: its head, and its body as it comes.
pub(crate) struct Answer {
    pub(crate) head: response::Parts,
    body: Incoming,
    /// The connection, which moves the body; `None` when it has ended.
    connection: Option<BoxFuture<'static, hyper::Result<()>>>,
    permit: OwnedSemaphorePermit,
}

impl Kubelets {
    /// Sends a request to a kubelet, and returns the reply when its head is complete.
    ///
    /// # Errors
    /// There is no room, no connection or no reply.
    ///
    /// # Cancel safety
    /// The connection ends with the future.
    pub(crate) async fn ask(
        &self,
        kubelet: &Kubelet,
        mut request: Request<Empty<Bytes>>,
    ) -> Result<Answer, Failure> {
        let permit = self.room.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Failure::NoRoom)?;
        let (to, stream) = kubelet.connect().await?;
        let failed = |error: hyper::Error| Failure::Reply {
            to: to.clone(),
            why: words(&error),
        };
        if let Ok(host) = HeaderValue::from_str(&to) {
            request.headers_mut().insert(header::HOST, host);
        }
        let mut http = http1::Builder::new();
        let (mut sender, connection) = http
            .max_buf_size(HEAD)
            .max_header_size(HEAD)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        let mut connection: Option<BoxFuture<'static, hyper::Result<()>>> =
            Some(Box::pin(connection.with_upgrades()));
        let mut reply = std::pin::pin!(sender.send_request(request));
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut reply => break reply.map_err(failed)?,
                () = ended(&mut connection) => connection = None,
            }
        };
        let (head, body) = reply.into_parts();
        Ok(Answer {
            head,
            body,
            connection,
            permit,
        })
    }
}

/// Ends with a connection; never, if there is none.
async fn ended(connection: &mut Option<BoxFuture<'static, hyper::Result<()>>>) {
    match connection {
        // The reply or its body tells what went wrong.
        Some(connection) => drop(connection.await),
        None => std::future::pending().await,
    }
}

impl Answer {
    /// Returns the next bytes of the body; `None` at its end, however it ends.
    ///
    /// # Cancel safety
    /// No bytes are lost.
    pub(crate) async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame?.ok()?,
                () = ended(&mut self.connection) => {
                    self.connection = None;
                    continue;
                }
                () = tokio::time::sleep(IDLE) => return None,
            };
            match frame.into_data() {
                Ok(data) if !data.is_empty() => return Some(data),
                _ => {}
            }
        }
    }

    /// Returns the first bytes of a body that explains a refusal.
    pub(crate) async fn refusal(mut self) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < REFUSAL {
            let Some(chunk) = self.chunk().await else {
                break;
            };
            text.extend_from_slice(&chunk);
        }
        text.truncate(REFUSAL);
        text
    }

    /// Returns the connection behind a reply that switches protocols.
    ///
    /// # Errors
    /// It ended meanwhile, or the reply does not switch.
    pub(crate) async fn upgraded(mut self) -> Result<Tunnel, String> {
        debug_assert_eq!(self.head.status, StatusCode::SWITCHING_PROTOCOLS);
        let upgrade = self.head.extensions.remove::<hyper::upgrade::OnUpgrade>();
        let upgrade = upgrade.ok_or("the connection is not upgraded")?;
        if let Some(connection) = self.connection {
            connection.await.map_err(|error| words(&error))?;
        }
        let upgraded = upgrade.await.map_err(|error| words(&error))?;
        Ok(Tunnel::new(upgraded, self.permit))
    }
}

/// Returns an error of HTTP in Go's words.
fn words(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "unexpected EOF".to_owned()
    } else if error.is_parse() {
        format!("malformed HTTP response: {error}")
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn no_more_than_the_bound_talk_to_kubelets() {
        let kubelets = Kubelets::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let node = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
        let kubelet = Kubelet::of(&node).unwrap().unwrap();
        let all = u32::try_from(EXCHANGES).unwrap();
        let others = kubelets.room.clone().try_acquire_many_owned(all).unwrap();
        let ask = || kubelets.ask(&kubelet, Request::new(Empty::new()));
        assert_eq!(ask().await.err(), Some(Failure::NoRoom));
        drop(others);
        assert!(matches!(ask().await, Err(Failure::Dial { .. })));
        let free = kubelets.room.available_permits();
        assert_eq!(free, EXCHANGES, "a failure holds no room");
    }
}
