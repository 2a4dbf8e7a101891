//! The authorities in a `caBundle`, and the merge of two bundles.
//!
//! ```text
//! caBundle as it is + authorities of the Secret ─▶ both, without those that ended
//! ```
//!
//! A replica that read the Secret a moment too early must not remove an authority that another one
//! has put there: its leaf serves already. So our authorities leave a bundle only when they
//! expire; those that this program did not make are dropped.
//!
//! Upstream counterpart: none; cert-manager's injector writes the bundle of its Secret.

use kinform::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

/// BOUND: authorities in one bundle; two overlap, others were made by hand or in error.
const MOST: usize = 8;

/// The certificate of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) der: CertificateDer<'static>,
    title: String,
    pub(super) not_after: Timestamp,
}

impl Authority {
    pub(super) fn from_der(der: CertificateDer<'static>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let title = parsed.subject().iter_common_name().next()?.as_str().ok()?;
        let (_, not_after) = validity(&parsed).ok()?;
        let title = title.to_owned();
        Some(Self {
            title,
            not_after,
            der,
        })
    }

    /// Reads those of a PEM text that can be read.
    pub(super) fn read_all(pem: &[u8]) -> Vec<Self> {
        let all = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        all.filter_map(Self::from_der).take(MOST).collect()
    }

    pub(super) fn to_pem(all: &[Self]) -> Vec<u8> {
        let texts = all.iter().map(|authority| pem_of(&authority.der));
        texts.collect::<String>().into_bytes()
    }
}

fn pem_of(der: &[u8]) -> String {
    let encoded = serde_json::to_value(k8s_openapi::ByteString(der.to_vec())).unwrap_or_default();
    let text = encoded.as_str().unwrap_or_default();
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
}

/// Returns the bundle that takes the place of `present`; `None` if it has all of `ours`.
pub(super) fn merged(
    present: &[u8],
    ours: &[Authority],
    owner: &str,
    now: Timestamp,
) -> Option<Vec<u8>> {
    let present = Authority::read_all(present);
    if ours.iter().all(|authority| present.contains(authority)) {
        return None;
    }
    let is_ours = |authority: &Authority| {
        let title = authority.title.strip_prefix(owner);
        title.is_some_and(|rest| rest.starts_with(' '))
    };
    let mut all = ours.to_vec();
    let others = present
        .into_iter()
        .filter(|other| is_ours(other) && other.not_after > now && !ours.contains(other));
    all.extend(others);
    all.truncate(MOST);
    Some(Authority::to_pem(&all))
}

/// The first and the last moment of a certificate.
pub(super) fn validity(of: &X509Certificate<'_>) -> Result<(Timestamp, Timestamp), String> {
    let at = |time: ASN1Time| Timestamp::from_second(time.timestamp());
    let of = of.validity();
    match (at(of.not_before), at(of.not_after)) {
        (Ok(from), Ok(to)) => Ok((from, to)),
        _ => Err("its validity cannot be read".to_owned()),
    }
}
