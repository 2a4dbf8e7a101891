//! Validation of certificate signing requests.
//!
//! ```text
//! :signing_request -> PEM of a request that can be read, usages, the signer's name, how long it holds
//! ```
//!
//! Only the frame of the request itself is parsed. Its signature is not verified, and malformed
//! content inside the frame is not reported.
//!
//! BOUND: two passes over the request, whose size is that of a body at most: to find the ends of
//! blocks, and their beginnings before them.
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/certificates/validation`, Go's `encoding/pem`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site};
use crate::der::element;
use crate::object::{at, text};

const BLOCK: &str = "CERTIFICATE REQUEST";
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// BOUND: bytes of a signer's name: a domain, a slash, the name of an object and its namespace.
const MAX_SIGNER: usize = 571;
const BEGIN: &str = "-----BEGIN ";
const END: &str = "\n-----END ";
const DASHES: &str = "-----";
const SHORTEST_SECONDS: i64 = 600;

pub(super) fn named(name: &str) -> Option<Check> {
    (name == ":signing_request").then_some(signing_request as Check)
}

fn signing_request(site: &Site<'_>, errors: &mut Errors<'_>) {
    let nothing = Value::Null;
    let spec = site.value.unwrap_or(&nothing);
    let place = |name: &str| format!("{}.{name}", site.path());
    let request = at(spec, &["request"]).and_then(Value::as_str);
    if let Err(detail) = frame(request.unwrap_or_default()) {
        let shown = match request {
            Some(request) => ShownValue::from(request),
            None => ShownValue::raw("null"),
        };
        errors.push(FieldError::invalid(place("request"), shown, detail));
    }
    usages(spec, &place("usages"), errors);
    match text(spec, &["signerName"]) {
        name @ "kubernetes.io/legacy-unknown" => {
            let detail = "the legacy signerName is not allowed via this API version";
            errors.push(FieldError::invalid(place("signerName"), name, detail));
        }
        name => signer(name, &place("signerName"), errors),
    }
    let seconds = at(spec, &["expirationSeconds"]).and_then(Value::as_i64);
    if let Some(seconds) = seconds.filter(|seconds| *seconds < SHORTEST_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(
            place("expirationSeconds"),
            seconds,
            detail,
        ));
    }
}

fn usages(spec: &Value, place: &str, errors: &mut Errors<'_>) {
    let said = at(spec, &["usages"]).and_then(Value::as_array);
    let said: Vec<&str> = said
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if said.is_empty() {
        errors.push(FieldError::required(place, ""));
    }
    let field = |index: usize| format!("{place}[{index}]");
    for (index, usage) in said.iter().enumerate() {
        if !USAGES.contains(usage) {
            errors.push(FieldError::not_supported(field(index), *usage, &USAGES));
        }
    }
    let mut known = std::collections::HashSet::new();
    for (index, usage) in said.iter().enumerate() {
        if !known.insert(usage) {
            errors.push(FieldError::duplicate(field(index), *usage));
        }
    }
}

/// A signer's name is a domain and a path within it.
pub(super) fn signer(name: &str, field: &str, errors: &mut Errors<'_>) {
    if name.is_empty() {
        return errors.push(FieldError::required(field, ""));
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.push(FieldError::invalid(field, name, detail));
    };
    let labels: Vec<&str> = domain.split('.').collect();
    for label in &labels {
        for what in names::dns_label_errors(label) {
            let detail = format!("validating label {label:?}: {what}");
            errors.push(FieldError::invalid(field, domain, detail));
        }
    }
    if labels.len() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(field, domain, detail));
    }
    for what in names::dns_subdomain_errors(path) {
        let what = what.replace("no more than 253 bytes", "no more than 253 characters");
        let detail = format!("validating label {path:?}: {what}");
        errors.push(FieldError::invalid(field, path, detail));
    }
    if name.len() > MAX_SIGNER {
        errors.push(FieldError::too_long(field, MAX_SIGNER));
    }
}

/// Reads the frame of a request, coded in base 64 as bytes are in JSON.
fn frame(request: &str) -> Result<(), &'static str> {
    let bytes = STANDARD.decode(request).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match pem_blocks(&text).next() {
        Some(Block { of: BLOCK, der, .. }) => certification_request(&der),
        _ => Err("PEM block type must be CERTIFICATE REQUEST"),
    }
}

/// A complete block of a PEM text.
#[derive(Debug)]
pub(super) struct Block<'t> {
    pub(super) of: &'t str,
    pub(super) has_headers: bool,
    pub(super) der: Vec<u8>,
}

/// The complete blocks of a PEM text, in its order. Everything around them is skipped. An end belongs
/// to the last beginning before it, as in Go.
pub(super) fn pem_blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while let Some(at) = rest.find(END) {
            let (before, after) = (&rest[..at], &rest[at + END.len()..]);
            rest = after;
            let begins_line = |at: &usize| *at == 0 || before.as_bytes()[at - 1] == b'\n';
            let begin = before.rfind(BEGIN).filter(begins_line);
            let inside = begin.map(|begin| &before[begin + BEGIN.len()..]);
            if let Some((block, after)) = inside.and_then(|inside| block(inside, after)) {
                rest = after;
                return Some(block);
            }
        }
        None
    })
}

/// The block whose type and content are the text before its end, and the text after it.
fn block<'t>(inside: &'t str, end: &'t str) -> Option<(Block<'t>, &'t str)> {
    // A block without content ends in the line after its beginning.
    let (head, mut body) = inside.split_once('\n').unwrap_or((inside, ""));
    let of = head.trim_end().strip_suffix(DASHES)?;
    let after = end.strip_prefix(of)?.strip_prefix(DASHES)?;
    let (line, after) = after.split_once('\n').unwrap_or((after, ""));
    if !line.trim().is_empty() {
        return None;
    }
    let mut has_headers = false;
    while let Some((_, rest)) = body.split_once('\n').filter(|(line, _)| line.contains(':')) {
        (has_headers, body) = (true, rest);
    }
    let letters: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(letters).ok()?;
    let block = Block {
        of,
        has_headers,
        der,
    };
    Some((block, after))
}

/// A sequence of the request's information, an algorithm and a signature, without trailing data.
fn certification_request(der: &[u8]) -> Result<(), &'static str> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    const TRUNCATED: &str = "asn1: syntax error: sequence truncated";
    if der.is_empty() {
        return Err(TRUNCATED);
    }
    let (tag, mut inside, rest) = element(der)?;
    if tag != SEQUENCE {
        return Err("asn1: structure error: tags don't match");
    }
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data");
    }
    for wanted in [SEQUENCE, SEQUENCE, BIT_STRING] {
        if inside.is_empty() {
            return Err(TRUNCATED);
        }
        let (tag, _, rest) = element(inside)?;
        if tag != wanted {
            return Err("asn1: structure error: tags don't match");
        }
        inside = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Meter;

    /// Synthetic request: three empty elements.
    const DER: &[u8] = &[0x30, 6, 0x30, 0, 0x30, 0, 0x03, 0];

    fn pem(of: &str, der: &[u8]) -> String {
        let body = STANDARD.encode(der);
        format!("-----BEGIN {of}-----\n{body}\n-----END {of}-----\n")
    }

    fn check(text: &str, expected: Result<(), &str>) {
        assert_eq!(frame(&STANDARD.encode(text)), expected, "{text}");
    }

    #[test]
    fn the_frame_of_a_request_is_read_and_what_is_around_it_is_not() {
        const TYPE: Result<(), &str> = Err("PEM block type must be CERTIFICATE REQUEST");
        let good = pem(BLOCK, DER);
        check(&good, Ok(()));
        check(&format!("hello\n{good}junk"), Ok(()));
        let headed = good.replacen("-----\n", "-----\nA: b\n\n", 1);
        check(&headed, Ok(()));
        check(&headed.replace('\n', "\r\n"), Ok(()));
        check(&good.replacen("-----\n", "-----\nA: b\n", 1), Ok(()));
        // Go: an end belongs to the last beginning before it, and its line to nothing else.
        check(&format!("{}{good}", "-----BEGIN X\n".repeat(2_000)), Ok(()));
        check(&format!("-----BEGIN {BLOCK}-----\n{good}"), Ok(()));
        check(&format!("{}junk\n", good.trim_end()), TYPE);
        check(&good.replace("-----END CERT", "-----END XERT"), TYPE);
        check("", TYPE);
        check(&good[..40], TYPE);
        check(&pem("CERTIFICATE", DER), TYPE);
        check(&format!("{}{good}", pem("CERTIFICATE", DER)), TYPE);
        check(&format!("x{good}"), TYPE);
    }

    #[test]
    fn what_is_in_the_frame_is_a_whole_request() {
        let part = |words: &'static str| Err(words);
        let truncated = part("asn1: syntax error: sequence truncated");
        let cut = part("asn1: syntax error: data truncated");
        for (der, expected) in [
            (&[][..], truncated),
            (&[0x30, 0], truncated),
            (&[0x30, 2, 0x30, 0], truncated),
            (&DER[..6], cut),
            (&[0x30], cut),
            (&[0x30, 0x82, 1], cut),
            (&[0x30, 0xff, 0, 0], cut),
            (b"hello", cut),
            (&[0x04, 0], part("asn1: structure error: tags don't match")),
            (
                &[DER, &[0]].concat(),
                part("asn1: syntax error: trailing data"),
            ),
        ] {
            check(&pem(BLOCK, der), expected);
        }
    }

    // kubernetes: TestValidateSignerName
    #[test]
    fn signers_are_a_domain_and_a_path() {
        for (name, wrong) in [
            ("example.com/x", 0),
            ("a.b.c/x.y", 0),
            ("x", 1),
            ("example.com/x/y", 1),
            ("example.com/", 1),
            ("example/x", 1),
            ("/x", 2),
            ("", 1),
            ("kubernetes.io/kube-apiserver-client-kubelet", 0),
        ] {
            let meter = Meter::endless();
            let mut errors = Errors::new(&meter);
            signer(name, "spec.signerName", &mut errors);
            let errors = errors.found();
            assert_eq!(errors.len(), wrong, "{name}: {errors:?}");
        }
    }
}
