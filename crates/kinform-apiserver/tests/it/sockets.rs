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
