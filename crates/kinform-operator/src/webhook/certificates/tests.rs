//! Certificates on the embedded server and in folders, with a clock that the test moves.
//!
//! A certificate is checked as an API server checks it: by the `caBundle` that the server has at
//! that moment.

use std::sync::atomic::{AtomicI64, Ordering};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube_client::Api;
use kube_client::api::PostParams;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::bundle::{Authority, merged};
use super::material::Material;
use super::stage::Stage;
use super::*;

const DAY: i64 = 24 * 3600;
pub(in crate::webhook) const NAME: &str = "hooks.default.svc";

/// A clock that the test moves.
#[derive(Clone, Debug)]
pub(in crate::webhook) struct Hands(Arc<AtomicI64>);

impl Hands {
    pub(in crate::webhook) fn at(second: i64) -> Self {
        install();
        Self(Arc::new(AtomicI64::new(second)))
    }

    pub(in crate::webhook) fn seconds(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(in crate::webhook) fn advance_days(&self, days: i64) {
        self.0.fetch_add(days * DAY, Ordering::SeqCst);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.seconds()).unwrap()
    }

    /// A replica with this clock.
    pub(in crate::webhook) fn replica(&self, client: Client) -> Certificates {
        let hands = self.clone();
        let source = Source::Managed(Box::new(managed()), client);
        Certificates::new(source, Arc::new(move || hands.now()), Duration::ZERO)
    }
}

pub(in crate::webhook) fn install() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn managed() -> Managed {
    Managed::new("default", "hooks", "hooks-tls")
        .validating("checks")
        .mutating("defaults")
        .conversion("knots.conv.example.com")
        .validating("absent")
}

pub(in crate::webhook) fn roots(bundle: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.unwrap()).unwrap();
    }
    roots
}

/// Returns whether an API server with this bundle accepts the certificate.
fn accepts(bundle: &[u8], of: &Certificates, second: i64) -> bool {
    let roots = roots(bundle);
    if roots.is_empty() {
        return false;
    }
    let verifier = WebPkiServerVerifier::builder(Arc::new(roots))
        .build()
        .unwrap();
    let key = of.0.resolver.read().key.clone().unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(second.try_into().unwrap()));
    let name = ServerName::try_from(NAME).unwrap();
    let (leaf, rest) = key.cert.split_first().unwrap();
    verifier
        .verify_server_cert(leaf, rest, &name, &[], now)
        .is_ok()
}

fn served(of: &Certificates) -> Vec<CertificateDer<'static>> {
    of.0.resolver.read().key.clone().unwrap().cert.clone()
}

#[tokio::test]
async fn replicas_that_start_at_once_agree_on_one_certificate() {
    let server = Stage::start().await;
    let hands = Hands::at(1_800_000_000);
    let replicas: Vec<_> = (0..8).map(|_| hands.replica(server.client())).collect();
    assert!(
        replicas[0]
            .check()
            .unwrap_err()
            .contains("none was read yet")
    );
    let synced = futures::future::join_all(replicas.iter().map(Certificates::sync)).await;
    for (replica, synced) in replicas.iter().zip(synced) {
        synced.unwrap();
        replica.check().unwrap();
        assert_eq!(served(replica), served(&replicas[0]));
        for bundle in server.bundles().await {
            assert!(accepts(&bundle, replica, hands.seconds()));
        }
    }
    let secrets = Api::<Secret>::namespaced(server.client(), "default");
    let secret = secrets.get("hooks-tls").await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
}

#[tokio::test]
async fn over_four_years_each_certificate_is_accepted_whenever_it_serves() {
    let server = Stage::start().await;
    let hands = Hands::at(1_800_000_000);
    let replicas = [
        hands.replica(server.client()),
        hands.replica(server.client()),
    ];
    let (mut leaves, mut most) = (std::collections::HashSet::new(), 0);
    for step in 0..4 * 73 {
        // One of them lags by a step.
        for replica in replicas.iter().skip(if step == 0 { 0 } else { step % 2 }) {
            replica.sync().await.unwrap();
            for bundle in server.bundles().await {
                let mut serving = replicas.iter().filter(|of| of.expires_at().is_some());
                assert!(
                    serving.all(|of| accepts(&bundle, of, hands.seconds())),
                    "step {step}"
                );
                most = most.max(roots(&bundle).len());
            }
            replica.check().unwrap();
            leaves.insert(served(replica));
        }
        hands.advance_days(5);
    }
    assert!(leaves.len() > 20, "{} leaves", leaves.len());
    assert_eq!(most, 2, "an old authority leaves the bundle when it ends");
}

#[tokio::test]
async fn an_expired_certificate_is_unready_until_it_is_replaced() {
    let server = Stage::start().await;
    let hands = Hands::at(1_800_000_000);
    let replica = hands.replica(server.client());
    replica.sync().await.unwrap();
    let end = replica.expires_at().unwrap();
    hands.advance_days(90);
    let line = format!("the certificate ended at {end}: another one is made within 10 s");
    assert_eq!(replica.check(), Err(line));
    replica.sync().await.unwrap();
    replica.check().unwrap();
}

#[tokio::test]
async fn a_bundle_or_a_secret_that_was_broken_by_hand_is_mended() {
    let server = Stage::start().await;
    let hands = Hands::at(1_800_000_000);
    let replica = hands.replica(server.client());
    replica.sync().await.unwrap();
    let first = served(&replica);
    server.apply_manifest(ByteString(b"\n".to_vec())).await;
    replica.sync().await.unwrap();
    assert_eq!(served(&replica), first);
    let secrets = Api::<Secret>::namespaced(server.client(), "default");
    let foreign = Material::make("n/other", &[NAME.to_owned()], hands.now()).unwrap();
    let other_key = foreign.to_data()["tls.key"].clone();
    for (name, broken) in [
        ("ca.crt", ByteString(b"nonsense".to_vec())),
        ("tls.key", other_key),
    ] {
        let before = served(&replica);
        let mut secret = secrets.get("hooks-tls").await.unwrap();
        let data = secret.data.get_or_insert_default();
        data.insert(name.to_owned(), broken);
        secrets
            .replace("hooks-tls", &PostParams::default(), &secret)
            .await
            .unwrap();
        replica.sync().await.unwrap();
        assert_ne!(served(&replica), before, "{name}");
    }
    for bundle in server.bundles().await {
        assert!(accepts(&bundle, &replica, hands.seconds()));
    }
}

#[test]
fn a_replica_that_read_too_early_takes_no_authority_away() {
    let hands = Hands::at(1_800_000_000);
    let names = [NAME.to_owned()];
    let make = |owner: &str| Material::make(owner, &names, hands.now()).unwrap();
    let (old, foreign) = (make("n/s"), make("n/other"));
    hands.advance_days(300);
    let new = old.step("n/s", &names, hands.now()).unwrap().unwrap();
    assert_eq!(new.authorities.len(), 2);
    let bundle = Authority::to_pem(&new.authorities);
    // It knows the old one only.
    assert_eq!(merged(&bundle, &old.authorities, "n/s", hands.now()), None);
    let with_foreign = Authority::to_pem(&foreign.authorities);
    let merged = merged(&with_foreign, &new.authorities, "n/s", hands.now()).unwrap();
    assert_eq!(Authority::read_all(&merged), new.authorities);
}

/// Writes a new pair for `NAME` into a folder.
fn write(folder: &Path) -> Material {
    let now = kinform::env::wall_clock();
    let material = Material::make("n/s", &[NAME.to_owned()], now).unwrap();
    let data = material.to_data();
    for name in ["tls.crt", "tls.key"] {
        std::fs::write(folder.join(name), &data[name].0).unwrap();
    }
    material
}

#[tokio::test]
async fn files_are_followed_and_a_pair_that_does_not_fit_is_not_used() {
    // controller-runtime: "should get updated on read certificate errors"
    install();
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::from_folder(folder.path());
    let error = certificates.sync().await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read ") && error.contains("tls.crt"),
        "{error}"
    );
    assert!(
        certificates
            .check()
            .unwrap_err()
            .starts_with("no certificate: cannot read ")
    );
    let first = write(folder.path());
    certificates.sync().await.unwrap();
    certificates.check().unwrap();
    assert_eq!(certificates.expires_at(), Some(first.leaf.not_after));
    let old = served(&certificates);

    // The key is written before the certificate.
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let old_certificate = std::fs::read(&certificate).unwrap();
    write(folder.path());
    let new_certificate = std::fs::read(&certificate).unwrap();
    std::fs::write(&certificate, &old_certificate).unwrap();
    let error = certificates.sync().await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the certificate does not fit its key"),
        "{error}"
    );
    assert_eq!(certificates.trouble(), Some(error.to_string()));
    assert_eq!(served(&certificates), old);
    certificates.check().unwrap();
    std::fs::write(&certificate, &new_certificate).unwrap();
    certificates.sync().await.unwrap();
    assert_eq!(certificates.trouble(), None);
    let new = served(&certificates);
    assert_ne!(new, old);

    // A longer chain of the same leaf is a change.
    let chain = [new_certificate.clone(), old_certificate].concat();
    std::fs::write(&certificate, chain).unwrap();
    certificates.sync().await.unwrap();
    assert_eq!(served(&certificates).len(), 2);

    for (path, text, line) in [
        (&key, "nonsense", "its key is no PEM file of a private key"),
        (&certificate, "", "it has no certificate"),
    ] {
        std::fs::write(path, text).unwrap();
        let error = certificates.sync().await.unwrap_err().to_string();
        assert!(error.ends_with(line) && !error.contains('\n'), "{error}");
    }
    std::fs::remove_file(&key).unwrap();
    assert!(certificates.sync().await.is_err());
    assert_eq!(served(&certificates).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_files_is_used_within_ten_seconds() {
    install();
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path());
    let certificates = Certificates::from_folder(folder.path());
    certificates.sync().await.unwrap();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (certificates, stop) = (certificates.clone(), stop.clone());
        async move { certificates.run(stop).await }
    });
    let second = write(folder.path());
    assert_ne!(first.leaf, second.leaf);
    // The task waits for its first tick.
    tokio::task::yield_now().await;
    tokio::time::advance(INTERVAL).await;
    // Reading takes real time, in which this clock stands still.
    let began = tokio::time::Instant::now();
    while certificates.0.resolver.read().pair.as_ref() != Some(&second.leaf) {
        tokio::task::yield_now().await;
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    stop.cancel();
    run.await.unwrap();
}
