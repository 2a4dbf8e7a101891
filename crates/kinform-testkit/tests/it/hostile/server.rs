//! A server that a test writes byte by byte.
//!
//! ```text
//! TcpListener ──head of a request──▶ the test's function { writes whatever it likes } ──▶ closed
//! ```
//!
//! Never: parses more of a request than its first line and its headers as text.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use kube_client::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request's head, its number from 0, and the connection for the reply.
pub(super) struct Call {
    pub(super) head: String,
    pub(super) number: usize,
    pub(super) stream: TcpStream,
}

type Answer = Arc<dyn Fn(Call) -> BoxFuture<'static, ()> + Send + Sync>;

/// A server; dropped with its runtime.
pub(super) struct Hostile {
    url: String,
    calls: Arc<AtomicUsize>,
}

impl Hostile {
    pub(super) async fn start<F>(answer: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let answer: Answer = Arc::new(move |call| Box::pin(answer(call)));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, counted) = (Arc::clone(&answer), Arc::clone(&counted));
                tokio::spawn(async move {
                    let head = read_head(&mut stream).await;
                    if head.is_empty() {
                        return;
                    }
                    let number = counted.fetch_add(1, Ordering::Relaxed);
                    let call = Call {
                        head,
                        number,
                        stream,
                    };
                    answer(call).await;
                });
            }
        });
        Self { url, calls }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The number of requests so far.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn config(&self) -> Config {
        let mut config = Config::new(self.url.parse().unwrap());
        let token = serde_json::json!({ "token": "canary" });
        config.auth_info = serde_json::from_value(token).unwrap();
        config
    }
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

impl Call {
    pub(super) fn is_watch(&self) -> bool {
        self.head
            .lines()
            .next()
            .unwrap_or_default()
            .contains("watch=true")
    }

    /// Begins a reply whose body ends with the connection.
    pub(super) async fn ok(&mut self, headers: &str) {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}\r\n"
        );
        self.write(head.as_bytes()).await;
    }

    /// Writes; returns whether the client still reads.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Writes the same again and again until the client has enough.
    pub(super) async fn write_for_ever(&mut self, bytes: &[u8]) {
        while self.write(bytes).await {}
    }

    /// A whole list without an object, or a watch without an event.
    pub(super) async fn nothing(mut self) {
        self.ok("").await;
        if self.is_watch() {
            // Until the client leaves.
            let _ = self.stream.read(&mut [0]).await;
            return;
        }
        self.write(page("", "").as_bytes()).await;
    }
}

/// A page of a list of config maps.
pub(super) fn page(token: &str, items: &str) -> String {
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"5","continue":"{token}"}},"items":[{items}]}}"#
    )
}

/// A config map with this after its metadata: `,"data":{..}`, or nothing.
pub(super) fn map(name: &str, version: u64, rest: &str) -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"{name}","resourceVersion":"{version}"}}{rest}}}"#
    )
}
