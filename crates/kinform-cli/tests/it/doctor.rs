//! `doctor`: each broken setting is named, with a remedy, within 10 s; a healthy one is none.
//!
//! ```text
//! kinform doctor (a process) ⇄ embedded server: rights, faults | a proxy that meddles | an expired certificate
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use kinform_apiserver::{Server, User};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::command::{Kubeconfig, kinform, outcome};
use crate::made::{config_map, grant};
use crate::meddler::{Meddler, Meddling};

/// The time that the doctor may take on a machine that has other work, too.
const LIMIT: Duration = Duration::from_secs(10);

async fn served() -> (Server, Kubeconfig) {
    let server = Server::builder().plain().start().await.unwrap();
    for name in ["a", "b"] {
        config_map(&server, name, json!({"k": "v"})).await;
    }
    let kubeconfig = Kubeconfig::of(&server);
    (server, kubeconfig)
}

/// Exit code and checks.
async fn doctor(kubeconfig: Option<&Kubeconfig>, words: &[&str]) -> (i32, Vec<Value>) {
    let words = [&["doctor", "-o", "json"], words].concat();
    let path = kubeconfig.map(Kubeconfig::path);
    let started = Instant::now();
    let (code, stdout, stderr) = outcome(kinform(path.as_deref(), &words)).await;
    assert!(
        started.elapsed() < LIMIT,
        "{words:?} took {:?}",
        started.elapsed()
    );
    let checks: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!checks.is_empty(), "{stderr}");
    (code, checks)
}

/// The one problem is of this check, and has these words.
#[track_caller]
fn check((code, checks): (i32, Vec<Value>), name: &str, words: &str) {
    let problems: Vec<&Value> = checks
        .iter()
        .filter(|it| it["result"] == "problem")
        .collect();
    assert_eq!(code, 1, "{checks:?}");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0]["check"], name, "{problems:?}");
    let message = problems[0]["message"].as_str().unwrap();
    assert!(message.contains(words), "{message}");
    assert!(
        problems[0]["remedy"].as_str().unwrap().len() > 20,
        "{problems:?}"
    );
}

#[tokio::test]
async fn a_healthy_server_has_no_problem() {
    let (_server, kubeconfig) = served().await;
    let (code, checks) = doctor(Some(&kubeconfig), &["cm", "deploy"]).await;
    assert_eq!(code, 0, "{checks:?}");
    let oks = checks.iter().filter(|it| it["result"] == "ok");
    let names: Vec<&str> = oks.map(|it| it["check"].as_str().unwrap()).collect();
    for name in [
        "connection",
        "clock",
        "version",
        "list",
        "watch",
        "streaming list",
        "history",
    ] {
        assert!(names.contains(&name), "{name}: {checks:?}");
    }
    let (code, stdout, stderr) = outcome(kinform(Some(&kubeconfig.path()), &["doctor"])).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with("ok       connection"), "{stdout}");
    assert!(stderr.ends_with("checks, no problem\n"), "{stderr}");
}

#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let server = Server::builder()
        .rbac()
        .user("tok-lister", User::new("lister"))
        .user("tok-watcher", User::new("watcher"))
        .start()
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    for (user, verb) in [("lister", "list"), ("watcher", "watch")] {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": user},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]});
        grant(&server, user, &role).await;
    }
    check(
        doctor(Some(&kubeconfig), &["cm", "--token", "tok-lister"]).await,
        "watch",
        "no right to watch",
    );
    check(
        doctor(Some(&kubeconfig), &["cm", "--token", "tok-watcher"]).await,
        "list",
        "no right to list",
    );
    let (code, checks) = doctor(Some(&kubeconfig), &["cm", "--token", "tok-unknown"]).await;
    assert_eq!(
        (code, &checks.last().unwrap()["check"]),
        (1, &json!("credentials")),
        "{checks:?}"
    );
}

#[tokio::test]
async fn replies_that_a_proxy_spoils_are_named() {
    let (server, kubeconfig) = served().await;
    for (meddling, name, words) in [
        (Meddling::Clock, "clock", " s ahead of this machine's"),
        (Meddling::Buffers, "proxy", "holds answers back"),
        (Meddling::Old, "version", "v1.24.17, older than 1.33"),
        (Meddling::Lies, "streaming list", "1 missing, 0 too many"),
    ] {
        let meddler = Meddler::start(server.address().unwrap(), meddling).await;
        let words_of = ["cm", "--server", &meddler.url];
        check(doctor(Some(&kubeconfig), &words_of).await, name, words);
    }
    server.faults().without_initial_events_end();
    check(
        doctor(Some(&kubeconfig), &["cm"]).await,
        "streaming list",
        "never says that the list is complete",
    );
}

#[tokio::test]
async fn a_definition_that_is_missing_is_named() {
    let (_server, kubeconfig) = served().await;
    for word in ["foos.example.com", "foos"] {
        check(
            doctor(Some(&kubeconfig), &[word]).await,
            "definition",
            "does not serve foos",
        );
    }
}

#[tokio::test]
async fn a_history_that_ends_at_once_is_named() {
    let (server, kubeconfig) = served().await;
    server
        .faults()
        .inject("verb=watch,error=410,times=always".parse().unwrap());
    check(
        doctor(Some(&kubeconfig), &["cm"]).await,
        "history",
        "too old to watch",
    );
}

/// A server whose certificate ended in 2020, and the file of its authority.
async fn expired(folder: &std::path::Path) -> (String, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let key = KeyPair::generate().unwrap();
    let path = folder.join("ca.crt");
    std::fs::write(&path, authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    let mut leaf = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    leaf.not_before = date_time_ymd(2019, 1, 1);
    leaf.not_after = date_time_ymd(2020, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = leaf.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The client ends the handshake.
            let _ = acceptor.accept(stream).await;
        }
    });
    (url, path.to_string_lossy().into_owned())
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_named() {
    let (_server, kubeconfig) = served().await;
    let folder = tempfile::tempdir().unwrap();
    let (url, authority) = expired(folder.path()).await;
    let words = [
        "cm",
        "--server",
        &url,
        "--certificate-authority",
        &authority,
    ];
    check(
        doctor(Some(&kubeconfig), &words).await,
        "certificate",
        "expired",
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_and_no_kubeconfig_are_named() {
    let words = ["cm", "--server", "http://127.0.0.1:1"];
    check(doctor(None, &words).await, "connection", "refused");
    check(
        doctor(None, &["cm"]).await,
        "configuration",
        "no Kubernetes configuration",
    );
}
