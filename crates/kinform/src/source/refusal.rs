//! Turns a failed list or watch into an error with a kind and a message.
//!
//! ```text
//! kube_client::Error | code + headers + bounded body → SourceError
//! ```
//!
//! A connection that was never made is distinguished from one that broke (the first never loses
//! events); a reply that no Kubernetes server sends is named as such, with what to check. Bodies
//! are read up to a bound; only a Status' message, or a short plain text, gets into the error.
//!
//! Upstream counterpart: `client-go:rest/request.go` (`transformResponse`, `newUnstructuredResponseError`).

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kinform_api::Status;
use kinform_api::StatusDetails;
use kinform_core::wire::protobuf;
use kube_client::client::Body as ReplyBody;

use super::exec::PluginError;
use crate::error::{SourceError, SourceErrorKind, one_line};

/// BOUND: bytes read of a failure's body; a Status is a few hundred bytes.
const MAX_FAILURE_BYTES: usize = 256 * 1024;
/// BOUND: the longest wait that a server can demand by header.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

impl From<kube_client::Error> for SourceError {
    /// The kind and the message of a failed call.
    fn from(error: kube_client::Error) -> Self {
        from_client(error)
    }
}

/// The error of a failed call.
pub(super) fn from_client(error: kube_client::Error) -> SourceError {
    if let kube_client::Error::Api(status) = &error {
        return SourceError::from_status(status.code, status_of(status)).with_cause(error);
    }
    let found = chain(&error).find_map(handshake);
    if let Some((kind, message)) = found {
        return SourceError::new(kind, message).with_cause(error);
    }
    let connect = chain(&error).any(|cause| {
        let pool = cause.downcast_ref::<hyper_util::client::legacy::Error>();
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        pool.is_some_and(hyper_util::client::legacy::Error::is_connect)
            || io == Some(io::ErrorKind::ConnectionRefused)
    });
    let deepest = chain(&error).last().map(one_line_of).unwrap_or_default();
    let (kind, message) = match &error {
        _ if connect => (
            SourceErrorKind::Refused,
            format!("cannot connect to the server: {deepest}"),
        ),
        kube_client::Error::Auth(_) => (
            SourceErrorKind::Request,
            format!("no usable credentials: {deepest}"),
        ),
        kube_client::Error::BuildRequest(_) | kube_client::Error::HttpError(_) => (
            SourceErrorKind::Request,
            format!("the request cannot be made: {deepest}"),
        ),
        _ => (
            SourceErrorKind::Transport,
            format!("the connection broke: {deepest}"),
        ),
    };
    SourceError::new(kind, message).with_cause(error)
}

/// A refusal as kube reads it.
fn status_of(status: &kube_core::Status) -> Status {
    let refusal = Status::failure(status.code, &status.reason, &*status.message);
    match &status.details {
        Some(details) => refusal.with_details(StatusDetails {
            name: details.name.clone(),
            group: details.group.clone(),
            kind: details.kind.clone(),
            uid: details.uid.clone(),
            causes: Vec::new(),
            retry_after_seconds: details.retry_after_seconds,
        }),
        None => refusal,
    }
}

/// The kind of a failure before a request: no credentials, or peers that do not agree on the first
/// bytes.
fn handshake(cause: &(dyn StdError + 'static)) -> Option<(SourceErrorKind, String)> {
    if cause.is::<PluginError>() {
        let message = format!("no usable credentials: {}", one_line_of(cause));
        return Some((SourceErrorKind::Request, message));
    }
    let hyper = cause.downcast_ref::<hyper::Error>();
    if hyper.is_some_and(hyper::Error::is_parse_too_large) {
        let message = "the head of the server's reply is too large: it has too many headers, or too long ones";
        return Some((SourceErrorKind::Transport, message.to_owned()));
    }
    if hyper.is_some_and(hyper::Error::is_parse) {
        let message = format!(
            "the server does not answer with HTTP ({}): is its address https:// in place of http://?",
            one_line_of(cause)
        );
        return Some((SourceErrorKind::NotKubernetes, message));
    }
    tls(cause)
}

#[cfg(feature = "rustls-tls")]
fn tls(cause: &(dyn StdError + 'static)) -> Option<(SourceErrorKind, String)> {
    use rustls::Error as Tls;
    let error = cause.downcast_ref::<Tls>()?;
    let what = match error {
        Tls::InvalidCertificate(_) | Tls::NoCertificatesPresented | Tls::UnsupportedNameType => {
            "the server's certificate is not accepted"
        }
        Tls::AlertReceived(alert) if names_a_certificate(*alert) => {
            "the server does not accept the client's certificate"
        }
        Tls::InvalidMessage(_) => {
            let message = format!(
                "the server does not answer with TLS ({}): is its address http:// in place of https://?",
                one_line_of(error)
            );
            return Some((SourceErrorKind::NotKubernetes, message));
        }
        _ => return None,
    };
    let message = format!("{what}: {}", one_line_of(error));
    Some((SourceErrorKind::Certificate, message))
}

/// Returns whether a server refused the client's certificate.
pub(super) fn is_about_a_certificate(error: &(dyn StdError + 'static)) -> bool {
    let kind = chain(error).find_map(handshake).map(|(kind, _)| kind);
    kind == Some(SourceErrorKind::Certificate)
}

#[cfg(feature = "rustls-tls")]
fn names_a_certificate(alert: rustls::AlertDescription) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::CertificateRequired
            | Alert::NoCertificate
    )
}

#[cfg(not(feature = "rustls-tls"))]
fn tls(_: &(dyn StdError + 'static)) -> Option<(SourceErrorKind, String)> {
    None
}

fn one_line_of(error: &(dyn StdError + 'static)) -> String {
    one_line(&error.to_string())
}

/// The error and its causes, outermost first; an `io::Error`'s inner error is followed, too.
fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    // BOUND: the depth of causes; a cause that points back at itself would never end.
    std::iter::successors(Some(error), |&error| {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .map(|inner| inner as &(dyn StdError + 'static));
        inner.or_else(|| error.source())
    })
    .take(32)
}

/// The error of a reply that is not a success; reads its body.
pub(super) async fn from_reply(code: u16, headers: &HeaderMap, body: ReplyBody) -> SourceError {
    let retry_after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| retry_after(value, crate::env::wall_clock()));
    let text = match read_bounded(body).await {
        Ok(text) => text,
        Err(error) => return error.with_http_code(code).with_retry_after(retry_after),
    };
    classify(code, content_type(headers), &text).with_retry_after(retry_after)
}

/// A failure's body, cut at the bound.
async fn read_bounded(mut body: ReplyBody) -> Result<Vec<u8>, SourceError> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(from_client)?.into_data() {
            let room = MAX_FAILURE_BYTES - text.len();
            text.extend_from_slice(&data[..data.len().min(room)]);
            if text.len() == MAX_FAILURE_BYTES {
                break;
            }
        }
    }
    Ok(text)
}

/// The media type without parameters.
pub(super) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let media = value.and_then(|v| v.split(';').next());
    media.unwrap_or_default().trim()
}

fn classify(code: u16, content_type: &str, text: &[u8]) -> SourceError {
    if content_type.eq_ignore_ascii_case("text/html") || text.trim_ascii_start().starts_with(b"<") {
        return not_kubernetes(code, "an HTML page");
    }
    // A refusal comes in the requested encoding.
    match Status::from_slice(text).or_else(|| protobuf::status(text)) {
        Some(status) => SourceError::from_status(code, status),
        _ if (300..400).contains(&code) => not_kubernetes(code, "a redirect"),
        _ => {
            let told = one_line(&String::from_utf8_lossy(&text[..text.len().min(2048)]));
            let phrase = ::http::StatusCode::from_u16(code).ok();
            let phrase = phrase
                .and_then(|code| code.canonical_reason())
                .unwrap_or("failure");
            let message = match told.as_str() {
                "" => format!("the server answered {code} {phrase}"),
                // JSON other than a Status may hold anything, also secrets.
                other if other.starts_with(['{', '[']) => {
                    format!("the server answered {code} {phrase} without saying why")
                }
                other => format!("the server answered {code} {phrase}: {other}"),
            };
            SourceError::from_status(code, Status::failure(code, "", message))
        }
    }
}

/// The peer answered but does not speak this API.
pub(super) fn not_kubernetes(code: u16, what: &str) -> SourceError {
    SourceError::new(
        SourceErrorKind::NotKubernetes,
        format!(
            "the server answered {code} with {what}: it is not a Kubernetes API server \
             (check the server's address, and for a proxy or login page before it)"
        ),
    )
    .with_http_code(code)
}

/// Seconds, or a date after `now`.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let wait = match value.trim().parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(value.trim()).ok()?.timestamp();
            Duration::try_from(date.duration_since(now)).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    // fault: F11
    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let check = |value: &str, expected: Option<u64>| {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(value, now), expected, "{value}");
        };
        check("7", Some(7));
        check(" 0 ", Some(0));
        check("Fri, 02 Jan 2026 03:04:35 GMT", Some(30));
        check("Fri, 02 Jan 2026 03:04:00 GMT", Some(0));
        check("18446744073709551615", Some(3600));
        check("soon", None);
        check("-1", None);
    }

    #[test]
    fn replies_are_told_apart() {
        let check = |code, media, text: &str, kind, part: &str| {
            let error = classify(code, media, text.as_bytes());
            assert_eq!(error.kind(), kind, "{text}");
            assert_eq!(error.http_code(), Some(code), "{text}");
            assert!(error.to_string().contains(part), "{error}");
        };
        use SourceErrorKind::{NotKubernetes, Status};
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no\nway","reason":"Forbidden","code":403}"#;
        check(403, "application/json", status, Status, "no way");
        check(
            404,
            "text/plain",
            "404 page not found\n",
            Status,
            "404 page not found",
        );
        check(502, "text/html", "<html>", NotKubernetes, "HTML");
        check(502, "Text/HTML", "no", NotKubernetes, "HTML");
        check(200, "", "  <!doctype html>", NotKubernetes, "HTML");
        check(302, "text/plain", "", NotKubernetes, "redirect");
        check(
            500,
            "application/json",
            r#"{"token":"s3cret"}"#,
            Status,
            "without saying why",
        );
        check(503, "", "", Status, "503 Service Unavailable");
    }

    #[test]
    fn causes_inside_io_errors_are_found() {
        let inner = io::Error::new(io::ErrorKind::ConnectionRefused, "refused");
        let outer = io::Error::other(io::Error::other(inner));
        assert_eq!(
            chain(&outer).last().map(ToString::to_string).as_deref(),
            Some("refused")
        );
    }
}
