//! A webhook server that answers as a recorded one did.
//!
//! ```text
//! recorded calls of a step ──expect──▶ HTTPS on loopback ──▶ calls as they came
//! ```
//!
//! It has the certificate of the recorded one (`127.0.0.1`, `hooks.hooks.svc`); a second port has one
//! of another authority.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::tls;

/// A running webhook server; it stops when it is dropped.
pub(super) struct Hook {
    /// The ports: of the right authority, and of another one.
    pub(super) ports: [u16; 2],
    /// The authority's certificate, in PEM.
    pub(super) bundle: String,
    script: Arc<Script>,
    stop: CancellationToken,
}

/// Recorded calls that are still to come, and the calls that came.
#[derive(Default)]
struct Script {
    ports: Mutex<[u16; 2]>,
    expected: Mutex<VecDeque<Value>>,
    came: Mutex<Vec<Value>>,
}

impl Script {
    fn ports(&self) -> [u16; 2] {
        *self.ports.lock().unwrap()
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Hook {
    pub(super) async fn start() -> Self {
        let script = Arc::new(Script::default());
        let stop = CancellationToken::new();
        let (authority, other) = (authority(), authority());
        let mut ports = [0; 2];
        for (authority, port) in [&authority, &other].into_iter().zip(&mut ports) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address: SocketAddr = listener.local_addr().unwrap();
            *port = address.port();
            let served = serve(listener, acceptor(authority), script.clone());
            tokio::spawn(stop.clone().run_until_cancelled_owned(served));
        }
        *script.ports.lock().unwrap() = ports;
        Self {
            ports,
            bundle: authority.pem(),
            script,
            stop,
        }
    }

    /// Sets the calls that a step is going to make, with their answers.
    pub(super) fn expect(&self, calls: &[Value]) {
        *self.script.expected.lock().unwrap() = calls.iter().cloned().collect();
        self.script.came.lock().unwrap().clear();
    }

    /// The calls that came since.
    pub(super) fn came(&self) -> Vec<Value> {
        self.script.came.lock().unwrap().clone()
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn acceptor(authority: &CertifiedIssuer<'static, KeyPair>) -> TlsAcceptor {
    let mut params = CertificateParams::new(vec!["hooks.hooks.svc".to_owned()]).unwrap();
    let address = SanType::IpAddress("127.0.0.1".parse().unwrap());
    params.subject_alt_names.push(address);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    tls::acceptor(&certificate, &key)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, script: Arc<Script>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, script) = (acceptor.clone(), script.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let answer = service_fn(|request| answer(&script, request));
            let http = hyper::server::conn::http1::Builder::new();
            // A call that is to be cut off ends in an error.
            drop(http.serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}

/// The end of a connection without a reply.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct Closed;

async fn answer(
    script: &Script,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Closed> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let path = head.uri.path().to_owned();
    let header = |name: &str| {
        head.headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    script.came.lock().unwrap().push(serde_json::json!({
        "path": path, "query": head.uri.query(), "method": head.method.as_str(),
        "headers": {"User-Agent": header("user-agent"), "Accept": header("accept"),
            "Content-Type": header("content-type"), "Accept-Encoding": header("accept-encoding"), "Referer": header("referer")},
        "request": body,
    }));
    if super::conversion::is_review(&body) {
        let expected: Vec<Value> = script.expected.lock().unwrap().iter().cloned().collect();
        let (status, text) = super::conversion::answer(&expected, &path, &body).ok_or(Closed)?;
        let reply = Response::builder().status(status);
        return Ok(reply.body(Full::from(text)).unwrap());
    }
    let recorded = {
        let mut expected = script.expected.lock().unwrap();
        let at = expected.iter().position(|call| call["path"] == *path);
        at.and_then(|at| expected.remove(at))
    };
    let Some(recorded) = recorded else {
        return Ok(Response::builder()
            .status(404)
            .body(Full::default())
            .unwrap());
    };
    if let Some(delay) = recorded["delay"].as_f64() {
        tokio::time::sleep(Duration::from_secs_f64(delay)).await;
    }
    let response = &recorded["response"];
    if !response.is_object() {
        return Err(Closed);
    }
    let mut reply = Response::builder().status(response["status"].as_u64().unwrap() as u16);
    for (name, value) in response["headers"].as_object().into_iter().flatten() {
        let value = super::normal::ports_here(script.ports(), value.as_str().unwrap_or_default());
        reply = reply.header(name.as_str(), value);
    }
    let text = match &response["body"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        body => body.to_string(),
    };
    // The recorded answer names the uid of the recorded call.
    let was = recorded["request"]["request"]["uid"]
        .as_str()
        .unwrap_or("-");
    let is = body["request"]["uid"].as_str().unwrap_or("-");
    Ok(reply.body(Full::from(text.replace(was, is))).unwrap())
}
