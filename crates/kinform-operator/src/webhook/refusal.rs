//! A call that is not answered by a verdict: the HTTP error that makes it a failure of the call.
//!
//! ```text
//! fault {code, one line, uid?} → HTTP code + Status body → API server: failurePolicy decides
//! ```
//!
//! The body is a `Status`: an API server then shows its message as it is, which it does of a plain
//! text with some codes only. Messages hold positions and names of fields, never values of objects.
//!
//! Upstream counterpart: none; `controller-runtime:pkg/webhook/admission` answers 200 and denies.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

/// BOUND: characters of a message; the rest is cut off.
const MESSAGE: usize = 1024;

/// A failure of one call.
#[derive(Debug)]
pub(super) struct Refusal {
    code: StatusCode,
    line: String,
    uid: Option<String>,
}

impl Refusal {
    pub(super) fn new(code: StatusCode, line: impl AsRef<str>) -> Self {
        let line = line.as_ref().chars().take(MESSAGE);
        let line = line.map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self {
            code,
            line,
            uid: None,
        }
    }

    /// A body that is not what the path expects.
    pub(super) fn bad(line: impl AsRef<str>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, line)
    }

    /// A failure of the call: an error or a panic of the user's code, or a verdict that cannot be sent.
    pub(super) fn failed(line: impl AsRef<str>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, line)
    }

    pub(super) fn with_uid(mut self, uid: Option<&str>) -> Self {
        // BOUND: a uid is 36 characters; a longer text is not one.
        self.uid = uid.filter(|uid| uid.len() <= 128).map(str::to_owned);
        self
    }

    pub(super) fn line(&self) -> &str {
        &self.line
    }

    pub(super) fn into_response(self) -> Response<Bytes> {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.line,
            "code": self.code.as_u16(),
        });
        if let Some(uid) = self.uid {
            status["details"] = json!({ "uid": uid });
        }
        let mut reply = json_reply(Bytes::from(status.to_string()));
        *reply.status_mut() = self.code;
        reply
    }
}

/// A reply of code 200 with a JSON body.
pub(super) fn json_reply(body: Bytes) -> Response<Bytes> {
    let mut reply = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    reply
}

/// The message of an error of serde without the value that it quotes: it may be a secret.
pub(super) fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    for kind in ["invalid type: ", "invalid value: ", "unknown variant "] {
        let Some(at) = text.find(kind) else { continue };
        let kind = kind.trim_end_matches([':', ' ']);
        return match text.rfind(", expected ") {
            Some(expected) => format!("{}{kind}{}", &text[..at], &text[expected..]),
            None => format!("{}{kind}", &text[..at]),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn a_message_has_no_value_of_the_object() {
        #[derive(Debug, Deserialize)]
        struct Spec {
            #[serde(rename = "port")]
            _port: u16,
        }
        for (text, expected) in [
            (
                r#"{"port":"hunter2, expected a"}"#,
                "invalid type, expected u16 at line 1 column 29",
            ),
            (
                r#"{"port":-5}"#,
                "invalid value, expected u16 at line 1 column 10",
            ),
            (r#"{}"#, "missing field `port` at line 1 column 2"),
        ] {
            let error = serde_json::from_str::<Spec>(text).unwrap_err();
            assert_eq!(without_values(&error), expected);
        }
    }

    #[test]
    fn a_refusal_is_one_line_whatever_it_holds() {
        let refusal = Refusal::bad("a\nb\u{7f}").with_uid(Some("u"));
        assert_eq!(refusal.line(), "a b ");
        let long = Refusal::bad("x".repeat(5000));
        assert_eq!(long.line().len(), MESSAGE);
        let reply = refusal.into_response();
        assert_eq!(reply.status(), 400);
        let body: serde_json::Value = serde_json::from_slice(reply.body()).unwrap();
        assert_eq!(body["details"]["uid"], "u");
        assert_eq!(body["kind"], "Status");
    }
}
