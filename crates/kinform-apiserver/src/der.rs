//! Parts of certificates, in DER.
//!
//! ```text
//! bytes ──element──▶ (tag, content, rest)      bytes ──Certificate::of──▶ subject, validity, extensions
//! ```
//!
//! This parser only walks to the parts that are asked for. It verifies no signature: TLS has done
//! so, or the certificate is trusted as it is. Whatever it does not know is an error.
//!
//! BOUND: lengths of four bytes; an element never reaches over the end of the bytes.
//!
//! Upstream: Go's `crypto/x509`.

use jiff::civil::DateTime;

const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];
const SERVER_USAGE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

/// The parts of a certificate that are read here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certificate<'d> {
    /// The names of its subject.
    pub(crate) subject: &'d [u8],
    validity: &'d [u8],
    extensions: &'d [u8],
}

impl<'d> Certificate<'d> {
    /// Walks through a certificate; `None` if it is malformed.
    pub(crate) fn of(der: &'d [u8]) -> Option<Self> {
        let (whole, rest) = content(der, SEQUENCE)?;
        let (mut fields, _) = content(whole, SEQUENCE)?;
        if !rest.is_empty() {
            return None;
        }
        if fields.first() == Some(&VERSION) {
            fields = content(fields, VERSION)?.1;
        }
        // The serial number, then the algorithm and the issuer.
        fields = element(fields).ok()?.2;
        for _ in 0..2 {
            fields = content(fields, SEQUENCE)?.1;
        }
        let (validity, fields) = content(fields, SEQUENCE)?;
        let (subject, fields) = content(fields, SEQUENCE)?;
        let (_, mut fields) = content(fields, SEQUENCE)?;
        let mut extensions: &[u8] = &[];
        while !fields.is_empty() {
            let (tag, inside, rest) = element(fields).ok()?;
            if tag == EXTENSIONS {
                extensions = content(inside, SEQUENCE)?.0;
            }
            fields = rest;
        }
        Some(Self {
            subject,
            validity,
            extensions,
        })
    }

    /// The first and the last second of its validity as 14 digits; `None` if they are malformed.
    pub(crate) fn validity(&self) -> Option<(String, String)> {
        let (from, rest) = time(self.validity)?;
        let (until, _) = time(rest)?;
        Some((from, until))
    }

    /// Returns whether its basic constraints make it an authority's; `None` if they are malformed.
    pub(crate) fn is_authority(&self) -> Option<bool> {
        let Some(constraints) = self.extension(BASIC_CONSTRAINTS)? else {
            return Some(false);
        };
        let (constraints, _) = content(constraints, SEQUENCE)?;
        let mark = content(constraints, BOOLEAN);
        Some(mark.is_some_and(|(mark, _)| mark == [0xff]))
    }

    /// Returns whether a server may identify itself by it; `None` if its usages are malformed.
    pub(crate) fn is_for_servers(&self) -> Option<bool> {
        let Some(usages) = self.extension(EXTENDED_KEY_USAGE)? else {
            return Some(true);
        };
        let (mut usages, _) = content(usages, SEQUENCE)?;
        while !usages.is_empty() {
            let (usage, rest) = content(usages, OBJECT_IDENTIFIER)?;
            if usage == SERVER_USAGE || usage == ANY_USAGE {
                return Some(true);
            }
            usages = rest;
        }
        Some(false)
    }

    /// The value of an extension, if it is there; `None` if the extensions are malformed.
    fn extension(&self, wanted: &[u8]) -> Option<Option<&'d [u8]>> {
        let mut extensions = self.extensions;
        while !extensions.is_empty() {
            let (extension, rest) = content(extensions, SEQUENCE)?;
            extensions = rest;
            let (identifier, mut value) = content(extension, OBJECT_IDENTIFIER)?;
            if identifier != wanted {
                continue;
            }
            // The mark that it is critical is optional.
            if let Some((_, rest)) = content(value, BOOLEAN) {
                value = rest;
            }
            return Some(Some(content(value, OCTET_STRING)?.0));
        }
        Some(None)
    }
}

/// Splits off an element with this tag: its content, and the rest.
fn content(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, inside, rest) = element(der).ok()?;
    (found == tag).then_some((inside, rest))
}

/// Splits off a time as 14 digits. Years of two digits are those from 1950 to 2049.
fn time(der: &[u8]) -> Option<(String, &[u8])> {
    let (tag, inside, rest) = element(der).ok()?;
    let digits = std::str::from_utf8(inside).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = match (tag, digits.len()) {
        (UTC_TIME, 12) if digits < "50" => format!("20{digits}"),
        (UTC_TIME, 12) => format!("19{digits}"),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => return None,
    };
    // A month 13 is no time.
    DateTime::strptime("%Y%m%d%H%M%S", &digits).ok()?;
    Some((digits, rest))
}

/// Splits off the first element: tag, content, and the rest.
///
/// # Errors
/// The bytes end within it, or its length is too long or not the shortest form; in Go's words.
pub(crate) fn element(der: &[u8]) -> Result<(u8, &[u8], &[u8]), &'static str> {
    const CUT: &str = "asn1: syntax error: data truncated";
    let (tag, rest) = der.split_first().ok_or(CUT)?;
    let (first, mut rest) = rest.split_first().ok_or(CUT)?;
    let mut length = usize::from(*first);
    if *first >= 0x80 {
        let (digits, after) = rest.split_at_checked(length & 0x7f).ok_or(CUT)?;
        if digits.len() > size_of::<u32>() {
            return Err("asn1: structure error: length too large");
        }
        match digits {
            [] => return Err("asn1: structure error: indefinite length found (not DER)"),
            [0, ..] => {
                return Err("asn1: structure error: superfluous leading zeros in length");
            }
            [short] if *short < 0x80 => {
                return Err("asn1: structure error: non-minimal length");
            }
            _ => {}
        }
        let add = |length: usize, digit: &u8| length << 8 | usize::from(*digit);
        length = digits.iter().fold(0, add);
        rest = after;
    }
    let (inside, after) = rest.split_at_checked(length).ok_or(CUT)?;
    Ok((*tag, inside, after))
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
    };

    use super::*;

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[track_caller]
    fn check(der: &[u8], is_authority: bool, is_for_servers: bool) {
        let certificate = Certificate::of(der).unwrap();
        assert_eq!(certificate.is_authority(), Some(is_authority));
        assert_eq!(certificate.is_for_servers(), Some(is_for_servers));
    }

    #[test]
    fn extensions_tell_the_uses_of_a_certificate() {
        check(&made(|_| {}), false, true);
        check(
            &made(|params| params.is_ca = IsCa::ExplicitNoCa),
            false,
            true,
        );
        let authority = IsCa::Ca(BasicConstraints::Constrained(1));
        check(&made(|params| params.is_ca = authority), true, true);
        for (usage, is_for_servers) in [
            (ExtendedKeyUsagePurpose::ServerAuth, true),
            (ExtendedKeyUsagePurpose::Any, true),
            (ExtendedKeyUsagePurpose::ClientAuth, false),
        ] {
            let der = made(|params| params.extended_key_usages = vec![usage]);
            check(&der, false, is_for_servers);
        }
    }

    #[test]
    fn a_validity_is_two_times_in_order() {
        let der = made(|params| {
            params.not_before = date_time_ymd(1999, 12, 31);
            params.not_after = date_time_ymd(2096, 1, 2);
        });
        let validity = Certificate::of(&der).unwrap().validity().unwrap();
        assert_eq!(
            validity,
            ("19991231000000".to_owned(), "20960102000000".to_owned())
        );
    }

    #[test]
    fn lengths_are_in_their_shortest_form_and_times_are_times() {
        for der in [
            &[0x30, 0x80][..],
            &[0x30, 0x81, 5, 1, 2, 3, 4, 5],
            &[0x30, 0x82, 0, 1, 7],
        ] {
            assert!(element(der).is_err(), "{der:?}");
        }
        assert_eq!(element(&[0x04, 1, 7]), Ok((0x04, &[7][..], &[][..])));
        let read = |tag: u8, text: &str| {
            let length = u8::try_from(text.len()).unwrap();
            let der = [&[tag, length], text.as_bytes()].concat();
            time(&der).map(|(digits, _)| digits)
        };
        for (tag, text, expected) in [
            (UTC_TIME, "491231235959Z", Some("20491231235959")),
            (UTC_TIME, "500101000000Z", Some("19500101000000")),
            (GENERALIZED_TIME, "20501231235959Z", Some("20501231235959")),
            (GENERALIZED_TIME, "20301399999999Z", None),
            (GENERALIZED_TIME, "20300230000000Z", None),
            (UTC_TIME, "4912312359Z", None),
        ] {
            assert_eq!(read(tag, text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_truncated_certificate_is_none() {
        let der = made(|params| params.is_ca = IsCa::ExplicitNoCa);
        for end in 0..der.len() {
            assert!(Certificate::of(&der[..end]).is_none(), "{end}");
        }
        assert!(Certificate::of(&[&der[..], &[0]].concat()).is_none());
        assert!(Certificate::of(&[0x30; 64]).is_none());
    }
}
