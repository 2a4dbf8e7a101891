use http::Method;
use kinform_apiserver::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::send;

/// Sends a request as bytes and reads the reply until it contains `until`.
async fn exchange(server: &Server, request: &str, until: &str) -> String {
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut reply, mut buffer) = (String::new(), [0; 4096]);
    while !reply.contains(until) {
        let read = stream.read(&mut buffer).await.unwrap();
        if read == 0 {
            break;
        }
        reply.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    reply
}

fn request(path: &str, token: Option<&str>) -> String {
    let credential = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{credential}Connection: close\r\n\r\n")
}

#[tokio::test]
async fn credentials_decide() {
    let server = Server::builder().plain().start().await.unwrap();
    let token = server.token().to_owned();
    for (path, token, want, text) in [
        ("/api/v1/pods", Some(&*token), "200 OK", "PodList"),
        ("/api/v1/pods", None, "403 Forbidden", "system:anonymous"),
        (
            "/api/v1/pods",
            Some("nope"),
            "401 Unauthorized",
            "Unauthorized",
        ),
        ("/version", None, "200 OK", "gitVersion"),
        (
            "/nope",
            Some(&*token),
            "404 Not Found",
            "404 page not found",
        ),
    ] {
        let reply = exchange(&server, &request(path, token), "\0").await;
        assert!(
            reply.starts_with(&format!("HTTP/1.1 {want}")),
            "{path}: {reply}"
        );
        assert!(reply.contains(text), "{path}: {reply}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_head_of_a_watch_comes_before_any_event() {
    let server = Server::builder().plain().start().await.unwrap();
    let path = format!(
        "/api/v1/pods?watch=1&resourceVersion={}",
        server.store().revision()
    );
    let reply = exchange(&server, &request(&path, Some(server.token())), "\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
    assert!(
        reply.to_lowercase().contains("transfer-encoding: chunked"),
        "{reply}"
    );
}

#[tokio::test]
async fn a_server_comes_back_on_its_port_with_its_state() {
    let server = Server::builder().plain().start().await.unwrap();
    let (address, token) = (server.address().unwrap(), server.token().to_owned());
    let state = server.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
    let server = Server::builder()
        .plain()
        .listen(address)
        .state(state)
        .start()
        .await
        .unwrap();
    assert_eq!(
        (server.address().unwrap(), server.token()),
        (address, &*token)
    );
    let reply = exchange(&server, &request("/api/v1/pods", Some(&token)), "\0").await;
    assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_kubeconfig_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::builder().start().await.unwrap();
    let path = std::env::temp_dir().join(format!("kinform-{}", server.address().unwrap().port()));
    std::fs::write(&path, "older").unwrap();
    server.write_kubeconfig(&path).unwrap();
    let (mode, text) = (
        std::fs::metadata(&path).unwrap().permissions().mode(),
        std::fs::read_to_string(&path),
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!((mode & 0o777, text.unwrap()), (0o600, server.kubeconfig()));
}

#[cfg(unix)]
#[test]
fn a_kubeconfig_replaces_a_regular_file_alone() {
    let server = Server::builder().in_process();
    let name = format!("kinform-{}-{:p}", std::process::id(), &raw const server);
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).unwrap();
    let (file, link) = (folder.join("file"), folder.join("link"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&link, &folder, std::path::Path::new("/dev/null")] {
        let error = server.write_kubeconfig(path).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
    assert!(!file.exists() && link.is_symlink());
    server.write_kubeconfig(&file).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_server_on_all_addresses_names_one_that_answers() {
    for (listen, host) in [("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "[::1]")] {
        let server = Server::builder().listen(listen.parse().unwrap());
        let server = match server.name("box.test").start().await {
            Ok(server) => server,
            // A machine may have no IPv6.
            Err(_) if std::net::TcpListener::bind(listen).is_err() => {
                assert_eq!(host, "[::1]");
                continue;
            }
            Err(error) => panic!("{listen}: {error}"),
        };
        let port = server.address().unwrap().port();
        assert_eq!(server.url(), format!("https://{host}:{port}"));
        assert!(server.kubeconfig().contains(&server.url()));
        let address = server.url().replace("https://", "");
        TcpStream::connect(address).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_hold_the_server_up() {
    let server = Server::builder().plain().start().await.unwrap();
    server.seed(kinform_apiserver::Seed {
        seed: 1,
        nodes: 2,
        deployments: 2,
        pods: 2000,
    });
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    let list = request("/api/v1/pods", Some(server.token()));
    stream.write_all(list.as_bytes()).await.unwrap();
    let mut first = [0; 16];
    stream.read_exact(&mut first).await.unwrap();
    let started = std::time::Instant::now();
    server.stop().await;
    assert!(started.elapsed().as_secs() < 10);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server = Server::builder().in_process();
    let request = http::Request::post("/api/v1/namespaces/default/configmaps")
        .header("content-type", "application/json")
        .body(bytes::Bytes::from(vec![b' '; (3 << 20) + 1]))
        .unwrap();
    assert_eq!(server.service().call(request).await.status(), 413);
}

#[tokio::test]
async fn off_loopback_there_is_no_plain_http() {
    let error = Server::builder()
        .plain()
        .listen("0.0.0.0:0".parse().unwrap())
        .start()
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("only served on loopback"),
        "{error}"
    );
}

#[tokio::test]
async fn a_request_for_another_host_or_from_another_page_is_refused() {
    let server = Server::builder()
        .plain()
        .name("box.test")
        .start()
        .await
        .unwrap();
    let address = server.address().unwrap();
    for (headers, want) in [
        (format!("Host: {address}"), "200"),
        ("Host: box.test:1234".to_owned(), "200"),
        ("Host: evil.example.com".to_owned(), "403"),
        (
            format!("Host: {address}\r\nOrigin: https://evil.example.com"),
            "403",
        ),
        (
            format!("Host: {address}\r\nOrigin: http://{address}"),
            "200",
        ),
    ] {
        let request = format!("GET /version HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
        let reply = exchange(&server, &request, "\0").await;
        assert!(
            reply.starts_with(&format!("HTTP/1.1 {want}")),
            "{headers}: {reply}"
        );
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_ends_the_connection() {
    let server = Server::builder().plain().start().await.unwrap();
    let header = format!("X-Long: {}\r\n", "x".repeat(200 << 10));
    let request = format!("GET /version HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    // The server may close the connection before all of it is sent.
    drop(stream.write_all(request.as_bytes()).await);
    let mut reply = Vec::new();
    drop(stream.read_to_end(&mut reply).await);
    assert!(!String::from_utf8_lossy(&reply).contains("200 OK"));
}

#[tokio::test(start_paused = true)]
async fn one_watch_too_many_is_told_to_come_back() {
    let server = Server::builder().watches(2).in_process();
    let service = server.service();
    let watch = || {
        let request = http::Request::get("/api/v1/pods?watch=1").body(bytes::Bytes::new());
        service.call(request.unwrap())
    };
    let (first, second) = (watch().await, watch().await);
    assert_eq!(
        (first.status(), second.status()),
        (http::StatusCode::OK, http::StatusCode::OK)
    );
    let third = watch().await;
    assert_eq!(third.status(), 429);
    assert_eq!(third.headers()["retry-after"], "1");
    drop(first);
    assert_eq!(watch().await.status(), 200);
    drop(second);
}

// kubernetes: apiserver pkg/authentication/request/x509 (CommonNameUserConversion)
#[tokio::test]
async fn a_certificate_says_who_a_client_is() {
    let server = Server::builder().rbac().start().await.unwrap();
    let who = |certificate: kinform_apiserver::ClientCertificate| {
        let identity = format!("{}{}", certificate.certificate, certificate.key);
        review(&server, identity)
    };
    let jane = server
        .client_certificate("jane", Some("devs"))
        .unwrap()
        .unwrap();
    let info = who(jane).await;
    assert_eq!(info["username"], "jane");
    assert_eq!(
        info["groups"],
        serde_json::json!(["devs", "system:authenticated"])
    );
    // Certificates of another server authenticate no user here.
    let other = Server::builder().start().await.unwrap();
    let stranger = other.client_certificate("jane", None).unwrap().unwrap();
    let config = client(
        &server,
        &format!("{}{}", stranger.certificate, stranger.key),
    );
    let kube = kube::Client::try_from(config).unwrap();
    let asked = http::Request::get("/version").body(Vec::new()).unwrap();
    assert!(kube.request_text(asked).await.is_err());
}

#[tokio::test]
async fn a_definition_that_goes_while_a_body_comes_takes_nothing_in() {
    let server = Server::builder().plain().start().await.unwrap();
    let service = server.service();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = serde_json::json!({"metadata": {"name": "foos.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let (code, _) = send(&service, Method::POST, definitions, definition).await;
    assert_eq!(code, 201);
    let body = r#"{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"x"}}"#;
    let head = format!(
        "POST /apis/example.com/v1/foos HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\
         Connection: close\r\n\r\n",
        server.token(),
        body.len()
    );
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once it has read the head.
    let (mut reply, mut buffer) = (String::new(), [0; 4096]);
    while !reply.contains("100 Continue") {
        let read = stream.read(&mut buffer).await.unwrap();
        assert_ne!(read, 0, "{reply}");
        reply.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    let path = format!("{definitions}/foos.example.com");
    let (code, _) = send(&service, Method::DELETE, &path, serde_json::Value::Null).await;
    assert_eq!(code, 200);
    stream.write_all(body.as_bytes()).await.unwrap();
    reply.clear();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 404"), "{reply}");
    assert!(server.objects("foos.example.com").is_empty());
}

fn client(server: &Server, identity: &str) -> kube::Config {
    let mut config = kube::Config::new(server.url().parse().unwrap());
    let pem = server.authority().unwrap().as_bytes();
    let der = rustls::pki_types::pem::PemObject::from_pem_slice(pem);
    let der: rustls::pki_types::CertificateDer<'static> = der.unwrap();
    config.root_cert = Some(vec![der.to_vec()]);
    use base64::Engine as _;
    let (certificate, key) = identity.split_at(identity.find("-----BEGIN PRIVATE").unwrap());
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    config.auth_info.client_certificate_data = Some(encode(certificate));
    config.auth_info.client_key_data = Some(encode(key).into());
    config
}

async fn review(server: &Server, identity: String) -> serde_json::Value {
    let kube = kube::Client::try_from(client(server, &identity)).unwrap();
    let body = serde_json::json!({"apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    let reply = kube.request_text(request).await.unwrap();
    let reply: serde_json::Value = serde_json::from_str(&reply).unwrap();
    reply["status"]["userInfo"].clone()
}
