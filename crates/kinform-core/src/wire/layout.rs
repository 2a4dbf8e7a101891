//! The layout of an object's bytes: the spans of its head, and the parts that are not copied.
//!
//! ```text
//! json::head | protobuf::head ──▶ Layout {spans, cuts} ──▶ object, strip
//! members, kept or not ──Cutter──▶ Cuts
//! ```
//!
//! Upstream: none; client-go decodes an object before it reads its metadata.

use std::ops::Range;

use smallvec::SmallVec;

/// Ranges of the input that are not copied, in order, not overlapping.
pub(crate) type Cuts = SmallVec<[Range<usize>; 3]>;

/// The choice to copy `metadata.managedFields` or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    Drop,
    Keep,
}

/// Positions in the bytes of an object. Strings: between the quotes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// The object without white space around it.
    pub(crate) body: Range<usize>,
    pub(crate) name: Option<Range<usize>>,
    pub(crate) namespace: Option<Range<usize>>,
    pub(crate) uid: Option<Range<usize>>,
    pub(crate) resource_version: Option<Range<usize>>,
    pub(crate) labels: Option<Range<usize>>,
    pub(crate) annotations: Option<Range<usize>>,
    pub(crate) owners: Option<Range<usize>>,
    pub(crate) terminating: bool,
    pub(crate) kind: Option<Range<usize>>,
    pub(crate) api_version: Option<Range<usize>>,
    /// `kind` and `apiVersion`.
    pub(super) type_cuts: Cuts,
    /// `metadata.managedFields`.
    pub(super) managed_cuts: Cuts,
    /// The size of managedFields if the cuts also remove other bytes; 0 otherwise.
    pub(super) managed_bytes: usize,
    /// The offset of the metadata's length prefix, and its value without managedFields: protobuf
    /// only.
    pub(super) patch: Option<(usize, u64)>,
}

impl Layout {
    /// Returns the size of `metadata.managedFields`, name and comma included.
    pub(crate) fn managed_fields_bytes(&self) -> usize {
        match self.managed_bytes {
            0 => self.managed_cuts.iter().map(ExactSizeIterator::len).sum(),
            bytes => bytes,
        }
    }

    /// Sets the size of managedFields, if they are not cuts.
    pub(crate) fn set_managed_bytes(&mut self, bytes: usize) {
        self.managed_bytes = bytes;
    }

    /// Sets the managedFields of a message: their size, the cuts that remove them, and the length
    /// prefix that this changes.
    pub(crate) fn set_managed(&mut self, bytes: usize, cuts: Cuts, patch: (usize, u64)) {
        self.managed_bytes = bytes;
        self.managed_cuts = cuts;
        self.patch = Some(patch);
    }

    /// Returns the length prefix to rewrite if managedFields are dropped.
    pub(crate) fn patch(&self, managed: ManagedFields) -> Option<(usize, u64)> {
        self.patch.filter(|_| managed == ManagedFields::Drop)
    }

    /// Drops the cuts: a malformed object is not copied.
    pub(super) fn forget_cuts(&mut self) {
        (self.type_cuts, self.managed_cuts) = Default::default();
    }

    /// Returns the ranges that are not copied.
    pub(crate) fn cuts(&self, managed: ManagedFields) -> Cuts {
        let mut cuts = self.type_cuts.clone();
        if managed == ManagedFields::Drop {
            cuts.extend(self.managed_cuts.iter().cloned());
            cuts.sort_unstable_by_key(|cut| cut.start);
        }
        cuts
    }
}

/// Turns members that are dropped into cuts that leave the commas right.
#[derive(Default)]
pub(crate) struct Cutter {
    kept: bool,
    pending: Option<usize>,
    previous_end: usize,
}

impl Cutter {
    /// Adds the next member or element, in order; `cut` says whether it is dropped.
    pub(crate) fn member(&mut self, cut: bool, member: Range<usize>, cuts: &mut Cuts) {
        if !cut {
            if let Some(from) = self.pending.take() {
                cuts.push(from..member.start);
            }
            self.kept = true;
        } else if self.kept {
            cuts.push(self.previous_end..member.end);
        } else {
            self.pending.get_or_insert(member.start);
        }
        self.previous_end = member.end;
    }

    /// Ends at the closing bracket.
    pub(crate) fn finish(self, cuts: &mut Cuts) {
        if let Some(from) = self.pending {
            cuts.push(from..self.previous_end);
        }
    }
}
