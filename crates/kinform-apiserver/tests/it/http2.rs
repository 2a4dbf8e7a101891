//! HTTP/2: many requests on one connection, independent of each other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kinform_apiserver::{Fault, FaultRule, Server};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::without_maps;

const LIST: &str = "/api/v1/configmaps";
const WATCH: &str = "/api/v1/configmaps?watch=1";

/// One connection of HTTP/2.
struct Client {
    sender: http2::SendRequest<Full<Bytes>>,
    token: String,
    ended: JoinHandle<hyper::Result<()>>,
}

impl Client {
    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        server: &Server,
    ) -> Self {
        let stream = TokioIo::new(stream);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
        Self {
            sender,
            token: format!("Bearer {}", server.token()),
            ended: tokio::spawn(connection),
        }
    }

    async fn in_clear(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
        Self::over(stream, server).await
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Response<Incoming> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", "localhost"))
            .header("authorization", &self.token)
            .header("content-type", "application/json")
            .body(Full::from(body))
            .unwrap();
        self.sender.clone().send_request(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> Response<Incoming> {
        self.send("GET", path, Value::Null).await
    }

    async fn list_code(&self) -> StatusCode {
        let reply = self.get(LIST).await;
        let code = reply.status();
        reply.into_body().collect().await.unwrap();
        code
    }

    async fn create(&self, name: &str) {
        let path = "/api/v1/namespaces/default/configmaps";
        let reply = self
            .send("POST", path, json!({"metadata": {"name": name}}))
            .await;
        assert_eq!(reply.status(), 201);
    }
}

/// The next piece of a watch as text; `None` at its clean end.
async fn next(body: &mut Incoming) -> Option<hyper::Result<String>> {
    loop {
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame());
        let frame = match frame.await.expect("a frame, or the end of the stream")? {
            Ok(frame) => frame,
            Err(error) => return Some(Err(error)),
        };
        // An end may come as an empty frame.
        if let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) {
            return Some(Ok(String::from_utf8(data.to_vec()).unwrap()));
        }
    }
}

async fn tls(server: &Server, protocols: &[&str]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = server.authority().unwrap().as_bytes();
    roots
        .add(CertificateDer::from_pem_slice(authority).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn a_head_request_is_answered_without_a_body() {
    let server = Server::builder().plain().start().await.unwrap();
    without_maps(&server);
    let client = Client::in_clear(&server).await;
    client.create("x").await;
    for (path, code) in [
        ("/api/v1/namespaces/default/configmaps/x", 405),
        ("/api/v1/nothing", 404),
        ("/version", 200),
    ] {
        let reply = client.send("HEAD", path, Value::Null).await;
        assert_eq!(reply.status(), code, "{path}");
        let length = reply.headers()["content-length"].to_str().unwrap();
        assert!(length.parse::<u32>().unwrap() > 0, "{path}: {length}");
        let body = reply.into_body().collect().await.unwrap();
        assert!(body.to_bytes().is_empty(), "{path}");
    }
    assert_eq!(client.list_code().await, 200);
}

#[tokio::test]
async fn watches_lists_and_writes_share_one_connection() {
    let server = Server::builder().plain().start().await.unwrap();
    without_maps(&server);
    let client = Client::in_clear(&server).await;
    let mut watches = Vec::new();
    for _ in 0..300 {
        let reply = client.get(WATCH).await;
        assert_eq!(
            (reply.status(), reply.version()),
            (StatusCode::OK, Version::HTTP_2)
        );
        watches.push(reply.into_body());
    }
    client.create("x").await;
    assert_eq!(client.list_code().await, 200);
    for watch in &mut watches {
        let event = next(watch).await.unwrap().unwrap();
        assert!(event.contains(r#""type":"ADDED""#), "{event}");
    }
    let journal = server.journal().records();
    let opened = journal.iter().filter(|record| record.verb == "watch");
    assert_eq!(opened.count(), 300);
}

#[tokio::test]
async fn a_reset_and_a_stall_befall_one_stream_alone() {
    let server = Server::builder().plain().start().await.unwrap();
    without_maps(&server);
    let client = Client::in_clear(&server).await;
    let mut whole = client.get(WATCH).await.into_body();
    let on_watch = |fault| FaultRule::new(fault).on_verb("watch");
    server.faults().inject(on_watch(Fault::TruncateAfter(10)));
    let mut cut = client.get(WATCH).await.into_body();
    server.faults().inject(on_watch(Fault::StallAfter(10)));
    let mut stalled = client.get(WATCH).await.into_body();

    client.create("x").await;
    let event = next(&mut whole).await.unwrap().unwrap();
    assert!(event.ends_with('\n'), "{event}");
    let mut end = next(&mut cut).await.unwrap();
    while end.is_ok() {
        end = next(&mut cut).await.expect("a reset, not a clean end");
    }
    assert!(!end.unwrap_err().is_incomplete_message());
    assert_eq!(next(&mut stalled).await.unwrap().unwrap().len(), 10);
    assert_eq!(client.list_code().await, 200);
    client.create("y").await;
    assert!(next(&mut whole).await.unwrap().is_ok());
}

#[tokio::test]
async fn stopping_ends_every_stream_cleanly_and_then_the_connection() {
    let server = Server::builder().plain().start().await.unwrap();
    without_maps(&server);
    let client = Client::in_clear(&server).await;
    let mut watch = client.get(WATCH).await.into_body();
    let started = std::time::Instant::now();
    server.stop().await;
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "the client had nothing to end"
    );
    let end = next(&mut watch).await;
    assert!(end.is_none(), "not a clean end: {end:?}");
    client.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn over_tls_clients_choose_their_protocol() {
    let server = Server::builder().start().await.unwrap();
    without_maps(&server);
    let stream = tls(&server, &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let client = Client::over(stream, &server).await;
    assert_eq!(client.list_code().await, 200);

    for protocols in [&["http/1.1"][..], &[]] {
        let stream = tls(&server, protocols).await;
        let chosen = stream.get_ref().1.alpn_protocol();
        assert_eq!(chosen, protocols.first().map(|name| name.as_bytes()));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::get("/version").header("host", "localhost");
        let reply = sender
            .send_request(request.body(Full::<Bytes>::default()).unwrap())
            .await;
        let reply = reply.unwrap();
        assert_eq!(
            (reply.status(), reply.version()),
            (StatusCode::OK, Version::HTTP_11)
        );
        drop((sender, reply));
        let _ = connection.await.unwrap();
    }
}

#[tokio::test]
async fn a_head_beyond_the_bound_is_refused_and_the_connection_goes_on() {
    let server = Server::builder().plain().start().await.unwrap();
    without_maps(&server);
    let client = Client::in_clear(&server).await;
    let request = Request::get(format!("http://localhost{LIST}"))
        .header("authorization", &client.token)
        .header("x-long", "x".repeat(70 << 10));
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let refused = client.sender.clone().send_request(request).await;
    assert!(refused.map_or(true, |reply| reply.status() == 431));
    assert_eq!(client.list_code().await, 200);
}
