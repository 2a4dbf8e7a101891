//! Indents JSON for human readers as upstream does, while it is sent.
//!
//! ```text
//! ?pretty=true, or curl, wget and browsers ──▶ chunks of JSON ──Indenter──▶ chunks with lines
//! ```
//!
//! The indenter neither parses nor buffers: brackets, commas and colons outside of strings decide.
//! Watches are never indented, since their frames are lines.
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/negotiation` (`isPrettyPrint`), Go's `json.Indent`.

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;

use super::body::Body;
use super::query::Query;

/// User agents whose users read the replies.
const LOOKERS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Returns whether a request asks for indented JSON, or its user agent does by default.
pub(crate) fn is_wanted(head: &Parts, query: &Query) -> bool {
    if let Some(said) = query.get("pretty").filter(|said| !said.is_empty()) {
        return matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = head.headers.get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| LOOKERS.iter().any(|looker| agent.starts_with(looker)))
}

/// Returns the reply with indented JSON, if it is JSON and not compressed.
pub(crate) fn indented(reply: Response<Body>) -> Response<Body> {
    let headers = reply.headers();
    let is_json = headers
        .get(CONTENT_TYPE)
        .is_some_and(|media| media == "application/json");
    if !is_json || headers.contains_key(CONTENT_ENCODING) {
        return reply;
    }
    reply.map(|body| {
        let mut indenter = Indenter::default();
        match body.as_full() {
            Some(whole) => Body::full(indenter.indent(whole)),
            None => Body::stream(body.map(move |chunk| chunk.map(|json| indenter.indent(&json)))),
        }
    })
}

/// Indents valid JSON; resumable at any byte.
#[derive(Debug, Default)]
struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// A bracket was opened, and its first element has not come yet.
    opened: bool,
}

impl Indenter {
    fn indent(&mut self, json: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(json.len() + json.len() / 2);
        for &byte in json {
            if self.in_string {
                out.extend_from_slice(&[byte]);
                match byte {
                    b'\\' if !self.escaped => self.escaped = true,
                    b'"' if !self.escaped => self.in_string = false,
                    _ => self.escaped = false,
                }
                continue;
            }
            if byte.is_ascii_whitespace() {
                continue;
            }
            let closes = matches!(byte, b'}' | b']');
            if closes {
                self.depth = self.depth.saturating_sub(1);
            }
            if closes != self.opened {
                // The first element after a bracket, or the end of a bracket with elements.
                self.line(&mut out);
            }
            self.opened = matches!(byte, b'{' | b'[');
            out.extend_from_slice(&[byte]);
            match byte {
                b'{' | b'[' => self.depth += 1,
                b',' => self.line(&mut out),
                b':' => out.extend_from_slice(b" "),
                b'"' => self.in_string = true,
                _ => {}
            }
        }
        out.freeze()
    }

    fn line(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"\n");
        for _ in 0..self.depth {
            out.extend_from_slice(b"  ");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn indent(chunks: &[&[u8]]) -> String {
        let mut indenter = Indenter::default();
        let pieces: Vec<Bytes> = chunks.iter().map(|chunk| indenter.indent(chunk)).collect();
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[test]
    fn lines_are_those_of_go_wherever_chunks_are_cut() {
        for value in [
            json!({}),
            json!([]),
            json!({"a": {}, "b": [], "c": [1, [2], {"d": null}], "e\"{": "x, y: [\\\"]"}),
            json!([{"a": true}, "", -1.5]),
            Value::from("{"),
        ] {
            let compact = value.to_string();
            let expected = serde_json::to_string_pretty(&value).unwrap();
            for cut in 0..=compact.len() {
                let (head, tail) = compact.as_bytes().split_at(cut);
                assert_eq!(indent(&[head, tail, b"\n"]), expected);
            }
        }
    }
}
