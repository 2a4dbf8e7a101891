//! Connections to webhooks: TLS, and kept alive.
//!
//! ```text
//! address + name + bundle ──▶ Client, kept ──request──▶ reply, bounded | error in Go's words
//! ```
//!
//! Upstream: `kubernetes/client-go:transport`, `net/http`.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;

use super::trust::Trust;
use crate::digest::sha256;

/// BOUND: the bytes of one reply, before and after decompression.
const REPLY: usize = 8 << 20;
/// BOUND: clients that are kept, each with its connections.
const CLIENTS: usize = 64;
/// BOUND: idle connections of one client.
const IDLE: usize = 32;
const IDLE_TIME: Duration = Duration::from_secs(90);

/// The clients of a server, by address, name and bundle.
#[derive(Default)]
pub(super) struct Clients(Mutex<HashMap<Key, Client>>);

/// An address, the name in its certificate, and the digest of the authority's bundle.
type Key = (SocketAddr, String, Vec<u8>);

/// A client of one webhook server.
#[derive(Clone)]
pub(super) struct Client(legacy::Client<HttpsConnector<Dialer>, Full<Bytes>>);

impl Clients {
    /// Returns the client for an address, a name in its certificate, and the authority's bundle.
    ///
    /// # Errors
    /// A bundle without a certificate in it, or a name that no certificate can have.
    pub(super) fn of(
        &self,
        address: SocketAddr,
        name: &str,
        bundle: &[u8],
    ) -> Result<Client, String> {
        let key = (address, name.to_owned(), sha256(bundle));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = kept.get(&key) {
            return Ok(client.clone());
        }
        if kept.len() >= CLIENTS {
            kept.clear();
        }
        let client = Client::new(address, name, bundle)?;
        kept.insert(key, client.clone());
        Ok(client)
    }
}

impl Client {
    fn new(address: SocketAddr, name: &str, bundle: &[u8]) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificates = CertificateDer::pem_slice_iter(bundle).flatten();
        let trust = Trust::new(provider.clone(), certificates)?;
        if trust.is_empty() && !bundle.is_empty() {
            return Err(
                "unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
            );
        }
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust))
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_http1()
            .enable_http2()
            .wrap_connector(Dialer(address));
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE)
            .build(connector);
        Ok(Self(client))
    }

    /// Sends a request and reads the whole reply.
    ///
    /// # Errors
    /// The reason in Go's words.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let reply = self.0.request(request.map(Full::new)).await;
        let reply = reply.map_err(|error| words(&error))?;
        let (head, body) = reply.into_parts();
        let body = Limited::new(body, REPLY).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => too_large(),
            None => words(&*error),
        })?;
        let mut body = body.to_bytes();
        if head
            .headers
            .get("content-encoding")
            .is_some_and(|of| of == "gzip")
        {
            body = unpacked(&body)?;
        }
        Ok(Response::from_parts(head, body))
    }
}

fn too_large() -> String {
    format!("the reply is larger than {REPLY} bytes")
}

fn unpacked(body: &[u8]) -> Result<Bytes, String> {
    let mut out = Vec::new();
    let most = u64::try_from(REPLY + 1).unwrap_or(u64::MAX);
    GzDecoder::new(body)
        .take(most)
        .read_to_end(&mut out)
        .map_err(|error| format!("gzip: {error}"))?;
    match out.len() > REPLY {
        true => Err(too_large()),
        false => Ok(out.into()),
    }
}

/// Returns an error of a connection in Go's words.
fn words(error: &(dyn StdError + 'static)) -> String {
    let mut cause = Some(error);
    let mut last = error.to_string();
    while let Some(error) = cause {
        if let Some(text) = known(error) {
            return text;
        }
        // An I/O error hides what TLS said in its inner error.
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        last = error.to_string();
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    last
}

fn known(error: &(dyn StdError + 'static)) -> Option<String> {
    const UNVERIFIED: &str = "tls: failed to verify certificate: x509: certificate";
    if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
        return Some(match why {
            CertificateError::NotValidForNameContext {
                expected,
                presented,
            } => {
                let names = presented.iter().filter(|name| name.starts_with("DnsName"));
                let names: Vec<&str> = names.map(|name| plain_name(name)).collect();
                format!(
                    "{UNVERIFIED} is valid for {}, not {}",
                    names.join(", "),
                    expected.to_str()
                )
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                format!("{UNVERIFIED} has expired or is not yet valid")
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                format!("{UNVERIFIED} specifies an incompatible key usage")
            }
            _ => format!("{UNVERIFIED} signed by unknown authority"),
        });
    }
    if let Some(Refused(address, error)) = error.downcast_ref() {
        let why = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            _ => format!("connect: {error}"),
        };
        return Some(format!("dial tcp {address}: {why}"));
    }
    let hyper = error.downcast_ref::<hyper::Error>();
    let is_cut = hyper.is_some_and(|error| error.is_incomplete_message() || error.is_closed());
    let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let ends = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
    (is_cut || io.is_some_and(|kind| ends.contains(&kind))).then(|| "EOF".to_owned())
}

/// A name of a certificate, without its type: `DnsName("a")` is `a`.
fn plain_name(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest);
    inner.trim_end_matches(')').trim_matches('"')
}

/// Connects to one address, whatever the URL.
#[derive(Clone)]
struct Dialer(SocketAddr);

/// A connection that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("dial tcp {0}")]
struct Refused(SocketAddr, #[source] io::Error);

impl tower_service::Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Refused;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.0;
        Box::pin(async move {
            let refused = |error| Refused(address, error);
            let stream = TcpStream::connect(address).await.map_err(refused)?;
            stream.set_nodelay(true).map_err(refused)?;
            Ok(TokioIo::new(stream))
        })
    }
}
