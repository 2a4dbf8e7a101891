//! Writes a snapshot, a piece at a time.
//!
//! ```text
//! Root → header → blocks of whole records → end → pieces of bytes, for a file
//! ```
//!
//! The root is immutable: it is written anywhere and at leisure while the store goes on.
//! BOUND: one block is held, and its compressed form.
//!
//! Upstream counterpart: none. Complexity: O(bytes).

use super::MARK;
use super::header::Header;
use crate::framing::{self, Kind};
use crate::object::Object;
use crate::store::root::Root;

/// Bytes of a block before it is closed.
const BLOCK: usize = 256 << 10;
/// Objects that are looked up at once.
const PIECE: usize = 256;

/// Writes the snapshot of one root.
#[derive(Debug)]
pub struct Writing {
    root: Root,
    identity: String,
    place: Place,
    waiting: std::vec::IntoIter<Object>,
    objects: u64,
    plain: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    Objects(Option<usize>),
    Done,
}

impl Writing {
    /// A snapshot of `root`, which is about `identity`: lines `name: value`.
    #[must_use]
    pub fn new(root: Root, identity: impl Into<String>) -> Self {
        Self {
            root,
            identity: identity.into(),
            place: Place::Header,
            waiting: Vec::new().into_iter(),
            objects: 0,
            plain: Vec::new(),
        }
    }

    /// Appends the next piece to `to`; returns false if there is none.
    pub fn next_piece(&mut self, to: &mut Vec<u8>) -> bool {
        match self.place {
            Place::Header => {
                to.extend_from_slice(MARK);
                let header = Header::of(&self.root, &self.identity);
                // Texts and numbers: there is JSON of them.
                let json = serde_json::to_vec(&header).unwrap_or_default();
                framing::append(Kind::Header, &json, to);
                self.place = Place::Objects(Some(0));
            }
            Place::Objects(_) => {
                self.plain.clear();
                while self.plain.len() < BLOCK
                    && let Some(object) = self.next_object()
                {
                    object.append_record(&mut self.plain);
                    self.objects += 1;
                }
                if self.plain.is_empty() {
                    framing::append(Kind::End, &self.objects.to_le_bytes(), to);
                    self.place = Place::Done;
                } else {
                    framing::append(Kind::Block, &self.plain, to);
                }
            }
            Place::Done => return false,
        }
        true
    }

    /// The number of objects written so far.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.objects
    }

    fn next_object(&mut self) -> Option<Object> {
        while self.waiting.len() == 0 {
            let Place::Objects(Some(from)) = self.place else {
                return None;
            };
            let mut piece = Vec::with_capacity(PIECE);
            self.place = Place::Objects(self.root.walk_into(from, &mut piece, PIECE));
            self.waiting = piece.into_iter();
        }
        self.waiting.next()
    }
}
