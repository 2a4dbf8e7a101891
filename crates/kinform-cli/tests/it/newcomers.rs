//! The errors of first-time users: one clear line and a hint, the right exit code, an empty stdout.

use std::net::Ipv4Addr;

use kinform_apiserver::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::command::{Kubeconfig, kinform, outcome};

#[track_caller]
fn check((code, stdout, stderr): (i32, String, String), expected: &str) {
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    let (error, hint) = stderr
        .trim_end()
        .rsplit_once('\n')
        .unwrap_or_else(|| panic!("no hint: {stderr}"));
    let error = error.lines().last().unwrap_or_default();
    assert!(
        error.starts_with("error: ") && error.contains(expected),
        "{stderr}"
    );
    assert!(hint.starts_with("  hint: "), "{stderr}");
}

#[tokio::test]
async fn no_kubeconfig_is_said() {
    check(
        outcome(kinform(None, &["get", "pods"])).await,
        "no Kubernetes configuration",
    );
}

#[tokio::test]
async fn a_wrong_context_is_named() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let command = kinform(
        Some(&kubeconfig.path()),
        &["get", "pods", "--context", "prod"],
    );
    check(outcome(command).await, "no context \"prod\"");
}

#[tokio::test]
async fn a_wrong_token_ends_at_once() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    for verb in ["get", "watch", "measure"] {
        let command = kinform(
            Some(&kubeconfig.path()),
            &[verb, "pods", "--token", "wrong"],
        );
        check(outcome(command).await, "401");
    }
}

#[tokio::test]
async fn nobody_in_particular_is_forbidden() {
    let server = Server::builder().plain().start().await.unwrap();
    let command = kinform(None, &["get", "pods", "--server", &server.url()]);
    check(outcome(command).await, "403");
}

#[tokio::test]
async fn a_request_that_the_server_rejects_ends_at_once() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    for verb in ["get", "watch", "measure"] {
        for (flag, selector, expected) in [
            ("--field-selector", "bogus=1", "field label not supported"),
            ("-l", "a=b c", "found 'c', expected"),
        ] {
            let command = kinform(Some(&kubeconfig.path()), &[verb, "pods", flag, selector]);
            check(outcome(command).await, expected);
        }
    }
}

#[tokio::test]
async fn an_unknown_type_is_told_its_neighbour() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let (code, _, stderr) = outcome(kinform(Some(&kubeconfig.path()), &["get", "pdos"])).await;
    assert_eq!(code, 1);
    assert!(
        stderr.contains("\"pdos\"") && stderr.contains("did you mean \"pods\"?"),
        "{stderr}"
    );
}

#[tokio::test]
async fn a_login_page_is_no_api_server() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 21\r\nConnection: close\r\n\r\n<html>sign in</html>\n";
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    let command = kinform(
        None,
        &["watch", "pods", "--server", &format!("http://{address}")],
    );
    check(
        outcome(command).await,
        "does not answer as a Kubernetes API server",
    );
}

#[tokio::test]
async fn wrong_usage_is_code_two() {
    for words in [
        &["frobnicate"][..],
        &["get"],
        &["watch", "pods", "-o", "xml"],
        &["get", "pods", "--by", "nodes"],
    ] {
        let server = Server::builder().start().await.unwrap();
        let kubeconfig = Kubeconfig::of(&server);
        let (code, stdout, stderr) = outcome(kinform(Some(&kubeconfig.path()), words)).await;
        assert_eq!((code, stdout.as_str()), (2, ""), "{words:?}: {stderr}");
    }
}
