//! One object cut out of a body: its bytes, and its head if that was read on the way.
//!
//! ```text
//! list, watch → Item {bytes, layout?, object?} → Object::from_item
//! ```
//!
//! Where a chunk holds an object whole, reading its head finds its end, too: one pass in place of
//! two. Where an item is stored just so already, it brings the stored object (`known`). Only the time it takes
//! tells whether that happened; the object is the same.
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

/// The bytes of one object, borrowed from the body until the next one is read.
pub struct Item<'a> {
    bytes: &'a [u8],
    // INVARIANT: if there is one, it is the layout of just these bytes, which were checked.
    layout: Option<Layout>,
    form: Form<'a>,
    /// The stored object that these bytes are.
    known: Option<&'a dyn Stored>,
    // INVARIANT: if there is one, it is what a check of just these bytes finds.
    broken: Option<&'a Broken>,
    /// The message that it may be like.
    alike: Option<&'a RefCell<Alike>>,
}

/// How the bytes are encoded, and what was said around them.
#[derive(Clone, Copy)]
enum Form<'a> {
    Json,
    Protobuf {
        /// None, if the table does not know it.
        of: Option<&'static Type>,
        api_version: &'a str,
        kind: &'a str,
    },
}

impl<'a> Item<'a> {
    /// A message of this type, with what its envelope says, if it has one of its own; not checked.
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

    /// An item of a list of that type; not checked.
    pub(super) fn listed(bytes: &'a [u8], of: &'static Type, alike: &'a RefCell<Alike>) -> Self {
        Self {
            alike: Some(alike),
            ..Self::message(bytes, of, "", "")
        }
    }

    /// A message of a type that the table does not know.
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

    /// Its type, if it is a message of one.
    pub(crate) fn message_type(&self) -> Option<&'static Type> {
        match self.form {
            Form::Json => None,
            Form::Protobuf { of, .. } => of,
        }
    }

    /// Whether it is a message, of whatever type.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self.form, Form::Protobuf { .. })
    }

    /// Reads it as the object of a bookmark.
    ///
    /// # Errors
    /// It is broken, or has no version.
    pub fn bookmark(&self) -> Result<Bookmark, Unreadable> {
        match self.form {
            Form::Json => bookmark(self.bytes),
            Form::Protobuf { .. } => message::bookmark(self.bytes),
        }
    }

    /// Reads it as a `Status`: the object of an `ERROR` event, or a frame that is one.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self.form {
            Form::Json => Status::from_slice(self.bytes),
            Form::Protobuf { kind: "Status", .. } => envelope::status(self.bytes),
            Form::Protobuf { .. } => None,
        }
    }

    /// Bytes that were cut out by their brackets, and not checked.
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

    /// The object that `bytes` begin with, if it is stored just so and no longer than `limit`.
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

    /// The same, with the object if it is stored just so.
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

    /// The stored object that it is, if it was found to be one.
    pub(crate) fn known(&self) -> Option<&'a dyn Stored> {
        self.known
    }

    /// What the bracket opens that `bytes` begin with, if it is whole and no longer than `limit`, with its head or what is wrong.
    /// What it has in common with objects seen before may be only compared.
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

    /// The same, its head read: what is asked of it then costs no pass of its own.
    ///
    /// # Errors
    /// It is no object; what can be said of it is said.
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
            // What it is of is told by its kind; nothing else can be.
            Form::Protobuf { of: None, .. } => None,
        };
        Ok(Self { layout, ..self })
    }

    /// The kind that it states; empty if it states none, or was not [`checked`](Self::checked).
    #[must_use]
    pub fn kind(&self) -> Cow<'a, str> {
        if let Form::Protobuf { kind, .. } = self.form {
            return Cow::Borrowed(kind);
        }
        self.text(|layout| layout.kind.clone())
    }

    /// The same of its `apiVersion`.
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

    /// The bytes; they may be no JSON, or no message.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What `metadata.managedFields` weighs in them; zero if they cannot be read.
    ///
    /// Complexity: free where the object lay whole in a chunk, one more pass over it elsewhere.
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

/// When it is worth the try to read an object's head at once: objects of one body are alike.
#[derive(Debug, Default)]
pub(super) struct Guess {
    last: usize,
}

impl Guess {
    /// Whether a chunk with `left` bytes may hold the next object whole.
    pub(super) fn may_hold(&self, left: usize) -> bool {
        left >= self.last
    }

    /// An object had `length` bytes.
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
