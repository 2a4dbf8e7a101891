//! A certificate that ends: refused at the start, named by readiness while the operator runs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use kinform::CancellationToken;
use kinform_operator::Operator;
use kinform_operator::webhook::{Certificates, Webhooks};
use kinform_testkit::TestServer;
use tokio::task::JoinHandle;

use crate::support::{get, operator, settings};

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes a certificate that ends at this time.
fn write(folder: &Path, end: SystemTime) {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_before = (SystemTime::now() - Duration::from_secs(3600)).into();
    parameters.not_after = end.into();
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    std::fs::write(folder.join("tls.crt"), made.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
}

/// An operator whose webhooks have the certificate of a folder.
fn serving(server: &TestServer, folder: &Path) -> Operator {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut settings = settings();
    settings.webhook_address = "127.0.0.1:0".to_owned();
    settings.webhook_drain = Duration::ZERO;
    let operator = operator(server, settings);
    let certificates = Certificates::from_folder(folder);
    operator
        .serve_webhooks(Webhooks::new(), certificates)
        .unwrap();
    operator
}

fn start(
    operator: &Operator,
) -> (
    CancellationToken,
    JoinHandle<Result<(), kinform_operator::Error>>,
) {
    let (running, stop) = (operator.clone(), CancellationToken::new());
    let token = stop.clone();
    let running = tokio::spawn(async move { running.run_until(token).await });
    (stop, running)
}

#[tokio::test]
async fn a_certificate_that_ended_starts_nothing_and_names_the_file_to_replace() {
    let (server, folder) = (
        TestServer::start().await.unwrap(),
        tempfile::tempdir().unwrap(),
    );
    write(folder.path(), SystemTime::now() - Duration::from_secs(60));
    let operator = serving(&server, folder.path());
    let (_, running) = start(&operator);
    let error = running.await.unwrap().unwrap_err();
    let told = error.to_string();
    assert!(
        told.starts_with("cannot serve webhooks: the certificate ended at "),
        "{told}"
    );
    let remedy = format!(": replace {}", folder.path().join("tls.crt").display());
    assert!(told.ends_with(&remedy), "{told}");
    assert_eq!((error.exit_code(), told.lines().count()), (1, 1));
    assert_eq!(operator.factory().task_count(), 0);
}

#[tokio::test]
async fn a_certificate_that_ends_while_it_serves_is_unready_and_named() {
    let (server, folder) = (
        TestServer::start().await.unwrap(),
        tempfile::tempdir().unwrap(),
    );
    write(folder.path(), SystemTime::now() + Duration::from_secs(10));
    let operator = serving(&server, folder.path());
    let (stop, running) = start(&operator);
    let probes = operator.addresses().await.probes.unwrap();
    assert_eq!(get(probes, "/readyz", "").await.0, 200);
    let unready = async {
        while get(probes, "/readyz", "").await.0 == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, unready).await.unwrap();
    let (_, told) = get(probes, "/readyz/webhooks?verbose", "").await;
    assert!(
        told.contains("the certificate ended at ") && told.contains("replace "),
        "{told}"
    );
    assert_eq!(get(probes, "/healthz", "").await.0, 200);
    stop.cancel();
    running.await.unwrap().unwrap();
}
