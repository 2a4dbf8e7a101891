//! The bytes of an upgraded connection, from a client to a kubelet and back.
//!
//! ```text
//! client ◀──▶ Tunnel ◀──▶ kubelet        one side ends ──▶ the other is told, and may finish
//! ```
//!
//! The bytes are not looked at: SPDY and WebSocket pass alike. A direction reads its next bytes when
//! the last ones were written, so a slow reader slows its writer. An upstream server ends both
//! directions with the first one; here the other one may finish, as long as bytes come.
//!
//! Upstream: `kubernetes/apimachinery:pkg/util/proxy/upgradeaware.go` (`tryUpgrade`).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::IDLE;

/// BOUND: bytes of one direction that are read and not written yet.
const BUFFER: usize = 32 << 10;
/// BOUND: the time without a byte that one direction is kept after the other has ended.
const LINGER: Duration = Duration::from_secs(10);

/// An upgraded connection to a kubelet.
#[derive(Debug)]
pub(crate) struct Tunnel {
    kubelet: Upgraded,
    // Is given back when the tunnel ends.
    _permit: OwnedSemaphorePermit,
}

impl Tunnel {
    pub(super) fn new(kubelet: Upgraded, permit: OwnedSemaphorePermit) -> Self {
        Self {
            kubelet,
            _permit: permit,
        }
    }

    /// Passes bytes between a client's connection and the kubelet's until both have ended, no byte
    /// comes any more, or the server stops.
    pub(crate) async fn run(self, client: OnUpgrade, stopping: CancellationToken) {
        let work = async {
            match client.await {
                Ok(client) => join(TokioIo::new(client), TokioIo::new(self.kubelet)).await,
                Err(error) => tracing::debug!(%error, "a client left before its upgrade"),
            }
        };
        stopping.run_until_cancelled(work).await;
    }
}

/// A tunnel on its way from a handler to the client's connection, as an extension of the reply.
#[derive(Clone, Debug)]
pub(crate) struct Handover(Arc<Mutex<Option<Tunnel>>>);

impl Handover {
    pub(crate) fn new(tunnel: Tunnel) -> Self {
        Self(Arc::new(Mutex::new(Some(tunnel))))
    }

    /// Returns the tunnel, once.
    pub(crate) fn take(self) -> Option<Tunnel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Passes bytes in both directions.
async fn join(client: impl AsyncRead + AsyncWrite, kubelet: impl AsyncRead + AsyncWrite) {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_kubelet, to_kubelet) = tokio::io::split(kubelet);
    let moved = Notify::new();
    let mut up = std::pin::pin!(pass(from_client, to_kubelet, &moved));
    let mut down = std::pin::pin!(pass(from_kubelet, to_client, &moved));
    let (mut up_ended, mut down_ended) = (false, false);
    while !(up_ended && down_ended) {
        let silence = match up_ended || down_ended {
            true => LINGER,
            false => IDLE,
        };
        let ended = tokio::select! {
            biased;
            ended = &mut up, if !up_ended => {
                up_ended = true;
                ended
            }
            ended = &mut down, if !down_ended => {
                down_ended = true;
                ended
            }
            // The silence begins anew.
            () = moved.notified() => Ok(()),
            () = tokio::time::sleep(silence) => return,
        };
        if let Err(error) = ended {
            return tracing::trace!(%error, "a tunnel broke");
        }
    }
}

/// Passes bytes in one direction, and its end.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &Notify,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        to.flush().await?;
        moved.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    fn tunnel() -> (DuplexStream, DuplexStream, JoinHandle<()>) {
        let (client, inner) = duplex(1024);
        let (outer, kubelet) = duplex(1024);
        (client, kubelet, tokio::spawn(join(inner, outer)))
    }

    async fn read(from: &mut DuplexStream) -> String {
        let mut text = String::new();
        from.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_ended_still_hears_the_other_one() {
        let (mut client, mut kubelet, tunnel) = tunnel();
        client.write_all(b"ask").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read(&mut kubelet).await, "ask");
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(9)).await;
            kubelet.write_all(b"tell ").await.unwrap();
        }
        drop(kubelet);
        assert_eq!(read(&mut client).await, "tell tell tell ");
        tunnel.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_tunnel_late_and_half_of_one_soon() {
        let (_client, _kubelet, whole) = tunnel();
        let (mut client, _other_kubelet, half) = tunnel();
        let began = Instant::now();
        client.shutdown().await.unwrap();
        half.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), LINGER.as_secs());
        whole.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), IDLE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_slows_its_writer() {
        let (mut client, mut kubelet, _tunnel) = tunnel();
        let bytes = vec![7; 1 << 20];
        let writing = tokio::spawn(async move {
            client.write_all(&bytes).await.unwrap();
            client
        });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!writing.is_finished());
        let mut got = vec![0; 1 << 20];
        kubelet.read_exact(&mut got).await.unwrap();
        assert!(got.iter().all(|byte| *byte == 7));
        let _client = writing.await.unwrap();
    }
}
