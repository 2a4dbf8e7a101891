//! Identity of the server: its token, its certificate, and the kubeconfig that trusts both.
//!
//! ```text
//! made at start, or read ──▶ token, authority, certificate ──▶ TLS handshakes, kubeconfig (0600, atomic)
//! ```
//!
//! All of it is generated anew for each server and kept over its restarts; over those of its
//! process, if it has a folder (`data_dir.rs`). It is never logged.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::Error;
use crate::access::Signer;

/// A server's credentials.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) token: Arc<str>,
    pub(crate) tls: Option<Tls>,
    /// The authority of the certificate to make, if it is an earlier server's.
    pub(crate) authority: Option<Authority>,
    pub(crate) signer: Arc<Signer>,
}

/// An authority that signs the certificates of a server and of its clients.
#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) pem: Arc<str>,
    pub(super) issuer: Arc<Issuer<'static, KeyPair>>,
}

/// A certificate, and the authority that signed it.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) authority: Authority,
    pub(crate) config: Arc<ServerConfig>,
}

impl Identity {
    pub(crate) fn new(tls: Option<Tls>) -> Self {
        Self {
            token: new_token().into(),
            tls,
            authority: None,
            signer: Arc::default(),
        }
    }

    /// A kubeconfig with one context.
    pub(crate) fn kubeconfig(&self, url: &str) -> String {
        let authority = self.tls.as_ref().map_or_else(String::new, |tls| {
            format!(
                "    certificate-authority-data: {}\n",
                STANDARD.encode(&*tls.authority.pem)
            )
        });
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: kinform\n\
             clusters:\n- name: kinform\n  cluster:\n    server: {url}\n{authority}\
             users:\n- name: kinform\n  user:\n    token: {}\n\
             contexts:\n- name: kinform\n  context:\n    cluster: kinform\n    user: kinform\n    \
             namespace: default\n",
            self.token
        )
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// Returns a random bearer token.
pub(super) fn new_token() -> String {
    let bytes: [u8; 32] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Authority {
    pub(super) fn generate() -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(Error::certificate)?;
        let params = Self::params();
        let signed = params.self_signed(&key).map_err(Error::certificate)?;
        Ok(Self {
            pem: signed.pem().into(),
            issuer: Arc::new(Issuer::new(params, key)),
        })
    }

    /// An authority with this certificate and this private key.
    #[cfg(feature = "disk")]
    pub(super) fn from_pem(pem: &str, key: &str) -> Result<Self, Error> {
        let key = KeyPair::from_pem(key).map_err(Error::certificate)?;
        Ok(Self {
            pem: pem.into(),
            issuer: Arc::new(Issuer::new(Self::params(), key)),
        })
    }

    fn params() -> CertificateParams {
        let mut authority = CertificateParams::default();
        authority
            .distinguished_name
            .push(DnType::CommonName, "kinform-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority
    }
}

impl Tls {
    /// A certificate of an authority for loopback, `localhost` and the address listened on.
    pub(crate) fn generate(
        authority: Authority,
        address: IpAddr,
        also: &[String],
    ) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(Error::certificate)?;
        let mut names: Vec<String> = [
            "localhost",
            "kubernetes",
            "kubernetes.default.svc",
            "127.0.0.1",
            "::1",
        ]
        .map(str::to_owned)
        .into();
        names.extend_from_slice(also);
        if !address.is_loopback() && !address.is_unspecified() {
            names.push(address.to_string());
        }
        let mut leaf = CertificateParams::new(names).map_err(Error::certificate)?;
        leaf.distinguished_name
            .push(DnType::CommonName, "kinform-apiserver");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.use_authority_key_identifier_extension = true;
        let certificate = leaf
            .signed_by(&key, &*authority.issuer)
            .map_err(Error::certificate)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(Error::tls)?
            .with_client_cert_verifier(clients(&authority, provider)?)
            .with_single_cert(vec![certificate.der().clone()], private)
            .map_err(Error::tls)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            authority,
            config: Arc::new(config),
        })
    }
}

/// Accepts clients' certificates of this authority, and clients without one.
fn clients(
    authority: &Authority,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.pem.as_bytes())
        .map_err(|error| Error::tls(rustls::Error::General(error.to_string())))?;
    roots.add(certificate).map_err(Error::tls)?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| Error::tls(rustls::Error::General(error.to_string())))
}

/// A certificate of a client and its private key, as PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

impl Tls {
    /// Issues a certificate that authenticates a client as a user.
    pub(crate) fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Result<ClientCertificate, Error> {
        let key = KeyPair::generate().map_err(Error::certificate)?;
        let mut asked = CertificateParams::default();
        asked.distinguished_name = DistinguishedName::new();
        asked.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            asked
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        asked.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        asked.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        asked.use_authority_key_identifier_extension = true;
        let made = asked
            .signed_by(&key, &*self.authority.issuer)
            .map_err(Error::certificate)?;
        Ok(ClientCertificate {
            certificate: made.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// Writes a file atomically, readable only by its owner. Replaces a regular file alone: a privileged
/// user could replace a device.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let what = "is there and is not a regular file";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what));
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let _ = std::fs::remove_file(&temporary);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&temporary, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    done
}
