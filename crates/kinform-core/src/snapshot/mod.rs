//! The snapshot of a store: its objects, its version and its quarantine as bytes, for the next start.
//!
//! ```text
//! Root ──Writing──▶ mark │ header │ blocks of records, compressed │ end ──Reading──▶ Snapshot
//! ```
//!
//! A program that starts again reads it, and goes on from its version instead of listing everything.
//! The bytes are a sequence of frames, each with its lengths and a checksum; the last one has
//! the number of objects, so that a file that was cut off is no snapshot. The header has an identity: a
//! text of the owner's, which must be the same when the snapshot is read.
//! Objects are written as they are stored, behind their heads as numbers (`object::record`): reading
//! one is a copy, not a parse.
//!
//! INVARIANT: [`Reading::finish`] returns everything that was written, or a reason; never a part.
//! BOUND: a block is 256 KiB, or one object.
//!
//! Upstream counterpart: none; client-go lists everything at each start.

mod header;
mod read;
mod refused;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kinform_api::ObjectKey;

pub use self::read::Reading;
pub use self::refused::Refused;
pub use self::write::Writing;
use crate::delta::Quarantine;
use crate::object::Object;

/// The first bytes of a snapshot. The last one is the number of the format.
const MARK: &[u8; 8] = b"kinform\x01";

/// The contents of a store at a moment of its server's history.
#[derive(Debug)]
pub struct Snapshot {
    /// The version up to which everything that the server said is in it.
    pub version: String,
    /// The objects, in the order in which they were stored.
    pub objects: Vec<Object>,
    /// Keys whose newest version could not be read.
    pub quarantined: BTreeMap<ObjectKey, Quarantine>,
}

impl Snapshot {
    /// The objects that were changed last, newest first, at most `count`: a server with another history
    /// is least likely to have these. Objects whose versions are no numbers are left out.
    ///
    /// # Complexity
    /// O(objects).
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<Object> {
        let mut versions: Vec<(u64, usize)> = self
            .objects
            .iter()
            .enumerate()
            .filter_map(|(at, object)| Some((object.revision()?, at)))
            .collect();
        let first = versions.len().saturating_sub(count);
        if first > 0 {
            versions.select_nth_unstable(first);
        }
        let mut newest = versions.split_off(first);
        newest.sort_unstable_by(|a, b| b.cmp(a));
        let object = |(_, at): (u64, usize)| self.objects[at].clone();
        newest.into_iter().map(object).collect()
    }
}
