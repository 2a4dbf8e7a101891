//! The encodings of a body, and a reader for each.
//!
//! ```text
//! content type → Encoding → ListReader | WatchReader → items, frames (the same in each encoding)
//! ```
//!
//! A list or watch in protobuf yields the same items, events and ends as its counterpart in JSON;
//! only the bytes of the items differ.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer` (`SerializerInfo`, `StreamSerializerInfo`).

use super::baseline::BaselineRef;
use super::error::WireError;
use super::feeder::Feeder;
use super::list::{ListMeta, ListPart};
use super::watch::Frame;
use super::{DEFAULT_MAX_ITEM_BYTES, json, protobuf};

/// The encoding of a body or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// JSON, UTF-8.
    Json,
    /// Protobuf: a body is in Kubernetes' envelope, an object is the bare message of its type.
    Protobuf,
}

/// Splits a list into its items; chunks may end at any byte.
#[derive(Debug)]
pub struct ListReader(ListBy);

#[derive(Debug)]
enum ListBy {
    Json(Feeder<json::list::ListSplitter>),
    Protobuf(Feeder<protobuf::list::ListSplitter>),
}

/// Splits a watch into its frames; chunks may end at any byte.
#[derive(Debug)]
pub struct WatchReader(WatchBy);

#[derive(Debug)]
enum WatchBy {
    Json(Feeder<json::watch::WatchFramer>),
    Protobuf(Feeder<protobuf::watch::WatchFramer>),
}

impl ListReader {
    /// Creates a reader of a body in `encoding`, for items of up to [`DEFAULT_MAX_ITEM_BYTES`].
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self::with_max_item_bytes(encoding, DEFAULT_MAX_ITEM_BYTES)
    }

    /// Creates a reader that skips items larger than `max_item_bytes` and reports them as
    /// unreadable.
    #[must_use]
    pub fn with_max_item_bytes(encoding: Encoding, max_item_bytes: usize) -> Self {
        Self(match encoding {
            Encoding::Json => {
                ListBy::Json(Feeder::new(json::list::ListSplitter::new(max_item_bytes)))
            }
            Encoding::Protobuf => ListBy::Protobuf(Feeder::new(protobuf::list::ListSplitter::new(
                max_item_bytes,
            ))),
        })
    }

    /// Reads the next bytes of the body and passes each part that they complete to `part`, in
    /// order.
    ///
    /// # Errors
    /// The body is not a list; every later call fails with the same error.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<(), WireError> {
        match &mut self.0 {
            ListBy::Json(splitter) => splitter.feed(chunk, None, part),
            ListBy::Protobuf(splitter) => splitter.feed(chunk, None, part),
        }
    }

    /// As [`feed`](Self::feed), but compares items with the stored objects: an item that equals
    /// one carries it, which costs a comparison in place of a validation and a copy.
    ///
    /// The objects that `baseline` finds must be made by the projection that this list's objects
    /// are made by, and by no transform. `Object::from_item` then returns the same object as
    /// after `feed`, in less time.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_compared(
        &mut self,
        chunk: &[u8],
        baseline: BaselineRef<'_>,
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<(), WireError> {
        match &mut self.0 {
            ListBy::Json(splitter) => splitter.feed(chunk, Some(baseline), part),
            ListBy::Protobuf(splitter) => splitter.feed(chunk, Some(baseline), part),
        }
    }

    /// Ends the body; returns the metadata of the list.
    ///
    /// # Errors
    /// The body ended in the middle, or is not a list: a `Status` or a `Table`, for example.
    pub fn finish(self) -> Result<ListMeta, WireError> {
        match self.0 {
            ListBy::Json(splitter) => splitter.finish(),
            ListBy::Protobuf(splitter) => splitter.finish(),
        }
    }
}

impl WatchReader {
    /// Creates a reader of a body in `encoding`, for objects of up to [`DEFAULT_MAX_ITEM_BYTES`].
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self::with_max_item_bytes(encoding, DEFAULT_MAX_ITEM_BYTES)
    }

    /// Creates a reader that skips objects larger than `max_item_bytes` and reports their frames
    /// as malformed.
    #[must_use]
    pub fn with_max_item_bytes(encoding: Encoding, max_item_bytes: usize) -> Self {
        Self(match encoding {
            Encoding::Json => {
                WatchBy::Json(Feeder::new(json::watch::WatchFramer::new(max_item_bytes)))
            }
            Encoding::Protobuf => WatchBy::Protobuf(Feeder::new(
                protobuf::watch::WatchFramer::new(max_item_bytes),
            )),
        })
    }

    /// Reads the next bytes of the body and passes each frame that they complete to `frame`, in
    /// order.
    ///
    /// # Errors
    /// The body has something other than frames; every later call fails with the same error.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        frame: &mut impl FnMut(Frame<'_>),
    ) -> Result<(), WireError> {
        match &mut self.0 {
            WatchBy::Json(framer) => framer.feed(chunk, None, frame),
            WatchBy::Protobuf(framer) => framer.feed(chunk, None, frame),
        }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The body ended in the middle of a frame, or an earlier call failed.
    pub fn finish(self) -> Result<(), WireError> {
        match self.0 {
            WatchBy::Json(framer) => framer.finish(),
            WatchBy::Protobuf(framer) => framer.finish(),
        }
    }
}
