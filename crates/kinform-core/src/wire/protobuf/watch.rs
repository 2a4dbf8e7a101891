//! Splits the body of a watch in protobuf into its frames, chunk by chunk.
//!
//! ```text
//! length (4 bytes) + WatchEvent {type, object {raw}} → WatchFramer → Frame {kind, object}
//! ```
//!
//! A frame that is not an event, or is too large, becomes a malformed one, and the stream goes on
//! after it. Bytes that cannot be a frame (an HTML page, read as a length) end the stream
//! immediately.
//!
//! INVARIANT: the frames depend on the bytes only, never on where the chunks were cut.
//! BOUND: one frame is held, never more, whatever a length says.
//! Upstream: `apimachinery:pkg/util/framer` (`lengthDelimitedFrameReader`),
//! `client-go:rest/watch/decoder.go`.

use super::envelope::{self, Envelope};
use super::fields::Fields;
use super::head;
use super::item::enveloped;
use super::list::SALVAGE_BYTES;
use super::types::type_of;
use crate::wire::baseline::BaselineRef;
use crate::wire::error::WireError;
use crate::wire::feeder::Step;
use crate::wire::unreadable::Unreadable;
use crate::wire::watch::{self, FRAME_BYTES, Frame, FrameKind};

/// The capacity that is kept for the next frame.
const KEPT_CAPACITY: usize = 1 << 20;

/// Splits one watch body in protobuf; resumable at any byte.
#[derive(Debug)]
pub(in crate::wire) struct WatchFramer {
    limit: usize,
    /// The bytes of a length, and the number of them that were read.
    length: ([u8; 4], usize),
    /// The number of bytes of the frame that are still to come, while inside of one.
    left: Option<usize>,
    is_large: bool,
    held: Vec<u8>,
}

impl WatchFramer {
    /// Creates a framer before the first byte of a body, which skips objects larger than this.
    pub(in crate::wire) fn new(max_item_bytes: usize) -> Self {
        Self {
            limit: max_item_bytes.saturating_add(FRAME_BYTES),
            length: ([0; 4], 0),
            left: None,
            is_large: false,
            held: Vec::new(),
        }
    }
}

impl Step for WatchFramer {
    type Part<'a> = Frame<'a>;
    type End = ();

    fn end(self) -> Result<(), WireError> {
        match self.left.is_some() || self.length.1 > 0 {
            true => Err(WireError::Truncated),
            false => Ok(()),
        }
    }

    fn step(
        &mut self,
        chunk: &[u8],
        at: u64,
        _: Option<BaselineRef<'_>>,
        frame: &mut impl FnMut(Frame<'_>),
    ) -> Result<usize, WireError> {
        let Some(left) = self.left else {
            let (bytes, read) = &mut self.length;
            bytes[*read] = chunk[0];
            *read += 1;
            if *read == 4 {
                let length = u32::from_be_bytes(*bytes) as usize;
                self.length.1 = 0;
                self.is_large = length > self.limit;
                self.left = Some(length);
                if length == 0 {
                    self.left = None;
                    frame(malformed(Unreadable::missing("type")));
                }
            }
            return Ok(1);
        };
        let read = left.min(chunk.len());
        let bytes = &chunk[..read];
        if self.held.is_empty() {
            // An event begins with its type or its object.
            if !matches!(bytes[0], 0x0a | 0x12) {
                return Err(WireError::NotProtobuf {
                    at,
                    reason: "expected a watch event",
                });
            }
            if read == left && !self.is_large {
                self.left = None;
                frame(parse(bytes));
                return Ok(read);
            }
        }
        let room = match self.is_large {
            true => SALVAGE_BYTES.saturating_sub(self.held.len()).min(read),
            false => read,
        };
        self.held.extend_from_slice(&bytes[..room]);
        self.left = Some(left - read);
        if left == read {
            self.left = None;
            match self.is_large {
                true => frame(too_large(&self.held)),
                false => frame(parse(&self.held)),
            }
            self.held.clear();
            self.held.shrink_to(KEPT_CAPACITY);
        }
        Ok(read)
    }
}

/// Returns the type and the object of an event; of a truncated event, the parts that are there.
fn event(bytes: &[u8]) -> Option<(Option<&str>, Option<&[u8]>)> {
    let (mut kind, mut object) = (None, None);
    let mut fields = Fields::of(bytes);
    while let Some(field) = fields.next_open() {
        match field.number {
            1 => kind = Some(std::str::from_utf8(field.value.bytes()?).ok()?),
            2 => {
                let mut inside = Fields::of(field.value.bytes()?);
                while let Some(field) = inside.next_open() {
                    if field.number == 1 {
                        object = Some(field.value.bytes()?);
                    }
                }
            }
            _ => {}
        }
    }
    Some((kind, object))
}

/// Returns why a complete event is malformed, in itself or in the envelope of its object.
fn broken(bytes: &[u8]) -> Option<&'static str> {
    let mut fields = Fields::of(bytes);
    let around = fields.by_ref().filter(|field| field.number == 2);
    let inside = around.filter_map(|field| {
        let mut inside = Fields::of(field.value.bytes()?);
        inside.by_ref().for_each(drop);
        inside.broken()
    });
    let inside = inside.last();
    inside.or(fields.broken())
}

fn parse(bytes: &[u8]) -> Frame<'_> {
    if let Some(why) = broken(bytes) {
        return malformed(Unreadable::unknown(why));
    }
    let (kind, object) = event(bytes).unwrap_or_default();
    let Some(kind) = kind.filter(|kind| !kind.is_empty()) else {
        return malformed(Unreadable::missing("type"));
    };
    let Some(object) = object.filter(|object| !object.is_empty()) else {
        return malformed(Unreadable::missing("object"));
    };
    let Some(Envelope {
        api_version,
        kind: of,
        raw,
    }) = envelope::open_whole(object)
    else {
        let mut unreadable = Unreadable::unknown("does not begin with the envelope");
        "object".clone_into(&mut unreadable.path);
        return malformed(unreadable);
    };
    let kind = kind.parse().map_or_else(
        |_| FrameKind::Unknown(envelope::short(kind)),
        FrameKind::Known,
    );
    let object = enveloped(raw, type_of(api_version, of), api_version, of);
    Frame { kind, object }
}

fn malformed(unreadable: Unreadable) -> Frame<'static> {
    watch::malformed(unreadable, enveloped(&[], None, "", ""))
}

fn too_large(start: &[u8]) -> Frame<'static> {
    let object = event(start).and_then(|(_, object)| envelope::open(object?));
    malformed(head::salvage(
        object.unwrap_or_default().raw,
        "is too large",
    ))
}
