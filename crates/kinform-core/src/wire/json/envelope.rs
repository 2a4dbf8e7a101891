//! The envelope of a list, which is the list without its items: small, kept to the end, then
//! validated and read.
//!
//! ```text
//! bytes of the list, items left out → Envelope::push → read → ListMeta | WireError
//! ```
//!
//! Without its items a list is a JSON document like any other, so the order of its keys, escapes in
//! them and white space need no special care. A `Status` or a `Table` in place of a list is
//! recognized here.
//!
//! Upstream: `metav1.ListMeta`. BOUND: [`MAX_ENVELOPE_BYTES`].

use kinform_api::Status;
use serde_json::Value;

use super::cursor;
use super::validate;
use crate::wire::error::WireError;
use crate::wire::list::ListMeta;
use crate::wire::scan::{Nesting, first_of};

/// BOUND: the envelope of a list is a few hundred bytes, most of them the continue token.
pub(in crate::wire) const MAX_ENVELOPE_BYTES: usize = 1 << 20;

/// `items` with each of its letters escaped.
const LONGEST_ITEMS: usize = 5 * 6;

/// The list without its items, as received: a JSON document of its own.
#[derive(Debug, Default)]
pub(in crate::wire) struct Envelope {
    bytes: Vec<u8>,
    /// Set once the opening bracket of the list itself was read.
    is_open: bool,
    /// The bracketed value that is being read.
    inside: Option<Nesting>,
    in_string: bool,
    escaped: bool,
    /// The offset of the last string of the list itself, after its quote: the last key.
    key: usize,
    /// Set if the next value is the list's `items`.
    at_items: bool,
    has_items: bool,
}

/// The effect of a byte of the envelope.
pub(in crate::wire) enum Pushed {
    More,
    Items,
    ItemsAgain,
    End,
}

impl Envelope {
    pub(in crate::wire) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the array of items.
    pub(in crate::wire) fn close_items(&mut self) {
        self.bytes.push(b']');
    }

    /// Takes the bytes up to the end of the current string or bracketed value, at most up to the
    /// bound; returns their number.
    pub(in crate::wire) fn push_inside(&mut self, bytes: &[u8]) -> usize {
        let room = MAX_ENVELOPE_BYTES.saturating_sub(self.bytes.len());
        let bytes = &bytes[..bytes.len().min(room)];
        let length = match &mut self.inside {
            Some(nesting) => {
                let end = nesting.advance(bytes);
                if end.is_some() {
                    self.inside = None;
                }
                end.unwrap_or(bytes.len())
            }
            None if self.in_string && !self.escaped => first_of(bytes, 0, *b"\"\\"),
            None => 0,
        };
        self.bytes.extend_from_slice(&bytes[..length]);
        length
    }

    pub(in crate::wire) fn push(&mut self, byte: u8) -> Pushed {
        self.bytes.push(byte);
        if self.in_string {
            match byte {
                b'\\' => self.escaped = !self.escaped,
                b'"' if !self.escaped => self.in_string = false,
                _ => self.escaped = false,
            }
            return Pushed::More;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.escaped = false;
                self.key = self.bytes.len();
            }
            b':' if self.is_open => self.at_items = self.key_is_items(),
            b',' if self.is_open => self.at_items = false,
            b'[' if self.at_items => {
                self.at_items = false;
                let again = std::mem::replace(&mut self.has_items, true);
                return if again {
                    Pushed::ItemsAgain
                } else {
                    Pushed::Items
                };
            }
            b'{' | b'[' if self.is_open => self.inside = Some(Nesting::inside(1, false)),
            b'{' | b'[' => self.is_open = true,
            b'}' | b']' => return Pushed::End,
            _ => {}
        }
        Pushed::More
    }

    fn key_is_items(&self) -> bool {
        // BOUND: each colon after a key looks at this much of it, however long the key is.
        let key = self.bytes[self.key..].iter().take(LONGEST_ITEMS + 1);
        let Some(length) = key.into_iter().position(|&byte| byte == b'"') else {
            return false;
        };
        cursor::text_is(&self.bytes[self.key..self.key + length], "items")
    }

    pub(in crate::wire) fn too_large(&self) -> WireError {
        let bytes = &self.bytes;
        let mut kinds = cursor::open_members(bytes, 0)
            .filter(|(key, _)| cursor::text_is(&bytes[key.clone()], "kind"));
        match kinds.next() {
            Some((_, value)) if bytes[value..].starts_with(b"\"Table\"") => WireError::Table,
            _ => WireError::EnvelopeTooLarge,
        }
    }

    pub(in crate::wire) fn read(&self) -> Result<ListMeta, WireError> {
        validate::document(&self.bytes).map_err(|fault| WireError::NotJson {
            at: fault.at as u64,
            reason: fault.what.text(),
        })?;
        let broken = |_| WireError::NotJson {
            at: 0,
            reason: "the envelope is refused",
        };
        let list: Value = serde_json::from_slice(&self.bytes).map_err(broken)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &list["metadata"];
        let meta = ListMeta {
            resource_version: text(&metadata["resourceVersion"]),
            continue_token: text(&metadata["continue"]),
            remaining: metadata["remainingItemCount"].as_u64(),
            kind: text(&list["kind"]),
            api_version: text(&list["apiVersion"]),
        };
        let absent = list.get("items").is_none();
        let is_null = list.get("items").is_some_and(Value::is_null);
        match &*meta.kind {
            "Status" => match serde_json::from_value::<Status>(list) {
                Ok(status) => Err(WireError::Status(Box::new(status))),
                Err(_) => Err(WireError::NotAList { kind: meta.kind }),
            },
            "Table" => Err(WireError::Table),
            _ if self.has_items => Ok(meta),
            // Some servers omit an empty list; a list of API resources has no version.
            _ if is_null => Ok(meta),
            kind if absent && kind.ends_with("List") && !meta.resource_version.is_empty() => {
                Ok(meta)
            }
            _ => Err(WireError::NotAList {
                kind: short(&meta.kind),
            }),
        }
    }
}

/// BOUND: a kind in a message has at most 64 characters.
fn short(kind: &str) -> String {
    kind.chars().filter(|c| !c.is_control()).take(64).collect()
}
