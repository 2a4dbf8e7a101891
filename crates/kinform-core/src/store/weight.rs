//! The memory of a store: its objects, its tables, and what an allocator adds.
//!
//! ```text
//! add, subtract(object) → Sizes (exact) ─held─▶ bytes of objects │ tables(objects, indexes) → an estimate, from counts
//! ```
//!
//! Objects are counted as they come and go. Tables are computed from the numbers of objects, indexes and
//! values, since their blocks are shared by versions. Blocks that only an older root holds are not counted
//! here: whoever keeps old roots is bounded elsewhere (see the ring).
//!
//! Upstream counterpart: none. Complexity: O(1) an object, O(indexes) for tables.

use super::index::IndexData;
use crate::object::Object;
use crate::object::reduction::Reduced;

/// Bytes that an allocator adds to an allocation: a header, and what is left of its size class.
pub(crate) const ALLOCATION: usize = 12;
/// Bytes of tables an object: its place in blocks of 16, and its entry in the directory, at a usual load.
const SLOT: usize = 11 + 16;
/// Bytes an object in an index by namespace: a member of one value.
const MEMBER: usize = 6;
/// Bytes an object in any other index: the ids of its values, besides being a member.
const VALUES: usize = 26;
/// Bytes of a value in an index: its place, its entry, its name of some 20 bytes.
const VALUE: usize = 34 + 16 + 48;

/// The sizes of stored objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    objects: usize,
    /// Compressed ones, which are two allocations.
    cold: usize,
    /// Reduced ones, and their bytes uncompressed.
    pub(super) reduced: Reduced,
    /// Bytes on the heap.
    pub(super) heap: usize,
    /// The same if no object were compressed.
    pub(super) plain: usize,
}

impl Sizes {
    pub(super) fn add(&mut self, object: &Object) {
        self.objects += 1;
        self.cold += usize::from(object.is_cold());
        self.heap += object.heap_size();
        let plain = object.plain_size();
        self.plain += plain;
        if object.is_reduced() {
            self.reduced.objects += 1;
            self.reduced.bytes += plain;
        }
    }

    pub(super) fn subtract(&mut self, object: &Object) {
        self.objects -= 1;
        self.cold -= usize::from(object.is_cold());
        self.heap -= object.heap_size();
        let plain = object.plain_size();
        self.plain -= plain;
        if object.is_reduced() {
            self.reduced.objects -= 1;
            self.reduced.bytes -= plain;
        }
    }

    /// Bytes from the system.
    pub(super) fn held(&self) -> usize {
        self.heap + (self.objects + self.cold) * ALLOCATION
    }

    /// Of the same objects uncompressed.
    pub(super) fn as_plain(&self) -> Self {
        Self {
            cold: 0,
            heap: self.plain,
            ..*self
        }
    }
}

/// The tables of a store.
pub(super) fn tables(objects: usize, indexes: &[IndexData]) -> usize {
    let of_indexes = indexes.iter().map(|data| {
        let of_objects = match data.is_namespace() {
            true => 0,
            false => VALUES,
        };
        objects * (MEMBER + of_objects) + data.len() * VALUE
    });
    objects * SLOT + of_indexes.sum::<usize>()
}
