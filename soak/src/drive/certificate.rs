//! Certificates of the operator's metrics, each of a new authority.
//!
//! ```text
//! issue ──▶ certificate, key (files of the operator) + authority (of the one who reads the metrics)
//! ```
//!
//! A reader trusts only the newest authority: it reads the metrics only if the operator has read its
//! files again.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

use crate::Failure;

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Files {
    /// The files in a folder.
    pub(super) fn of(folder: &Path) -> Self {
        Self {
            certificate: folder.join("metrics.crt"),
            key: folder.join("metrics.key"),
        }
    }

    /// Replaces both by those of a new authority; returns its certificate, as DER.
    pub(super) fn issue(&self) -> Result<Vec<u8>, Failure> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &authority)?;
        replace(&self.certificate, &certificate.pem())?;
        replace(&self.key, &key.serialize_pem())?;
        Ok(authority.der().to_vec())
    }
}

/// Replaces a file in one step: a reader has the old or the new text.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    Ok(fs::rename(&new, path)?)
}
