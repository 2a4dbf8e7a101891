//! Webhooks at a `url:`, with certificates from files that somebody replaces, called by a real API
//! server.
//!
//! ```text
//! openssl ─▶ folder: tls.crt, tls.key ─▶ `hooks` ◀─https://127.0.0.1:port─ kube-apiserver ◀─ writers
//! ```
//!
//! The operator changes no configuration then: `caBundle` is the matter of whoever makes the files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kinform_e2e::balancer::Replica;
use kinform_e2e::process::Process;
use kinform_e2e::servers::Host;
use kube::Client;
use serde_json::{Value, json};

use crate::webhooks::{Load, Running, asked, create, fingerprint, wishing};

/// The label of the objects that are sent to these webhooks.
const LABEL: &str = "files";

/// The names of the server: its address, and that of the Service in `programs/bundle.yaml`.
const NAMES: &str = "IP:127.0.0.1,DNS:knots-webhooks.knots-system.svc";

/// An authority, and the certificate that it signed last.
pub(crate) struct Files {
    home: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self {
            home: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(files.served()).unwrap();
        files
    }

    /// The folder that the program reads.
    pub(crate) fn served(&self) -> PathBuf {
        self.home.path().join("served")
    }

    /// Makes an authority of this name; returns it in PEM.
    pub(crate) fn authority(&self, name: &str) -> String {
        let subject = format!("/CN={name}");
        self.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-keyout",
            &format!("{name}.key"),
            "-out",
            &format!("{name}.crt"),
            "-subj",
            &subject,
            "-addext",
            "keyUsage=critical,keyCertSign",
        ]);
        std::fs::read_to_string(self.home.path().join(format!("{name}.crt"))).unwrap()
    }

    /// Signs another certificate, and replaces the files one after the other, as an editor does.
    pub(crate) fn renew(&self, authority: &str) {
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "tls.key",
            "-out",
            "tls.csr",
            "-subj",
            "/CN=hooks",
        ]);
        let extension = self.home.path().join("extension");
        std::fs::write(extension, format!("subjectAltName={NAMES}\n")).unwrap();
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            "tls.csr",
            "-CA",
            &format!("{authority}.crt"),
            "-CAkey",
            &format!("{authority}.key"),
            "-CAcreateserial",
            "-days",
            "1",
            "-out",
            "tls.crt",
            "-extfile",
            "extension",
        ]);
        for name in ["tls.crt", "tls.key"] {
            std::fs::copy(self.home.path().join(name), self.served().join(name)).unwrap();
        }
    }

    fn openssl(&self, arguments: &[&str]) {
        let done = Command::new("openssl")
            .args(arguments)
            .current_dir(self.home.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {said}");
    }
}

async fn start(host: &Host, folder: &Path) -> Running {
    let binary = env!("CARGO_BIN_EXE_hooks");
    let folder = format!("--webhook-cert-path={}", folder.display());
    let flags = ["--webhook-bind-address=127.0.0.1:0", &folder];
    let mut process = Process::operator(binary, host.kubeconfig(), &flags, &[]).unwrap();
    let ports = Replica {
        probes: process.address("probes").await.unwrap(),
        webhooks: process.address("webhooks").await.unwrap(),
    };
    process.ready().await.unwrap();
    Running { process, ports }
}

/// The configurations of both kinds, each with one webhook at a URL.
fn configurations(ports: Replica, authorities: &[&str]) -> [(&'static str, Value); 2] {
    let bundle = k8s_openapi::ByteString(authorities.concat().into_bytes());
    let bundle = serde_json::to_value(bundle).unwrap();
    let of = |kind: &'static str, path: &str| {
        let url = format!("https://{}{path}", ports.webhooks);
        let webhook = json!({
            "name": format!("{LABEL}.example.com"),
            "clientConfig": {"url": url, "caBundle": bundle},
            "objectSelector": {"matchLabels": {"hooks": LABEL}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE"]}],
            "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 5,
            "admissionReviewVersions": ["v1"],
        });
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": LABEL}, "webhooks": [webhook],
        });
        (kind, object)
    };
    [
        of("MutatingWebhookConfiguration", "/mutate--v1-configmap"),
        of("ValidatingWebhookConfiguration", "/validate--v1-configmap"),
    ]
}

/// Sets the authorities that the API server believes.
async fn believe(client: &Client, ports: Replica, authorities: &[&str]) {
    for (kind, object) in configurations(ports, authorities) {
        let kind = kind.to_lowercase();
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s/{LABEL}");
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(object.to_string().into_bytes())
            .unwrap();
        client.request::<Value>(request).await.unwrap();
    }
}

/// Replaces the files under load, by one of the same authority and by one of another; returns the
/// number of calls, of which none failed.
pub(crate) async fn rotates_files(host: &Host) -> u64 {
    let client = host.client().unwrap();
    let files = Files::new();
    let first = files.authority("first");
    files.renew("first");
    let mut running = start(host, &files.served()).await;
    let ports = running.ports;
    for (kind, object) in configurations(ports, &[&first]) {
        create(&client, "admissionregistration.k8s.io", kind, object).await;
    }
    let began = std::time::Instant::now();
    // The API server takes a moment to know a configuration.
    while asked(&client, &wishing(LABEL, "change")).await.2["data"]["changed"] != "yes" {
        assert!(began.elapsed() < kinform_e2e::process::PATIENCE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (code, _, status) = asked(&client, &wishing(LABEL, "deny")).await;
    assert_eq!(code, 403, "{status}");

    let load = Load::start(&client, LABEL);
    let second = files.authority("second");
    for authority in ["first", "second"] {
        if authority == "second" {
            believe(&client, ports, &[&first, &second]).await;
            // Until the API server has seen it.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let old = fingerprint(ports);
        files.renew(authority);
        let is_new = || std::future::ready(![&old, ""].contains(&fingerprint(ports).as_str()));
        let another = running.process.until("another certificate", is_new);
        another.await.unwrap();
    }
    // Connections are made with it, too.
    believe(&client, ports, &[&second]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = load.end().await;
    running.process.signal("TERM").unwrap();
    let ended = running.process.ended().await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", running.process.log());
    for (kind, _) in configurations(ports, &[]) {
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/{}s/{LABEL}",
            kind.to_lowercase()
        );
        let request = http::Request::delete(path).body(Vec::new()).unwrap();
        client.request::<Value>(request).await.unwrap();
    }
    calls
}
