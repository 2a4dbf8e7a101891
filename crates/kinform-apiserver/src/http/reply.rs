//! Replies: a status, an object, or a stream of chunks, with upstream's headers.
//!
//! ```text
//! Status ──▶ code, Retry-After, body      chunks ──128 KiB or more, if asked──▶ gzip ──▶ body
//! ```
//!
//! Small bodies have a length, large ones are chunked and made while they are sent: nothing here holds
//! a long list. Compression starts once a body proves to be long, as upstream's does.
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

/// The size from which replies are compressed, if the client takes that.
const GZIP_FROM: usize = 128 << 10;
/// The size up to which a body is sent in one piece.
const FULL_UP_TO: usize = 64 << 10;

/// A reply of JSON.
pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    whole(code, Encoding::Json, body)
}

/// A reply that is there already.
pub(crate) fn whole(
    code: StatusCode,
    encoding: Encoding,
    body: impl Into<Bytes>,
) -> Response<Body> {
    with_type(code, encoding.media_type(), Body::full(body))
}

/// A value that names its version and kind. What has no protobuf is JSON in any case.
pub(crate) fn value(code: StatusCode, encoding: Encoding, value: &Value) -> Response<Body> {
    match (encoding, value.as_object().map(protobuf::body)) {
        (Encoding::Protobuf, Some(Some(body))) => whole(code, encoding, body),
        (Encoding::Yaml, _) => whole(code, encoding, yaml::document(value)),
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

/// What upstream's router says about paths that lead nowhere.
pub(crate) fn no_such_path() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// A failure, or the success that has no object to show.
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

/// Adds a warning to a reply.
///
/// Upstream: `net/http`'s `Warning` header as `apiserver:pkg/warning` writes it.
pub(crate) fn warn(reply: &mut Response<Body>, text: &str) {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
        reply.headers_mut().append(WARNING, value);
    }
}

/// A stream whose head goes out at once.
pub(crate) fn streamed(media_type: &'static str, body: Body) -> Response<Body> {
    with_type(StatusCode::OK, media_type, body)
}

/// A reply made in chunks: whole if it is small, compressed if it is long and the client
/// takes that, and else sent as it is made.
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

/// A reply that is there already, compressed if it is long.
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

/// Says that the body is compressed.
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
