//! Check of a request's host, and of the web page that sent it.
//!
//! ```text
//! Host, Origin ──▶ go on | 403
//! ```
//!
//! The inspector is on loopback, or behind a forwarded port. A page of another origin can make a
//! browser send requests there, also under its own name if that name's address changes (DNS
//! rebinding). So a request has to name an address or `localhost`, and a page that sends one has to
//! come from here.
//!
//! Upstream: none.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};

/// Returns the reason to refuse a request, if there is one.
pub(super) fn refused(uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str());
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let host = match (authority, text(HOST)) {
        (Some(host), _) | (None, Some(Ok(host))) => host,
        (None, Some(Err(_)) | None) => return Some("the request names no host"),
    };
    if !is_ours(host) {
        return Some("the request names another host");
    }
    let is_same = |origin: &str| {
        origin
            .split_once("://")
            .is_some_and(|(_, from)| from == host)
    };
    match text(ORIGIN) {
        None => None,
        Some(Ok(origin)) if is_same(origin) => None,
        Some(_) => Some("the request comes from a page of another origin"),
    }
}

/// Returns whether a host, with or without a port, is an address or `localhost`.
fn is_ours(host: &str) -> bool {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, rest)| {
            let is_end = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
            is_end && address.parse::<std::net::Ipv6Addr>().is_ok()
        });
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        Some(_) => return false,
        None => host,
    };
    let name = name.trim_end_matches('.');
    name.parse::<std::net::Ipv4Addr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_this_host_from_no_page_or_its_own_go_on() {
        for (host, origin, want) in [
            (Some("127.0.0.1:6443"), None, true),
            (Some("[::1]:6443"), None, true),
            (Some("localhost"), None, true),
            (Some("LOCALHOST:1"), None, true),
            (None, None, false),
            (Some("box.test:6443"), None, false),
            (Some("[::1].evil.example.com"), None, false),
            (Some("[::1"), None, false),
            (Some("localhost:evil.example.com"), None, false),
            (Some("127.0.0.1.example.com"), None, false),
            (Some("evil.example.com:6443"), None, false),
            (Some("127.0.0.1:1"), Some("http://127.0.0.1:1"), true),
            (Some("127.0.0.1:1"), Some("http://127.0.0.1:2"), false),
            (Some("localhost:1"), Some("http://127.0.0.1:1"), false),
            (Some("127.0.0.1:1"), Some("https://evil.example.com"), false),
            (Some("127.0.0.1:1"), Some("null"), false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            let got = refused(&Uri::from_static("/debug/kinform/"), &headers);
            assert_eq!(got.is_none(), want, "{host:?} {origin:?}: {got:?}");
        }
    }
}
