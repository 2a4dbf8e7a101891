//! Sockets of this host, in clear and over TLS.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A handler with a path for each way to answer.
fn handler() -> Handler {
    Arc::new(|request| {
        async move {
            match request.uri().path() {
                "/panic" => panic!("planted"),
                "/never" => std::future::pending().await,
                "/stream" => {
                    let chunks = futures::stream::iter(["one ", "two"]);
                    let chunks = chunks.map(|chunk| Bytes::from_static(chunk.as_bytes()));
                    let rest = futures::stream::pending();
                    Response::new(Body::Streamed(chunks.chain(rest).boxed()))
                }
                _ => Response::new(request.into_body().into()),
            }
        }
        .boxed()
    })
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn start(
        tls: Option<Arc<rustls::ServerConfig>>,
        limits: Limits,
        handler: Handler,
    ) -> Self {
        let bound = Bound::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (bound.address(), CancellationToken::new());
        let served = tokio::spawn(bound.serve(tls, limits, handler, stop.clone()));
        Self {
            address,
            stop,
            served,
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap();
    }

    /// Sends bytes on a new connection and reads to its end.
    async fn exchange(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        // A reset after the reply is an end, too.
        let _ = stream.read_to_end(&mut read).await;
        String::from_utf8_lossy(&read).into_owned()
    }
}

fn short() -> Limits {
    Limits {
        body: 1000,
        answer_time: Duration::from_millis(200),
        grace: Duration::from_millis(500),
        ..Limits::probes()
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn each_request_has_its_answer_and_faults_of_handlers_are_theirs_alone() {
    let server = Running::start(None, short(), handler()).await;
    let long = "x".repeat(1001);
    let head = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nLong: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    for (request, code, body) in [
        (request("POST", "/", "hello"), "200 OK", "hello"),
        (
            request("POST", "/panic", ""),
            "500 ",
            "the handler panicked\n",
        ),
        (
            request("POST", "/never", ""),
            "504 ",
            "the answer took too long\n",
        ),
        (
            request("POST", "/", &long),
            "413 ",
            "the body has more than 1000 bytes\n",
        ),
        (request("HEAD", "/", "hello"), "200 OK", ""),
        (head, "431 ", ""),
        ("nonsense\r\n\r\n".to_owned(), "400 ", ""),
    ] {
        let reply = server.exchange(&request).await;
        let (head, got) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {code}")), "{reply}");
        assert_eq!(got, body, "{reply}");
        assert!(
            code != "200 OK" || head.contains("content-length: 5"),
            "{reply}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_refused() {
    let server = Running::start(None, short(), handler()).await;
    let reply = server
        .exchange("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
        .await;
    assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
    server.stop().await;
}

#[tokio::test]
async fn a_silent_connection_ends_after_its_time() {
    let limits = Limits {
        head_time: Duration::from_millis(50),
        ..short()
    };
    let server = Running::start(None, limits, handler()).await;
    for part in ["", "GET / HTTP/1.1\r\nHo"] {
        assert_eq!(server.exchange(part).await, "");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stop_lets_answers_end_and_closes_idle_connections() {
    let release = CancellationToken::new();
    let (begun, of_test) = (Arc::new(tokio::sync::Notify::new()), release.clone());
    let in_handler = begun.clone();
    let handler: Handler = Arc::new(move |_| {
        let (release, begun) = (of_test.clone(), in_handler.clone());
        async move {
            begun.notify_one();
            release.cancelled().await;
            Response::new(Body::from(Bytes::from("done")))
        }
        .boxed()
    });
    let limits = Limits {
        grace: Duration::from_secs(60),
        answer_time: Duration::from_secs(60),
        ..Limits::probes()
    };
    let server = Running::start(None, limits, handler).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    busy.write_all(request).await.unwrap();
    begun.notified().await;
    server.stop.cancel();
    // It has sent no request yet: its first one is answered.
    idle.write_all(request).await.unwrap();
    begun.notified().await;
    assert!(!server.served.is_finished());
    release.cancel();
    for stream in [&mut busy, &mut idle] {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        assert!(reply.ends_with("done"), "{reply}");
    }
    server.served.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn answers_that_outlast_the_grace_are_cut() {
    let limits = Limits {
        answer_time: Duration::from_secs(600),
        ..short()
    };
    let running = Arc::new(AtomicUsize::new(0));
    let (count, begun) = (running.clone(), Arc::new(tokio::sync::Notify::new()));
    let in_handler = begun.clone();
    let handler: Handler = Arc::new(move |_| {
        let (count, begun) = (count.clone(), in_handler.clone());
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            let _ended = Ended(count);
            begun.notify_one();
            std::future::pending().await
        }
        .boxed()
    });
    let server = Running::start(None, limits, handler).await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    begun.notified().await;
    server.stop().await;
    assert_eq!(running.load(Ordering::SeqCst), 0, "no answer runs on");
}

struct Ended(Arc<AtomicUsize>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn connections_are_bounded_and_an_idle_one_makes_room() {
    let limits = Limits {
        connections: 2,
        // So that nothing but the bound ends them.
        head_time: Duration::from_secs(600),
        ..short()
    };
    let server = Running::start(None, limits, handler()).await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    let reply = server.exchange(&request("POST", "/", "hello")).await;
    assert!(reply.ends_with("hello"), "{reply}");
    let mut displaced = Vec::new();
    let ended = idle[0].read_to_end(&mut displaced);
    let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
    ended.expect("an idle one makes room").unwrap();
    server.stop().await;
}

/// TLS with a certificate for `localhost`: the server's side with ALPN names, and the client's.
fn tls(alpn: &[&str]) -> (Arc<rustls::ServerConfig>, rustls::ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let chain = vec![made.cert.der().clone()];
    let alpn: Vec<Vec<u8>> = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.clone(), key)
        .unwrap();
    server.alpn_protocols = alpn.clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain[0].clone()).unwrap();
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = alpn;
    (Arc::new(server), client)
}

async fn connect_tls(
    server: &Running,
    client: rustls::ClientConfig,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(client))
        .connect(name, stream)
        .await
        .unwrap()
}

#[tokio::test]
async fn http_2_is_spoken_over_tls_where_it_is_offered() {
    // controller-runtime: "should support HTTP/2"
    let (config, client) = tls(&["h2", "http/1.1"]);
    let server = Running::start(Some(config), short(), handler()).await;
    let stream = connect_tls(&server, client).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    for (method, path, code, body) in [
        ("POST", "/", 200, "hello"),
        ("HEAD", "/", 200, ""),
        ("POST", "/panic", 500, "the handler panicked\n"),
        ("POST", "/never", 504, "the answer took too long\n"),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .body(Full::new(Bytes::from("hello")))
            .unwrap();
        let reply = sender.send_request(request).await.unwrap();
        assert_eq!(reply.status(), code, "{path}");
        let got = reply.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(got, body, "{path}");
    }
    server.stop().await;
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn http_1_is_spoken_over_tls_where_http_2_is_not_offered() {
    let (config, client) = tls(&["http/1.1"]);
    let server = Running::start(Some(config), short(), handler()).await;
    let mut stream = connect_tls(&server, client).await;
    let sent = request("POST", "/", "hello");
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply).await;
    assert!(
        reply.starts_with("HTTP/1.1 200 OK") && reply.ends_with("hello"),
        "{reply}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_stream_is_sent_as_it_comes_and_ends_with_the_server() {
    let server = Running::start(None, short(), handler()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let sent = request("GET", "/stream", "");
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"3\r\ntwo\r\n") {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
    }
    let head = server.exchange(&request("HEAD", "/stream", "")).await;
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    server.stop().await;
    stream.read_to_end(&mut read).await.unwrap();
    assert!(read.ends_with(b"0\r\n\r\n"), "the stream ends in order");
}

#[tokio::test]
async fn an_address_that_cannot_be_bound_is_named_with_its_cause() {
    let held = Bound::bind("127.0.0.1:0").await.unwrap();
    let taken = held.address().to_string();
    for (address, cause) in [
        (taken.as_str(), "the port is in use by another process"),
        (
            "8081",
            "an address is HOST:PORT or :PORT, for example \":8081\"",
        ),
        (
            ":nonsense",
            "an address is HOST:PORT or :PORT, for example \":8081\"",
        ),
        (
            ":99999",
            "an address is HOST:PORT or :PORT, for example \":8081\"",
        ),
        ("192.0.2.1:8081", "this host does not have the address"),
    ] {
        let error = Bound::bind(address).await.unwrap_err();
        let line = format!("cannot listen on {address:?}: {cause}");
        assert_eq!(error.to_string(), line);
    }
}

#[tokio::test]
async fn an_address_without_a_host_is_heard_by_both_families() {
    let bound = Bound::bind(":0").await.unwrap();
    let port = bound.address().port();
    for host in [
        std::net::IpAddr::from(Ipv4Addr::LOCALHOST),
        std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
    ] {
        assert!(TcpStream::connect((host, port)).await.is_ok(), "{host}");
    }
}
