//! The rest of a change of forms: where to go on in the root, and in a list that runs.
//!
//! ```text
//! begin, a list begins, ends ─▶ Reform {next slot of the root, of the list} ─▶ forms: the next piece
//! ```
//!
//! A list begins with what the root has, and is the root once it ends: what is left moves with it.
//!
//! Upstream counterpart: none.

/// The rest of a change of forms.
#[derive(Debug, Default)]
pub(super) struct Reform {
    pub(super) root: Option<usize>,
    pub(super) list: Option<usize>,
    /// Stores under a budget change in pieces; others at once, when their dictionary is learnt.
    pub(super) is_by_pieces: bool,
}

impl Reform {
    /// Everything that is stored is to change.
    pub(super) fn begin(&mut self, is_listing: bool) {
        self.root = Some(0);
        self.list = is_listing.then_some(0);
    }

    /// The list begins with what the root has.
    pub(super) fn list_began(&mut self) {
        self.list = self.root.map(|_| 0);
    }

    /// The list is the root now.
    pub(super) fn list_ended(&mut self) {
        self.root = self.list.take();
    }

    pub(super) fn is_done(&self) -> bool {
        self.root.is_none() && self.list.is_none()
    }
}
