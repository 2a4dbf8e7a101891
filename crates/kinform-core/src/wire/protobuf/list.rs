//! Splits the body of a list in protobuf into its items, chunk by chunk.
//!
//! ```text
//! k8s\0 Unknown {type, list {ListMeta, item ...}} → ListSplitter → Item ... → ListMeta | WireError
//! ```
//!
//! Items are cut out by their length prefixes, so their bytes are read only when an object is made
//! of them. One malformed item costs only itself. Unknown fields are skipped.
//!
//! INVARIANT: the parts depend on the bytes only, never on where the chunks were cut.
//! BOUND: one item, the type and the metadata (1 MiB) are held, never more, whatever a length says.
//! Upstream: `apimachinery:pkg/runtime/serializer/protobuf` (`Unmarshal` of whole lists).

use std::cell::RefCell;

use kinform_schema::Type;

use super::alike::Alike;
use super::envelope::{self, MAGIC, RAW, TYPE_META};
use super::fields::{Fields, MAX_NUMBER, Varint};
use super::head;
use super::item::Messages;
use super::types::type_of;
use crate::wire::baseline::BaselineRef;
use crate::wire::error::WireError;
use crate::wire::feeder::Step;
use crate::wire::json::piece;
use crate::wire::list::{ListMeta, ListPart};

/// The number of the items in every list; its metadata have 1.
const ITEMS: u32 = 2;
/// BOUND: the type and the metadata of a list are a few hundred bytes.
const MAX_ENVELOPE_BYTES: usize = 1 << 20;
/// The number of bytes of an oversized item that are kept to find its name.
pub(super) const SALVAGE_BYTES: usize = 64 << 10;
/// The capacity that is kept for the next item.
const KEPT_CAPACITY: usize = 1 << 20;

/// Splits one list body in protobuf; resumable at any byte.
#[derive(Debug)]
pub(in crate::wire) struct ListSplitter {
    max_item_bytes: usize,
    state: State,
    tag: u64,
    /// The number of bytes of the list that are still to come, while inside of it.
    inside: Option<u64>,
    held: Vec<u8>,
    body: Body,
    alike: RefCell<Alike>,
    meta: ListMeta,
    has_list: bool,
    /// The position of the bytes that are being read.
    at: u64,
    /// The position at which the current value began.
    began: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The magic; this many bytes of it were right.
    Magic(usize),
    Tag(Varint),
    /// The number after a tag: a value or a length.
    Number(Varint),
    Skip(u64),
    /// Buffers a piece; this many bytes of it are still to come.
    Hold(Piece, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Type,
    Meta,
    Item,
    LargeItem,
    Status,
}

/// The content of the body, according to its type.
#[derive(Clone, Copy, Debug, Default)]
enum Body {
    #[default]
    Unknown,
    /// A list with items of this type.
    List(&'static Type),
    Status,
    Table,
    Other,
}

impl Step for ListSplitter {
    type Part<'a> = ListPart<'a>;
    type End = ListMeta;

    fn step(
        &mut self,
        chunk: &[u8],
        at: u64,
        baseline: Option<BaselineRef<'_>>,
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<usize, WireError> {
        self.at = at;
        self.read(chunk, &mut |found| {
            part(match (found, baseline) {
                (ListPart::Item(item), Some(baseline)) => ListPart::Item(item.compared(baseline)),
                (found, _) => found,
            });
        })
    }

    fn end(self) -> Result<ListMeta, WireError> {
        let is_between = matches!(self.state, State::Tag(tag) if tag.is_empty());
        if !is_between || self.inside.is_some() {
            return Err(WireError::Truncated);
        }
        match self.body {
            Body::List(_) if self.has_list => Ok(self.meta),
            Body::List(_) | Body::Unknown => Err(WireError::Truncated),
            Body::Table => Err(WireError::Table),
            Body::Status | Body::Other => Err(WireError::NotAList {
                kind: envelope::short(&self.meta.kind),
            }),
        }
    }
}

impl ListSplitter {
    /// Creates a splitter before the first byte of a body, which skips items larger than this.
    pub(in crate::wire) fn new(max_item_bytes: usize) -> Self {
        Self {
            max_item_bytes,
            state: State::Magic(0),
            tag: 0,
            inside: None,
            held: Vec::new(),
            body: Body::Unknown,
            alike: RefCell::default(),
            meta: ListMeta::default(),
            has_list: false,
            at: 0,
            began: 0,
        }
    }

    /// Reads some bytes of the chunk, at least one; returns their number.
    fn read(
        &mut self,
        chunk: &[u8],
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<usize, WireError> {
        let byte = chunk[0];
        match self.state {
            State::Magic(right) => {
                if byte != MAGIC[right] {
                    return Err(self.broken("it does not begin with the envelope"));
                }
                self.state = match right + 1 {
                    4 => State::Tag(Varint::default()),
                    right => State::Magic(right),
                };
                return Ok(1);
            }
            State::Tag(mut number) | State::Number(mut number) => {
                self.pay(1)?;
                let is_tag = matches!(self.state, State::Tag(_));
                match (number.push(byte), is_tag) {
                    (None, _) => return Err(self.broken("a number is broken")),
                    (Some(None), true) => self.state = State::Tag(number),
                    (Some(None), false) => self.state = State::Number(number),
                    (Some(Some(tag)), true) => self.on_tag(tag)?,
                    (Some(Some(value)), false) => self.on_number(value)?,
                }
                self.settle(part)?;
                return Ok(1);
            }
            State::Skip(left) => {
                let read = left.min(chunk.len() as u64);
                self.pay(read)?;
                self.state = State::Skip(left - read);
                self.settle(part)?;
                return Ok(read as usize);
            }
            State::Hold(..) => {}
        }
        self.hold(chunk, part)
    }

    /// Reads a piece: borrowed if the chunk holds all of it, otherwise buffered.
    fn hold(
        &mut self,
        chunk: &[u8],
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<usize, WireError> {
        let State::Hold(piece, left) = self.state else {
            return Ok(0);
        };
        let read = left.min(chunk.len() as u64);
        self.pay(read)?;
        let bytes = &chunk[..read as usize];
        if piece == Piece::Item && self.held.is_empty() && read == left {
            if let Body::List(of) = self.body {
                let codec = Messages::of_list(&self.alike);
                part(ListPart::Item(codec.item(bytes, of)));
            }
            self.state = State::Tag(Varint::default());
            self.leave();
            return Ok(bytes.len());
        }
        let most = match piece {
            Piece::LargeItem => SALVAGE_BYTES,
            _ => self.held.len() + left as usize,
        };
        let room = most.saturating_sub(self.held.len()).min(bytes.len());
        piece::hold(&mut self.held, &bytes[..room], most);
        self.state = State::Hold(piece, left - read);
        self.settle(part)?;
        Ok(bytes.len())
    }

    /// Counts bytes as read, if they are inside of the list.
    fn pay(&mut self, bytes: u64) -> Result<(), WireError> {
        let Some(left) = &mut self.inside else {
            return Ok(());
        };
        match left.checked_sub(bytes) {
            Some(now) => *left = now,
            None => return Err(self.broken("a length leads beyond its message")),
        }
        Ok(())
    }

    fn on_tag(&mut self, tag: u64) -> Result<(), WireError> {
        if tag >> 3 == 0 || tag >> 3 > MAX_NUMBER {
            return Err(self.broken("a field has no number"));
        }
        self.tag = tag;
        self.state = match tag & 7 {
            0 | 2 => State::Number(Varint::default()),
            1 => State::Skip(8),
            5 => State::Skip(4),
            _ => return Err(self.broken("a field has no wire type")),
        };
        Ok(())
    }

    fn on_number(&mut self, length: u64) -> Result<(), WireError> {
        if self.tag & 7 == 0 {
            self.state = State::Tag(Varint::default());
            return Ok(());
        }
        let number = (self.tag >> 3) as u32;
        self.began = self.at + 1;
        let Some(left) = self.inside else {
            return self.on_envelope(number, length);
        };
        if length > left {
            return Err(self.broken("a length leads beyond its message"));
        }
        self.state = match number {
            1 => State::Hold(Piece::Meta, self.bounded(length)?),
            ITEMS if length > self.max_item_bytes as u64 => State::Hold(Piece::LargeItem, length),
            ITEMS => State::Hold(Piece::Item, length),
            _ => State::Skip(length),
        };
        Ok(())
    }

    fn on_envelope(&mut self, number: u32, length: u64) -> Result<(), WireError> {
        self.state = match (number, self.body) {
            (TYPE_META, _) if self.has_list => {
                return Err(self.broken("the type comes after the list"));
            }
            (TYPE_META, _) => State::Hold(Piece::Type, self.bounded(length)?),
            (RAW, Body::Unknown) => return Err(self.broken("the type comes after the list")),
            (RAW, _) if self.has_list => return Err(self.broken("items come twice")),
            (RAW, Body::List(_)) => {
                (self.has_list, self.inside) = (true, Some(length));
                State::Tag(Varint::default())
            }
            (RAW, Body::Status) => State::Hold(Piece::Status, self.bounded(length)?),
            _ => State::Skip(length),
        };
        Ok(())
    }

    fn bounded(&self, length: u64) -> Result<u64, WireError> {
        match length > MAX_ENVELOPE_BYTES as u64 {
            true => Err(WireError::EnvelopeTooLarge),
            false => Ok(length),
        }
    }

    /// Handles a piece that is complete, and leaves a list that is complete.
    fn settle(&mut self, part: &mut impl FnMut(ListPart<'_>)) -> Result<(), WireError> {
        match self.state {
            State::Hold(piece, 0) => {
                let held = std::mem::take(&mut self.held);
                let understood = self.understand(piece, &held, part);
                self.held = held;
                self.held.clear();
                self.held.shrink_to(KEPT_CAPACITY);
                understood?;
                self.state = State::Tag(Varint::default());
            }
            State::Skip(0) => self.state = State::Tag(Varint::default()),
            _ => {}
        }
        self.leave();
        Ok(())
    }

    fn leave(&mut self) {
        let is_between = matches!(self.state, State::Tag(tag) if tag.is_empty());
        if self.inside == Some(0) && is_between {
            self.inside = None;
        }
    }

    fn understand(
        &mut self,
        piece: Piece,
        held: &[u8],
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<(), WireError> {
        match (piece, self.body) {
            (Piece::Type, _) => self.on_type(held)?,
            (Piece::Meta, _) => self.on_meta(held)?,
            (Piece::Item, Body::List(of)) => {
                let codec = Messages::of_list(&self.alike);
                part(ListPart::Item(codec.item(held, of)));
            }
            (Piece::LargeItem, _) => {
                part(ListPart::Unreadable(head::salvage(held, "is too large")));
            }
            (Piece::Status, _) => {
                let status = envelope::status(held);
                return Err(match status {
                    Some(status) => WireError::Status(Box::new(status)),
                    None => self.broken("the status is broken"),
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn on_type(&mut self, held: &[u8]) -> Result<(), WireError> {
        let Some((api_version, kind)) = envelope::type_meta(held) else {
            return Err(self.broken("the type is broken"));
        };
        let items = type_of(api_version, kind)
            .filter(|_| kind.ends_with("List"))
            .and_then(|list| list.field_by_number(ITEMS))
            .filter(|field| field.name() == "items")
            .and_then(|field| field.message());
        self.body = match (kind, items) {
            (_, Some(of)) => Body::List(of),
            ("Status", _) => Body::Status,
            ("Table", _) => Body::Table,
            _ => Body::Other,
        };
        kind.clone_into(&mut self.meta.kind);
        api_version.clone_into(&mut self.meta.api_version);
        Ok(())
    }

    fn on_meta(&mut self, held: &[u8]) -> Result<(), WireError> {
        let mut fields = Fields::of(held);
        for field in fields.by_ref() {
            let text = || {
                let bytes = field.value.bytes()?;
                std::str::from_utf8(bytes).ok().map(str::to_owned)
            };
            match field.number {
                2 => self.meta.resource_version = text().unwrap_or_default(),
                3 => self.meta.continue_token = text().unwrap_or_default(),
                4 => self.meta.remaining = field.value.varint().filter(|n| *n >> 63 == 0),
                _ => {}
            }
        }
        match fields.broken() {
            Some(_) => Err(self.broken("what the list says about itself is broken")),
            None => Ok(()),
        }
    }

    fn broken(&self, reason: &'static str) -> WireError {
        let at = match self.state {
            State::Hold(..) | State::Skip(_) => self.began,
            _ => self.at,
        };
        WireError::NotProtobuf { at, reason }
    }
}
