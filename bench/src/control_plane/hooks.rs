//! A validating webhook of the bench that allows everything.
//!
//! ```text
//! start ─▶ certificate of 127.0.0.1, HTTPS ─▶ configuration(path) for a server
//! review ─▶ {"response": {"uid", "allowed": true}}
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::subject::Failed;

/// A running webhook.
pub struct Hook {
    url: String,
    authority: String,
}

impl Hook {
    /// Begins to listen on a port of loopback.
    ///
    /// # Errors
    /// No port or certificate can be had.
    pub async fn start() -> Result<Self, Failed> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let authority = base64(made.cert.pem().as_bytes());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/validate", listener.local_addr()?);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let server = auto::Builder::new(TokioExecutor::new());
                    let answer = service_fn(answer);
                    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Ok(Self { url, authority })
    }

    /// A configuration that has it called for creations of a core resource.
    #[must_use]
    pub fn configuration(&self, resource: &str) -> Value {
        json!({
            "metadata": {"name": format!("bench-{resource}")},
            "webhooks": [{
                "name": "bench.example.com",
                "clientConfig": {"url": self.url, "caBundle": self.authority},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": [resource]}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }],
        })
    }
}

async fn answer(request: http::Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reply = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    let mut response = Response::new(Full::new(Bytes::from(reply.to_string())));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    Ok(response)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
