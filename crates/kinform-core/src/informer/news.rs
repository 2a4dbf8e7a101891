//! Gathers the changes of a batch or a list for handlers.
//!
//! ```text
//! stored(old, new), push(change) ──▶ Pending ──into_news──▶ News: the changes in order │ take the difference of roots
//! ```
//!
//! BOUND: more changes than a ring keeps are not worth keeping one by one: whoever listens then takes the
//! difference of roots, which says the same.
//!
//! Upstream counterpart: `client-go:tools/cache/controller.go` (`processDeltas`), which calls each handler as it goes.

use kinform_api::mutant;

use crate::delta::Change;
use crate::object::Object;

/// The changes of a batch for handlers.
#[derive(Debug)]
pub enum News {
    /// Nothing changed.
    None,
    /// These changes, in order; none of them if objects only left: handlers then pass to the new root.
    Changes(Vec<Change>),
    /// More than is kept, or the first list: everybody takes the difference of roots.
    ByDiff,
}

#[derive(Debug)]
pub(super) struct Pending {
    changes: Vec<Change>,
    max: usize,
    pub(super) is_by_diff: bool,
    /// Objects left the store, of which nobody hears.
    pub(super) has_left: bool,
}

impl Pending {
    pub(super) fn new(max: usize) -> Self {
        Self {
            changes: Vec::new(),
            max,
            is_by_diff: false,
            has_left: false,
        }
    }

    /// A handle of what is to be stored, for [`stored`](Self::stored). None is made where nobody hears of it: dropped
    /// right behind the copy, it would wait until that is in memory.
    pub(super) fn handle(&self, object: &Object) -> Option<Object> {
        (!self.is_by_diff).then(|| object.clone())
    }

    pub(super) fn stored(&mut self, old: Option<Object>, new: Option<Object>) {
        let Some(new) = new else {
            return;
        };
        match old {
            None => self.push(Change::Added {
                object: new,
                initial: false,
            }),
            Some(old) if old.uid() == new.uid() || mutant!("B4") => {
                self.push(Change::Updated { old, new })
            }
            Some(old) => {
                self.push(Change::Deleted {
                    object: old,
                    final_state_unknown: true,
                });
                self.push(Change::Added {
                    object: new,
                    initial: false,
                });
            }
        }
    }

    pub(super) fn push(&mut self, change: Change) {
        if self.is_by_diff {
            return;
        }
        if self.changes.len() == self.max {
            self.changes = Vec::new();
            self.is_by_diff = true;
        } else {
            self.changes.push(change);
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        if other.is_by_diff {
            self.changes = Vec::new();
            self.is_by_diff = true;
        }
        self.has_left |= other.has_left;
        for change in other.changes {
            self.push(change);
        }
    }

    /// Some of what was pushed is about objects that left since: the difference of roots says the rest.
    pub(super) fn give_up(&mut self) {
        self.is_by_diff |= !self.changes.is_empty();
        self.changes = Vec::new();
    }

    pub(super) fn into_news(self) -> News {
        if self.is_by_diff {
            News::ByDiff
        } else if self.changes.is_empty() && !self.has_left {
            News::None
        } else {
            News::Changes(self.changes)
        }
    }
}
