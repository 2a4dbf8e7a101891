//! The HTTP source against a client whose server is a function, and against real sockets.

use kinform::{Encoding, GroupVersionResource, ListOptions, Scope, WatchOptions};
use std::convert::Infallible;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzEncoder;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::Full;
use kinform::source::{
    Body, ClientOptions, Compression, HttpSource, ListerWatcher, Representation, ResourceInfo,
    SourceError, SourceErrorKind, Wire, client_for, fetch,
};
use kube_client::client::Body as RequestBody;
use kube_client::{Client, Config};

type Seen = Arc<Mutex<Vec<Request<()>>>>;

/// A client whose server answers every request with `reply`.
fn answering(reply: impl Fn() -> Response<Full<Bytes>> + Send + 'static) -> (Client, Seen) {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let (parts, _) = request.into_parts();
        log.lock().unwrap().push(Request::from_parts(parts, ()));
        let reply = reply();
        async move { Ok::<_, Infallible>(reply) }
    });
    (Client::new(service, "default"), seen)
}

fn reply(code: u16, media: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let builder = Response::builder().status(code);
    let builder = builder.header("content-type", media);
    builder.body(Full::new(body.into())).unwrap()
}

fn pods() -> ResourceInfo {
    ResourceInfo::new(
        GroupVersionResource::new("", "v1", "pods"),
        "Pod",
        Scope::Namespaced,
    )
}

async fn text(body: Body) -> Vec<u8> {
    let mut text = Vec::new();
    let mut chunks = body.into_chunks();
    while let Some(chunk) = chunks.next().await {
        text.extend_from_slice(&chunk.unwrap());
    }
    text
}

#[tokio::test]
async fn a_list_asks_with_its_selectors_and_namespace() {
    let (client, seen) = answering(|| reply(200, "application/json", "{}"));
    let info = ResourceInfo {
        namespace: Some("a".into()),
        label_selector: Some("app=web".into()),
        ..pods()
    };
    let source = HttpSource::new(client, info).with_list_tweak(|options| options.limit = Some(7));
    let body = source.list(&ListOptions::default()).await.unwrap();
    assert_eq!(text(body).await, b"{}");
    let seen = seen.lock().unwrap();
    let uri = seen[0].uri().to_string();
    assert_eq!(
        uri,
        "/api/v1/namespaces/a/pods?labelSelector=app%3Dweb&limit=7"
    );
    assert_eq!(seen[0].headers()["accept-encoding"], "identity");
}

#[tokio::test]
async fn protobuf_is_asked_for_where_there_may_be_some() {
    let foos = ResourceInfo::new(
        GroupVersionResource::new("example.com", "v1", "foos"),
        "Foo",
        Scope::Namespaced,
    );
    let check = async |info: &ResourceInfo, representation, wire, expected: &str| {
        let (client, seen) = answering(|| reply(200, "application/json", "{}"));
        let source = HttpSource::new(client, info.clone())
            .with_representation(representation)
            .with_wire(wire);
        source.list(&ListOptions::default()).await.unwrap();
        source.watch(&WatchOptions::default()).await.unwrap();
        for request in &*seen.lock().unwrap() {
            let accept = request.headers()["accept"].to_str().unwrap();
            let plain = accept.replace("List;", ";");
            assert_eq!(plain, expected);
            let is_list = !request.uri().to_string().contains("watch=true");
            let has_list = accept != plain;
            assert_eq!(
                has_list,
                is_list && representation == Representation::Metadata
            );
        }
    };
    const METADATA: &str = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let json = format!("application/json{METADATA}");
    let both = format!("application/vnd.kubernetes.protobuf{METADATA},{json}");
    let (full, metadata) = (Representation::Full, Representation::Metadata);
    let preferred = "application/vnd.kubernetes.protobuf,application/json";
    check(&pods(), full, Wire::Auto, preferred).await;
    check(&pods(), full, Wire::Json, "application/json").await;
    check(&pods(), metadata, Wire::Auto, &both).await;
    check(&pods(), metadata, Wire::Json, &json).await;
    check(&foos, full, Wire::Auto, "application/json").await;
    check(&foos, metadata, Wire::Auto, &both).await;
}

#[tokio::test]
async fn the_answers_content_type_tells_its_encoding() {
    for (media, expected) in [
        ("application/json", Encoding::Json),
        ("application/vnd.kubernetes.protobuf", Encoding::Protobuf),
        (
            "application/vnd.kubernetes.protobuf;stream=watch",
            Encoding::Protobuf,
        ),
    ] {
        let (client, _) = answering(move || reply(200, media, ""));
        let source = HttpSource::new(client, pods());
        let body = source.watch(&WatchOptions::default()).await.unwrap();
        assert_eq!(body.encoding(), expected, "{media}");
    }
}

#[tokio::test]
async fn a_refusal_in_protobuf_is_read_as_one_in_json() {
    let status = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x1d\x0a\0\x12\x07Failure\
        \x1a\x02no\x22\x09Forbidden\x30\x93\x03\x1a\0\x22\0";
    let media = "application/vnd.kubernetes.protobuf";
    let error = refusal(move || reply(403, media, &status[..])).await;
    assert_eq!(error.kind(), SourceErrorKind::Status);
    let status = error.status().unwrap();
    assert_eq!((status.message.as_str(), status.code), ("no", 403));
    assert!(status.is_forbidden());
}

#[tokio::test]
async fn metadata_alone_is_asked_for_by_accept() {
    let (client, seen) = answering(|| reply(200, "application/json;as=PartialObjectMetadata", ""));
    let source = HttpSource::new(client, pods()).with_representation(Representation::Metadata);
    source.watch(&WatchOptions::default()).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].uri(), "/api/v1/pods?watch=true");
    let accept = seen[0].headers()["accept"].to_str().unwrap();
    assert!(accept.contains("as=PartialObjectMetadata;"), "{accept}");
}

#[tokio::test]
async fn gzip_members_come_unpacked() {
    let mut packed = Vec::new();
    for part in ["{\"a\":1}\n", "{\"b\":2}\n"] {
        let mut member = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        member.write_all(part.as_bytes()).unwrap();
        packed.extend(member.finish().unwrap());
    }
    let (client, seen) = answering(move || {
        let mut reply = reply(200, "application/json", packed.clone());
        reply
            .headers_mut()
            .insert("content-encoding", "gzip".parse().unwrap());
        reply
    });
    let source = HttpSource::new(client, pods()).with_compression(Compression::Gzip);
    let body = source.watch(&WatchOptions::default()).await.unwrap();
    assert_eq!(text(body).await, b"{\"a\":1}\n{\"b\":2}\n");
    assert_eq!(seen.lock().unwrap()[0].headers()["accept-encoding"], "gzip");
}

async fn refusal(reply: impl Fn() -> Response<Full<Bytes>> + Send + 'static) -> SourceError {
    let (client, _) = answering(reply);
    let source = HttpSource::new(client, pods());
    source.list(&ListOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn a_refusal_keeps_code_reason_and_retry_after() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
        "message":"too many","reason":"TooManyRequests","details":{"retryAfterSeconds":9},"code":429}"#;
    let error = refusal(move || {
        let mut reply = reply(429, "application/json", status);
        reply
            .headers_mut()
            .insert("retry-after", "3".parse().unwrap());
        reply
    })
    .await;
    assert_eq!(error.kind(), SourceErrorKind::Status);
    assert!(error.status().unwrap().is_too_many_requests());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(error.to_string(), "too many");
}

#[tokio::test]
async fn a_page_for_people_is_not_kubernetes() {
    let error = refusal(|| reply(200, "text/html; charset=utf-8", "<html>log in")).await;
    assert_eq!(error.kind(), SourceErrorKind::NotKubernetes);
    assert!(
        error.to_string().contains("not a Kubernetes API server"),
        "{error}"
    );
}

#[tokio::test]
async fn a_small_document_is_fetched_up_to_its_bound() {
    let (client, _) = answering(|| reply(200, "application/json", "{\"kind\":\"APIVersions\"}"));
    assert_eq!(fetch(&client, "/api", 100).await.unwrap().len(), 22);
    let error = fetch(&client, "/api", 10).await.unwrap_err();
    assert!(
        error.to_string().contains("longer than 10 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_listening_is_a_refused_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let source = HttpSource::new(client, pods());
    let error = source.list(&ListOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Refused);
    assert!(error.to_string().contains("onnection refused"), "{error}");
}

// fault: F1
#[tokio::test]
async fn a_body_cut_in_the_middle_is_a_broken_transport() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = socket.read(&mut request).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(b"5\r\n{\"a\":\r\n").await.unwrap();
    });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let source = HttpSource::new(client, pods());
    let body = source.list(&ListOptions::default()).await.unwrap();
    let chunks: Vec<_> = body.into_chunks().collect().await;
    assert_eq!(chunks[0].as_ref().unwrap().as_ref(), b"{\"a\":");
    assert_eq!(
        chunks[1].as_ref().unwrap_err().kind(),
        SourceErrorKind::Transport
    );
    server.await.unwrap();
}

/// A server that answers each request of its one connection with the next of `replies`; then it
/// keeps the connection.
async fn answering_over_a_socket(replies: &'static [&'static str]) -> Config {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        for reply in replies {
            let _ = socket.read(&mut request).await.unwrap();
            socket.write_all(reply.as_bytes()).await.unwrap();
        }
        let _ = socket.read(&mut request).await;
    });
    Config::new(format!("http://{address}").parse().unwrap())
}

const UNAVAILABLE: &str =
    "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
const EMPTY: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
const WATCH: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

/// A server of one connection that sends the test's text, and notifies the test of a request.
struct RequestLog {
    source: HttpSource,
    send: tokio::sync::mpsc::UnboundedSender<&'static str>,
    asked: Arc<tokio::sync::Notify>,
    closed: tokio::task::JoinHandle<()>,
}

impl RequestLog {
    async fn start() -> Self {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, mut told) = tokio::sync::mpsc::unbounded_channel();
        let asked = Arc::new(tokio::sync::Notify::new());
        let was_asked = Arc::clone(&asked);
        let closed = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            loop {
                tokio::select! {
                    biased;
                    Some(text) = told.recv() => {
                        let text: &str = text;
                        socket.write_all(text.as_bytes()).await.unwrap();
                    }
                    read = socket.read(&mut request) => match read {
                        Ok(0) | Err(_) => return,
                        Ok(_) => was_asked.notify_one(),
                    },
                }
            }
        });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = client_for(config, &ClientOptions::default()).unwrap();
        Self {
            source: HttpSource::new(client, pods()),
            send,
            asked,
            closed,
        }
    }

    fn send(&self, text: &'static str) {
        self.send.send(text).unwrap();
    }

    /// A body of which nothing has come when it is first read.
    async fn list(
        &self,
        head: &'static str,
    ) -> futures::stream::BoxStream<'static, Result<Bytes, SourceError>> {
        let options = ListOptions::default();
        let answer = async {
            self.asked.notified().await;
            self.send(head);
        };
        let (body, ()) = futures::join!(self.source.list(&options), answer);
        let mut chunks = body.unwrap().into_chunks();
        assert!(futures::poll!(chunks.next()).is_pending());
        chunks
    }
}

/// Fails where something would never end.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("it comes")
}

const SIZED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n";

#[tokio::test]
async fn a_connection_is_used_again_while_a_body_that_was_read_is_still_held() {
    let told = RequestLog::start().await;
    let mut held = Vec::new();
    for (head, end) in [(WATCH, "0\r\n\r\n"), (SIZED, "")].repeat(2) {
        let mut chunks = soon(told.list(head)).await;
        let pieces = match head {
            SIZED => ["{", "}"],
            _ => ["1\r\n{\r\n", "1\r\n}\r\n"],
        };
        for (piece, expected) in pieces.into_iter().zip(["{", "}"]) {
            told.send(piece);
            assert_eq!(soon(chunks.next()).await.unwrap().unwrap(), expected);
        }
        told.send(end);
        // Of a body whose length is known, nobody needs to ask for more.
        if head == WATCH {
            assert!(soon(chunks.next()).await.is_none());
        }
        held.push(chunks);
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_closes_its_connection() {
    let told = RequestLog::start().await;
    let mut chunks = soon(told.list(WATCH)).await;
    told.send("1\r\n{\r\n");
    assert_eq!(soon(chunks.next()).await.unwrap().unwrap(), "{");
    assert!(futures::poll!(chunks.next()).is_pending());
    drop(chunks);
    soon(told.closed).await.unwrap();
}

#[tokio::test]
async fn a_body_is_read_in_another_runtime_until_its_own_ends() {
    let own = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (told, mut chunks) = own
        .spawn(async {
            let told = RequestLog::start().await;
            let chunks = told.list(WATCH).await;
            (told, chunks)
        })
        .await
        .unwrap();
    told.send("1\r\n{\r\n");
    assert_eq!(soon(chunks.next()).await.unwrap().unwrap(), "{");
    assert!(futures::poll!(chunks.next()).is_pending());
    own.shutdown_background();
    assert!(soon(chunks.next()).await.unwrap().is_err());
}

#[tokio::test]
async fn d17_a_client_of_ours_asks_once() {
    // kube-client 5.0 src/client/retry.rs: up to 15 times, for minutes
    let config = answering_over_a_socket(&[UNAVAILABLE, EMPTY]).await;
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let source = HttpSource::new(client, pods());
    let error = source.list(&ListOptions::default()).await.unwrap_err();
    assert_eq!(error.http_code(), Some(503));
    assert_eq!(error.retry_after(), Some(Duration::ZERO));
    let body = source.list(&ListOptions::default()).await.unwrap();
    assert_eq!(text(body).await, b"{}");
}

/// The kernel's timer on our end of the connection to `port`: its kind and remaining time.
#[cfg(target_os = "linux")]
fn timer_of_connection_to(port: u16) -> Option<(u8, Duration)> {
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let lines = table
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>());
    let line = lines
        .into_iter()
        .find(|l| l[2].ends_with(&remote) && l[3] == ESTABLISHED)?;
    let (timer, ticks) = line[5].split_once(':')?;
    let ticks = u64::from_str_radix(ticks, 16).ok()?;
    Some((timer.parse().ok()?, Duration::from_millis(10 * ticks)))
}

// fault: F3
#[cfg(target_os = "linux")]
#[tokio::test]
async fn b19_a_peer_that_vanished_is_probed_by_the_kernel() {
    // client-go#374, kubernetes#87615: a half-open connection is silent for 15 minutes
    const KEEPALIVE: u8 = 2;
    let config = answering_over_a_socket(&[WATCH]).await;
    let port = config.cluster_url.port_u16().unwrap();
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let source = HttpSource::new(client, pods());
    let _body = source.watch(&WatchOptions::default()).await.unwrap();
    // What we sent may still have to be confirmed: only then the connection is idle.
    let waiting = std::iter::repeat_with(|| timer_of_connection_to(port).unwrap());
    let idle = waiting.take(1_000_000).find(|(timer, _)| *timer != 1);
    let (timer, wait) = idle.unwrap();
    assert_eq!(timer, KEEPALIVE);
    assert!(wait <= Duration::from_secs(15), "{wait:?}");
}

// fault: F14
#[tokio::test]
async fn credentials_that_are_refused_are_read_again() {
    // client-go: ResetTokenOlderThan; kube reads a token file again after a minute
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        loop {
            let read = socket.read(&mut request).await.unwrap();
            let text = String::from_utf8_lossy(&request[..read]).to_lowercase();
            let reply = if text.contains("authorization: bearer second") {
                EMPTY
            } else {
                "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"
            };
            socket.write_all(reply.as_bytes()).await.unwrap();
        }
    });
    let name = format!("kinform-token-{}", std::process::id());
    let token = std::env::temp_dir().join(name);
    std::fs::write(&token, "first").unwrap();
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    config.auth_info.token_file = Some(token.to_string_lossy().into_owned());
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let source = HttpSource::new(client, pods());
    let list = async || source.list(&ListOptions::default()).await;
    std::fs::write(&token, "second").unwrap();
    assert!(list().await.unwrap_err().is_unauthorized());
    list().await.unwrap();
    std::fs::remove_file(&token).unwrap();
}

#[test]
fn a_conflict_of_writers_is_no_taken_name() {
    for (code, is_conflict) in [(409, true), (404, false)] {
        let refused = SourceError::from_status(code, kinform::Status::failure(code, "", "no"));
        assert_eq!(refused.is_conflict(), is_conflict);
        let error = kinform::Error::from(refused);
        assert_eq!(
            (error.is_conflict(), error.is_name_taken()),
            (is_conflict, false)
        );
    }
}
