//! Formats of strings, and upstream's messages for malformed ones.
//!
//! ```text
//! text -> [] (fine) | ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
//! ```
//!
//! Names and labels are `kinform_api::names`. The matchers are written by hand: one pass, no
//! allocation.
//!
//! Upstream: `apimachinery:pkg/util/validation/{validation,ip}.go`.

use std::net::IpAddr;

use kinform_api::FieldError;
use serde_json::Value;

/// Upstream: `IsValidPortName`.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push("must be no more than 15 characters".to_owned());
    }
    let is_inner =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    if text.is_empty() || !text.bytes().all(is_inner) {
        errors.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|letter| letter.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// A port by its number or its name.
pub(super) fn port(field: &str, value: Option<&Value>) -> Vec<FieldError> {
    if let Some(Value::String(name)) = value {
        let invalid = |detail| FieldError::invalid(field, name.as_str(), detail);
        return port_name(name).into_iter().map(invalid).collect();
    }
    let number = value.and_then(Value::as_i64).unwrap_or(0);
    let invalid = |detail| FieldError::invalid(field, number, detail);
    port_number(number).map(invalid).into_iter().collect()
}

/// Upstream: `IsValidPortNum`.
pub(super) fn port_number(number: i64) -> Option<String> {
    range(number, 1, 65_535)
}

/// Upstream: `InclusiveRangeError`.
pub(super) fn range(number: i64, least: i64, most: i64) -> Option<String> {
    let out = !(least..=most).contains(&number);
    out.then(|| format!("must be between {least} and {most}, inclusive"))
}

/// Upstream: `IsValidIP`. Leading zeros are refused, as by Go.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

pub(super) const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
pub(super) const NO_NETWORK: &str =
    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Address and length of a network.
pub(super) fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let is_number = !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit());
    let length = length
        .parse()
        .ok()
        .filter(|length| is_number && *length <= most)?;
    Some((address, length))
}

/// Upstream: `IsEnvVarName`, relaxed: printable ASCII but `=`.
pub(super) fn variable_name(text: &str) -> Vec<String> {
    if text.is_empty()
        || !text
            .bytes()
            .all(|letter| (0x20..=0x7e).contains(&letter) && letter != b'=')
    {
        return vec![
            "a valid environment variable name must consist only of printable ASCII characters \
             other than '='"
                .to_owned(),
        ];
    }
    Vec::new()
}

/// Upstream: `IsConfigMapKey`.
pub(in crate::builtin) fn config_key(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    let is_inner = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    if text.is_empty() || !text.bytes().all(is_inner) {
        errors.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
             'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
             '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        text if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// Upstream: `IsHTTPHeaderName`.
pub(super) fn header_name(text: &str) -> Vec<String> {
    let is_inner = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
    if !text.is_empty() && text.bytes().all(is_inner) {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
         'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            .to_owned(),
    ]
}

/// Upstream: `IsDNS1035Label`.
pub(super) fn dns_1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 characters".to_owned());
    }
    let bytes = text.as_bytes();
    let is_inner =
        |letter: &u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || *letter == b'-';
    let fits = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last() != Some(&b'-')
        && bytes.iter().all(is_inner);
    if !fits {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// Upstream: `IsValidPercent`.
pub(super) fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}

pub(super) const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an \
     ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// Upstream: `IsWildcardDNS1123Subdomain`.
pub(super) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let fits = text
        .strip_prefix("*.")
        .is_some_and(|rest| kinform_api::names::dns_subdomain_errors(rest).is_empty());
    if fits {
        return Vec::new();
    }
    vec![
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
         which must consist of lower case alphanumeric characters, '-' or '.' and end with an \
         alphanumeric character (e.g. '*.example.com', regex used for validation is \
         '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_upstreams() {
        // apimachinery: TestIsValidPortName, TestIsConfigMapKey, TestIsDNS1035Label
        for (good, bad) in [
            ("http", ""),
            ("a-1", "1"),
            ("telnet", "a--b"),
            ("re-mail-ck", "-a"),
            ("pop3", "a234567890123456"),
        ] {
            assert!(
                port_name(good).is_empty() && !port_name(bad).is_empty(),
                "{good} {bad}"
            );
        }
        for (good, bad) in [("a.b", ""), ("KEY_1", "a/b"), (".a", ".."), ("a..b", "..a")] {
            assert!(
                config_key(good).is_empty() && !config_key(bad).is_empty(),
                "{good} {bad}"
            );
        }
        for (good, bad) in [("a", "1"), ("a1", "a-"), ("ab-1-c", "A")] {
            assert!(
                dns_1035_label(good).is_empty() && !dns_1035_label(bad).is_empty(),
                "{bad}"
            );
        }
        assert!(is_address("::1") && !is_address("10.0.0.01") && !is_address("1.2.3"));
        assert!(network("10.0.0.0/8").is_some() && network("10.0.0.0/33").is_none());
        assert_eq!(
            (percent("10%"), percent("%"), percent("1")),
            (Some(10), None, None)
        );
        assert!(wildcard_subdomain("*.a.b").is_empty() && !wildcard_subdomain("*").is_empty());
    }
}
