//! Connections as they are in the field: through a proxy, with a token that is replaced, to a server
//! of another protocol.
//!
//! ```text
//! kinform ──▶ proxy (CONNECT | SOCKS5, counted) ──▶ embedded server
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{ClientOptions, SourceErrorKind, client_for};
use kinform::{InformerFactory, Notification};
use kinform_testkit::TestServer;
use kube_client::{Client, Config};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// The most that a step may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A proxy on a port of its own that counts the connections it makes.
struct Proxy {
    address: SocketAddr,
    made: Arc<AtomicUsize>,
}

#[derive(Clone, Copy)]
enum Protocol {
    Connect,
    Socks5,
}

impl Proxy {
    async fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counter = counter.clone();
                tokio::spawn(async move {
                    let (mut near, to) = match protocol {
                        Protocol::Connect => connect(stream).await?,
                        Protocol::Socks5 => socks5(stream).await?,
                    };
                    let mut far = TcpStream::connect(to).await.ok()?;
                    counter.fetch_add(1, Ordering::Relaxed);
                    copy_bidirectional(&mut near, &mut far).await.ok()
                });
            }
        });
        Self { address, made }
    }
}

/// Answers `CONNECT host:port` of the user `me` with the password `p@ss`.
async fn connect(stream: TcpStream) -> Option<(BufReader<TcpStream>, String)> {
    let mut stream = BufReader::new(stream);
    let (mut to, mut is_known) = (String::new(), false);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let line = line.trim_end();
        if let Some(rest) = line.strip_prefix("CONNECT ") {
            to = rest.split(' ').next()?.to_owned();
        }
        let line = line.to_ascii_lowercase();
        is_known |= line == "proxy-authorization: basic bwu6cebzcw==";
        if line.is_empty() {
            break;
        }
    }
    let reply: &[u8] = match is_known {
        true => b"HTTP/1.1 200 OK\r\n\r\n",
        false => b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
    };
    stream.write_all(reply).await.ok()?;
    is_known.then_some((stream, to))
}

/// Answers a request of SOCKS5 without a login.
async fn socks5(stream: TcpStream) -> Option<(BufReader<TcpStream>, String)> {
    let mut stream = BufReader::new(stream);
    let mut head = [0; 2];
    stream.read_exact(&mut head).await.ok()?;
    let mut methods = vec![0; usize::from(head[1])];
    stream.read_exact(&mut methods).await.ok()?;
    stream.write_all(&[5, 0]).await.ok()?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await.ok()?;
    assert_eq!(request, [5, 1, 0, 1], "an IPv4 address is asked for");
    let mut address = [0; 6];
    stream.read_exact(&mut address).await.ok()?;
    stream
        .write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        .await
        .ok()?;
    let [a, b, c, d, high, low] = address;
    let port = u16::from_be_bytes([high, low]);
    Some((stream, format!("{a}.{b}.{c}.{d}:{port}")))
}

fn client(api: &TestServer, proxy: &str) -> Client {
    let mut config = api.config();
    config.proxy_url = Some(proxy.parse().unwrap());
    client_for(config, &ClientOptions::default()).unwrap()
}

#[tokio::test]
async fn an_informer_syncs_and_watches_through_a_proxy() {
    let api = TestServer::start().await.unwrap();
    for (protocol, scheme) in [
        (Protocol::Connect, "http://me:p%40ss@"),
        (Protocol::Socks5, "socks5://"),
    ] {
        let proxy = Proxy::start(protocol).await;
        let factory = InformerFactory::new(client(&api, &format!("{scheme}{}", proxy.address)));
        let maps = factory.informer::<ConfigMap>();
        factory.start().unwrap();
        factory.synced_within(LIMIT).await.unwrap();
        let mut changes = maps.changes().unwrap();
        let name = format!("through-{}", scheme.len());
        let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}});
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        api.create(&map).await.unwrap();
        let heard = async {
            while let Some(change) = changes.next().await {
                match change {
                    Notification::Added(added) if added.name() == name => return,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(LIMIT, heard).await.unwrap();
        assert!(proxy.made.load(Ordering::Relaxed) >= 1, "{scheme}");
        factory.shutdown().await;
    }
    api.stop().await;
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_and_its_password_is_not() {
    let api = TestServer::start().await.unwrap();
    let proxy = Proxy::start(Protocol::Connect).await;
    let client = client(&api, &format!("http://me:secret@{}", proxy.address));
    let error = kinform::source::fetch(&client, "/version", 1_000)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Refused);
    let text = error.to_string();
    assert!(text.contains("prox") && !text.contains("secret"), "{text}");
    api.stop().await;
}

#[tokio::test]
async fn a_server_that_speaks_no_http_is_told_from_one_that_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            // As a server of TLS answers a request in clear text.
            let _ = stream.write_all(&[0x15, 3, 3, 0, 2, 2, 22]).await;
        }
    });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let error = kinform::source::fetch(&client, "/version", 1_000)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::NotKubernetes);
    assert!(error.to_string().contains("https://"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_begins_no_reply_is_given_up_after_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let options = ClientOptions::default().with_request_timeout(Duration::from_secs(5));
    let client = client_for(config, &options).unwrap();
    let fetch = kinform::source::fetch(&client, "/version", 1_000);
    let (accepted, error) = tokio::join!(listener.accept(), fetch);
    assert!(accepted.is_ok());
    assert!(error.unwrap_err().to_string().contains("timed out"));
}

#[tokio::test]
async fn a_token_that_no_header_can_have_is_refused() {
    let provider = |token: &str| serde_json::json!({"auth-provider": {"name": "oidc", "config": {"id-token": token}}});
    for user in [
        serde_json::json!({"token": "a\nb"}),
        serde_json::json!({"token": "a\r\nhost: b"}),
        provider("a\nb"),
    ] {
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.auth_info = serde_json::from_value(user).unwrap();
        let refused = client_for(config, &ClientOptions::default()).err().unwrap();
        assert!(
            refused.to_string().contains("no header can have"),
            "{refused}"
        );
    }
}

// client-go: TLSHandshakeTimeout of transport/cache.go
#[tokio::test(start_paused = true)]
async fn a_peer_that_accepts_and_is_silent_holds_up_nobody_for_long() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config::new(format!("https://{address}").parse().unwrap());
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let fetch = || kinform::source::fetch(&client, "/version", 1_000);
    let started = tokio::time::Instant::now();
    let (first, second) = tokio::join!(fetch(), fetch());
    // One waits for the other's connection, then makes its own.
    assert_eq!(started.elapsed().as_secs(), 40);
    for error in [first, second] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no connection within 20 s"), "{error}");
    }
}

/// The user as whom a server knows this client.
async fn user(client: &Client) -> String {
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(b"{}".to_vec())
        .unwrap();
    let review: serde_json::Value = client.request(request).await.unwrap();
    review["status"]["userInfo"]["username"]
        .as_str()
        .unwrap()
        .to_owned()
}

// fault: F33
#[tokio::test]
async fn certificates_are_followed_as_they_are_replaced() {
    let server = kinform_apiserver::Server::builder()
        .tls()
        .start()
        .await
        .unwrap();
    let folder = std::env::temp_dir().join(format!("kinform-identity-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("ca.crt", server.authority().unwrap());
    let put = |user: &str| {
        let made = server.client_certificate(user, Some("system:masters"));
        let made = made.unwrap().unwrap();
        let (certificate, key) = (made.certificate, made.key);
        write("crt", &certificate);
        write("key", &key);
        // A credential that has ended is asked for again with each request.
        let credential = serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {
                "clientCertificateData": certificate,
                "clientKeyData": key,
                "expirationTimestamp": "2020-01-01T00:00:00Z",
            },
        });
        write("credential", &credential.to_string());
    };
    let kubeconfig = |name: &str, user: &str| {
        let text = format!(
            "current-context: a\n\
             clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: ca.crt}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n",
            server.url()
        );
        write(name, &text);
        path(name)
    };
    let client = async |kubeconfig| {
        let mut overrides = kinform::source::ConfigOverrides::default();
        overrides.kubeconfig = Some(kubeconfig);
        let config = kinform::source::load_config(&overrides).await.unwrap();
        client_for(config, &ClientOptions::default()).unwrap()
    };
    put("one");
    let files = client(kubeconfig(
        "files",
        "client-certificate: crt, client-key: key",
    ))
    .await;
    let plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: cat, \
                  args: [CREDENTIAL], interactiveMode: Never}";
    let plugin = plugin.replace("CREDENTIAL", &path("credential").to_string_lossy());
    let plugin = client(kubeconfig("plugin", &plugin)).await;
    assert_eq!(
        (user(&files).await, user(&plugin).await),
        ("one".to_owned(), "one".to_owned())
    );
    put("two");
    assert_eq!(
        (user(&files).await, user(&plugin).await),
        ("one".to_owned(), "two".to_owned())
    );
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    assert_eq!(user(&files).await, "two");
    std::fs::remove_file(path("key")).unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    assert_eq!(user(&files).await, "two");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A server over TLS behind a proxy that counts connections, and its configuration.
async fn behind_a_counter() -> (kinform_apiserver::Server, Proxy, Config) {
    let server = kinform_apiserver::Server::builder().tls();
    let server = server.start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    server.write_kubeconfig(&path).unwrap();
    let mut overrides = kinform::source::ConfigOverrides::default();
    overrides.kubeconfig = Some(path);
    let mut config = kinform::source::load_config(&overrides).await.unwrap();
    let proxy = Proxy::start(Protocol::Socks5).await;
    config.proxy_url = Some(format!("socks5://{}", proxy.address).parse().unwrap());
    (server, proxy, config)
}

fn get(path: &str) -> http::Request<kube_client::client::Body> {
    let request = http::Request::get(path);
    request.body(kube_client::client::Body::empty()).unwrap()
}

// client-go: the transport of rest/transport.go speaks HTTP/2 wherever the server does
#[tokio::test]
async fn a_hundred_watches_share_a_few_connections() {
    let (server, proxy, config) = behind_a_counter().await;
    let client = client_for(config.clone(), &ClientOptions::default()).unwrap();
    let watch = |client: &Client| {
        let client = client.clone();
        async move { client.send(get("/api/v1/configmaps?watch=true")).await }
    };
    // All at once, as a program starts.
    let watches = futures::future::join_all((0..100).map(|_| watch(&client)));
    let watches = tokio::time::timeout(LIMIT, watches).await.unwrap();
    let is_shared = |reply: &Result<http::Response<_>, _>| {
        reply.as_ref().unwrap().version() == http::Version::HTTP_2
    };
    assert!(watches.iter().all(is_shared));
    assert_eq!(server.journal().open_watches("configmaps"), 100);
    // One that showed the protocol, and two that the others share.
    assert_eq!(proxy.made.load(Ordering::Relaxed), 3);
    // A command in a container needs a connection of its own, by HTTP/1.1.
    let mut exec = get("/api/v1/namespaces/default/pods/p/exec");
    let headers = exec.headers_mut();
    headers.insert(http::header::UPGRADE, "websocket".parse().unwrap());
    headers.insert(http::header::CONNECTION, "upgrade".parse().unwrap());
    let reply = client.send(exec).await.unwrap();
    assert_eq!(reply.version(), http::Version::HTTP_11);
    // The streams that have ended are free again.
    drop(watches);
    let more = futures::future::join_all((0..60).map(|_| watch(&client))).await;
    assert!(more.iter().all(is_shared));
    assert_eq!(proxy.made.load(Ordering::Relaxed), 4);

    let client = client_for(config, &ClientOptions::default().without_http2()).unwrap();
    let watches = futures::future::join_all((0..10).map(|_| watch(&client))).await;
    assert!(!watches.iter().any(is_shared));
    assert_eq!(proxy.made.load(Ordering::Relaxed), 14);
}

#[tokio::test]
async fn a_first_request_that_fails_lets_the_next_go_ahead() {
    let (_server, proxy, mut config) = behind_a_counter().await;
    let right = config.proxy_url.take();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    config.proxy_url = Some(format!("socks5://{address}").parse().unwrap());
    let client = client_for(config.clone(), &ClientOptions::default()).unwrap();
    let fetch = || kinform::source::fetch(&client, "/version", 1_000);
    // The first is given up as it connects, the second takes its place and fails.
    let (mut first, mut second) = (Box::pin(fetch()), Box::pin(fetch()));
    assert!(futures::poll!(first.as_mut()).is_pending());
    assert!(futures::poll!(second.as_mut()).is_pending());
    drop((first, nobody));
    let second = tokio::time::timeout(LIMIT, second).await.unwrap();
    assert!(second.is_err());

    config.proxy_url = right;
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let both = tokio::join!(
        kinform::source::fetch(&client, "/version", 10_000),
        kinform::source::fetch(&client, "/version", 10_000)
    );
    assert!(both.0.is_ok() && both.1.is_ok());
    assert_eq!(proxy.made.load(Ordering::Relaxed), 2);
}

/// The answer of `fetch` by a server that sends this head, and an empty object.
async fn fetched(head: String) -> Result<Vec<u8>, kinform::source::SourceError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).await.unwrap() > 2 {
            line.clear();
        }
        let reply = format!("HTTP/1.1 200 OK\r\n{head}content-length: 2\r\n\r\n{{}}");
        stream.write_all(reply.as_bytes()).await.unwrap();
        // Until the client has read it.
        let _ = stream.read_line(&mut line).await;
    });
    let config = Config::new(url.parse().unwrap());
    let client = client_for(config, &ClientOptions::default()).unwrap();
    let answer = kinform::source::fetch(&client, "/api", 100).await;
    drop(client);
    server.abort();
    answer.map(|body| body.to_vec())
}

#[tokio::test]
async fn media_types_have_no_case_and_proxies_add_many_headers() {
    let json = "Content-Type: Application/JSON; Charset=\"UTF-8\"\r\n";
    let filled = |headers: usize| format!("{json}{}", "x-added: a\r\n".repeat(headers));
    for headers in [0, 150, 900] {
        let answer = fetched(filled(headers)).await;
        assert_eq!(answer.unwrap(), b"{}", "{headers}");
    }
    let error = fetched(filled(1_100)).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Transport);
    assert!(error.to_string().contains("too many headers"), "{error}");
}
