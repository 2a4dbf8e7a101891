//! Keys and certificates as values: an authority, the leaf that it signed, and the next step.
//!
//! ```text
//! now + names ─▶ Material ─step─▶ the same | new leaf | new authority and leaf, the old one trusted
//!     ▲  data of a Secret ◀──┘
//! ```
//!
//! An authority lasts a year, a leaf 90 days; both are replaced after two thirds. An old authority
//! is trusted until it ends, so that replicas can change their leaves one after another.
//!
//! Pure but for the random numbers of keys. Private keys reach no log and no error.
//!
//! Upstream counterpart: `open-policy-agent/cert-controller:pkg/rotator`.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kinform::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use super::Error;
use super::bundle::{Authority, validity};

const DAY: i64 = 24 * 3600;
/// Seconds that an authority and a leaf last.
const AUTHORITY: i64 = 365 * DAY;
const LEAF: i64 = 90 * DAY;
/// Seconds that a certificate begins before it is made: clocks differ.
const BACKDATED: i64 = 3600;

/// A certificate chain and its key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    chain: Vec<CertificateDer<'static>>,
    chain_pem: Vec<u8>,
    key_pem: Vec<u8>,
    names: Vec<String>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

/// The content of a Secret.
#[derive(Clone, Debug)]
pub(super) struct Material {
    /// The authorities that are trusted, the newest first: it has signed the leaf.
    pub(super) authorities: Vec<Authority>,
    authority_key: String,
    pub(super) leaf: Pair,
}

impl Pair {
    /// Parses a pair. [`Self::certified`] checks that the key is that of the certificate.
    pub(super) fn from_pem(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain_pem).collect();
        let chain = chain.map_err(|_| "it is no PEM file of certificates".to_owned())?;
        let first = chain.first().ok_or("it has no certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key_pem);
        key.map_err(|_| "its key is no PEM file of a private key".to_owned())?;
        let (_, leaf) = X509Certificate::from_der(first)
            .map_err(|_| "its first certificate cannot be parsed".to_owned())?;
        let names = leaf.subject_alternative_name().ok().flatten();
        let names = names
            .into_iter()
            .flat_map(|names| &names.value.general_names);
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        let names = names.collect();
        let (not_before, not_after) = validity(&leaf)?;
        Ok(Self {
            names,
            not_before,
            not_after,
            chain_pem: chain_pem.to_vec(),
            key_pem: key_pem.to_vec(),
            chain,
        })
    }

    /// The pair for handshakes.
    pub(super) fn certified(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
        let key = PrivateKeyDer::from_pem_slice(&self.key_pem)
            .map_err(|_| Error::new("the key is no PEM file of a private key"))?;
        CertifiedKey::from_der(self.chain.clone(), key, provider)
            .map_err(|error| Error::new("the certificate does not fit its key").with_cause(error))
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair")
            .field("names", &self.names)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl Material {
    /// Makes an authority called `owner` and a leaf for these DNS names.
    pub(super) fn make(owner: &str, names: &[String], now: Timestamp) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(made)?;
        let mut params = params(Vec::new(), now, AUTHORITY)?;
        let title = format!("{owner} {}", now.as_second());
        params.distinguished_name.push(DnType::CommonName, title);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(made)?;
        let authority = Authority::from_der(certificate.der().clone())
            .ok_or_else(|| Error::new("the authority that was made cannot be parsed"))?;
        let leaf = leaf(&authority, &key, names, now)?;
        Ok(Self {
            authorities: vec![authority],
            authority_key: key.serialize_pem(),
            leaf,
        })
    }

    /// Returns what has to take its place now; `None` if it can stay.
    pub(super) fn step(
        &self,
        owner: &str,
        names: &[String],
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        let newest = &self.authorities[0];
        let key = KeyPair::from_pem(&self.authority_key).ok();
        let is_signer = self.leaf.not_after <= newest.not_after;
        let Some(key) = key.filter(|_| is_signer && !is_due(newest.not_after, AUTHORITY, now))
        else {
            let mut next = Self::make(owner, names, now)?;
            let trusted = self.authorities.iter().filter(|old| old.not_after > now);
            next.authorities.extend(trusted.cloned());
            return Ok(Some(next));
        };
        let has_names = names.iter().all(|name| self.leaf.names.contains(name));
        if has_names && !is_due(self.leaf.not_after, LEAF, now) {
            return Ok(None);
        }
        Ok(Some(Self {
            leaf: leaf(newest, &key, names, now)?,
            ..self.clone()
        }))
    }

    /// Reads the data of a Secret.
    pub(super) fn from_data(data: &BTreeMap<String, ByteString>) -> Result<Self, String> {
        let member = |name: &str| match data.get(name) {
            Some(ByteString(bytes)) => Ok(bytes.as_slice()),
            None => Err(format!("it has no {name}")),
        };
        let leaf = Pair::from_pem(member("tls.crt")?, member("tls.key")?)?;
        if let Some(provider) = CryptoProvider::get_default() {
            leaf.certified(provider)
                .map_err(|error| error.to_string())?;
        }
        let authorities = Authority::read_all(member("ca.crt")?);
        if authorities.is_empty() {
            return Err("its ca.crt has no certificate".to_owned());
        }
        let authority_key = String::from_utf8_lossy(member("ca.key")?).into_owned();
        Ok(Self {
            authorities,
            authority_key,
            leaf,
        })
    }

    /// The data of a Secret.
    pub(super) fn to_data(&self) -> BTreeMap<String, ByteString> {
        let bundle = Authority::to_pem(&self.authorities);
        BTreeMap::from([
            ("ca.crt".to_owned(), ByteString(bundle)),
            (
                "ca.key".to_owned(),
                ByteString(self.authority_key.clone().into_bytes()),
            ),
            (
                "tls.crt".to_owned(),
                ByteString(self.leaf.chain_pem.clone()),
            ),
            ("tls.key".to_owned(), ByteString(self.leaf.key_pem.clone())),
        ])
    }
}

/// Returns whether two thirds of a certificate's time are over.
fn is_due(not_after: Timestamp, lasts: i64, now: Timestamp) -> bool {
    not_after.as_second() - now.as_second() <= lasts / 3
}

fn leaf(
    authority: &Authority,
    authority_key: &KeyPair,
    names: &[String],
    now: Timestamp,
) -> Result<Pair, Error> {
    let key = KeyPair::generate().map_err(made)?;
    let mut params = params(names.to_vec(), now, LEAF)?;
    let name = names.first().cloned().unwrap_or_default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_der(&authority.der, authority_key).map_err(made)?;
    let certificate = params.signed_by(&key, &issuer).map_err(made)?;
    Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).map_err(Error::new)
}

fn params(names: Vec<String>, now: Timestamp, lasts: i64) -> Result<CertificateParams, Error> {
    let at = |seconds: i64| {
        let time = ASN1Time::from_timestamp(seconds);
        let time = time.map_err(|_| Error::new("the clock is beyond the times of certificates"))?;
        Ok::<_, Error>(time.to_datetime())
    };
    let mut params = CertificateParams::new(names).map_err(made)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = at(now.as_second() - BACKDATED)?;
    params.not_after = at(now.as_second() + lasts)?;
    Ok(params)
}

fn made(error: rcgen::Error) -> Error {
    Error::new("a certificate cannot be made").with_cause(error)
}
