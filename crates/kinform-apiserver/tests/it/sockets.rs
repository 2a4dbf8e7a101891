use kinform_apiserver::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request as bytes and reads what comes until `until` is in it.
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
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{credential}Connection: close\r\n\r\n")
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
