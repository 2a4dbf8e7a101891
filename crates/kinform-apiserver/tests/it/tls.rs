//! TLS of servers that tests play.
//!
//! ```text
//! certificate + key ─▶ TlsAcceptor
//! ```

use std::sync::Arc;

use rcgen::{Certificate, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// Accepts connections with this certificate, and asks for none.
pub(crate) fn acceptor(certificate: &Certificate, key: &KeyPair) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
