//! Replaces secret values in JSON while it streams past.
//!
//! ```text
//! chunks of a body, cut anywhere ──▶ Redactor ──▶ the same bytes, digests in place of secret values
//! ```
//!
//! Secret are: the value of the annotation `kubectl.kubernetes.io/last-applied-configuration`
//! wherever it is; and in a body of Secrets each value below a member `data` or `stringData`, and of
//! each annotation but the one that the protocol of watches needs. A text becomes a text, a number a
//! number, a boolean `false`. Keys stay.
//! A body with anything but JSON is cut where that begins: what cannot be understood cannot be
//! searched.
//!
//! INVARIANT: no byte of a secret value is appended to the output, not even of one that is cut off.
//! BOUND: [`MAX_DEPTH`] levels, one byte each, and [`MAX_NAME`] bytes of a member's name are held.
//!
//! Upstream counterpart: none. Complexity: O(bytes), one pass.

use std::borrow::Cow;

use kinform_api::INITIAL_EVENTS_END;

use super::digest::{Digest, DigestKey};

/// BOUND: levels of a body. An API server refuses objects that are nested 10,000 deep.
const MAX_DEPTH: usize = 10_000;
/// BOUND: bytes of a member's name that are compared, as they are on the wire: six for a letter of
/// the longest name.
const MAX_NAME: usize = 512;
/// BOUND: bytes of a number or word.
const MAX_BARE: usize = 1 << 10;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The objects of a body, as far as it matters for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Secrets.
    Secrets,
    /// Any other objects.
    Other,
}

/// Replaces the secret values of one body.
#[derive(Debug)]
pub struct Redactor {
    contents: Contents,
    key: DigestKey,
    levels: Vec<Level>,
    place: Place,
    token: Token,
    /// The name of the member that is read, with its escapes.
    name: Vec<u8>,
    /// The treatment of the value that comes next.
    next: Treatment,
}

/// An open object or array.
#[derive(Clone, Copy, Debug)]
struct Level {
    is_object: bool,
    treatment: Treatment,
}

/// The treatment of a value, and of everything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    Kept,
    /// The annotations of a Secret.
    Annotations,
    Digested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Value,
    FirstValueOrEnd,
    Name,
    FirstNameOrEnd,
    Colon,
    CommaOrEnd,
    /// Not JSON: nothing more is read.
    Broken,
}

#[derive(Debug)]
enum Token {
    Outside,
    /// In a text; whether the byte before is an open escape.
    Text {
        is_escaped: bool,
        role: Role,
    },
    /// In a number, `true`, `false` or `null`.
    Bare {
        first: u8,
        length: usize,
        secret: Option<Digest>,
    },
}

#[derive(Debug)]
enum Role {
    Name,
    Kept,
    Secret(Digest),
}

impl Redactor {
    /// A redactor of a body with these contents.
    #[must_use]
    pub fn new(contents: Contents, key: DigestKey) -> Self {
        Self {
            contents,
            key,
            levels: Vec::new(),
            place: Place::Value,
            token: Token::Outside,
            name: Vec::new(),
            next: Treatment::Kept,
        }
    }

    /// Reads the next bytes of the body, and appends what may be kept of them. Returns false once
    /// the body was cut, because it is no JSON.
    pub fn feed(&mut self, mut chunk: &[u8], to: &mut Vec<u8>) -> bool {
        while !chunk.is_empty() && self.place != Place::Broken {
            let read = match std::mem::replace(&mut self.token, Token::Outside) {
                Token::Outside => self.outside(chunk, to),
                Token::Text { is_escaped, role } => self.text(is_escaped, role, chunk, to),
                Token::Bare {
                    first,
                    length,
                    secret,
                } => self.bare((first, length, secret), chunk, to),
            };
            chunk = &chunk[read..];
        }
        self.place != Place::Broken
    }

    /// Structure between the tokens: returns the number of bytes read.
    fn outside(&mut self, chunk: &[u8], to: &mut Vec<u8>) -> usize {
        let byte = chunk[0];
        let is_value = matches!(self.place, Place::Value | Place::FirstValueOrEnd);
        let is_name = matches!(self.place, Place::Name | Place::FirstNameOrEnd);
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'"' if is_value => {
                let role = match self.treatment() {
                    Treatment::Kept => Role::Kept,
                    Treatment::Digested | Treatment::Annotations => Role::Secret(self.key.digest()),
                };
                self.begin_text(role);
            }
            b'"' if is_name => {
                self.name.clear();
                self.begin_text(Role::Name);
            }
            b'{' | b'[' if is_value && self.levels.len() < MAX_DEPTH => {
                let is_object = byte == b'{';
                self.levels.push(Level {
                    is_object,
                    treatment: self.treatment(),
                });
                self.place = match is_object {
                    true => Place::FirstNameOrEnd,
                    false => Place::FirstValueOrEnd,
                };
                self.next = Treatment::Kept;
            }
            b'}' | b']' if self.ends_level(byte) => {
                self.levels.pop();
                self.after_value();
            }
            b':' if self.place == Place::Colon => self.place = Place::Value,
            b',' if self.place == Place::CommaOrEnd && !self.levels.is_empty() => {
                let is_object = self.levels.last().is_some_and(|level| level.is_object);
                self.place = if is_object { Place::Name } else { Place::Value };
            }
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' if is_value => {
                let secret = (self.treatment() != Treatment::Kept).then(|| self.key.digest());
                self.token = Token::Bare {
                    first: byte,
                    length: 0,
                    secret,
                };
                return 0;
            }
            _ => {
                self.place = Place::Broken;
                return 0;
            }
        }
        to.push(byte);
        1
    }

    fn begin_text(&mut self, role: Role) {
        self.token = Token::Text {
            is_escaped: false,
            role,
        };
    }

    /// A text up to its end or the chunk's.
    fn text(
        &mut self,
        mut is_escaped: bool,
        mut role: Role,
        chunk: &[u8],
        to: &mut Vec<u8>,
    ) -> usize {
        let mut end = None;
        for (at, byte) in chunk.iter().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let part = &chunk[..end.unwrap_or(chunk.len())];
        match &mut role {
            Role::Secret(digest) => digest.write(part),
            Role::Kept => to.extend_from_slice(part),
            Role::Name => {
                to.extend_from_slice(part);
                let room = (MAX_NAME + 1).saturating_sub(self.name.len());
                self.name.extend_from_slice(&part[..part.len().min(room)]);
            }
        }
        let Some(end) = end else {
            self.token = Token::Text { is_escaped, role };
            return chunk.len();
        };
        match role {
            Role::Secret(digest) => {
                digest.append_text(to);
                self.after_value();
            }
            Role::Kept => self.after_value(),
            Role::Name => {
                self.next = self.treatment_of_member();
                self.place = Place::Colon;
            }
        }
        to.push(b'"');
        end + 1
    }

    /// A number or word up to its end or the chunk's.
    fn bare(
        &mut self,
        (first, length, mut secret): (u8, usize, Option<Digest>),
        chunk: &[u8],
        to: &mut Vec<u8>,
    ) -> usize {
        let is_bare =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let end = chunk.iter().position(|byte| !is_bare(byte));
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let length = length + part.len();
        if length > MAX_BARE {
            self.place = Place::Broken;
            return 0;
        }
        match &mut secret {
            Some(digest) => digest.write(part),
            None => to.extend_from_slice(part),
        }
        if end.is_none() {
            self.token = Token::Bare {
                first,
                length,
                secret,
            };
            return part.len();
        }
        if let Some(digest) = secret {
            match first {
                b't' | b'f' => to.extend_from_slice(b"false"),
                b'n' => to.extend_from_slice(b"null"),
                _ => digest.append_number(to),
            }
        }
        self.after_value();
        part.len()
    }

    /// The treatment of the value that begins here.
    fn treatment(&self) -> Treatment {
        match self.levels.last() {
            Some(level) if level.treatment == Treatment::Digested => Treatment::Digested,
            Some(level) if level.is_object => self.next,
            // Annotations are no array: what is in one is nothing to be kept.
            Some(level) if level.treatment == Treatment::Annotations => Treatment::Digested,
            Some(_) | None => Treatment::Kept,
        }
    }

    /// The treatment of the member whose name was read.
    fn treatment_of_member(&self) -> Treatment {
        // No name that matters is as long.
        if self.name.len() > MAX_NAME {
            return match self.is_in_annotations() {
                true => Treatment::Digested,
                false => Treatment::Kept,
            };
        }
        let name = unescaped(&self.name);
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match self.contents {
            _ if is(LAST_APPLIED) => Treatment::Digested,
            Contents::Secrets if is("data") || is("stringData") => Treatment::Digested,
            Contents::Secrets if self.is_in_annotations() => {
                match *name == *INITIAL_EVENTS_END.as_bytes() {
                    true => Treatment::Kept,
                    false => Treatment::Digested,
                }
            }
            Contents::Secrets if is("annotations") => Treatment::Annotations,
            Contents::Secrets | Contents::Other => Treatment::Kept,
        }
    }

    fn is_in_annotations(&self) -> bool {
        let level = self.levels.last();
        level.is_some_and(|level| level.treatment == Treatment::Annotations)
    }

    fn ends_level(&self, byte: u8) -> bool {
        let Some(level) = self.levels.last() else {
            return false;
        };
        let is_here = match self.place {
            Place::CommaOrEnd => true,
            Place::FirstNameOrEnd => level.is_object,
            Place::FirstValueOrEnd => !level.is_object,
            Place::Value | Place::Name | Place::Colon | Place::Broken => false,
        };
        is_here && level.is_object == (byte == b'}')
    }

    fn after_value(&mut self) {
        self.next = Treatment::Kept;
        // A watch is one value after the other.
        self.place = match self.levels.is_empty() {
            true => Place::Value,
            false => Place::CommaOrEnd,
        };
    }
}

/// A name without its escapes; as it is if these are wrong.
fn unescaped(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let quoted = [b"\"", name, b"\""].concat();
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => Cow::Owned(text.into_bytes()),
        Err(_) => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(contents: Contents, body: &str, piece: usize) -> (String, bool) {
        let mut redactor = Redactor::new(contents, DigestKey::new([3; 32]));
        let (mut kept, mut is_whole) = (Vec::new(), true);
        for chunk in body.as_bytes().chunks(piece) {
            is_whole = redactor.feed(chunk, &mut kept);
        }
        (String::from_utf8(kept).unwrap(), is_whole)
    }

    /// Digests as `#`, since their text does not matter here.
    fn shown(text: &str) -> String {
        let mut parts = text.split("\"redacted");
        let mut shown = parts.next().unwrap().to_owned();
        for part in parts {
            shown.push_str("\"#");
            shown.push_str(&part[32..]);
        }
        shown
    }

    #[track_caller]
    fn check(contents: Contents, body: &str, expected: &str) {
        for piece in [1, 2, 3, 7, 10_000] {
            let (kept, is_whole) = redacted(contents, body, piece);
            assert_eq!(shown(&kept), expected, "in pieces of {piece}");
            assert!(is_whole);
        }
    }

    #[test]
    fn values_of_a_secret_are_digested_and_all_else_is_kept() {
        check(
            Contents::Secrets,
            r#" {"kind":"SecretList","items":[{"metadata":{"name":"a","annotations":{"x":"hid","deep":{"y":"hid"}},
              "managedFields":[{"fieldsV1":{"f:data":{".":{},"f:a":{}}}}]},"type":"Opaque","data":{"a":"aGlk","b":"aGlk\"}"},
              "stringData" : {"c":"hid"}, "immutable":true}]}"#,
            r##" {"kind":"SecretList","items":[{"metadata":{"name":"a","annotations":{"x":"#","deep":{"y":"#"}},
              "managedFields":[{"fieldsV1":{"f:data":{".":{},"f:a":{}}}}]},"type":"Opaque","data":{"a":"#","b":"#"},
              "stringData" : {"c":"#"}, "immutable":true}]}"##,
        );
        let text = redacted(
            Contents::Secrets,
            r#"{"data":{"n":17,"l":[true,null,-3]}}"#,
            1,
        )
        .0;
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value["data"]["n"].is_u64() && value["data"]["n"] != 17);
        assert_eq!(value["data"]["l"][0], false);
        assert!(value["data"]["l"][1].is_null() && value["data"]["l"][2].is_u64());
        check(
            Contents::Secrets,
            r#"{"annotations":["hid",["hid"],{"a":"hid"}],"b":{"annotations":"hid"}}"#,
            r##"{"annotations":["#",["#"],{"a":"#"}],"b":{"annotations":"#"}}"##,
        );
    }

    #[test]
    fn names_are_recognized_with_escapes_and_in_any_case() {
        check(
            Contents::Secrets,
            r#"{"d\u0061ta":{"a":"hid"},"DATA":"hid","data2":"kept"}"#,
            r##"{"d\u0061ta":{"a":"#"},"DATA":"#","data2":"kept"}"##,
        );
    }

    #[test]
    fn what_kubectl_applied_last_is_digested_in_each_type_and_at_each_depth() {
        check(
            Contents::Other,
            r#"{"type":"ADDED","object":{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":1}","k":"v"}},
              "spec":{"template":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hid"}}},"data":{"a":"kept"}}}
              {"type":"BOOKMARK","object":{}}"#,
            r##"{"type":"ADDED","object":{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"#","k":"v"}},
              "spec":{"template":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"#"}}},"data":{"a":"kept"}}}
              {"type":"BOOKMARK","object":{}}"##,
        );
    }

    #[test]
    fn the_bookmark_that_ends_a_streaming_list_stays_what_it_is() {
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        check(Contents::Secrets, bookmark, bookmark);
    }

    #[test]
    fn equal_values_stay_equal_and_others_do_not() {
        let body = r#"{"data":{"a":"one","b":"one","c":"two"}}"#;
        let value: serde_json::Value =
            serde_json::from_str(&redacted(Contents::Secrets, body, 5).0).unwrap();
        assert_eq!(value["data"]["a"], value["data"]["b"]);
        assert_ne!(value["data"]["a"], value["data"]["c"]);
    }

    #[test]
    fn a_body_is_cut_where_it_is_no_json_and_no_secret_value_is_begun() {
        for (body, kept) in [
            (r#"{"data":{"a":"hidd"#, r#"{"data":{"a":""#),
            (r#"{"data":{"a":hidden}}"#, r#"{"data":{"a":"#),
            (r#"{"data":{"a":1}]"#, ""),
            (r#"{"a":1 "data""#, r#"{"a":1 "#),
            (r#"{"a":1}<html>"#, r#"{"a":1}"#),
            (r#"}"#, ""),
            (r#"[1,}"#, "[1,"),
        ] {
            for piece in [1, 100] {
                let (text, _) = redacted(Contents::Secrets, body, piece);
                assert!(text.starts_with(kept), "{body}: {text}");
                assert!(!text.contains("hid"), "{body}: {text}");
            }
        }
        assert!(!redacted(Contents::Other, "<html>secret", 3).1);
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(
            redacted(Contents::Other, &deep, 999),
            ("[".repeat(MAX_DEPTH), false)
        );
        let long = format!("[{}]", "1".repeat(MAX_BARE + 1));
        assert!(!redacted(Contents::Other, &long, 50).1);
    }

    #[test]
    fn a_name_longer_than_any_hides_nothing_that_is_secret() {
        let long = "x".repeat(MAX_NAME + 9);
        check(
            Contents::Secrets,
            &format!(r#"{{"annotations":{{"{long}":"hid"}},"{long}":"kept"}}"#),
            &format!(r##"{{"annotations":{{"{long}":"#"}},"{long}":"kept"}}"##),
        );
        // Each letter of a name may be six bytes.
        let escaped: String = LAST_APPLIED
            .chars()
            .map(|c| format!("\\u{:04x}", u32::from(c)))
            .collect();
        check(
            Contents::Other,
            &format!(r#"{{"{escaped}":"hid"}}"#),
            &format!(r##"{{"{escaped}":"#"}}"##),
        );
    }
}
