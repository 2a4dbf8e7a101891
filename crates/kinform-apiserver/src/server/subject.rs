//! User named by a client's certificate: the common name, and the organizations as groups.
//!
//! ```text
//! DER of a certificate ──▶ its subject ──▶ User
//! ```
//!
//! TLS has verified the certificate before; this parser only walks to the subject. It returns
//! `None` for an encoding that it does not know.
//!
//! Upstream: `apiserver:pkg/authentication/request/x509`.

use crate::access::User;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const VERSION: u8 = 0xa0;
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// User of a certificate; `None` if it names none.
pub(super) fn user(certificate: &[u8]) -> Option<User> {
    let (_, whole, _) = element(certificate)?;
    let (_, mut signed, _) = element(whole)?;
    if signed.first() == Some(&VERSION) {
        signed = element(signed)?.2;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        signed = element(signed)?.2;
    }
    let (tag, mut names, _) = element(signed)?;
    if tag != SEQUENCE {
        return None;
    }
    let (mut name, mut groups) = (None, Vec::new());
    while let Some((SET, set, rest)) = element(names) {
        names = rest;
        let Some((SEQUENCE, pair, _)) = element(set) else {
            return None;
        };
        let Some((OBJECT, what, value)) = element(pair) else {
            return None;
        };
        let text = String::from_utf8(element(value)?.1.to_vec()).ok()?;
        if what == COMMON_NAME {
            name = Some(text);
        } else if what == ORGANIZATION {
            groups.push(text);
        }
    }
    let user = User::new(name.filter(|name| !name.is_empty())?);
    Some(
        groups
            .into_iter()
            .fold(user, User::with_group)
            .authenticated(),
    )
}

/// Splits off the first element: tag, content, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, length) = (*bytes.first()?, *bytes.get(1)?);
    let (start, length) = match length {
        0..=0x7f => (2, usize::from(length)),
        // BOUND: lengths of up to three bytes; a certificate is shorter.
        0x81..=0x83 => {
            let count = usize::from(length & 0x7f);
            let digits = bytes.get(2..2 + count)?;
            let number = digits
                .iter()
                .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (2 + count, number)
        }
        _ => return None,
    };
    let end = start.checked_add(length)?;
    Some((tag, bytes.get(start..end)?, bytes.get(end..)?))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn a_certificate_names_a_user_and_a_group() {
        let mut asked = CertificateParams::default();
        asked.distinguished_name = rcgen::DistinguishedName::new();
        asked
            .distinguished_name
            .push(DnType::OrganizationName, "devs");
        asked.distinguished_name.push(DnType::CommonName, "jane");
        let made = asked.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let got = user(made.der()).unwrap();
        assert_eq!(got.name(), "jane");
        assert_eq!(got.groups(), ["devs", "system:authenticated"]);
        for end in 0..made.der().len() {
            // A truncated certificate never names another user.
            assert!(user(&made.der()[..end]).is_none(), "{end}");
        }
        assert!(user(&[0x30; 64]).is_none());
    }
}
