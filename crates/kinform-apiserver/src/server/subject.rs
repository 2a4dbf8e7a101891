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
use crate::der::{Certificate, OBJECT_IDENTIFIER, SEQUENCE, SET, element};

const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// User of a certificate; `None` if it names none.
pub(super) fn user(certificate: &[u8]) -> Option<User> {
    let mut names = Certificate::of(certificate)?.subject;
    let (mut name, mut groups) = (None, Vec::new());
    while let Ok((SET, set, rest)) = element(names) {
        names = rest;
        let Ok((SEQUENCE, pair, _)) = element(set) else {
            return None;
        };
        let Ok((OBJECT_IDENTIFIER, what, value)) = element(pair) else {
            return None;
        };
        let text = String::from_utf8(element(value).ok()?.1.to_vec()).ok()?;
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
