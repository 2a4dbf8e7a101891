//! TLS of the metrics' port: a certificate from files, or one made at start.
//!
//! ```text
//! PEM files | rcgen → rustls::ServerConfig, with the process's provider
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/metrics/server`, whose self-made certificate is for
//! `localhost`, too.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::{Error, ErrorKind};
use crate::settings::CertificateFiles;

/// The configuration of a port with this certificate.
pub(super) fn server_config(files: Option<&CertificateFiles>) -> Result<Arc<ServerConfig>, Error> {
    let provider = CryptoProvider::get_default().ok_or_else(|| {
        let message = "no TLS provider is installed: call \
            rustls::crypto::ring::default_provider().install_default() first, or serve the \
            metrics over HTTP";
        Error::new(ErrorKind::Config, message)
    })?;
    let (chain, key) = match files {
        Some(files) => read(files)?,
        None => make()?,
    };
    let unusable = |error: rustls::Error| {
        let message = format!("the certificate of the metrics cannot be used: {error}");
        Error::new(ErrorKind::Config, message).with_cause(error)
    };
    let config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    Ok(Arc::new(config))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(files: &CertificateFiles) -> Result<Identity, Error> {
    let CertificateFiles { certificate, key } = files;
    let unreadable = |path: &std::path::Path, error: rustls::pki_types::pem::Error| {
        let message = format!("cannot read {}: {error}", path.display());
        Error::new(ErrorKind::Config, message)
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(certificate, error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
    Ok((chain, key))
}

fn make() -> Result<Identity, Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.map_err(|error| {
        Error::new(ErrorKind::Config, "cannot make a certificate").with_cause(error)
    })?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            format!("cannot use the key that was made: {error}"),
        )
    })?;
    Ok((vec![made.cert.der().clone()], key))
}
