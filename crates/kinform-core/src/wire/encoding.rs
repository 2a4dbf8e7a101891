//! How a body is encoded, and the reader that fits it.
//!
//! ```text
//! content type → Encoding → ListReader | WatchReader → items, frames: the same for every encoding
//! ```
//!
//! A list or watch in protobuf gives the same items, events and ends as its twin in JSON; only the
//! bytes of the items differ.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer` (`SerializerInfo`, `StreamSerializerInfo`).

use super::error::WireError;
use super::feeder::Feeder;
use super::known::Lookup;
use super::list::{ListMeta, ListPart};
use super::watch::Frame;
use super::{DEFAULT_MAX_ITEM_BYTES, json, protobuf};

/// How the bytes of a body or an object are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// JSON, UTF-8.
    Json,
    /// Protobuf: a body in Kubernetes' envelope; of an object the message of its type, without it.
    Protobuf,
}

/// Splits a list into its items; resumable at any byte.
#[derive(Debug)]
pub struct ListReader(ListBy);

#[derive(Debug)]
enum ListBy {
    Json(Feeder<json::list::ListSplitter>),
    Protobuf(Feeder<protobuf::list::ListSplitter>),
}

/// Splits a watch into its frames; resumable at any byte.
#[derive(Debug)]
pub struct WatchReader(WatchBy);

#[derive(Debug)]
enum WatchBy {
    Json(Feeder<json::watch::WatchFramer>),
    Protobuf(Feeder<protobuf::watch::WatchFramer>),
}

impl ListReader {
    /// A reader before the first byte of a body in `encoding`, for items up to [`DEFAULT_MAX_ITEM_BYTES`].
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self::with_max_item_bytes(encoding, DEFAULT_MAX_ITEM_BYTES)
    }

    /// A reader that passes over larger items, which it hands on as unreadable.
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

    /// Reads the next bytes of the body and hands on what they complete, in order.
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

    /// The same, beside a store: an item that is stored just so is handed on as the stored object,
    /// which costs a comparison in place of a check and a copy.
    ///
    /// `stored` tells what is stored under a key, made by the projection that items of this list are
    /// made by, and by no transform. `Object::from_item` tells no difference but the time.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_beside(
        &mut self,
        chunk: &[u8],
        stored: Lookup<'_>,
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<(), WireError> {
        match &mut self.0 {
            ListBy::Json(splitter) => splitter.feed(chunk, Some(stored), part),
            ListBy::Protobuf(splitter) => splitter.feed(chunk, Some(stored), part),
        }
    }

    /// The body has ended: what it said about itself.
    ///
    /// # Errors
    /// The body ended in the middle, is no list, is a `Status` or a `Table`.
    pub fn finish(self) -> Result<ListMeta, WireError> {
        match self.0 {
            ListBy::Json(splitter) => splitter.finish(),
            ListBy::Protobuf(splitter) => splitter.finish(),
        }
    }
}

impl WatchReader {
    /// A reader before the first byte of a body in `encoding`, for objects up to [`DEFAULT_MAX_ITEM_BYTES`].
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self::with_max_item_bytes(encoding, DEFAULT_MAX_ITEM_BYTES)
    }

    /// A reader that passes over larger objects, whose frames it hands on as malformed.
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

    /// Reads the next bytes of the body and hands on the frames that they complete, in order.
    ///
    /// # Errors
    /// The body has something else than frames; every later call fails with the same error.
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

    /// The body has ended.
    ///
    /// # Errors
    /// It ended in the middle of a frame, or failed before.
    pub fn finish(self) -> Result<(), WireError> {
        match self.0 {
            WatchBy::Json(framer) => framer.finish(),
            WatchBy::Protobuf(framer) => framer.finish(),
        }
    }
}
