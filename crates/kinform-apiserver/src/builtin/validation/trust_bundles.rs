//! Validation of bundles of trust anchors.
//!
//! ```text
//! :trust_bundle -> the signer's name, PEM blocks that are certificates of authorities, none twice
//! ```
//!
//! Of a certificate, its frame and the extension that makes it an authority's are parsed. Its
//! signature and its times are not verified, and malformed content elsewhere is not reported.
//!
//! BOUND: two passes over the bundle, of 1 MiB at most.
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/certificates/validation`.

use std::collections::BTreeMap;

use kinform_api::FieldError;
use serde_json::Value;

use super::certificates::{Block, pem_blocks, signer};
use super::rule::Check;
use super::{Errors, Site};
use crate::der::Certificate;
use crate::object::text;

/// BOUND: bytes of a bundle.
const MAX_BUNDLE: usize = 1 << 20;
const OMITTED: &str = "<value omitted>";

pub(super) fn named(name: &str) -> Option<Check> {
    (name == ":trust_bundle").then_some(trust_bundle as Check)
}

fn trust_bundle(site: &Site<'_>, errors: &mut Errors<'_>) {
    let nothing = Value::Null;
    let spec = site.value.unwrap_or(&nothing);
    let name = text(spec, &["signerName"]);
    if !name.is_empty() {
        signer(name, &format!("{}.signerName", site.path()), errors);
    }
    let field = format!("{}.trustBundle", site.path());
    let bundle = text(spec, &["trustBundle"]);
    if bundle.len() > MAX_BUNDLE {
        return errors.push(FieldError::too_long(field, MAX_BUNDLE));
    }
    let details = anchors(bundle);
    errors.extend(
        details
            .into_iter()
            .map(|detail| FieldError::invalid(&*field, OMITTED, detail)),
    );
}

/// Errors of the certificates of a bundle.
fn anchors(bundle: &str) -> Vec<String> {
    let mut details = Vec::new();
    let mut places: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (at, block) in pem_blocks(bundle).enumerate() {
        match authority(&block) {
            Err(detail) => details.push(format!("entry {at} {detail}")),
            Ok(()) => places.entry(block.der).or_default().push(at),
        }
    }
    if !details.is_empty() {
        return details;
    }
    if places.is_empty() {
        details.push("at least one trust anchor must be provided".to_owned());
    }
    let mut twice: Vec<_> = places.into_values().filter(|at| at.len() > 1).collect();
    twice.sort_unstable();
    for at in twice {
        let at: Vec<String> = at.iter().map(ToString::to_string).collect();
        details.push(format!(
            "duplicate trust anchor (indices [{}])",
            at.join(" ")
        ));
    }
    details
}

/// Checks that a block is the certificate of an authority.
fn authority(block: &Block<'_>) -> Result<(), String> {
    if block.of != "CERTIFICATE" {
        return Err(format!("has bad block type: {}", block.of));
    }
    if block.has_headers {
        return Err("has PEM block headers".to_owned());
    }
    match Certificate::of(&block.der).and_then(|certificate| certificate.is_authority()) {
        None => Err("does not parse as X.509".to_owned()),
        Some(false) => Err("does not have the CA bit set".to_owned()),
        Some(true) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    fn certificate(is_ca: IsCa) -> String {
        let mut params = CertificateParams::default();
        params.is_ca = is_ca;
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[track_caller]
    fn check(bundle: &str, expected: &[&str]) {
        assert_eq!(anchors(bundle), expected, "{bundle}");
    }

    // kubernetes: TestValidateClusterTrustBundle
    #[test]
    fn a_bundle_has_different_certificates_of_authorities_only() {
        let [one, other] =
            [(), ()].map(|()| certificate(IsCa::Ca(BasicConstraints::Unconstrained)));
        let (leaf, plain) = (certificate(IsCa::ExplicitNoCa), certificate(IsCa::NoCa));
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(&one, &[]);
        check(&format!("# hi\n{one}{other}bye"), &[]);
        for nothing in ["", "junk", &one[..60]] {
            check(nothing, &["at least one trust anchor must be provided"]);
        }
        check(&leaf, &["entry 0 does not have the CA bit set"]);
        check(&plain, &["entry 0 does not have the CA bit set"]);
        check(broken, &["entry 0 does not parse as X.509"]);
        let with_headers = one.replacen("-----\n", "-----\nA: b\n\n", 1);
        check(&with_headers, &["entry 0 has PEM block headers"]);
        check(
            &format!("{key}{leaf}{one}{one}"),
            &[
                "entry 0 has bad block type: PRIVATE KEY",
                "entry 1 does not have the CA bit set",
            ],
        );
        check(
            &format!("{one}{other}{one}{other}"),
            &[
                "duplicate trust anchor (indices [0 2])",
                "duplicate trust anchor (indices [1 3])",
            ],
        );
    }

    #[test]
    fn a_bundle_of_beginnings_ends_early() {
        check(
            &"-----BEGIN CERTIFICATE-----\n".repeat(36_000),
            &["at least one trust anchor must be provided"],
        );
    }
}
