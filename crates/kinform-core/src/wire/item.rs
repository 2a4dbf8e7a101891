//! One object cut out of a body: its bytes, and its head if that was parsed on the way.
//!
//! ```text
//! list, watch → Item {bytes, head?, stored object?, codec} → Object::from_item
//! ```
//!
//! If a chunk holds an object whole, parsing its head also finds its end: one pass in place of two.
//! If an item equals a stored object, it carries that object. Both only save time: the object made
//! from the item is the same. The codec is the encoding that the item came in; the answers that are
//! in the bytes are its own.
//!
//! Upstream: none.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use kinform_api::{Status, mutant};
use kinform_schema::Type;

use super::baseline::{BaselineRef, Stored};
use super::bookmark::Bookmark;
use super::layout::Layout;
use super::unreadable::Unreadable;

/// The bytes of one object, borrowed until the next one is read.
pub struct Item<'a> {
    bytes: &'a [u8],
    head: Head,
    /// The type that the envelope of a message states; `None` for JSON.
    message: Option<MessageType<'a>>,
    /// The stored object that these bytes equal.
    stored: Option<&'a dyn Stored>,
    codec: &'a dyn ItemCodec,
}

/// The state of an item's head.
#[expect(
    clippy::large_enum_variant,
    reason = "an item lives on the stack for one call; a box would be an allocation an item"
)]
enum Head {
    /// Not parsed, or not to be found without a rewrite of the message.
    Unread,
    // INVARIANT: the layout is that of exactly the item's bytes, which were validated.
    Read(Layout),
    // INVARIANT: the report is that of a validation of exactly the item's bytes.
    Invalid(Box<Unreadable>),
    /// Some texts are not UTF-8, and nothing else is wrong; the report is of the first of them.
    Mendable(Box<Unreadable>),
}

/// The type that is stated around a message.
#[derive(Clone, Copy)]
pub(super) struct MessageType<'a> {
    /// `None` if the schema does not have the type.
    pub(super) of: Option<&'static Type>,
    /// Empty if a list states it for all its items.
    pub(super) api_version: &'a str,
    /// Empty if a list states it for all its items.
    pub(super) kind: &'a str,
}

/// An encoding of items: answers what is in their bytes.
pub(super) trait ItemCodec {
    /// Validates an item and finds its head; `None` if it has none as it is: the message is in an
    /// unusual order, or the schema does not have its type.
    fn head(&self, bytes: &[u8], of: Option<&Type>) -> Result<Option<Layout>, Unreadable>;

    /// Returns whether an item is valid but for texts that are not UTF-8, and its names are.
    fn is_mendable(&self, _: &[u8], _: Option<&Type>, _: &Unreadable) -> bool {
        false
    }

    /// Returns the stored object that an item equals, and the item's layout.
    fn find_stored<'s>(
        &self,
        bytes: &[u8],
        of: Option<&'static Type>,
        baseline: BaselineRef<'s>,
    ) -> Option<(Layout, &'s dyn Stored)>;

    /// Returns the size of managedFields; zero if they cannot be parsed.
    fn managed_fields_bytes(&self, bytes: &[u8]) -> usize;

    /// Parses the object of a bookmark.
    fn bookmark(&self, bytes: &[u8]) -> Result<Bookmark, Unreadable>;

    /// Parses a `Status`; `None` if it is none. `kind` is that of a message's envelope.
    fn status(&self, bytes: &[u8], kind: &str) -> Option<Status>;

    /// Decodes the text at a span of a layout.
    fn text<'b>(&self, raw: &'b [u8]) -> Cow<'b, str>;
}

impl<'a> Item<'a> {
    /// Creates an item that was not validated; `message` is the type stated around a message.
    pub(super) fn new(
        bytes: &'a [u8],
        message: Option<MessageType<'a>>,
        codec: &'a dyn ItemCodec,
    ) -> Self {
        Self {
            bytes,
            head: Head::Unread,
            message,
            stored: None,
            codec,
        }
    }

    /// Sets the layout of its bytes, which were validated.
    pub(super) fn with_layout(self, layout: Layout) -> Self {
        Self {
            head: Head::Read(layout),
            ..self
        }
    }

    /// Sets the report of a validation of its bytes.
    pub(super) fn with_fault(self, fault: Unreadable) -> Self {
        Self {
            head: Head::Invalid(Box::new(fault)),
            ..self
        }
    }

    /// Sets the stored object that its bytes equal.
    pub(super) fn with_stored(self, stored: &'a dyn Stored) -> Self {
        Self {
            stored: Some(stored),
            ..self
        }
    }

    /// Returns the item with the stored object that it equals, if there is one.
    pub(super) fn compared<'s: 'a>(self, baseline: BaselineRef<'s>) -> Self {
        if matches!(self.head, Head::Read(_)) {
            return self;
        }
        let of = self.message_type();
        match self.codec.find_stored(self.bytes, of, baseline) {
            Some((layout, object)) => self.with_layout(layout).with_stored(object),
            None => self,
        }
    }

    /// Returns the message's type; `None` for JSON and for a type that the schema does not have.
    pub(crate) fn message_type(&self) -> Option<&'static Type> {
        self.message.and_then(|message| message.of)
    }

    /// Returns whether it is a protobuf message, of any type.
    pub(crate) fn is_message(&self) -> bool {
        self.message.is_some()
    }

    /// Parses it as the object of a bookmark.
    ///
    /// # Errors
    /// The object is malformed, or has no resource version.
    pub fn bookmark(&self) -> Result<Bookmark, Unreadable> {
        self.codec.bookmark(self.bytes)
    }

    /// Parses it as a `Status`, the object of an `ERROR` event or a bare frame; `None` if it is
    /// not one.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        let kind = self.message.map_or("", |message| message.kind);
        self.codec.status(self.bytes, kind)
    }

    /// Returns the stored object that it equals, if one was found.
    pub(crate) fn stored(&self) -> Option<&'a dyn Stored> {
        self.stored
    }

    /// Validates the item and parses its head, so that later questions need no pass of their own.
    ///
    /// A message whose texts are not UTF-8 is valid: see [`mended`](Self::mended).
    ///
    /// # Errors
    /// The item is not a valid object; the report has its name if that is readable.
    pub fn checked(self) -> Result<Self, Unreadable> {
        // BOUND: spans of an object are 32 bits.
        if self.bytes.len() > (u32::MAX / 2) as usize {
            return Err(Unreadable::unknown("larger than 2 GiB"));
        }
        match self.head {
            Head::Read(_) | Head::Mendable(_) => Ok(self),
            Head::Invalid(fault) => Err(*fault),
            Head::Unread => match self.codec.head(self.bytes, self.message_type()) {
                Ok(Some(layout)) => Ok(self.with_layout(layout)),
                Ok(None) => Ok(self),
                Err(fault) if self.is_mendable(&fault) => Ok(Self {
                    head: Head::Mendable(Box::new(fault)),
                    ..self
                }),
                Err(fault) => Err(fault),
            },
        }
    }

    #[cold]
    fn is_mendable(&self, fault: &Unreadable) -> bool {
        let of = self.message_type();
        !mutant!("K18") && self.codec.is_mendable(self.bytes, of, fault)
    }

    /// Returns the first of the texts that are not UTF-8, if the item was
    /// [`checked`](Self::checked) and has some. Its object has U+FFFD in place of their bytes, as
    /// Go's JSON shows them.
    #[must_use]
    pub fn mended(&self) -> Option<&Unreadable> {
        match &self.head {
            Head::Mendable(fault) => Some(fault),
            Head::Unread | Head::Read(_) | Head::Invalid(_) => None,
        }
    }

    /// Returns the kind that it states; empty if it states none, or if JSON was not
    /// [`checked`](Self::checked).
    #[must_use]
    pub fn kind(&self) -> Cow<'a, str> {
        match self.message {
            Some(message) => Cow::Borrowed(message.kind),
            None => self.text(|layout| layout.kind.clone()),
        }
    }

    /// Returns the `apiVersion` that it states, with the same exceptions as [`kind`](Self::kind).
    #[must_use]
    pub fn api_version(&self) -> Cow<'a, str> {
        match self.message {
            Some(message) => Cow::Borrowed(message.api_version),
            None => self.text(|layout| layout.api_version.clone()),
        }
    }

    fn text(&self, of: impl Fn(&Layout) -> Option<Range<usize>>) -> Cow<'a, str> {
        let span = self.layout().and_then(of);
        span.map_or(Cow::Borrowed(""), |span| self.codec.text(&self.bytes[span]))
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
        match self.layout() {
            Some(layout) => layout.managed_fields_bytes(),
            None => self.codec.managed_fields_bytes(self.bytes),
        }
    }

    pub(crate) fn layout(&self) -> Option<&Layout> {
        match &self.head {
            Head::Read(layout) => Some(layout),
            Head::Unread | Head::Invalid(_) | Head::Mendable(_) => None,
        }
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
