//! Trust in the certificate of a webhook's server.
//!
//! ```text
//! bundle ──▶ Trust ──certificate, name, time──▶ trusted | refused
//! ```
//!
//! A certificate is trusted if an authority of the bundle signed it, or if the bundle names the
//! certificate itself, as in Go: test servers and charts often put a server's own certificate into
//! `caBundle`. Of such a certificate, the times, the usages and the names are checked.
//!
//! Upstream: Go's `crypto/x509`, `Certificate.Verify`.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, ExtendedKeyPurpose, RootCertStore,
    SignatureScheme,
};

use crate::der::Certificate;

/// A bundle.
#[derive(Debug)]
pub(super) struct Trust {
    provider: Arc<CryptoProvider>,
    /// `None` for an empty bundle, which trusts no server.
    chains: Option<Arc<WebPkiServerVerifier>>,
    named: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// Reads the certificates of a bundle.
    ///
    /// # Errors
    /// The verifier of chains cannot be made of them.
    pub(super) fn new(
        provider: Arc<CryptoProvider>,
        certificates: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, String> {
        let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
        for certificate in certificates {
            // A certificate that does not parse is of no use, as in Go.
            if roots.add(certificate.clone()).is_ok() {
                named.push(certificate);
            }
        }
        let chains = match named.is_empty() {
            true => None,
            false => {
                let roots = Arc::new(roots);
                let builder = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
                Some(builder.build().map_err(|error| error.to_string())?)
            }
        };
        Ok(Self {
            provider,
            chains,
            named,
        })
    }

    /// Returns whether the bundle has no certificate.
    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.named.contains(certificate) {
            check_uses(certificate, now)?;
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        match &self.chains {
            Some(chains) => chains.verify_server_cert(certificate, others, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Checks the times and the usages of a certificate that is trusted as it is.
fn check_uses(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    const BROKEN: CertificateError = CertificateError::BadEncoding;
    let certificate = Certificate::of(certificate).ok_or(BROKEN)?;
    let (from, until) = certificate.validity().ok_or(BROKEN)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let now = Timestamp::from_second(now).unwrap_or(Timestamp::MAX);
    let now = now.strftime("%Y%m%d%H%M%S").to_string();
    if now < from {
        return Err(CertificateError::NotValidYet);
    }
    if now > until {
        return Err(CertificateError::Expired);
    }
    match certificate.is_for_servers().ok_or(BROKEN)? {
        true => Ok(()),
        false => Err(CertificateError::InvalidPurposeContext {
            required: ExtendedKeyPurpose::ServerAuth,
            presented: Vec::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
        ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
    };

    use super::*;

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        params
    }

    fn alone(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = params("hook.test");
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    /// The verdict about a certificate for a name at a second since 1970.
    fn verdict(
        bundle: &[&CertificateDer<'static>],
        shown: &CertificateDer<'static>,
        name: &str,
        second: u64,
    ) -> Result<(), Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = Trust::new(provider, bundle.iter().copied().cloned()).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(second));
        let trusted = trust.verify_server_cert(shown, &[], &name, &[], now);
        trusted.map(|_| ())
    }

    const IN_2025: u64 = 1_740_000_000;

    // go: TestGoVerify, a root that is the leaf itself
    #[test]
    fn a_certificate_that_the_bundle_names_is_trusted_within_its_uses() {
        let leaf = alone(|_| {});
        let authority = alone(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
        for named in [&leaf, &authority] {
            assert_eq!(verdict(&[named], named, "hook.test", IN_2025), Ok(()));
            let other = verdict(&[named], named, "other.test", IN_2025).unwrap_err();
            assert!(other.to_string().contains("hook.test"), "{other}");
            let late = verdict(&[named], named, "hook.test", 2_000_000_000);
            assert_eq!(late, Err(CertificateError::Expired.into()));
            let early = verdict(&[named], named, "hook.test", 1_000_000_000);
            assert_eq!(early, Err(CertificateError::NotValidYet.into()));
        }
        let for_clients = alone(|params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        });
        let refused = verdict(&[&for_clients], &for_clients, "hook.test", IN_2025).unwrap_err();
        let purpose = CertificateError::InvalidPurposeContext {
            required: ExtendedKeyPurpose::ServerAuth,
            presented: Vec::new(),
        };
        assert_eq!(refused, purpose.into());
    }

    #[test]
    fn another_certificate_needs_an_authority_of_the_bundle() {
        let mut of_authority = params("authority");
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(of_authority, key).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = params("hook.test").signed_by(&key, &authority).unwrap();
        let (signed, authority) = (signed.der(), authority.der());
        let leaf = alone(|_| {});
        assert_eq!(
            verdict(&[&leaf, authority], signed, "hook.test", IN_2025),
            Ok(())
        );
        // The server's own certificate, as the only one of the bundle.
        assert_eq!(verdict(&[signed], signed, "hook.test", IN_2025), Ok(()));
        let unknown = || Err(CertificateError::UnknownIssuer.into());
        assert_eq!(verdict(&[&leaf], signed, "hook.test", IN_2025), unknown());
        assert_eq!(verdict(&[], signed, "hook.test", IN_2025), unknown());
    }
}
