//! The values of flags: durations, names, addresses.
//!
//! ```text
//! text → Duration | name | ServiceAddress, or a message of one line
//! ```
//!
//! Upstream counterpart: Go's `time.ParseDuration`, as kubectl's flags have it.

use std::net::SocketAddr;
use std::time::Duration;

/// Parses a duration as Go and people write it: `10s`, `1m30s`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "a duration looks like 500ms, 10s or 1m30s".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "a duration must not be negative".to_owned())
}

/// The address at which the webhooks of a service are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceAddress {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
}

/// Parses the address of a service.
pub(super) fn service_address(text: &str) -> Result<ServiceAddress, String> {
    let parsed = || {
        let (service, address) = text.split_once('=')?;
        let (namespace, name) = service.split_once('/')?;
        let is_name = |name: &str| kinform_api::names::dns_subdomain_errors(name).is_empty();
        (is_name(namespace) && is_name(name)).then_some(())?;
        Some(ServiceAddress {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            address: address.parse().ok()?,
        })
    };
    parsed().ok_or_else(|| {
        "the address of a service looks like namespace/name=127.0.0.1:9443".to_owned()
    })
}

/// Parses a name of a certificate: an IP address or a DNS name, without a port.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    if is_address || kinform_api::names::dns_subdomain_errors(text).is_empty() {
        return Ok(text.to_owned());
    }
    Err("a name looks like box.example.com or 192.0.2.7, without a port".to_owned())
}

/// Parses a duration, or whole seconds as kubectl takes them.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => duration(text),
    }
}

/// A week, as kubectl waits for a negative time.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Parses the time of a wait: zero, a duration, or a negative one for a week.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    match text.strip_prefix('-') {
        Some(rest) => timeout(rest).map(|_| WEEK),
        None => timeout(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_service_names_the_service_and_a_port() {
        for (text, is_address) in [
            ("hooks/checker=127.0.0.1:9443", true),
            ("hooks/checker=[::1]:9443", true),
            ("hooks/checker=127.0.0.1", false),
            ("checker=127.0.0.1:9443", false),
            ("hooks/=127.0.0.1:9443", false),
            ("hooks/checker", false),
        ] {
            assert_eq!(service_address(text).is_ok(), is_address, "{text}");
        }
    }

    #[test]
    fn durations_read_as_go_and_humans_write_them() {
        for (text, expected) in [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("2h", Some(7_200_000)),
            ("0s", Some(0)),
            ("", None),
            ("10", None),
            ("-5s", None),
            ("soon", None),
        ] {
            assert_eq!(
                duration(text).ok().map(|d| d.as_millis()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_timeout_may_be_whole_seconds() {
        assert_eq!(timeout("5"), Ok(Duration::from_secs(5)));
        assert_eq!(timeout("0"), Ok(Duration::ZERO));
        assert_eq!(timeout("1m"), Ok(Duration::from_secs(60)));
        assert!(timeout("-1").is_err());
        assert_eq!(patience("-1s"), Ok(WEEK));
        assert_eq!(patience("90s"), Ok(Duration::from_secs(90)));
        assert!(patience("-soon").is_err());
    }
}
