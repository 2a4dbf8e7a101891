//! The form in which objects are stored: as they came, compressed, reduced, or both.
//!
//! ```text
//! object ─▶ Reducer (declared fields only) ─▶ Tier (compressed) ─▶ the twin to store │ none: as it is
//! ```
//!
//! While nothing is reduced, one object in 64 is reduced and dropped again, to measure what would be left: the
//! budget decides by it.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use super::tier::Tier;
use crate::object::Object;
use crate::object::reduction::{Reduction, agree};

/// Of this many objects, one is measured.
const MEASURED: usize = 64;
/// The number of first objects of which each is measured.
const FIRST: usize = 32;

/// The forms that were asked for.
#[derive(Debug, Default)]
pub(super) struct Packing {
    pub(super) tier: Option<Tier>,
    pub(super) reducer: Option<Reducer>,
}

/// Reduces objects once that is asked for.
#[derive(Debug)]
pub(super) struct Reducer {
    reduction: Arc<Reduction>,
    is_active: bool,
    pub(super) recovery: Recovery,
    /// The part that was left of the same objects compressed, in percent, when it was last known.
    pub(super) compressed_percent: Option<usize>,
    objects: usize,
    /// Bytes of objects before and after, where it was measured.
    before: u64,
    after: u64,
}

/// The stage at which the fields are that were given up and are wanted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Recovery {
    /// None is needed: they are not wanted, or a list has brought back what it has.
    #[default]
    Done,
    /// A list has to begin.
    Due,
    /// It runs.
    Listing,
}

impl Packing {
    /// A list begins.
    pub(super) fn list_began(&mut self) {
        self.recover(Recovery::Due, Recovery::Listing);
    }

    /// It was given up.
    pub(super) fn list_aborted(&mut self) {
        self.recover(Recovery::Listing, Recovery::Due);
    }

    /// It has ended.
    pub(super) fn list_ended(&mut self) {
        self.recover(Recovery::Listing, Recovery::Done);
    }

    fn recover(&mut self, from: Recovery, to: Recovery) {
        if let Some(reducer) = &mut self.reducer
            && reducer.recovery == from
        {
            reducer.recovery = to;
        }
    }

    /// The stage at which the fields are that are wanted again.
    pub(super) fn recovery(&self) -> Recovery {
        let reducer = self.reducer.as_ref();
        reducer.map_or(Recovery::Done, |reducer| reducer.recovery)
    }

    /// The twin to store in an object's place; `None` if it is stored as it is.
    pub(super) fn form(&mut self, object: &Object) -> Option<Object> {
        let reduced = self
            .reducer
            .as_mut()
            .and_then(|reducer| reducer.keep(object));
        match &mut self.tier {
            Some(tier) => tier.keep(reduced.as_ref().unwrap_or(object)).or(reduced),
            None => reduced,
        }
    }

    /// The same for an object that is stored already, in a form that was asked for before.
    pub(super) fn reform(&mut self, object: &Object) -> Option<Object> {
        let reduced = match &mut self.reducer {
            Some(reducer) if reducer.is_active && !object.is_reduced() => {
                reducer.keep(&object.thawed())
            }
            _ => None,
        };
        match (&mut self.tier, reduced) {
            (Some(tier), Some(reduced)) => tier.pack(&reduced).or(Some(reduced)),
            (Some(tier), None) => tier.pack(object),
            (None, Some(reduced)) => Some(reduced),
            (None, None) => object.is_cold().then(|| object.thawed().into_owned()),
        }
    }

    /// Returns whether objects are reduced now.
    pub(super) fn is_reducing(&self) -> bool {
        let reducer = self.reducer.as_ref();
        reducer.is_some_and(|reducer| reducer.is_active)
    }

    /// Returns whether a stored object is to be replaced by the same version of it that has all fields.
    pub(super) fn wants_whole(&self, stored: &Object) -> bool {
        stored.is_reduced() && !self.is_reducing()
    }

    /// Returns whether two states have the same content, as far as it is stored.
    pub(super) fn agree(&self, stored: &Object, object: &Object) -> bool {
        let reducer = self.reducer.as_ref();
        let reduction = reducer.map(|reducer| &*reducer.reduction);
        agree(reduction, stored, object)
    }
}

impl Reducer {
    pub(super) fn new(reduction: Arc<Reduction>) -> Self {
        Self {
            reduction,
            is_active: false,
            recovery: Recovery::Done,
            compressed_percent: None,
            objects: 0,
            before: 0,
            after: 0,
        }
    }

    /// Reduces objects from now on.
    pub(super) fn begin(&mut self) {
        (self.is_active, self.recovery) = (true, Recovery::Done);
    }

    /// Reduces no object from now on. Those that are reduced, if there are some, wait for a list.
    pub(super) fn end(&mut self, has_reduced: bool) {
        if self.is_active && has_reduced {
            self.recovery = Recovery::Due;
        }
        self.is_active = false;
    }

    /// The reduced twin of an object, if objects are reduced and it is smaller.
    fn keep(&mut self, object: &Object) -> Option<Object> {
        self.objects += 1;
        let is_measured = self.objects <= FIRST || self.objects.is_multiple_of(MEASURED);
        if !self.is_active && !is_measured {
            return None;
        }
        let twin = self.reduction.reduce(object);
        self.before += object.heap_size() as u64;
        self.after += twin.as_ref().unwrap_or(object).heap_size() as u64;
        twin.filter(|_| self.is_active)
    }

    /// The bytes that would be left of this many; `None` before anything was measured, and if too little
    /// would be saved.
    pub(super) fn left_of(&self, bytes: usize) -> Option<usize> {
        let saves = self.after < self.before / 10 * 9;
        saves.then(|| scaled(bytes, self.after, self.before))
    }

    /// The bytes that reduced objects of this many had before.
    pub(super) fn whole_of(&self, bytes: usize) -> usize {
        match self.after {
            0 => bytes,
            after => scaled(bytes, self.before, after),
        }
    }
}

fn scaled(bytes: usize, by: u64, of: u64) -> usize {
    let scaled = bytes as u128 * u128::from(by) / u128::from(of.max(1));
    usize::try_from(scaled).unwrap_or(usize::MAX)
}
