//! One object cut out of a body: its bytes, and its head if that was parsed on the way.
//!
//! ```text
//! list, watch → Item {bytes, layout?, object?} → Object::from_item
//! ```
//!
//! If a chunk holds an object whole, parsing its head also finds its end: one pass in place of two.
//! If an item equals a stored object, it carries that object (`known`). Both only save time: the
//! object made from the item is the same.
//!
//! Upstream: none.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use kinform_api::Status;
use kinform_schema::Type;

use super::json::broken::Broken;
use super::json::cursor;
use super::json::head::{self, Layout, Reading};
use super::json::previous::PreviousItem;
use super::json::watch::bookmark;
use super::known::{self, Lookup, Stored};
use super::protobuf::alike::Alike;
use super::protobuf::{envelope, head as message};
use super::unreadable::Unreadable;
use super::watch::Bookmark;

/// The bytes of one object, borrowed until the next one is read.
pub struct Item<'a> {
    bytes: &'a [u8],
    // INVARIANT: the layout, if present, is that of exactly these bytes, which were validated.
    layout: Option<Layout>,
    form: Form<'a>,
    /// The stored object that these bytes equal.
    known: Option<&'a dyn Stored>,
    // INVARIANT: the diagnosis, if present, is what a validation of exactly these bytes finds.
    broken: Option<&'a Broken>,
    /// The earlier item of the list that this one is compared with when it is validated.
    alike: Option<&'a RefCell<Alike>>,
}

/// The encoding of the bytes, and the type stated in the envelope around them.
#[derive(Clone, Copy)]
enum Form<'a> {
    Json,
    Protobuf {
        /// `None` if the schema does not have the type.
        of: Option<&'static Type>,
        api_version: &'a str,
        kind: &'a str,
    },
}

impl<'a> Item<'a> {
    /// Creates an item from a message of this type, not validated. `api_version` and `kind` are
    /// those of its own envelope, or empty.
    pub(super) fn message(
        bytes: &'a [u8],
        of: &'static Type,
        api_version: &'a str,
        kind: &'a str,
    ) -> Self {
        Self {
            bytes,
            layout: None,
            form: Form::Protobuf {
                of: Some(of),
                api_version,
                kind,
            },
            known: None,
            broken: None,
            alike: None,
        }
    }

    /// Creates an item of this type from a list, not validated, to be compared with `alike`.
    pub(super) fn listed(bytes: &'a [u8], of: &'static Type, alike: &'a RefCell<Alike>) -> Self {
        Self {
            alike: Some(alike),
            ..Self::message(bytes, of, "", "")
        }
    }

    /// Creates an item from a message of a type that the schema does not have.
    pub(super) fn foreign(bytes: &'a [u8], api_version: &'a str, kind: &'a str) -> Self {
        Self {
            bytes,
            layout: None,
            form: Form::Protobuf {
                of: None,
                api_version,
                kind,
            },
            known: None,
            broken: None,
            alike: None,
        }
    }

    /// Returns the message's type; `None` for JSON and for a type that the schema does not have.
    pub(crate) fn message_type(&self) -> Option<&'static Type> {
        match self.form {
            Form::Json => None,
            Form::Protobuf { of, .. } => of,
        }
    }

    /// Returns whether it is a protobuf message, of any type.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self.form, Form::Protobuf { .. })
    }

    /// Parses it as the object of a bookmark.
    ///
    /// # Errors
    /// The object is malformed, or has no resource version.
    pub fn bookmark(&self) -> Result<Bookmark, Unreadable> {
        match self.form {
            Form::Json => bookmark(self.bytes),
            Form::Protobuf { .. } => message::bookmark(self.bytes),
        }
    }

    /// Parses it as a `Status`, the object of an `ERROR` event or a bare frame; `None` if it is
    /// not one.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self.form {
            Form::Json => Status::from_slice(self.bytes),
            Form::Protobuf { kind: "Status", .. } => envelope::status(self.bytes),
            Form::Protobuf { .. } => None,
        }
    }

    /// Creates an item from JSON that was cut out by its brackets, not validated.
    pub(super) fn cut(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            layout: None,
            form: Form::Json,
            known: None,
            broken: None,
            alike: None,
        }
    }

    /// Cuts out the object at the start of `bytes`, if it equals a stored one and is not longer
    /// than `limit`.
    pub(super) fn first_known<'s: 'a>(
        bytes: &'a [u8],
        limit: usize,
        stored: Option<Lookup<'s>>,
        previous: &mut PreviousItem,
    ) -> Option<Self> {
        let window = &bytes[..bytes.len().min(limit)];
        let (layout, object) = known::json(window, stored?, previous)?;
        let end = layout.body.end;
        Some(Self {
            layout: Some(layout),
            known: Some(object),
            ..Self::cut(&bytes[..end])
        })
    }

    /// Returns the item with the stored object that it equals, if there is one.
    pub(super) fn beside<'s: 'a>(self, stored: Lookup<'s>) -> Self {
        if self.layout.is_some() {
            return self;
        }
        let found = match self.form {
            Form::Json => known::json(self.bytes, stored, &mut PreviousItem::default())
                .filter(|(layout, _)| layout.body.end == self.bytes.len()),
            Form::Protobuf { of: Some(of), .. } => known::protobuf(of, self.bytes, stored),
            Form::Protobuf { of: None, .. } => None,
        };
        match found {
            Some((layout, object)) => Self {
                layout: Some(layout),
                known: Some(object),
                ..self
            },
            None => self,
        }
    }

    /// Returns the stored object that it equals, if one was found.
    pub(crate) fn known(&self) -> Option<&'a dyn Stored> {
        self.known
    }

    /// Cuts out the bracketed value at the start of `bytes`, with its head or its fault, if it is
    /// complete and not longer than `limit`. The parts that equal those of the previous item may
    /// be compared with it only, and not validated.
    pub(super) fn first(
        bytes: &'a [u8],
        limit: usize,
        previous: &mut PreviousItem,
        broken: &'a mut Option<Box<Broken>>,
    ) -> Option<Self> {
        let window = &bytes[..bytes.len().min(limit)];
        let mut reading = Reading::default();
        let (end, layout, broken) = match head::read_first(window, previous, &mut reading) {
            Ok(()) => (reading.layout.body.end, Some(reading.layout), None),
            Err(fault) => {
                let broken = broken.insert(Box::new(Broken::new(fault, reading)));
                (broken.find_end(window)?, None, Some(&**broken))
            }
        };
        Some(Self {
            layout,
            broken,
            ..Self::cut(&bytes[..end])
        })
    }

    /// Validates the item and parses its head, so that later questions need no pass of their own.
    ///
    /// # Errors
    /// The item is not a valid object; the report has its name if that is readable.
    pub fn checked(self) -> Result<Self, Unreadable> {
        if self.layout.is_some() {
            return Ok(self);
        }
        // BOUND: spans of an object are 32 bits.
        if self.bytes.len() > (u32::MAX / 2) as usize {
            return Err(Unreadable::salvage(&[], "larger than 2 GiB"));
        }
        let layout = match self.form {
            Form::Json => {
                let read =
                    || head::read(self.bytes).map_err(|broken| broken.unreadable(self.bytes));
                let found = match self.broken {
                    None => read(),
                    Some(broken) => Err(broken.unreadable(self.bytes)),
                };
                let is_as_read = || found.as_ref().err() == read().as_ref().err();
                debug_assert!(self.broken.is_none() || is_as_read());
                Some(found?)
            }
            Form::Protobuf { of: Some(of), .. } => message::read(of, self.bytes, self.alike)
                .map_err(|fault| message::unreadable(self.bytes, fault))?,
            // Without a schema of its type a message cannot be validated.
            Form::Protobuf { of: None, .. } => None,
        };
        Ok(Self { layout, ..self })
    }

    /// Returns the kind that it states; empty if it states none, or if JSON was not
    /// [`checked`](Self::checked).
    #[must_use]
    pub fn kind(&self) -> Cow<'a, str> {
        if let Form::Protobuf { kind, .. } = self.form {
            return Cow::Borrowed(kind);
        }
        self.text(|layout| layout.kind.clone())
    }

    /// Returns the `apiVersion` that it states, with the same exceptions as [`kind`](Self::kind).
    #[must_use]
    pub fn api_version(&self) -> Cow<'a, str> {
        if let Form::Protobuf { api_version, .. } = self.form {
            return Cow::Borrowed(api_version);
        }
        self.text(|layout| layout.api_version.clone())
    }

    fn text(&self, of: impl Fn(&Layout) -> Option<std::ops::Range<usize>>) -> Cow<'a, str> {
        let span = self.layout.as_ref().and_then(of);
        span.map_or(Cow::Borrowed(""), |span| {
            cursor::unescape(&self.bytes[span])
        })
    }

    /// Returns the bytes, which may be invalid JSON or an invalid message.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the size of `metadata.managedFields` in the bytes; zero if these cannot be parsed.
    ///
    /// Complexity: no pass over the bytes if the head was parsed already, else one.
    #[must_use]
    pub fn managed_fields_bytes(&self) -> usize {
        match (&self.layout, self.form) {
            (Some(layout), _) => layout.managed_fields_bytes(),
            (None, Form::Protobuf { .. }) => message::layout(self.bytes).managed_fields_bytes(),
            (None, Form::Json) => {
                head::read(self.bytes).map_or(0, |layout| layout.managed_fields_bytes())
            }
        }
    }

    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }
}

/// Predicts whether a chunk holds the next object whole, by the length of the last one: objects
/// of one body are similar.
#[derive(Debug, Default)]
pub(super) struct Guess {
    last: usize,
}

impl Guess {
    /// Returns whether a chunk with `left` bytes may hold the next object whole.
    pub(super) fn may_hold(&self, left: usize) -> bool {
        left >= self.last
    }

    /// Records the length of an object.
    pub(super) fn was(&mut self, length: usize) {
        self.last = length;
    }
}

impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_states_its_type_wherever_it_stands() {
        let check = |body: &str, expected: [&str; 2]| {
            let items = [Item::cut(body.as_bytes()).checked().unwrap()];
            let broken = &mut None;
            let first = Item::first(body.as_bytes(), 1_000, &mut PreviousItem::default(), broken);
            for item in items.iter().chain(&first) {
                assert_eq!([&*item.kind(), &*item.api_version()], expected, "{body}");
            }
        };
        check(
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#,
            ["Pod", "v1"],
        );
        check(
            r#"{"metadata":{"kind":"x"},"apiVersion":"v1","kind":"P\u006fd"}"#,
            ["Pod", "v1"],
        );
        check(r#"{"kind":"A","metadata":{},"kind":"B"}"#, ["B", ""]);
        check(r#"{"kind":7,"apiVersion":null,"metadata":{}}"#, ["", ""]);
        assert!(Item::cut(b"[1]").checked().is_err());
    }
}
