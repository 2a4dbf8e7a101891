//! The proxy between a client and its server.
//!
//! ```text
//! proxy-url of the kubeconfig │ HTTPS_PROXY, HTTP_PROXY without NO_PROXY ──choose──▶ Uri of the proxy
//! ```
//!
//! The environment's proxy is never used for this host itself, and not for hosts that `NO_PROXY`
//! lists: addresses, networks and domains, each with or without a port. A proxy that the kubeconfig
//! names is always used. This is not hyper-util's `proxy::matcher`, which knows neither ports in
//! `NO_PROXY` nor the exception of this host.
//!
//! Upstream counterpart: `golang.org/x/net/http/httpproxy` (`Config.ProxyFunc`),
//! `client-go:tools/clientcmd` (`parseProxyURL`).

use std::ffi::OsString;
use std::net::IpAddr;

use http::Uri;

/// The proxy for a server; `None` for a direct connection.
///
/// # Errors
/// The address of the proxy cannot be used; the text has no password.
pub(super) fn choose(
    configured: Option<&str>,
    server: &Uri,
    environment: &(dyn Fn(&str) -> Option<OsString> + Sync),
) -> Result<Option<Uri>, String> {
    if let Some(proxy) = configured.filter(|proxy| !proxy.is_empty()) {
        return parse(proxy).map(Some);
    }
    let variable = |upper: &str, lower: &str| {
        let named = environment(upper).filter(|value| !value.is_empty());
        let value = named.or_else(|| environment(lower))?;
        value.into_string().ok().filter(|value| !value.is_empty())
    };
    let is_https = server.scheme() == Some(&http::uri::Scheme::HTTPS);
    let proxy = match is_https {
        true => variable("HTTPS_PROXY", "https_proxy"),
        false => variable("HTTP_PROXY", "http_proxy"),
    };
    let Some(proxy) = proxy else { return Ok(None) };
    let exceptions = variable("NO_PROXY", "no_proxy").unwrap_or_default();
    let host = server.host().unwrap_or_default();
    let port = server.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    match is_direct(host, port, &exceptions) {
        true => Ok(None),
        false => parse(&proxy).map(Some),
    }
}

fn parse(proxy: &str) -> Result<Uri, String> {
    let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", proxy));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if !matches!(scheme, "http" | "https" | "socks5" | "socks5h") {
        return Err(format!(
            "{scheme}://{host} has another scheme than http, https and socks5"
        ));
    }
    // Names are resolved by the proxy with both.
    let scheme = if scheme == "socks5h" {
        "socks5"
    } else {
        scheme
    };
    let uri: Uri = format!("{scheme}://{rest}")
        .parse()
        .map_err(|_| format!("{scheme}://{host} is no address"))?;
    match uri.host() {
        Some(name) if !name.is_empty() => Ok(uri),
        _ => Err(format!("{scheme}://{host} has no host")),
    }
}

/// Returns whether a name is of this host itself: `localhost`, or a loopback address.
pub(super) fn is_this_host(host: &str) -> bool {
    let host = bare(host);
    let ip: Option<IpAddr> = host.parse().ok();
    host == "localhost" || ip.is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// A host without the brackets of IPv6 and the dot of the root, in small letters.
fn bare(host: &str) -> String {
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = inside.unwrap_or(host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns whether a host is reached without the environment's proxy.
fn is_direct(host: &str, port: u16, exceptions: &str) -> bool {
    if is_this_host(host) {
        return true;
    }
    let host = bare(host);
    let ip: Option<IpAddr> = host.parse().ok();
    exceptions.split(',').map(str::trim).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        match entry.as_str() {
            "" => false,
            "*" => true,
            entry => matches(entry, &host, ip, port),
        }
    })
}

/// Returns whether an entry of `NO_PROXY` names this host and port.
fn matches(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if let Some((network, bits)) = entry.split_once('/') {
        let network: Result<IpAddr, _> = network.parse();
        return match (network, bits.parse(), ip) {
            (Ok(network), Ok(bits), Some(ip)) => is_within(ip, network, bits),
            _ => false,
        };
    }
    let (name, only_port) = split_port(entry);
    if only_port.is_some_and(|only| only != port) {
        return false;
    }
    if let Ok(entry) = name.parse::<IpAddr>() {
        return ip.is_some_and(|ip| ip.to_canonical() == entry.to_canonical());
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    match name.strip_prefix('.') {
        // A domain with a dot in front is that of its subdomains alone.
        Some(domain) => is_below(host, domain),
        None => host == name || is_below(host, name),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    let name = host.strip_suffix(domain);
    !domain.is_empty() && name.is_some_and(|name| name.len() > 1 && name.ends_with('.'))
}

/// Splits `name:port`, `[v6]:port`; a bare IPv6 address has no port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(inside) = entry.strip_prefix('[')
        && let Some((name, rest)) = inside.split_once(']')
    {
        return (
            name,
            rest.strip_prefix(':').and_then(|port| port.parse().ok()),
        );
    }
    match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, port.parse().ok()),
        _ => (entry, None),
    }
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (ip, network, width) = match (ip.to_canonical(), network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => (
            u128::from(u32::from(ip)),
            u128::from(u32::from(network)),
            32,
        ),
        (IpAddr::V6(ip), IpAddr::V6(network)) => (u128::from(ip), u128::from(network), 128),
        _ => return false,
    };
    let Some(rest) = u32::checked_sub(width, bits) else {
        return false;
    };
    // A shift by all bits is none in Rust.
    rest == 128 || ip >> rest == network >> rest
}

/// The user name and password in a proxy's address, decoded.
pub(super) fn login(proxy: &Uri) -> Option<(String, String)> {
    let (login, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (name, password) = login.split_once(':').unwrap_or((login, ""));
    Some((percent_decode(name), percent_decode(password)))
}

/// Decodes `%40` and the like.
pub(super) fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_reached_directly_as_go_decides_it() {
        for (exceptions, host, expected) in [
            ("", "localhost", true),
            ("", "127.0.0.9", true),
            ("", "[::1]", true),
            ("", "10.0.0.1", false),
            ("*", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1:6443", "10.0.0.1", true),
            ("10.0.0.1:443", "10.0.0.1", false),
            ("10.0.0.0/8", "10.9.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("fd00::/8", "[fd12::1]", true),
            ("[fd12::1]:6443", "[fd12::1]", true),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("10.0.0.0/33", "10.0.0.1", false),
            ("example.com", "example.com", true),
            ("example.com", "a.example.com", true),
            ("example.com", "badexample.com", false),
            (".example.com", "example.com", false),
            (".example.com", "a.example.com", true),
            ("*.example.com", "a.example.com", true),
            ("Example.COM , other", "A.example.com.", true),
            ("example.com:8443", "example.com", false),
            (" ,,", "example.com", false),
        ] {
            assert_eq!(
                is_direct(host, 6443, exceptions),
                expected,
                "{exceptions} {host}"
            );
        }
    }

    fn chosen(variables: &[(&str, &str)], configured: &str, server: &str) -> String {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        match choose(Some(configured), &server.parse().unwrap(), &environment) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "direct".to_owned(),
            Err(why) => why,
        }
    }

    #[test]
    fn the_kubeconfigs_proxy_is_used_before_the_environments() {
        let both = [
            ("HTTPS_PROXY", "proxy:3128"),
            ("HTTP_PROXY", "http://plain"),
        ];
        for (variables, configured, server, expected) in [
            (&both[..], "", "https://10.0.0.1:6443", "http://proxy:3128/"),
            (&both, "", "http://10.0.0.1", "http://plain/"),
            (&both, "", "https://127.0.0.1:6443", "direct"),
            (&both, "http://own", "https://127.0.0.1:6443", "http://own/"),
            (
                &both,
                "socks5h://own:1080",
                "https://a",
                "socks5://own:1080/",
            ),
            (&[("https_proxy", "low")], "", "https://a", "http://low/"),
            (
                &[("HTTPS_PROXY", ""), ("https_proxy", "low")],
                "",
                "https://a",
                "http://low/",
            ),
            (&[], "", "https://a", "direct"),
            (
                &[],
                "ftp://u:secret@h",
                "https://a",
                "ftp://h has another scheme than http, https and socks5",
            ),
            (
                &[],
                "http://u:secret@",
                "https://a",
                "http:// is no address",
            ),
        ] {
            assert_eq!(
                chosen(variables, configured, server),
                expected,
                "{configured} {server}"
            );
        }
        let proxy: Uri = "http://u:pa%40ss@h:1".parse().unwrap();
        assert_eq!(login(&proxy), Some(("u".to_owned(), "pa@ss".to_owned())));
    }
}
