//! The form of what is stored, changed while the store runs: compressed, or as it came.
//!
//! ```text
//! compress │ expand ─▶ Reform {next slot of the root, of the list that runs} ─reform(count)─▶ the next root
//! ```
//!
//! Objects that are stored after the order have the new form. Those that were stored before change in
//! pieces. Between two pieces the loop does its other work and old roots are given back, so that a change
//! needs little more memory than the larger form. Handlers hear nothing of it: keys, versions, indexes and
//! content are the same.
//!
//! INVARIANT: once nothing is left of a reform, each object has the form, unless it is no smaller compressed.
//!
//! Upstream counterpart: none. Complexity: O(count) a piece.

use super::applier::Applier;
use super::reform::Reform;
use super::tier::{self, Tier};
use crate::budget::Form;
use crate::object::Object;
use crate::store::edit::Edit;

/// The part that is left of objects once they are compressed, until it is known: a guess on the safe side.
const COMPRESSED_PERCENT: usize = 40;

/// The memory of a store, for a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Bytes that the store holds now, a list that runs included.
    pub held: usize,
    /// The same if no object were compressed.
    pub plain: usize,
    /// The same if all objects were compressed: an estimate until they are. `None` if they are too few, or
    /// have too little in common.
    pub compressed: Option<usize>,
    /// The form that all objects have; `None` while they change.
    pub form: Option<Form>,
}

impl Applier {
    /// Keeps what is stored from now on compressed, and what was stored before once a dictionary is learnt
    /// and [`reform`](Self::reform) was called often enough.
    pub fn compress(&mut self) {
        if self.tier.is_some() {
            return;
        }
        self.reform = Reform {
            is_by_pieces: true,
            ..Reform::default()
        };
        let tier = match &self.list {
            // Of a first list, nothing is in the root yet.
            Some(list) if self.root.is_empty() => Tier::over(list.edit.objects(), list.edit.len()),
            _ => Tier::over(self.root.objects(), self.root.len()),
        };
        self.tier = Some(tier);
    }

    /// Keeps what is stored from now on as it comes, and changes what was stored before in pieces.
    pub fn expand(&mut self) {
        if self.tier.take().is_some() {
            self.reform.begin(self.list.is_some());
        }
    }

    /// Changes the form of the next `count` objects, or so; returns whether some are left.
    ///
    /// # Complexity
    /// Compressing an object takes some 20 microseconds, expanding 6.
    pub fn reform(&mut self, count: usize) -> bool {
        let tier = &mut self.tier;
        let mut other = |object: &Object| match tier {
            Some(tier) => tier.pack(object),
            None => object.is_cold().then(|| object.thawed().into_owned()),
        };
        if let Some(list) = &mut self.list
            && let Some(from) = self.reform.list
        {
            self.reform.list = list.edit.reform(from, count, &mut other);
        } else if let Some(from) = self.reform.root {
            let mut edit = Edit::new(&self.root);
            self.reform.root = edit.reform(from, count, &mut other);
            self.root = edit.commit(self.root.position());
        }
        !self.reform.is_done()
    }

    /// The memory of the store.
    #[must_use]
    pub fn holds(&self) -> Holds {
        let (mut held, mut plain) = (self.root.held_size(), self.root.plain_held_size());
        let mut objects = self.root.len();
        if let Some(list) = &self.list {
            // What a later list does not change is shared with the root.
            let (new_held, new_plain) = match self.root.is_empty() {
                true => list.edit.held_sizes(),
                false => list.put_sizes(),
            };
            (held, plain) = (held + new_held, plain + new_plain);
            objects = objects.max(list.edit.len());
        }
        let tier = self.tier.as_ref();
        held += tier.map_or(0, Tier::held_size);
        let is_settled = self.reform.is_done();
        let is_compressed = is_settled && tier.is_some_and(Tier::is_learnt);
        let is_too_few = |tier: &Tier| !tier.is_learnt() && !Tier::can_learn_from(objects);
        let form = match tier {
            None if is_settled => Some(Form::Whole),
            Some(_) if is_compressed => Some(Form::Compressed),
            // Without a dictionary nothing changes, and before there are more objects nothing will.
            Some(tier) if tier.has_failed() || is_too_few(tier) => Some(Form::Whole),
            _ => None,
        };
        let can_be = Tier::can_learn_from(objects) && !tier.is_some_and(Tier::has_failed);
        let compressed = match is_compressed {
            true => Some(held),
            false => can_be.then(|| plain / 100 * COMPRESSED_PERCENT + tier::FIRST_HELD),
        };
        Holds {
            held,
            plain,
            compressed,
            form,
        }
    }
}
