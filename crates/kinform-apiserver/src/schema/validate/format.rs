//! Validates texts against the formats of OpenAPI.
//!
//! ```text
//! name of the format + text -> matches | does not match | unknown format
//! ```
//!
//! Names are compared without their dashes.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/validation/formats.go`,
//! `kube-openapi:pkg/validation/strfmt`.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use kinform_api::names;
use regex::Regex;

use crate::object::duration::seconds;

/// Returns whether a text is in a format, or `None` for an unknown format.
pub(crate) fn fits(format: &str, text: &str) -> Option<bool> {
    Some(match format.replace('-', "").as_str() {
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID3.is_match(text),
        "uuid4" => UUID4.is_match(text),
        "uuid5" => UUID5.is_match(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && is_ip(text),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uri" => is_uri(text),
        "byte" => is_base64(text),
        "password" => true,
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "k8sshortname" => text.len() <= 63 && names::dns_label_errors(text).is_empty(),
        "k8slongname" => names::dns_subdomain_errors(text).is_empty(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => SSN.is_match(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        _ => return None,
    })
}

/// Returns whether a format is known for a type. A definition with an unknown format gets a
/// warning.
pub(crate) fn is_known(of_type: &str, format: &str) -> bool {
    match of_type {
        "" | "string" => fits(format, "").is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("patterns of formats are tested")
}

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$"));
static UUID3: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
});
static UUID4: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
});
static UUID5: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
});
static HEX_COLOR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let byte = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    pattern(&format!(r"^rgb\({byte},{byte},{byte}\)$"))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"));
static DURATION_PART: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\d+)\s*([A-Za-zµ]+)"));
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let letter = r"[a-zA-Z0-9\p{S}\p{L}]";
    let single = format!(r"{letter}((-?{letter}{{0,62}})?)");
    let label = format!(r"{letter}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{letter})?)");
    pattern(&format!(
        r"^({single}|({label}(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let Some((date, time)) = text.split_once('t') else {
        return false;
    };
    let Some(parts) = TIME.captures(time) else {
        return false;
    };
    is_date(date) && &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59"
}

/// Returns whether a text is a duration in Go's form (`1h30m`) or in words (`22 ns`, `3 days`).
fn is_duration(text: &str) -> bool {
    const PREFIXES: [&str; 8] = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    const UNITS: [&str; 10] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w"];
    if seconds(text).is_some() {
        return true;
    }
    DURATION_PART.captures_iter(text).any(|part| {
        let unit = part[2].to_lowercase();
        unit == "wk"
            || UNITS.contains(&unit.as_str())
            || PREFIXES.iter().any(|prefix| unit.starts_with(prefix))
    })
}

fn is_email(text: &str) -> bool {
    let address = match text.strip_suffix('>') {
        Some(inner) => inner.rsplit_once('<').map_or("", |(_, address)| address),
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let is_word = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| !c.is_whitespace() && !c.is_control() && !"()<>,;:@\\\"[]".contains(c))
            && !text.split('.').any(str::is_empty)
    };
    is_word(local) && is_word(domain)
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && HOSTNAME.is_match(text) && text.split('.').all(|part| part.len() <= 63)
}

/// Returns whether a text is an IP address. Leading zeros are accepted, as in old releases of Go.
fn is_ip(text: &str) -> bool {
    let decimal = |part: &str| part.len() <= 3 && part.parse::<u8>().is_ok();
    let parts: Vec<&str> = text.split('.').collect();
    text.parse::<IpAddr>().is_ok() || (parts.len() == 4 && parts.into_iter().all(decimal))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => 128,
        _ if is_ip(address) => 32,
        _ => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let pairs = |separator: char, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let octets = parts.len() * width / 2;
        matches!(octets, 6 | 8 | 20)
            && parts
                .iter()
                .all(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    pairs(':', 2) || pairs('-', 2) || pairs('.', 4)
}

/// Returns whether a text is a valid request target: an absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(char::is_control) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, _)) = text.split_once(':') else {
        return false;
    };
    let is_scheme_letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_scheme_letter)
}

fn is_base64(text: &str) -> bool {
    !text.is_empty()
        && base64::engine::general_purpose::STANDARD
            .decode(text)
            .is_ok()
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !" -".contains(*c)).collect();
    let value = |(at, c): (usize, &char)| match c {
        'X' | 'x' if at == 9 => Some(10),
        c => c.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    let sum = |values: Vec<u32>| -> u32 { values.into_iter().zip(1..).map(|(v, n)| v * n).sum() };
    digits.len() == 10 && values.is_some_and(|values| sum(values).is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text
        .chars()
        .filter(|c| !" -".contains(*c))
        .map(|c| c.to_digit(10))
        .collect();
    digits.is_some_and(|digits| {
        let weights = [1, 3].into_iter().cycle();
        let sum: u32 = digits.iter().zip(weights).map(|(digit, w)| digit * w).sum();
        digits.len() == 13 && sum.is_multiple_of(10)
    })
}

/// Returns whether a text has 13 to 19 digits with a valid check digit.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let doubled = |(at, digit): (usize, &u32)| match at % 2 {
        1 if *digit > 4 => digit * 2 - 9,
        1 => digit * 2,
        _ => *digit,
    };
    let sum: u32 = digits.iter().rev().enumerate().map(doubled).sum();
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_a_format_is_one() {
        for name in [
            "uuid", "uuid3", "uuid4", "uuid5", "hexcolor", "rgbcolor", "ssn",
        ] {
            assert_eq!(fits(name, "x"), Some(false), "{name}");
        }
        assert_eq!(fits("hostname", "a.example.com"), Some(true));
        assert_eq!(fits("duration", "1 d"), Some(true));
        assert_eq!(fits("date-time", "2020-01-02T03:04:05.1Z"), Some(true));
        assert_eq!(fits("nope", "x"), None);
    }
}
