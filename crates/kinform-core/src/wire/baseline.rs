//! The stored objects that an incoming list is compared with.
//!
//! ```text
//! json::baseline | protobuf::baseline ──key, or the next guess──▶ Baseline ──▶ Stored
//! ```
//!
//! Most items of a relist have not changed. Their bytes are those of the stored object, with
//! `kind`, `apiVersion` and managedFields in the places where they were cut out. Bytes that equal
//! validated ones need no validation and make no second object.
//!
//! Lists come in the order of keys, and so do the objects of a store that a list filled. So the
//! object stored after the last match is tried first, before the name is read.
//!
//! INVARIANT: an item carries the object that its bytes would make.
//! Upstream: none; client-go decodes a relist as it does a first list.

use std::any::Any;

use kinform_api::KeyRef;
use kinform_schema::Type;

/// A stored object that the bytes of an item are compared with.
///
/// Only `Object` implements it; `wire` stands below the module of that type and cannot name it.
pub trait Stored: Any {
    /// Returns the bytes that are kept of it, in its encoding.
    fn bytes(&self) -> &[u8];

    /// Returns whether it is a message of this type; for `None`, whether it is JSON.
    fn is_of(&self, message: Option<&Type>) -> bool;

    /// Returns whether a projection removed more than managedFields.
    fn is_projected(&self) -> bool;

    /// Returns whether its projection keeps managedFields: then an item with other managedFields
    /// is another object.
    fn keeps_managed_fields(&self) -> bool;

    /// Returns whether a member of its metadata is known to end at this byte. `false` proves
    /// nothing: the caller then parses the metadata.
    fn is_known_end(&self, at: usize) -> bool;
}

/// Finds stored objects for the reader of a list; a
/// [`RootBaseline`](crate::store::baseline::RootBaseline) is one.
pub trait Baseline<'s> {
    /// Returns the object stored under a key.
    fn get(&self, key: KeyRef<'_>) -> Option<&'s dyn Stored>;

    /// Returns the object that is likely listed next. A wrong guess costs a comparison up to the
    /// first difference, and a validation of managedFields if the difference is there.
    fn next(&self) -> Option<&'s dyn Stored>;

    /// Confirms that the object of [`next`](Self::next) was the one listed.
    fn advance(&self);
}

/// The baseline that the items of a list are compared with.
pub type BaselineRef<'s> = &'s dyn Baseline<'s>;
