//! Objects that leave a store because they are not wanted any more.
//!
//! ```text
//! Edit, wanted Scope ──▶ the objects outside are gone, with their entries everywhere; nobody is told
//! ```
//!
//! The scope of the edit becomes the part of it that is still wanted, and never more: what is not
//! stored yet is not claimed, or its absence would be heard as a deletion.
//!
//! Upstream counterpart: none.
//! Complexity: O(objects), a hash each.

use std::sync::Arc;

use kinform_api::KeyRef;

use crate::scope::Scope;
use crate::shards::Ranges;
use crate::store::edit::Edit;

/// Takes everything outside of `wanted` away; returns the number of objects that left.
pub(super) fn narrow(edit: &mut Edit, wanted: &Scope) -> usize {
    let has = match edit.scope() {
        Some(has) => has.within(wanted.ranges()),
        // Its first list is still to come.
        None => Scope::new(wanted.field(), Ranges::none()),
    };
    edit.set_scope(Some(Arc::new(has)));
    leave_quarantine(edit, wanted);
    edit.retain(|object| wanted.has(object))
}

/// An entry leaves with the object that is stored under its key, or by its namespace; the uid of an
/// object that cannot be read is not known.
fn leave_quarantine(edit: &mut Edit, wanted: &Scope) {
    let keys: Vec<_> = edit.quarantined().keys().cloned().collect();
    let mut leaves = |key: KeyRef<'_>| {
        let stored = edit.get(key);
        !wanted.may_have(key) || stored.is_some_and(|object| !wanted.has(object))
    };
    let left: Vec<_> = keys
        .into_iter()
        .filter(|key| leaves(key.key_ref()))
        .collect();
    if left.is_empty() {
        return;
    }
    let quarantined = edit.quarantined_mut();
    for key in &left {
        quarantined.remove(key);
    }
}
