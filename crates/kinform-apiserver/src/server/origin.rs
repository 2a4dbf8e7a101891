//! Check of a request's host, and of the web page that sent it.
//!
//! ```text
//! Host, Origin + the server's names ──▶ go on | 403
//! ```
//!
//! A web page can make a browser send requests to loopback: under the page's own name, if that
//! name's address changes (DNS rebinding), or from the page to this server. So a request has to
//! name this server, by an address or by a name of its certificate. A page that sends a request has
//! to come from this server, too.
//!
//! Upstream: none; an API server relies on credentials alone.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use kinform_api::{Status, StatusDetails, reason};

/// Names that are this server's wherever it listens.
pub(super) const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Refuses requests for another host, or from a web page of another origin.
///
/// # Errors
/// 403 that names the reason.
pub(super) fn check(head: &Parts, names: &[String]) -> Result<(), Status> {
    let text = |name| head.headers.get(name).map(|value| value.to_str());
    let authority = head.uri.authority().map(http::uri::Authority::as_str);
    let host = match (authority, text(HOST)) {
        (Some(host), _) => Some(host),
        (None, Some(Ok(host))) => Some(host),
        (None, Some(Err(_))) => return Err(refused("the Host header is not readable")),
        (None, None) => None,
    };
    if let Some(host) = host
        && !is_ours(host, names)
    {
        return Err(refused("the request names another host"));
    }
    match text(ORIGIN) {
        None => Ok(()),
        Some(Ok(origin)) if host.is_some() && origin_host(origin) == host => Ok(()),
        Some(_) => Err(refused("the request comes from a page of another origin")),
    }
}

fn refused(why: &str) -> Status {
    let message = format!("forbidden: {why}");
    Status::failure(403, reason::FORBIDDEN, message).with_details(StatusDetails::default())
}

fn origin_host(origin: &str) -> Option<&str> {
    origin.split_once("://").map(|(_, host)| host)
}

/// Returns whether a host, with or without a port, is an address or a name of this server.
fn is_ours(host: &str, names: &[String]) -> bool {
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
    name.parse::<std::net::Ipv4Addr>().is_ok()
        || NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
        || names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_this_server_from_no_page_or_its_own_go_on() {
        let names = ["box.test".to_owned()];
        for (host, origin, want) in [
            (Some("127.0.0.1:6443"), None, true),
            (Some("[::1]:6443"), None, true),
            (Some("localhost"), None, true),
            (Some("LOCALHOST:1"), None, true),
            (Some("box.test:6443"), None, true),
            (Some("kubernetes.default.svc"), None, true),
            (None, None, true),
            (Some("[::1]"), None, true),
            (Some("[::1].evil.example.com"), None, false),
            (Some("[::1]evil:1"), None, false),
            (Some("[::1]:1.evil.example.com"), None, false),
            (Some("[::1"), None, false),
            (Some("[127.0.0.1]:1"), None, false),
            (Some("[localhost]:1"), None, false),
            (Some("localhost:evil.example.com"), None, false),
            (Some("evil.example.com"), None, false),
            (Some("127.0.0.1.example.com"), None, false),
            (Some("evil.example.com:6443"), None, false),
            (Some("127.0.0.1:1"), Some("http://127.0.0.1:1"), true),
            (Some("127.0.0.1:1"), Some("http://127.0.0.1:2"), false),
            (Some("127.0.0.1:1"), Some("https://evil.example.com"), false),
            (Some("127.0.0.1:1"), Some("null"), false),
            (None, Some("http://localhost"), false),
        ] {
            let mut request = http::Request::get("/api");
            for (name, value) in [("host", host), ("origin", origin)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            let got = check(&head, &names).is_ok();
            assert_eq!(got, want, "{host:?} {origin:?}");
        }
    }
}
