//! A kubelet that answers by the name of the pod, over TLS on loopback.
//!
//! ```text
//! GET /containerLogs/a/POD/c, POST /exec/a/POD/c ──TLS──▶ bytes, written by hand
//! ```

use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::tls;

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Other: x\r\n\r\nhello ";

/// A running kubelet; it stops when it is dropped.
pub(crate) struct Kubelet {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Shared {
    /// The heads of the requests that came.
    heads: Mutex<Vec<String>>,
    /// Lets the log of a pod go on.
    next: Notify,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Kubelet {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (shared, stop) = (Arc::<Shared>::default(), CancellationToken::new());
        let served = serve(listener, acceptor(), shared.clone(), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(served));
        Self { port, shared, stop }
    }

    /// The heads of the requests that came.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }

    /// Lets the log of a pod go on.
    pub(crate) fn go_on(&self) {
        self.shared.next.notify_one();
    }
}

fn acceptor() -> TlsAcceptor {
    // No authority signed it, and its name is another one.
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["elsewhere.example.com".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    tls::acceptor(&certificate, &key)
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                // A client may leave at any time.
                drop(answer(stream, &shared).await);
            }
        }));
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let pod = head.split('/').nth(3).unwrap_or_default();
    let pod = pod.split([' ', '?']).next().unwrap_or_default().to_owned();
    shared.heads.lock().unwrap().push(head);
    match pod.as_str() {
        "echo" => return echo(stream).await,
        "log" => {
            let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n";
            stream.write_all(start.as_bytes()).await?;
            stream.flush().await?;
            shared.next.notified().await;
            stream.write_all(b"4\r\ntwo\n\r\n0\r\n\r\n").await?;
        }
        "breaking" => {
            let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n";
            stream.write_all(start.as_bytes()).await?;
        }
        "garbage" => stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await?,
        "long" => {
            let line = format!("X-Long: {}\r\n", "x".repeat(1 << 10));
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            for _ in 0..90 {
                stream.write_all(line.as_bytes()).await?;
            }
            stream.write_all(b"\r\n").await?;
        }
        "silent" => std::future::pending().await,
        "closing" => {}
        code => {
            let text = format!("<b>{code} from the kubelet</b>");
            let length = text.len();
            let reply = format!(
                "HTTP/1.1 {code} Code\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
                 Set-Cookie: a=b\r\n\r\n{text}"
            );
            stream.write_all(reply.as_bytes()).await?;
        }
    }
    stream.shutdown().await
}

/// Upgrades, returns each byte, and says goodbye when the client has ended.
async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    stream.write_all(SWITCHED.as_bytes()).await?;
    stream.flush().await?;
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        stream.write_all(&buffer[..read]).await?;
        stream.flush().await?;
    }
    stream.write_all(b" bye").await?;
    stream.shutdown().await
}
