//! TCP and TLS to a kubelet.
//!
//! ```text
//! hosts, port ──look-up──▶ socket addresses ──connect──▶ TLS, HTTP/1.1 ──▶ stream
//! ```
//!
//! The certificate is accepted as it is, like by an upstream server without
//! `--kubelet-certificate-authority`; the handshake is checked all the same. It protects from
//! listeners, not from somebody who answers in the kubelet's place.
//!
//! Upstream: `kubernetes/kubernetes:pkg/kubelet/client/kubelet_client.go` (`MakeTransport`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Failure, Kubelet};

/// BOUND: the time to look up one name. Names of nodes are often in no DNS.
const LOOK_UP: Duration = Duration::from_secs(3);
/// BOUND: the time to connect, and the time of the TLS handshake.
const CONNECT: Duration = Duration::from_secs(10);

impl Kubelet {
    /// Connects to the kubelet; returns the host and port that were dialled, and the stream.
    ///
    /// # Errors
    /// No name resolves, no connection is made in time, or there is no TLS.
    pub(super) async fn connect(&self) -> Result<(String, TlsStream<TcpStream>), Failure> {
        let mut first = None;
        for host in &self.hosts {
            let to = authority(host, self.port);
            match self.look_up(host).await {
                Ok(addresses) => {
                    let stream = dial(host, &addresses).await;
                    return match stream {
                        Ok(stream) => Ok((to, stream)),
                        Err(why) => Err(Failure::Dial { to, why }),
                    };
                }
                Err(why) => {
                    first.get_or_insert(Failure::Dial { to, why });
                }
            }
        }
        Err(first.unwrap_or_else(|| Failure::Dial {
            to: String::new(),
            why: "no address".to_owned(),
        }))
    }

    async fn look_up(&self, host: &str) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let found = match timeout(LOOK_UP, lookup_host((host, self.port))).await {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(_)) => Vec::new(),
            Err(_) => return Err(format!("dial tcp: lookup {host}: i/o timeout")),
        };
        match found.is_empty() {
            true => Err(format!("dial tcp: lookup {host}: no such host")),
            false => Ok(found),
        }
    }
}

/// A host and a port, as in a URL.
fn authority(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Connects to one of the addresses of a host.
async fn dial(host: &str, addresses: &[SocketAddr]) -> Result<TlsStream<TcpStream>, String> {
    let to = addresses.first().ok_or("no address")?;
    let stream = match timeout(CONNECT, TcpStream::connect(addresses)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let why = match error.kind() {
                io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                _ => error.to_string(),
            };
            return Err(format!("dial tcp {to}: connect: {why}"));
        }
        Err(_) => return Err(format!("dial tcp {to}: i/o timeout")),
    };
    // Small frames of a terminal must not wait for each other.
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(host.to_owned());
    let name = name.unwrap_or_else(|_| ServerName::from(to.ip()));
    let connector = TlsConnector::from(Arc::new(config()?));
    match timeout(CONNECT, connector.connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Err("EOF".to_owned()),
        Ok(Err(error)) => Err(format!("tls: {error}")),
        Err(_) => Err("net/http: TLS handshake timeout".to_owned()),
    }
}

fn config() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    // An upgrade needs HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Accepts any certificate whose key signed the handshake.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
