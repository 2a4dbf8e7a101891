//! Replies of the inspector: JSON, or a line of text.
//!
//! ```text
//! view ─▶ JSON        status, text ─▶ a line
//! ```
//!
//! Upstream counterpart: none.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::serve::Body;

pub(super) type Reply = Response<Body>;

/// A view as JSON.
pub(super) fn json(view: &impl Serialize) -> Bytes {
    // Views are structs of texts and numbers.
    serde_json::to_vec(view).unwrap_or_default().into()
}

/// The reply that JSON is.
pub(super) fn json_reply(json: Bytes) -> Reply {
    let mut reply = Response::new(Body::Whole(json));
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    reply
}

/// A reply of one line.
pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Body::Whole(text.into()));
    *reply.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, plain);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let soon = HeaderValue::from_static("5");
        reply.headers_mut().insert(RETRY_AFTER, soon);
    }
    reply
}
