//! The form of what is stored, changed while the store runs: compressed, reduced, or as it came.
//!
//! ```text
//! compress │ expand │ reduce ─▶ Reform {next slot of the root, of the list that runs} ─reform(count)─▶ the next root
//! ```
//!
//! Objects that are stored after the order have the new form. Those that were stored before change in
//! pieces. Between two pieces the loop does its other work and old roots are given back, so that a change
//! needs little more memory than the larger form. Handlers hear nothing of it: keys, versions, indexes and
//! content are the same, but for the fields that a reduced object has not.
//!
//! Only the server has those fields: once they are kept again, a list brings them back
//! ([`Applier::keep_whole`]).
//!
//! INVARIANT: once nothing is left of a reform, each object has the form, unless it is no smaller in it.
//!
//! Upstream counterpart: none. Complexity: O(count) a piece.

use std::sync::Arc;

use super::applier::Applier;
use super::packing::{Recovery, Reducer};
use super::reform::Reform;
use super::tier::{self, Tier};
use crate::budget::Form;
use crate::object::reduction::{Reduced, Reduction};
use crate::store::edit::Edit;

/// The part that is left of objects once they are compressed, until it is known: a guess on the safe side.
const COMPRESSED_PERCENT: usize = 40;

/// The memory of a store, for a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Bytes that the store holds now, a list that runs included.
    pub held: usize,
    /// The same with all objects as they came: an estimate while some are reduced.
    pub plain: usize,
    /// The same if all objects were compressed: an estimate until they are. `None` if they are too few, or
    /// have too little in common.
    pub compressed: Option<usize>,
    /// The same if all objects were reduced: an estimate until they are. `None` if the store reduces none, or
    /// that would save too little.
    pub reduced: Option<usize>,
    /// The form that all objects have; `None` while they change.
    pub form: Option<Form>,
}

impl Applier {
    /// The same, which may [reduce](Self::reduce) its objects. To be said before anything is stored.
    #[must_use]
    pub fn reducible_to(mut self, reduction: Arc<Reduction>) -> Self {
        let mut edit = Edit::new(&self.root);
        edit.set_reduction(Arc::clone(&reduction));
        self.root = edit.commit(self.root.position());
        self.packing.reducer = Some(Reducer::new(reduction));
        self
    }

    /// Keeps what is stored from now on compressed, and what was stored before once a dictionary is learnt
    /// and [`reform`](Self::reform) was called often enough.
    pub fn compress(&mut self) {
        if self.packing.tier.is_some() {
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
        self.packing.tier = Some(tier);
    }

    /// Keeps what is stored from now on as it comes, and changes what was stored before in pieces.
    pub fn expand(&mut self) {
        if self.packing.tier.take().is_some() {
            self.reform.begin(self.list.is_some());
        }
    }

    /// Keeps of what is stored from now on only metadata and declared fields, and changes what was stored before
    /// in pieces; compressed, too, if that saves much. Nothing happens in a store that is not
    /// [reducible](Self::reducible_to).
    pub fn reduce(&mut self) {
        let holds = self.holds();
        let Some(reducer) = &mut self.packing.reducer else {
            return;
        };
        if holds.form == Some(Form::Compressed) {
            reducer.compressed_percent = Some(holds.held * 100 / holds.plain.max(1));
        }
        reducer.begin();
        if holds
            .compressed
            .is_some_and(|bytes| saves_much(bytes, holds.plain))
        {
            self.compress();
        }
        self.reform.begin(self.list.is_some());
    }

    /// Keeps all fields of what is stored from now on. A list that begins after this brings back those of reduced
    /// objects: see [`awaits_list`](Self::awaits_list).
    pub fn keep_whole(&mut self) {
        let has_reduced = self.root.reduced().objects > 0 || self.list.is_some();
        if let Some(reducer) = &mut self.packing.reducer {
            reducer.end(has_reduced);
        }
    }

    /// Returns whether fields are wanted again, and the list that brings them back has not begun.
    #[must_use]
    pub fn awaits_list(&self) -> bool {
        self.packing.recovery() == Recovery::Due
    }

    /// Changes the form of the next `count` objects, or so; returns whether some are left.
    ///
    /// # Complexity
    /// Compressing an object takes some 20 microseconds, expanding 6.
    pub fn reform(&mut self, count: usize) -> bool {
        let packing = &mut self.packing;
        if let Some(list) = &mut self.list
            && let Some(from) = self.reform.list
        {
            self.reform.list = list
                .edit
                .reform(from, count, |object| packing.reform(object));
        } else if let Some(from) = self.reform.root {
            let mut edit = Edit::new(&self.root);
            self.reform.root = edit.reform(from, count, |object| packing.reform(object));
            self.root = edit.commit(self.root.position());
        }
        !self.reform.is_done()
    }

    /// The memory of the store.
    #[must_use]
    pub fn holds(&self) -> Holds {
        let (tier, reducer) = (self.packing.tier.as_ref(), self.packing.reducer.as_ref());
        let as_it_came = |plain: usize, reduced: Reduced| {
            let whole = reducer.map_or(reduced.bytes, |reducer| reducer.whole_of(reduced.bytes));
            plain + whole.saturating_sub(reduced.bytes)
        };
        let (reduced, mut objects) = (self.root.reduced(), self.root.len());
        let mut held = self.root.held_size();
        let mut plain = as_it_came(self.root.plain_held_size(), reduced);
        if let Some(list) = &self.list {
            // What a later list does not change is shared with the root.
            let (new_held, new_plain) = match self.root.is_empty() {
                true => list.edit.held_sizes(),
                false => list.put_sizes(),
            };
            held += new_held;
            let of_list = list.edit.reduced();
            plain = match (self.root.is_empty(), reduced.objects) {
                (true, _) => plain + as_it_came(new_plain, of_list),
                (false, 0) => plain + new_plain,
                // It stores what the root has, with all fields: that is not to be counted twice.
                (false, _) => plain.max(as_it_came(list.edit.held_sizes().1, of_list)),
            };
            objects = objects.max(list.edit.len());
        }
        held += tier.map_or(0, Tier::held_size);
        let form = self.form(objects);
        let can_be = Tier::can_learn_from(objects) && !tier.is_some_and(Tier::has_failed);
        let known = reducer.and_then(|reducer| reducer.compressed_percent);
        let compressed = match (form, known) {
            (Some(Form::Compressed), _) => Some(held),
            (_, Some(percent)) => can_be.then_some(plain / 100 * percent),
            _ => can_be.then(|| plain / 100 * COMPRESSED_PERCENT + tier::FIRST_HELD),
        };
        let reduced = match form {
            Some(Form::Reduced) => Some(held),
            // By then it is compressed, if that saves much. Tables stay.
            _ => reducer.and_then(|reducer| {
                let tables = self.root.tables_size();
                let compressed = compressed.filter(|bytes| saves_much(*bytes, plain));
                let before = compressed.unwrap_or(plain);
                Some(reducer.left_of(before.saturating_sub(tables))? + tables)
            }),
        };
        Holds {
            held,
            plain,
            compressed,
            reduced,
            form,
        }
    }

    /// The form that all objects have.
    fn form(&self, objects: usize) -> Option<Form> {
        let is_settled = self.reform.is_done();
        if self.packing.is_reducing() {
            return is_settled.then_some(Form::Reduced);
        }
        let tier = self.packing.tier.as_ref();
        let is_compressed = is_settled && tier.is_some_and(Tier::is_learnt);
        let is_too_few = |tier: &Tier| !tier.is_learnt() && !Tier::can_learn_from(objects);
        match tier {
            _ if self.packing.recovery() != Recovery::Done => None,
            None if is_settled => Some(Form::Whole),
            Some(_) if is_compressed => Some(Form::Compressed),
            // Without a dictionary nothing changes, and before there are more objects nothing will.
            Some(tier) if tier.has_failed() || is_too_few(tier) => Some(Form::Whole),
            _ => None,
        }
    }
}

/// Returns whether compressing is worth while beside another form: it has costs of its own, whatever is stored.
fn saves_much(compressed: usize, plain: usize) -> bool {
    compressed < plain / 2
}
