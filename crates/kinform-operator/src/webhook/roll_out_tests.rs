//! Roll-outs and rotations over sockets and TLS, under load.
//!
//! ```text
//! two replicas, each replaced in turn ◀── callers with connections that they keep, as an API server
//! clock, moved by days ──▶ new leaves and authorities; callers trust the `caBundle` of the moment
//! ```
//!
//! A caller tries again only where Go's client does: if the request was never written.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::CancellationToken;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::certificates::stage::Stage;
use super::certificates::tests::{Hands, NAME, roots};
use super::*;
use crate::serve::Bound;

const CALLERS: usize = 4;
const ROLL_OUTS: usize = 20;

async fn allow(_: AdmissionRequest<ConfigMap>) -> Result<Verdict, Error> {
    tokio::task::yield_now().await;
    Ok(Verdict::allow())
}

/// One replica of an operator, which serves.
struct Replica {
    address: SocketAddr,
    certificates: Certificates,
    stop: CancellationToken,
    served: JoinHandle<Result<(), Error>>,
}

impl Replica {
    async fn start(server: &Stage, hands: &Hands, webhooks: &Webhooks) -> Self {
        let certificates = hands.replica(server.client());
        certificates.sync().await.unwrap();
        let bound = Bound::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (bound.address(), CancellationToken::new());
        let served = tokio::spawn({
            let (webhooks, certificates) = (webhooks.clone(), certificates.clone());
            let stop = stop.clone();
            async move { webhooks.serve_at(bound, &certificates, stop).await }
        });
        Self {
            address,
            certificates,
            stop,
            served,
        }
    }
}

impl TimeProvider for Hands {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = self.seconds().try_into().ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// An API server's side: the endpoints of the Service, and what TLS is checked by.
#[derive(Clone)]
struct Caller {
    server: Stage,
    hands: Hands,
    endpoints: Arc<Mutex<Vec<SocketAddr>>>,
}

type Connection = (SocketAddr, SendRequest<Full<Bytes>>);

impl Caller {
    async fn connect(&self, address: SocketAddr) -> Connection {
        let bundle = self.server.bundles().await.pop().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let time = Arc::new(self.hands.clone());
        let config = rustls::ClientConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(&bundle))
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector
            .connect(NAME.try_into().unwrap(), stream)
            .await
            .unwrap();
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        (address, sender)
    }

    /// Calls one of the endpoints on a connection of its own that is kept.
    async fn call(&self, kept: &mut Option<Connection>, path: &str, body: &Value) -> Value {
        loop {
            let usable = kept.take().filter(|(_, sender)| !sender.is_closed());
            let (address, mut sender) = match usable {
                Some(connection) => connection,
                None => {
                    let address = *self.endpoints.lock().unwrap().first().unwrap();
                    self.connect(address).await
                }
            };
            if sender.ready().await.is_err() {
                continue;
            }
            let request = Request::post(format!("{path}?timeout=10s"))
                .header("host", NAME)
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(body.to_string())))
                .unwrap();
            let reply = match sender.send_request(request).await {
                Err(error) if error.is_canceled() => continue,
                reply => reply.unwrap(),
            };
            assert_eq!(reply.status(), 200);
            let body = reply.into_body().collect().await.unwrap().to_bytes();
            *kept = Some((address, sender));
            return serde_json::from_slice(&body).unwrap();
        }
    }
}

fn review() -> Value {
    let kind = json!({ "group": "", "version": "v1", "kind": "ConfigMap" });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": kind, "operation": "CREATE", "userInfo": {}, "dryRun": false,
            "resource": { "group": "", "version": "v1", "resource": "configmaps" },
            "object": { "metadata": { "name": "a" } },
        },
    })
}

#[tokio::test]
async fn roll_outs_and_rotations_lose_no_call() {
    let (server, hands) = (Stage::start().await, Hands::at(1_800_000_000));
    let webhooks = Webhooks::new().validate(allow).unwrap();
    let endpoints = Arc::new(Mutex::new(Vec::new()));
    let caller = Caller {
        server: server.clone(),
        hands: hands.clone(),
        endpoints: endpoints.clone(),
    };
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let replica = Replica::start(&server, &hands, &webhooks).await;
        endpoints.lock().unwrap().push(replica.address);
        replicas.push(replica);
    }
    let (calls, is_over) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (caller, calls, is_over) = (caller.clone(), calls.clone(), is_over.clone());
            tokio::spawn(async move {
                let (mut kept, review) = (None, review());
                while !is_over.load(Ordering::SeqCst) {
                    let reply = caller
                        .call(&mut kept, "/validate--v1-configmap", &review)
                        .await;
                    assert_eq!(reply["response"], json!({ "uid": "u", "allowed": true }));
                    calls.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for round in 0..ROLL_OUTS {
        // Each of both is replaced, and certificates become due in between.
        for _ in 0..2 {
            let replica = Replica::start(&server, &hands, &webhooks).await;
            let old = replicas.remove(0);
            {
                let mut endpoints = endpoints.lock().unwrap();
                endpoints.retain(|address| *address != old.address);
                endpoints.push(replica.address);
            }
            replicas.push(replica);
            let before = calls.load(Ordering::SeqCst);
            while calls.load(Ordering::SeqCst) < before + 20 {
                let is_lost = callers.iter().any(JoinHandle::is_finished);
                assert!(!is_lost, "round {round}: a call failed");
                tokio::task::yield_now().await;
            }
            old.stop.cancel();
            old.served.await.unwrap().unwrap();
        }
        hands.advance_days(25);
        for replica in &replicas {
            replica.certificates.sync().await.unwrap();
            replica.certificates.check().unwrap();
        }
    }
    is_over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    let stats = webhooks.stats();
    let of_path = &stats.paths["/validate--v1-configmap"];
    let replies: Vec<_> = of_path.replies.clone().into_iter().collect();
    assert_eq!(
        replies,
        [(200, calls.load(Ordering::SeqCst) as u64), (500, 0)]
    );
    assert!(
        roots(&server.bundles().await[0]).len() > 1,
        "an authority was replaced"
    );
    for replica in replicas {
        replica.stop.cancel();
        replica.served.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_conversion_is_served_from_a_cold_start() {
    // There is no Secret, no bundle and no object yet, and the program has listed nothing.
    use super::conversion_tests::webhooks;
    let (server, hands) = (Stage::start().await, Hands::at(1_800_000_000));
    let replica = Replica::start(&server, &hands, &webhooks()).await;
    let caller = Caller {
        server,
        hands,
        endpoints: Arc::new(Mutex::new(vec![replica.address])),
    };
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "u", "desiredAPIVersion": "conv.example.com/v2",
            "objects": [{ "apiVersion": "conv.example.com/v1", "kind": "Knot",
                "metadata": { "name": "a" }, "spec": { "hostPort": "h:80" } }],
        },
    });
    let reply = caller.call(&mut None, CONVERT_PATH, &review).await;
    let spec = &reply["response"]["convertedObjects"][0]["spec"];
    assert_eq!(*spec, json!({ "host": "h", "port": "80" }));
    replica.stop.cancel();
    replica.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn serving_needs_an_address_and_a_certificate() {
    super::certificates::tests::install();
    let (webhooks, stop) = (Webhooks::new(), CancellationToken::new());
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::from_folder(folder.path());
    let error = webhooks
        .serve("127.0.0.1:0", &certificates, stop.clone())
        .await
        .unwrap_err();
    assert!(error.to_string().starts_with("cannot read "), "{error}");
    let taken = Bound::bind("127.0.0.1:0").await.unwrap();
    let address = taken.address().to_string();
    let error = webhooks
        .serve(&address, &certificates, stop)
        .await
        .unwrap_err();
    let line = format!("cannot listen on {address:?}: the port is in use by another process");
    assert_eq!(error.to_string(), line);
}
