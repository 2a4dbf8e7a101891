//! Continue tokens: the start of the next page, and its revision.
//!
//! ```text
//! (revision, last key) ──▶ base64url {"v":"meta.k8s.io/v1","rv":N,"start":"/ns/name\u0000"} ──▶ (revision, start)
//! ```
//!
//! The bytes are upstream's. Clients pass tokens back unchanged, but a token is not trusted: a
//! start that is not a clean relative key is refused.
//!
//! Upstream: `apiserver:pkg/storage/continue.go`.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine};
use kinform_api::Status;
use serde::{Deserialize, Serialize};

/// Position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Revision of the whole list; `None` for a list that continues at the latest one.
    pub(crate) revision: Option<u64>,
    /// First possible key, relative to the requested range.
    pub(crate) start: String,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    #[serde(default)]
    v: std::borrow::Cow<'a, str>,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: std::borrow::Cow<'a, str>,
}

impl Token {
    /// Token of the page after the object `last`, a key relative to the requested range.
    pub(crate) fn after(last: &str, revision: Option<u64>) -> Self {
        Self {
            revision,
            start: format!("{last}\0"),
        }
    }

    pub(crate) fn encode(&self) -> String {
        let rv = self
            .revision
            .map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX));
        let wire = Wire {
            v: "meta.k8s.io/v1".into(),
            rv,
            start: format!("/{}", self.start).into(),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// Decodes a token.
    ///
    /// # Errors
    /// 400 for a token that this server would not have issued.
    pub(crate) fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            // As Go counts: of a byte that is left over, the byte.
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(length) => length.saturating_sub(1),
                DecodeError::InvalidPadding => text.len(),
            };
            invalid(&format!("illegal base64 data at input byte {at}"))
        })?;
        let wire: Wire<'_> = serde_json::from_slice(&bytes).map_err(|_| {
            let first = quoted(bytes.first().copied().unwrap_or_default());
            invalid(&format!(
                "invalid character {first} looking for beginning of value"
            ))
        })?;
        if wire.v != "meta.k8s.io/v1" {
            let why = format!("server does not recognize this encoded version {}", wire.v);
            return Err(invalid(&why));
        }
        let revision = match wire.rv {
            0 => {
                return Err(invalid(
                    "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
                ));
            }
            rv => u64::try_from(rv).ok(),
        };
        let start = wire.start.trim_start_matches('/');
        let clean = start
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."));
        if start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        if !clean {
            return Err(invalid(&format!("{:?}", wire.start)));
        }
        Ok(Self {
            revision,
            start: start.to_owned(),
        })
    }
}

/// A byte as Go quotes it in an error: escaped if it is not printable.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'\n' | b'\r' | b'\t' | b'\\' => format!("'{}'", byte.escape_ascii()),
        0x20..=0x7e | 0xa1..=0xac | 0xae..=0xff => format!("'{}'", char::from(byte)),
        0..=0x7f => format!("'\\x{byte:02x}'"),
        0x80.. => format!("'\\u{byte:04x}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_upstreams_bytes() {
        let text = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzI1LCJzdGFydCI6Ii9nYW1lL2xvYmJ5LTAwMDA1XHUwMDAwIn0";
        let token = Token::after("game/lobby-00005", Some(725));
        assert_eq!(token.encode(), text);
        assert_eq!(Token::decode(text).unwrap(), token);
        let latest = Token::after("a", None);
        assert_eq!(Token::decode(&latest.encode()).unwrap(), latest);
    }

    #[test]
    fn foreign_tokens_are_refused() {
        let encode = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for token in [
            "!".to_owned(),
            "abc".to_owned(),
            encode("{}"),
            encode(r#"{"v":"v2","rv":5,"start":"/a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"/a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":""}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/a/../b"}"#),
        ] {
            let status = Token::decode(&token).unwrap_err();
            assert_eq!(status.code, 400);
            assert!(
                status.message.starts_with("invalid continue token: "),
                "{}",
                status.message
            );
        }
    }
}
