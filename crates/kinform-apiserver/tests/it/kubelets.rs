//! Logs, `exec`, `attach` and `portforward` of pods whose node has a kubelet.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::{Server, User};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::kubelet::Kubelet;
use crate::support::send;

const PODS: &str = "/api/v1/namespaces/a/pods";

/// A server that calls kubelets, with a node and pods on it.
async fn server(port: u16, pods: &[&str]) -> Server {
    let server = Server::builder().plain().call_kubelets();
    let server = server.start().await.unwrap();
    let ip = json!({"type": "InternalIP", "address": "127.0.0.1"});
    furnish(&server, json!([ip]), port, pods);
    server
}

fn furnish(server: &Server, addresses: Value, port: u16, pods: &[&str]) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    server.restore(namespace).unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    server.restore(node).unwrap();
    for name in pods {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "a"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        server.restore(pod).unwrap();
    }
}

/// Sends a request and returns the connection, after the head of the reply.
async fn open(server: &Server, line: &str, headers: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    let token = server.token();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap(), stream)
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
    X-Stream-Protocol-Version: v5.channel.k8s.io\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\
    Cookie: secret\r\nContent-Length: 0\r\n";

/// Sends a request on a connection that ends with its reply; returns the code and the body.
async fn ask(server: &Server, line: &str, headers: &str) -> (u16, String) {
    let headers = format!("{headers}Accept: application/json\r\n");
    let (head, mut stream) = open(server, line, &headers).await;
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.to_ascii_lowercase();
    let length = length.split_once("content-length: ").unwrap().1;
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (code, String::from_utf8(body).unwrap())
}

fn message(body: &str) -> String {
    let status: Value = serde_json::from_str(body).unwrap();
    status["message"].as_str().unwrap().to_owned()
}

async fn expect(stream: &mut TcpStream, want: &str) {
    let mut got = vec![0; want.len()];
    let read = stream.read_exact(&mut got);
    tokio::time::timeout(Duration::from_secs(30), read)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(String::from_utf8(got).unwrap(), want);
}

#[tokio::test]
async fn an_upgraded_connection_passes_bytes_both_ways_until_both_ends_are_done() {
    let kubelet = Kubelet::start().await;
    let server = server(kubelet.port, &["echo"]).await;
    let line = format!("POST {PODS}/echo/exec?command=sh&command=-c&stdin=true&stdout=true");
    let (head, mut stream) = open(&server, &line, UPGRADE).await;
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: spdy/3.1\r\n"), "{head}");
    assert!(head.contains("x-stream-protocol-version: v4.channel.k8s.io\r\n"));
    assert!(!head.contains("x-other"), "{head}");
    expect(&mut stream, "hello ").await;
    stream.write_all(b"ask").await.unwrap();
    expect(&mut stream, "ask").await;
    stream.shutdown().await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, " bye");
    let head = kubelet.heads().remove(0).to_ascii_lowercase();
    let line = "post /exec/a/echo/c?command=sh&command=-c&input=1&output=1 http/1.1\r\n";
    assert!(head.starts_with(line), "{head}");
    assert!(head.contains("connection: upgrade\r\n"), "{head}");
    assert!(head.contains("x-stream-protocol-version: v5.channel.k8s.io\r\n"));
    assert!(head.contains(&format!("host: 127.0.0.1:{}\r\n", kubelet.port)));
    for never in ["authorization", "cookie", "secret", server.token()] {
        assert!(!head.contains(never), "{never} in {head}");
    }
    server.stop().await;
}

#[tokio::test]
async fn attach_and_port_forward_have_paths_of_their_own() {
    let kubelet = Kubelet::start().await;
    let server = server(kubelet.port, &["echo"]).await;
    let websocket = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n";
    for (part, want) in [
        ("attach?stdout=1", "GET /attach/a/echo/c?output=1 "),
        ("portforward?ports=80", "GET /portForward/a/echo?port=80 "),
    ] {
        let line = format!("GET {PODS}/echo/{part}");
        let (head, mut stream) = open(&server, &line, websocket).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        expect(&mut stream, "hello ").await;
        let head = kubelet.heads().pop().unwrap();
        assert!(head.starts_with(want), "{head}");
        let key = "sec-websocket-key: dghlihnhbxbszsbub25jzq==\r\n";
        assert!(head.to_ascii_lowercase().contains(key), "{head}");
    }
}

#[tokio::test]
async fn a_log_of_a_kubelet_is_sent_while_it_grows() {
    let kubelet = Kubelet::start().await;
    let server = server(kubelet.port, &["log", "breaking", "echo"]).await;
    let line = format!("GET {PODS}/log/log?follow=true&tailLines=3&sinceTime=2026-01-02T03:04:05Z");
    let (head, mut stream) = open(&server, &line, "").await;
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    assert!(head.contains("content-type: text/plain\r\n"), "{head}");
    expect(&mut stream, "4\r\none\n\r\n").await;
    kubelet.go_on();
    expect(&mut stream, "4\r\ntwo\n\r\n0\r\n\r\n").await;
    let want =
        "GET /containerLogs/a/log/c?follow=true&sinceTime=2026-01-02T03%3A04%3A05Z&tailLines=3 ";
    let head = kubelet.heads().remove(0);
    assert!(head.starts_with(want), "{head}");
    // A log that breaks off ends, as upstream.
    let (_, mut stream) = open(&server, &format!("GET {PODS}/breaking/log"), "").await;
    expect(&mut stream, "4\r\none\n\r\n0\r\n\r\n").await;
    // Registered lines win.
    server.pod_logs().append("a", "echo", "c", "registered");
    let (_, mut stream) = open(&server, &format!("GET {PODS}/echo/log"), "").await;
    expect(&mut stream, "B\r\nregistered\n\r\n0\r\n\r\n").await;
    assert_eq!(kubelet.heads().len(), 2);
}

#[tokio::test]
async fn refusals_of_a_kubelet_are_told() {
    let kubelet = Kubelet::start().await;
    let pods = [
        "200", "302", "400", "403", "404", "500", "502", "garbage", "closing", "long",
    ];
    let server = server(kubelet.port, &pods).await;
    let quoted = |code: &str| format!("<b>{code} from the kubelet</b>");
    for code in ["400", "403", "404", "500", "502"] {
        let line = format!("POST {PODS}/{code}/exec?command=x&stdout=1");
        let (head, _) = open(&server, &line, UPGRADE).await;
        assert!(!head.to_ascii_lowercase().contains("set-cookie"), "{head}");
        let (got, body) = ask(&server, &line, UPGRADE).await;
        assert_eq!((got.to_string(), body), (code.to_owned(), quoted(code)));
    }
    let port = kubelet.port;
    let get = |pod: &str| format!("Get \"https://127.0.0.1:{port}/containerLogs/a/{pod}/c\"");
    for (pod, exec, log) in [
        ("200", "invalid upgrade response: status code 200", None),
        (
            "302",
            "invalid upgrade response: status code 302",
            Some((
                302,
                "the server responded with the status code 302 but did not return more information \
                 ( pods/log 302)"
                    .to_owned(),
            )),
        ),
        (
            "closing",
            "unexpected EOF",
            Some((500, format!("{}: unexpected EOF", get("closing")))),
        ),
    ] {
        let line = format!("POST {PODS}/{pod}/exec?command=x&stdout=1");
        let (code, body) = ask(&server, &line, UPGRADE).await;
        assert_eq!((code, message(&body)), (500, exec.to_owned()));
        if let Some((want, text)) = log {
            let (code, body) = ask(&server, &format!("GET {PODS}/{pod}/log"), "").await;
            assert_eq!((code, message(&body)), (want, text));
        }
    }
    for pod in ["garbage", "long"] {
        let line = format!("POST {PODS}/{pod}/exec?command=x&stdout=1");
        let (code, body) = ask(&server, &line, UPGRADE).await;
        let message = message(&body);
        assert_eq!(code, 500, "{message}");
        assert!(message.starts_with("malformed HTTP response"), "{message}");
    }
    for (pod, want, text) in [
        ("400", 400, quoted("400")),
        ("403", 403, format!("{} ( pods/log 403)", quoted("403"))),
        (
            "404",
            404,
            "the server could not find the requested resource ( pods/log 404)".to_owned(),
        ),
        (
            "500",
            500,
            format!("Internal error occurred: {}", quoted("500")),
        ),
        (
            "502",
            502,
            "an error on the server (\"<b>502 from the kubelet</b>\") has prevented the request \
             from succeeding ( pods/log 502)"
                .to_owned(),
        ),
    ] {
        let (code, body) = ask(&server, &format!("GET {PODS}/{pod}/log"), "").await;
        assert_eq!((code, message(&body)), (want, text));
    }
}

#[tokio::test]
async fn a_kubelet_that_is_not_there_or_never_answers_is_told() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let server = server(port, &["p", "silent"]).await;
    let exec = format!("POST {PODS}/p/exec?command=x&stdout=1");
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    let (code, body) = ask(&server, &exec, UPGRADE).await;
    assert_eq!(code, 500);
    assert_eq!(message(&body), format!("error dialing backend: {refused}"));
    let (code, body) = ask(&server, &format!("GET {PODS}/p/log?previous=1"), "").await;
    let url = format!("https://127.0.0.1:{port}/containerLogs/a/p/c?previous=true");
    assert_eq!(code, 500);
    assert_eq!(message(&body), format!("Get \"{url}\": {refused}"));

    let kubelet = Kubelet::start().await;
    let name = json!({"type": "Hostname", "address": "n.invalid"});
    let ip = json!({"type": "InternalIP", "address": "127.0.0.1"});
    furnish(&server, json!([ip, name]), kubelet.port, &[]);
    let silent = format!("POST {PODS}/silent/exec?command=x&stdout=1&timeout=5s");
    let (code, body) = ask(&server, &silent, UPGRADE).await;
    assert_eq!(code, 504, "{body}");
    assert_eq!(
        kubelet.heads().len(),
        1,
        "a name that is in no DNS gives way"
    );
}

#[tokio::test]
async fn many_connections_at_once_do_not_mix_and_end_with_the_server() {
    let kubelet = Kubelet::start().await;
    let server = server(kubelet.port, &["echo", "log"]).await;
    let line = format!("POST {PODS}/echo/exec?command=cat&stdin=1&stdout=1");
    let opened = (0..100).map(|_| open(&server, &line, UPGRADE));
    let mut streams = Vec::new();
    for (head, mut stream) in futures::future::join_all(opened).await {
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        expect(&mut stream, "hello ").await;
        streams.push(stream);
    }
    for (at, stream) in streams.iter_mut().enumerate() {
        stream
            .write_all(format!("{at:04}").as_bytes())
            .await
            .unwrap();
    }
    for (at, stream) in streams.iter_mut().enumerate() {
        expect(stream, &format!("{at:04}")).await;
    }
    let follow = format!("GET {PODS}/log/log?follow=1");
    let (_, mut log) = open(&server, &follow, "").await;
    expect(&mut log, "4\r\none\n\r\n").await;
    let stopped = tokio::time::timeout(Duration::from_secs(30), server.stop());
    stopped.await.unwrap();
    expect(&mut log, "0\r\n\r\n").await;
    for stream in &mut streams {
        let mut rest = Vec::new();
        // An end or a reset.
        drop(stream.read_to_end(&mut rest).await);
        assert!(rest.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_checked_before_a_kubelet_is_called() {
    let server = Server::builder().rbac().call_kubelets().in_process();
    let ip = json!({"type": "InternalIP", "address": "192.0.2.1"});
    furnish(&server, json!([ip]), 1, &["p"]);
    for (name, node) in [("unbound", json!(null)), ("lost", json!("gone"))] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "a"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        server.restore(pod).unwrap();
    }
    let service = server.service();
    for (method, path, code, text) in [
        (Method::POST, "none/exec", 404, "pods \"none\" not found"),
        (
            Method::PUT,
            "p/exec",
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            Method::POST,
            "p/exec?container=x",
            400,
            "container x is not valid for pod p",
        ),
        (
            Method::POST,
            "unbound/attach",
            400,
            "pod unbound does not have a host assigned",
        ),
        (
            Method::POST,
            "lost/portforward",
            404,
            "pods \"gone\" not found",
        ),
        (Method::GET, "lost/log", 404, "pods \"gone\" not found"),
        (Method::POST, "p/exec", 400, "Upgrade request required"),
        (
            Method::GET,
            "p/portforward",
            400,
            "Upgrade request required",
        ),
    ] {
        let (got, reply) = send(&service, method, &format!("{PODS}/{path}"), Value::Null).await;
        assert_eq!(
            (got, reply["message"].as_str()),
            (code, Some(text)),
            "{path}"
        );
    }
    // A caller in the process has no connection to hand over.
    let request = Request::post(format!("{PODS}/p/exec"))
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1");
    let reply = service.call(request.body(Bytes::new()).unwrap()).await;
    assert_eq!(reply.status(), 400);

    let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "namespace": "a"}, "rules": rules});
    server.restore(role).unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "r", "namespace": "a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    server.restore(binding).unwrap();
    let jane = server.service_as(User::new("jane"));
    let path = format!("{PODS}/p/exec?command=x");
    let (code, reply) = send(&jane, Method::GET, &path, Value::Null).await;
    assert_eq!(code, 403, "{reply}");
    let text = "pods \"p\" is forbidden: User \"jane\" cannot create resource \"pods/exec\"";
    assert!(
        reply["message"].as_str().unwrap().starts_with(text),
        "{reply}"
    );
}
