//! The object: what travels through every room, one allocation of head and bytes (two if it is compressed).
//!
//! ```text
//! wire bytes → Object {head: key, uid, version, spans | bytes as encoded} → lenses: text, path, type
//! ```
//!
//! `apiVersion`, `kind` and (unless asked for) `metadata.managedFields` are not kept; views put
//! the first two back. Cloning counts one reference. Lenses read the bytes in place: labels,
//! annotations, owners and paths in `lens`, types in `typed`; what is kept in `projection`.
//!
//! INVARIANT: the bytes are one JSON object that `wire::json::validate` checked, or one message that
//! `wire::protobuf::check` did, so no lens meets broken bytes. Behind them lie copies of those strings of the head that are escaped or that a
//! projection or transform took from the bytes.
//! Upstream: `runtime.Object` in `client-go:tools/cache` (decoded), `meta.Accessor`.

pub mod budget;
pub mod changed;
pub mod cold;
pub mod dictionary;
pub mod owner;
pub mod projection;
pub mod reduction;
pub mod typed;
pub mod weight;

mod build;
mod lens;
mod message;
mod prune_json;
mod prune_message;
mod record;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hint::black_box;

use kinform_api::{KeyRef, ObjectKey, TypeMeta};
use kinform_schema::Type;
use triomphe::ThinArc;

use self::cold::{Cold, IdentityText};
use self::projection::Projection;
use self::typed::TypedSlot;
use crate::wire::encoding::Encoding;
use crate::wire::item::Item;
use crate::wire::protobuf::head as message_head;
use crate::wire::protobuf::members::Nulls;
use crate::wire::unreadable::{OneLine, Unreadable};

/// One object as the server sent it, encoded, with a decoded head.
///
/// Cloning is one counter. `Debug` prints key and version, never content.
///
/// Upstream: the pointers to decoded structs in client-go's stores.
#[derive(Clone)]
pub struct Object(ThinArc<Head, u8>);

/// The facts known of an object without a look at its bytes. Kept small: there is one an object.
// In this order, so that the count of handles and what walks ask for lie in the first line of 64 bytes.
#[repr(C)]
struct Head {
    key_hash: u64,
    revision: u64,
    // INVARIANT: `body` bytes of payload are the object, the rest are copies of head strings. Of a cold object the
    // same is true of what it inflates to; `cold` says what its payload is.
    body: u32,
    flags: Flags,
    encoding: Encoding,
    /// Of a message: the number of its type.
    of: u16,
    /// Of an object whose bytes are compressed: how to inflate them.
    cold: Option<Box<Cold>>,
    name: Span,
    namespace: Span,
    uid: Span,
    resource_version: Span,
    labels: Span,
    annotations: Span,
    owners: Span,
    typed: TypedSlot,
}

/// A piece of the payload. BOUND: objects over 4 GiB are refused when they are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    len: u32,
}

impl Span {
    fn end(self) -> usize {
        (self.start + self.len) as usize
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags(u8);

impl Flags {
    const HAS_REVISION: u8 = 1;
    const TERMINATING: u8 = 2;
    const PROJECTED: u8 = 4;
    /// Its managedFields, if it has some, are kept.
    const MANAGED: u8 = 8;
    /// Only metadata and declared fields are left.
    const REDUCED: u8 = 16;

    fn with(self, flag: u8, on: impl Into<bool>) -> Self {
        Self(if on.into() {
            self.0 | flag
        } else {
            self.0 & !flag
        })
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

impl Object {
    /// Reads one object from JSON: a list's item or a watch event's `object`.
    ///
    /// Every byte is checked (UTF-8, structure, depth up to 128); nothing is decoded.
    ///
    /// # Errors
    /// What is no JSON object, has no `metadata.name`, or whose key, uid or version is no string.
    ///
    /// # Complexity
    /// One pass and one copy of what is kept.
    pub fn from_json(body: &[u8], projection: &Projection) -> Result<Self, Unreadable> {
        build::from_json(body, projection)
    }

    /// Reads one object from the protobuf of its type, without an envelope: a list's item.
    ///
    /// Every byte that may be kept is checked (lengths, UTF-8, structure, depth up to 128); nothing is decoded.
    ///
    /// # Errors
    /// What is no message of this type, has no `metadata.name`, or holds what has no JSON.
    ///
    /// # Complexity
    /// One pass and one copy of what is kept.
    pub fn from_protobuf(
        of: &'static Type,
        body: &[u8],
        projection: &Projection,
    ) -> Result<Self, Unreadable> {
        build::from_protobuf(of, body, projection)
    }

    /// Reads one object that was cut out of a list or a watch.
    ///
    /// As [`Object::from_json`], but does not check again what was checked on the way.
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn from_item(item: &Item<'_>, projection: &Projection) -> Result<Self, Unreadable> {
        build::from_item(item, projection)
    }

    /// The same object with another content: for transforms. It is JSON then, whatever it was.
    ///
    /// Key, uid and version stay those of the wire, whatever `json` says; the result
    /// [is projected](Self::is_projected).
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn with_payload(&self, json: &[u8]) -> Result<Self, Unreadable> {
        build::with_payload(self, json)
    }

    /// The same object with what this projection leaves of it, in the same encoding.
    ///
    /// # Errors
    /// What was left of it before holds no key any more.
    pub fn narrowed(&self, projection: &Projection) -> Result<Self, Unreadable> {
        let object = self.thawed();
        let left = match object.message() {
            Some((of, bytes)) => build::from_protobuf(of, bytes, projection),
            None => build::from_json(object.bytes(), projection),
        }?;
        Ok(match self.is_reduced() {
            true => left.marked(),
            false => left,
        })
    }

    /// Namespace and name, owned.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.key_ref().to_key()
    }

    /// Namespace and name, borrowed.
    #[must_use]
    pub fn key_ref(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: self.text(IdentityText::Namespace),
            name: self.text(IdentityText::Name),
        }
    }

    /// Returns whether its key is this one.
    #[must_use]
    pub fn has_key(&self, key: KeyRef<'_>) -> bool {
        // Bytes, not texts: to compare them they need not be checked again.
        *self.identity_text(IdentityText::Name) == *key.name.as_bytes()
            && *self.identity_text(IdentityText::Namespace) == *key.namespace.as_bytes()
    }

    /// Returns whether a server lists it before this key: by its storage path, bytewise.
    ///
    /// Not by the pair of namespace and name: `a-b/x` comes before `a/x`.
    pub(crate) fn is_listed_before(&self, key: KeyRef<'_>) -> bool {
        let (namespace, name) = (
            self.identity_text(IdentityText::Namespace),
            self.identity_text(IdentityText::Name),
        );
        let other = (key.namespace.as_bytes(), key.name.as_bytes());
        if *namespace == *other.0 {
            return *name < *other.1;
        }
        path(namespace, name).lt(path(other.0, other.1))
    }

    /// Brings the heads of objects and the counts of their handles into the processor's cache.
    ///
    /// Counting a handle waits for the memory that the count lies in, and lets nothing overtake it:
    /// whoever takes many handles touches some of them ahead, which waits for all of these at once.
    #[inline]
    pub(crate) fn touch<'a>(objects: impl Iterator<Item = &'a Self>) {
        black_box(objects.fold(0, |all, object| all ^ object.head().key_hash));
    }

    /// The hash of the key: [`KeyRef::hash64`], computed once.
    #[must_use]
    pub fn key_hash(&self) -> u64 {
        self.head().key_hash
    }

    /// The namespace, or nothing for an object of the cluster.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        Some(self.text(IdentityText::Namespace)).filter(|namespace| !namespace.is_empty())
    }

    /// The name; never empty.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text(IdentityText::Name)
    }

    /// The uid; empty if the server sent none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text(IdentityText::Uid)
    }

    /// The resource version as the server wrote it; empty if it sent none.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.text(IdentityText::ResourceVersion)
    }

    /// The resource version as a number, where it is one.
    #[must_use]
    #[inline]
    pub fn revision(&self) -> Option<u64> {
        let head = self.head();
        head.flags.has(Flags::HAS_REVISION).then_some(head.revision)
    }

    /// Returns the encoding of [`bytes`](Self::bytes).
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.head().encoding
    }

    /// The object without `apiVersion`, `kind` and what the projection dropped.
    ///
    /// A cold object keeps what is inflated here for as long as it lives: see [`thawed`](Self::thawed).
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.head().cold {
            None => &self.0.slice[..self.head().body as usize],
            Some(cold) => self.warm(cold).bytes(),
        }
    }

    /// Returns the length of [`bytes`](Self::bytes), without inflating them.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.head().body as usize
    }

    /// Bytes on the heap, without a typed value that may be remembered, and without what was inflated.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        // Count, length and head before the payload; rounded up to the head's alignment.
        let fixed = 2 * size_of::<usize>() + size_of::<Head>();
        let object = (fixed + self.0.slice.len()).next_multiple_of(align_of::<Head>());
        let cold = self.head().cold.as_ref().map_or(0, |_| size_of::<Cold>());
        object + cold
    }

    /// The [`heap_size`](Self::heap_size) that the object has, or would have, uncompressed.
    #[must_use]
    pub fn plain_size(&self) -> usize {
        let payload = match &self.head().cold {
            None => return self.heap_size(),
            Some(cold) => cold.plain_payload(self),
        };
        let fixed = 2 * size_of::<usize>() + size_of::<Head>();
        (fixed + payload).next_multiple_of(align_of::<Head>())
    }

    /// Returns whether the content is the same, version included.
    ///
    /// # Complexity
    /// A comparison of bytes; constant for clones and for different lengths. Of two encodings, both
    /// are decoded.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        if self.ptr_eq(other) {
            return true;
        }
        let (one, other) = (self.thawed(), other.thawed());
        match one.encoding() == other.encoding() {
            true => one.bytes() == other.bytes(),
            false => one
                .value()
                .is_some_and(|value| other.value() == Some(value)),
        }
    }

    /// Returns whether the bytes are the same apart from the version: an update of dropped fields.
    #[must_use]
    pub fn same_but_version(&self, other: &Self) -> bool {
        if self.encoding() != other.encoding() {
            return false;
        }
        if self.ptr_eq(other) {
            return true;
        }
        let (one, other) = (self.thawed(), other.thawed());
        if one.encoding() == Encoding::Protobuf {
            let around = message_head::around_version;
            return around(one.bytes()) == around(other.bytes());
        }
        one.around_version() == other.around_version()
    }

    /// Returns whether both are clones of one object.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        ThinArc::as_ptr(&self.0) == ThinArc::as_ptr(&other.0)
    }

    /// Returns whether this is the only handle of the object.
    fn is_alone(&self) -> bool {
        self.0.with_arc(|arc| triomphe::Arc::strong_count(arc) == 1)
    }

    /// Returns whether a projection or transform dropped or changed a field: such a view is never
    /// written back.
    #[must_use]
    pub fn is_projected(&self) -> bool {
        self.head().flags.has(Flags::PROJECTED)
    }

    /// Returns whether the object has a `deletionTimestamp`.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.head().flags.has(Flags::TERMINATING)
    }

    /// The object as JSON, with `apiVersion` and `kind` first.
    #[must_use]
    pub fn to_json(&self, meta: &TypeMeta) -> Vec<u8> {
        let object = self.thawed();
        match object.message() {
            Some((of, bytes)) => message::to_json(of, bytes, meta, self.nulls()),
            None => typed::with_type(object.bytes(), meta),
        }
    }

    /// Its type and its bytes, if it is a message.
    fn message(&self) -> Option<(&'static Type, &[u8])> {
        match self.encoding() {
            Encoding::Protobuf => {
                let of = kinform_schema::numbered_type(self.head().of)?;
                Some((of, self.bytes()))
            }
            Encoding::Json => None,
        }
    }

    /// The number of its type, if it is a message.
    pub(crate) fn type_number(&self) -> Option<u16> {
        let head = self.head();
        (head.encoding == Encoding::Protobuf).then_some(head.of)
    }

    /// The content without a type, for comparing two encodings.
    pub(crate) fn value(&self) -> Option<serde_json::Value> {
        match self.message() {
            Some((of, bytes)) => message::value(of, bytes, self.nulls()),
            None => serde_json::from_slice(self.bytes()).ok(),
        }
    }

    fn nulls(&self) -> Nulls {
        match self.is_projected() {
            true => Nulls::Hidden,
            false => Nulls::Shown,
        }
    }

    #[inline]
    fn head(&self) -> &Head {
        &self.0.header.header
    }

    fn raw(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        &self.0.slice[start..start + span.len as usize]
    }

    fn text(&self, of: IdentityText) -> &str {
        let text = std::str::from_utf8(self.identity_text(of));
        debug_assert!(text.is_ok(), "the head's strings were checked");
        text.unwrap_or_default()
    }

    fn around_version(&self) -> (&[u8], &[u8]) {
        let (bytes, version) = (self.bytes(), self.head().resource_version);
        let (start, end) = (
            version.start as usize,
            (version.start + version.len) as usize,
        );
        if end <= bytes.len() {
            (&bytes[..start], &bytes[end..])
        } else {
            (bytes, &[])
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        let (key, version) = (OneLine(key.as_str()), OneLine(self.resource_version()));
        write!(f, "Object({key}@{version})")
    }
}

/// Returns the part of an object's storage path that follows its kind's prefix.
fn path<'a>(namespace: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a u8> {
    namespace.iter().chain(b"/").chain(name)
}
