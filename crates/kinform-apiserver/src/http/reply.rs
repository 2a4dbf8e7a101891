//! Replies: a status, an object, or a stream of chunks, with upstream's headers.
//!
//! ```text
//! Status ──▶ code, Retry-After, body      chunks ──128 KiB or more, if asked──▶ gzip ──▶ body
//! ```
//!
//! Small bodies have a length. Large ones are chunked and produced while they are sent, so a long
//! list is never held in memory. Compression starts once a body proves to be long, as upstream's
//! does.
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/responsewriters`.

use std::io::Write;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use kinform_api::Status;
use serde_json::Value;

use super::body::Body;
use super::negotiate::Encoding;
use super::yaml;
use crate::protobuf;

/// The size from which replies are compressed, if the client accepts it.
const GZIP_FROM: usize = 128 << 10;
/// The size up to which a body is sent in one piece.
const FULL_UP_TO: usize = 64 << 10;
/// BOUND: the number of warnings in one reply. Many clients of HTTP/1.1 refuse a head of more than
/// 100 lines.
const MOST_WARNINGS: usize = 80;
/// BOUND: the letters of all warnings in a reply.
const WARNED_LETTERS: usize = 4096;
/// The letters that each warning keeps if all of them exceed that bound.
const CUT_WARNING: usize = 256;

/// A reply of JSON.
pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    whole(code, Encoding::Json, body)
}

/// A reply whose body is complete.
pub(crate) fn whole(
    code: StatusCode,
    encoding: Encoding,
    body: impl Into<Bytes>,
) -> Response<Body> {
    with_type(code, encoding.media_type(), Body::full(body))
}

/// A reply with a value that names its version and kind. A kind without protobuf is always JSON.
pub(crate) fn value(code: StatusCode, encoding: Encoding, value: &Value) -> Response<Body> {
    match (encoding, value.as_object().map(protobuf::body)) {
        (Encoding::Protobuf, Some(Some(body))) => whole(code, encoding, body),
        (Encoding::Yaml, _) => whole(code, encoding, yaml::write_yaml(value)),
        _ => {
            let mut body = value.to_string();
            body.push('\n');
            json(code, body)
        }
    }
}

/// A reply of plain text.
pub(crate) fn text(code: StatusCode, body: &'static str) -> Response<Body> {
    let mut reply = with_type(code, "text/plain; charset=utf-8", Body::full(body));
    reply
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Returns the reply of upstream's router to an unknown path.
pub(crate) fn no_such_path() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// A failure, or a success that has no object to return.
pub(crate) fn status(status: &Status, encoding: Encoding) -> Response<Body> {
    let code = if status.is_success() {
        200
    } else {
        status.code
    };
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = match encoding {
        Encoding::Json => {
            let mut body = status.to_json();
            body.push(b'\n');
            json(code, body)
        }
        Encoding::Yaml | Encoding::Protobuf => {
            let shown = serde_json::from_slice(&status.to_json()).unwrap_or_default();
            value(code, encoding, &shown)
        }
    };
    if let Some(after) = status.retry_after() {
        reply
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(after.as_secs()));
    }
    if code == StatusCode::FORBIDDEN {
        reply
            .headers_mut()
            .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    reply
}

/// Adds a warning to a reply, unless the reply already has it or is full.
///
/// Upstream: `net/http`'s `Warning` header as `apiserver:pkg/warning` writes it.
pub(crate) fn warn(reply: &mut Response<Body>, text: &str) {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    // Bytes: letters beyond ASCII are sent as they are.
    let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) else {
        return;
    };
    let said = reply.headers().get_all(WARNING);
    if said.iter().count() < MOST_WARNINGS && said.iter().all(|said| said != value) {
        reply.headers_mut().append(WARNING, value);
    }
}

/// Adds warnings to a reply. If they exceed the bound, each is cut and the last ones are left out.
///
/// Upstream: `apiserver:pkg/endpoints/filters/warning.go`.
pub(crate) fn warn_of_all(reply: &mut Response<Body>, texts: &[String]) {
    let letters = |text: &str| text.chars().count();
    let are_long = texts.iter().map(|text| letters(text)).sum::<usize>() > WARNED_LETTERS;
    let mut written = 0;
    for text in texts {
        let end = text.char_indices().nth(CUT_WARNING).filter(|_| are_long);
        let text = end.map_or(text.as_str(), |(end, _)| &text[..end]);
        warn(reply, text);
        written += letters(text);
        if written >= WARNED_LETTERS {
            return;
        }
    }
}

/// A stream whose head is sent immediately.
pub(crate) fn streamed(media_type: &'static str, body: Body) -> Response<Body> {
    with_type(StatusCode::OK, media_type, body)
}

/// A reply produced in chunks: in one piece if it is small, compressed if it is long and the client
/// accepts it, and otherwise sent while it is produced.
pub(crate) fn chunked(
    encoding: Encoding,
    mut chunks: impl Iterator<Item = Bytes> + Send + 'static,
    gzip: bool,
) -> Response<Body> {
    let mut first = BytesMut::new();
    let enough = if gzip { GZIP_FROM } else { FULL_UP_TO };
    loop {
        match chunks.next() {
            None => return whole(StatusCode::OK, encoding, first),
            Some(chunk) => first.extend_from_slice(&chunk),
        }
        if first.len() >= enough {
            break;
        }
    }
    let all = std::iter::once(first.freeze()).chain(chunks);
    if !gzip {
        return streamed(
            encoding.media_type(),
            Body::stream(stream::iter(all.map(Ok))),
        );
    }
    let body = Body::stream(stream::iter(Gzip::new(all).map(Ok)));
    packed(streamed(encoding.media_type(), body))
}

/// Compresses a complete reply if it is long.
pub(crate) fn compressed(reply: Response<Body>) -> Response<Body> {
    match reply.body().as_full() {
        Some(whole) if whole.len() >= GZIP_FROM => {
            let whole = std::iter::once(Bytes::copy_from_slice(whole));
            let body = Body::stream(stream::iter(Gzip::new(whole).map(Ok)));
            packed(reply.map(|_| body))
        }
        _ => reply,
    }
}

/// Marks the body as compressed.
fn packed(mut reply: Response<Body>) -> Response<Body> {
    let headers = reply.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    reply
}

fn with_type(code: StatusCode, media: &'static str, body: Body) -> Response<Body> {
    let mut reply = Response::new(body);
    *reply.status_mut() = code;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    reply
}

/// Chunks compressed one after another into one member.
struct Gzip<I> {
    chunks: I,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Bytes>> Gzip<I> {
    fn new(chunks: I) -> Self {
        Self {
            chunks,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Gzip<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            // Writing to a vector does not fail.
            match self.chunks.next() {
                Some(chunk) => encoder.write_all(&chunk).ok()?,
                None => return self.encoder.take()?.finish().ok().map(Bytes::from),
            }
            let made = encoder.get_mut();
            if made.len() >= FULL_UP_TO / 4 {
                return Some(Bytes::from(std::mem::take(made)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // apiserver: TestWarnings (pkg/endpoints/filters/warning_test.go)
    #[test]
    fn warnings_are_few_and_short_together() {
        let lines = |texts: &[String]| {
            let mut reply = text(StatusCode::OK, "");
            warn_of_all(&mut reply, texts);
            let lines = reply.headers().get_all(WARNING).iter();
            let line = |line: &HeaderValue| String::from_utf8(line.as_bytes().to_vec()).unwrap();
            lines.map(line).collect::<Vec<_>>()
        };
        let told = |text: &str| format!("299 - \"{text}\"");
        let few = ["a \"b\"", "\u{fc}", "\u{fc}", "two\nlines"].map(str::to_owned);
        assert_eq!(lines(&few), [told("a \\\"b\\\""), told("\u{fc}")]);
        let many: Vec<String> = (0..300).map(|at| at.to_string()).collect();
        assert_eq!(lines(&many).len(), MOST_WARNINGS);
        let long: Vec<String> = (0..300)
            .map(|at| format!("{at:03}{}", "\u{fc}".repeat(400)))
            .collect();
        let lines = lines(&long);
        assert_eq!(lines.len(), 16);
        assert_eq!(lines[15], told(&format!("015{}", "\u{fc}".repeat(253))));
    }
}
