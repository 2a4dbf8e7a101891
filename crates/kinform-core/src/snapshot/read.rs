//! Reads a snapshot, cut anywhere.
//!
//! ```text
//! pieces of a file → frames → header compared → records → Snapshot | Refused
//! ```
//!
//! The header comes first: a snapshot of something else is refused before its objects are read.
//! BOUND: one frame is held, and what it inflates to, beside the objects.
//! Never: a part of a snapshot.
//!
//! Upstream counterpart: none. Complexity: O(bytes), one copy an object.

use super::header::Header;
use super::refused::Refused;
use super::{MARK, Snapshot};
use crate::framing::{HEAD, Head, Kind};
use crate::object::Object;

/// Reads one snapshot.
#[derive(Debug)]
pub struct Reading {
    identity: String,
    /// Bytes of a frame that is not there as a whole yet.
    unread: Vec<u8>,
    plain: Vec<u8>,
    place: Place,
    header: Option<Header>,
    objects: Vec<Object>,
    heap_size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Mark,
    Frames,
    Ended,
}

impl Reading {
    /// Reads a snapshot that must be about `identity`.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            unread: Vec::new(),
            plain: Vec::new(),
            place: Place::Mark,
            header: None,
            objects: Vec::new(),
            heap_size: 0,
        }
    }

    /// Reads further bytes.
    ///
    /// # Errors
    /// These are no bytes of such a snapshot. Nothing more can be read then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.unread.extend_from_slice(bytes);
        let unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        if self.place == Place::Mark {
            let Some((mark, behind)) = rest.split_at_checked(MARK.len()) else {
                self.unread = unread;
                return Ok(());
            };
            let (name, number) = mark.split_at(MARK.len() - 1);
            if *name != MARK[..MARK.len() - 1] {
                return Err(Refused::foreign());
            }
            if *mark != *MARK {
                return Err(Refused::format(number[0]));
            }
            self.place = Place::Frames;
            rest = behind;
        }
        while let Some(head) = Head::read(rest).map_err(Refused::torn)? {
            let Some((frame, behind)) = rest.split_at_checked(HEAD + head.packed) else {
                break;
            };
            self.take(&head, frame)?;
            rest = behind;
        }
        let read = unread.len() - rest.len();
        self.unread = unread;
        self.unread.drain(..read);
        Ok(())
    }

    /// Returns the number of objects that were read so far, and their bytes on the heap.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.objects.len(), self.heap_size)
    }

    /// The whole snapshot.
    ///
    /// # Errors
    /// It ended too early.
    pub fn finish(self) -> Result<Snapshot, Refused> {
        if self.place == Place::Mark {
            return Err(Refused::foreign());
        }
        let header = self.header.filter(|_| self.place == Place::Ended);
        let header = header.ok_or_else(|| Refused::torn("no end"))?;
        if !self.unread.is_empty() {
            return Err(Refused::torn("bytes behind its end"));
        }
        Ok(Snapshot {
            version: header.version.clone(),
            objects: self.objects,
            quarantined: header.into_quarantined(),
        })
    }

    fn take(&mut self, head: &Head, frame: &[u8]) -> Result<(), Refused> {
        let mut plain = std::mem::take(&mut self.plain);
        head.open(frame, &mut plain).map_err(Refused::torn)?;
        match (head.kind, &self.header, self.place) {
            (Kind::Header, None, Place::Frames) => {
                let header: Header = serde_json::from_slice(&plain)
                    .map_err(|_| Refused::torn("a header that is none"))?;
                header.check(&self.identity)?;
                self.header = Some(header);
            }
            (Kind::Block, Some(_), Place::Frames) => {
                let mut rest = &plain[..];
                while !rest.is_empty() {
                    let record = Object::from_record(rest);
                    let (object, behind) =
                        record.ok_or_else(|| Refused::torn("a record of no object"))?;
                    self.heap_size += object.heap_size();
                    self.objects.push(object);
                    rest = behind;
                }
            }
            (Kind::End, Some(_), Place::Frames) => {
                if plain[..] != (self.objects.len() as u64).to_le_bytes() {
                    return Err(Refused::torn("another number of objects"));
                }
                self.place = Place::Ended;
            }
            _ => return Err(Refused::torn("frames out of order")),
        }
        self.plain = plain;
        Ok(())
    }
}
