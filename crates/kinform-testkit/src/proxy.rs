//! A TCP proxy that misbehaves on command, as networks between client and server do.
//!
//! ```text
//! client ──▶ Proxy { Pass | Refuse | Stall, cut } ──▶ server
//! ```
//!
//! `Refuse` closes the listening socket, so that connecting fails as without a listener; `Stall`
//! keeps every socket open and transfers no byte; [`Proxy::cut`] closes every connection
//! immediately, even in the middle of a message. The port stays the same all along.
//!
//! It copies bytes and knows nothing of HTTP or TLS, so it works in front of any server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::control::{Control, Network, ProxyMode};

/// BOUND: what one direction of one connection holds.
const BUFFER: usize = 16 << 10;

/// Between two tries to have the port back.
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// A running proxy; dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to `upstream`.
    ///
    /// # Errors
    /// If no port can be had.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control::default());
        let task = tokio::spawn(serve(listener, address, upstream, Arc::clone(&control)));
        Ok(Self {
            address,
            control,
            task,
        })
    }

    /// The address to which clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode from now on, for open connections too, except `Refuse`.
    pub fn set(&self, mode: ProxyMode) {
        self.control.set(mode);
    }

    /// Closes every open connection now.
    pub fn cut(&self) {
        self.control.cut();
    }

    /// Closes every open connection once `bytes` more bytes have gone to clients.
    pub fn cut_after(&self, bytes: u64) {
        self.control.cut_after(bytes);
    }
}

impl Network for Proxy {
    fn set(&self, mode: ProxyMode) {
        self.set(mode);
    }

    fn cut(&self) {
        self.cut();
    }

    fn cut_after(&self, bytes: u64) {
        self.cut_after(bytes);
    }

    fn connections(&self) -> watch::Receiver<u64> {
        self.control.connections()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts while it may; owns every connection's task.
async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    upstream: SocketAddr,
    control: Arc<Control>,
) {
    let mut orders = control.follow();
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        let refusing = orders.mode() == ProxyMode::Refuse;
        match (&listener, refusing) {
            (Some(_), true) => listener = None,
            // The port is ours all along; if another process took it in between, try again.
            (None, false) => match TcpListener::bind(address).await {
                Ok(bound) => listener = Some(bound),
                Err(_) => {
                    tokio::time::sleep(BIND_PAUSE).await;
                    continue;
                }
            },
            _ => {}
        }
        tokio::select! {
            biased;
            changed = orders.changed() => if !changed { return },
            Some(_) = connections.join_next() => {}
            accepted = accept(listener.as_ref()) => {
                if let Ok(client) = accepted {
                    control.connected();
                    connections.spawn(connection(client, upstream, Arc::clone(&control)));
                }
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

/// One connection, until either side ends it or it is cut.
async fn connection(client: TcpStream, upstream: SocketAddr, control: Arc<Control>) {
    let mut cut = control.follow();
    let forward = async {
        control.follow().passing().await;
        let Ok(server) = TcpStream::connect(upstream).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::join!(
            copy(from_client, to_server, &control, |bytes| bytes),
            copy(from_server, to_client, &control, |bytes| control
                .spend(bytes)),
        );
    };
    tokio::select! {
        biased;
        () = cut.cut() => {}
        () = forward => {}
    }
}

/// Moves bytes while they may pass; `spend` returns the number of them that precede a cut.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    control: &Control,
    spend: impl Fn(usize) -> usize,
) {
    let mut orders = control.follow();
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        orders.passing().await;
        let pass = spend(read);
        if to.write_all(&buffer[..pass]).await.is_err() {
            break;
        }
        if pass < read {
            // Nothing may follow what was left out.
            control.cut();
            return;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_follows_a_cut_in_the_middle_of_many_bytes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let upstream = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // More than the proxy holds at once.
            let bytes: Vec<u8> = (0..BUFFER * 4).map(|at| (at % 251) as u8).collect();
            let _ = stream.write_all(&bytes).await;
        });
        let proxy = Proxy::start(upstream).await.unwrap();
        proxy.cut_after(1000);
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let mut heard = Vec::new();
        let _ = client.read_to_end(&mut heard).await;
        let expected: Vec<u8> = (0..1000).map(|at| (at % 251) as u8).collect();
        assert!(heard == expected[..heard.len()], "{} bytes", heard.len());
    }

    /// A server that answers each byte with its successor.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        if stream.write_u8(byte + 1).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn it_passes_cuts_and_refuses() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_u8(1).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 2);

        proxy.cut();
        assert!(stream.read_u8().await.is_err());

        proxy.set(ProxyMode::Refuse);
        while TcpStream::connect(proxy.address()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        proxy.set(ProxyMode::Pass);
        let mut stream = loop {
            if let Ok(stream) = TcpStream::connect(proxy.address()).await {
                break stream;
            }
            tokio::task::yield_now().await;
        };
        stream.write_u8(5).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 6);
    }

    #[tokio::test]
    async fn a_stall_keeps_bytes_and_sockets() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.set(ProxyMode::Stall);
        stream.write_u8(7).await.unwrap();
        let mut byte = [0];
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(
                stream.try_read(&mut byte).is_err(),
                "nothing moves while stalled"
            );
        }
        proxy.set(ProxyMode::Pass);
        assert_eq!(stream.read_u8().await.unwrap(), 8);
    }
}
