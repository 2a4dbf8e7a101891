//! The queue between the reflector, which must not wait for handlers, and the one who applies.
//!
//! ```text
//! Delta → push (or Full: stop reading) → entries in order → pop_batch → Batch {deltas, version}
//! ```
//!
//! In order, the default: what comes out is what went in. Coalescing, the classic: the deltas of one
//! object that wait are handed out together, at the place of the first of them, so that an object
//! which changes often does not delay the others. Tokens of a list are barriers: nothing waits
//! across them, and inside a list everything keeps its order. It never looks at the store:
//! whether an object is known, and what a list deletes, is found where the batch is applied.
//!
//! INVARIANT: a batch's version is the one below which nothing is pending.
//! INVARIANT: no delta is lost: two are made one only if they are adjacent deletions of one uid,
//! adjacent bookmarks, or, for an object that waits with too many, an update over an older state of
//! the same uid.
//!
//! Upstream counterpart: `client-go:tools/cache/the_real_fifo.go` and `delta_fifo.go`; the bounds
//! and the version have none.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;
use kinform_api::{KeyRef, ResourceVersion, mutant};
use smallvec::SmallVec;

use crate::delta::{Delta, QuarantineOrigin};
use crate::object::Object;

/// BOUND: deltas of one object that wait together; beyond, updates replace older states.
const MAX_DELTAS_A_KEY: usize = 64;
/// BOUND: deltas that wait, and bytes of their objects, if nothing else is said.
const MAX_DELTAS: usize = 4096;
const MAX_BYTES: usize = 64 << 20;

/// In which order deltas come out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FifoPolicy {
    /// As they went in.
    #[default]
    InOrder,
    /// Those of one object together, at the place of the first.
    Coalescing,
}

/// The limits of a queue of deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoLimits {
    /// Deltas, in a coalescing queue objects; at least one. Default: 4,096.
    pub deltas: usize,
    /// Bytes of their objects; one larger than that still passes. Default: 64 MiB.
    pub bytes: usize,
}

impl Default for FifoLimits {
    fn default() -> Self {
        Self {
            deltas: MAX_DELTAS,
            bytes: MAX_BYTES,
        }
    }
}

/// A bounded queue of deltas.
///
/// # Complexity
/// `push` and each popped delta are O(1).
#[derive(Debug)]
pub struct DeltaFifo {
    policy: FifoPolicy,
    // BOUND: entries: deltas in order, objects if coalescing (each with MAX_DELTAS_A_KEY).
    capacity: usize,
    // BOUND: bytes of the objects that wait; one object larger than all of it still passes.
    max_bytes: usize,
    bytes: usize,
    entries: VecDeque<Entry>,
    /// The number of the first entry: numbers find entries while the queue moves.
    first: u64,
    /// Entries that still take deltas of their object, by key: those after the last barrier.
    /// BOUND: names that were chosen to collide make it a walk over at most `capacity` entries.
    open: HashTable<u64>,
    /// The version pushed last.
    pushed: Reached,
    deltas: usize,
    is_in_list: bool,
    is_populated: bool,
    /// The number after the entry whose leaving makes it synced.
    synced_after: Option<u64>,
    is_closed: bool,
}

/// The deltas handed out together.
#[derive(Debug, Default)]
pub struct Batch {
    /// In order; deltas of one object next to each other, if coalescing.
    pub deltas: Vec<Delta>,
    /// When these are applied, nothing older than this version is pending; unset before the first
    /// list, or if the server has no versions.
    pub version: ResourceVersion,
}

/// There is no room: the delta is given back. Stop reading until there is.
#[derive(Debug)]
pub struct Full(pub Delta);

#[derive(Debug)]
struct Entry {
    /// The version pushed before the first of these deltas.
    before: Arc<str>,
    hash: Option<u64>,
    deltas: SmallVec<[Delta; 1]>,
}

/// A version that moves on with deltas, and back only with a list.
#[derive(Debug)]
struct Reached {
    version: Arc<str>,
    revision: Option<u64>,
}

impl DeltaFifo {
    /// Returns an empty queue of at most `capacity` entries (deltas in order, objects if
    /// coalescing), at least one.
    pub fn new(policy: FifoPolicy, capacity: usize) -> Self {
        Self {
            policy,
            capacity: capacity.max(1),
            max_bytes: MAX_BYTES,
            bytes: 0,
            entries: VecDeque::new(),
            first: 0,
            open: HashTable::new(),
            pushed: Reached {
                version: "".into(),
                revision: None,
            },
            deltas: 0,
            is_in_list: false,
            is_populated: false,
            synced_after: None,
            is_closed: false,
        }
    }

    /// The same with another bound on the bytes of the objects that wait. Default 64 MiB.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Says from which version the first delta goes on, if not from a list.
    pub fn begin_at(&mut self, version: &str) {
        debug_assert!(self.is_empty() && !self.is_populated, "nothing was pushed");
        self.pushed = Reached {
            version: version.into(),
            revision: parsed(version),
        };
    }

    /// Adds a delta at the end, or to those of its object. Once closed, nobody will read it: it is
    /// dropped.
    ///
    /// # Errors
    /// There is no room; the delta is given back.
    pub fn push(&mut self, delta: Delta) -> Result<(), Full> {
        if self.is_closed {
            return Ok(());
        }
        if let Delta::Bookmark { version } = &delta
            && let Some(Delta::Bookmark { version: waiting }) = self.last_delta()
        {
            waiting.clone_from(version);
            self.pushed.by(&delta);
            return Ok(());
        }
        if self.bytes > 0 && self.bytes + bytes_of(&delta) > self.max_bytes {
            return Err(Full(delta));
        }
        let is_skipped = match &delta {
            Delta::Deleted(gone) if mutant!("B1") => {
                self.waits(gone, |d| matches!(d, Delta::Added(_)))
            }
            Delta::Replaced(listed) if mutant!("B2") => {
                self.waits(listed, |d| matches!(d, Delta::Deleted(_)))
            }
            _ => false,
        };
        if is_skipped {
            return Ok(());
        }
        let hash = self.hash_of(&delta);
        match hash.and_then(|hash| self.open_entry(hash, &delta)) {
            Some(number) => self.join(number, delta),
            None if self.entries.len() >= self.capacity => Err(Full(delta)),
            None => {
                self.append(hash, delta);
                Ok(())
            }
        }
    }

    /// Returns whether any delta would be accepted. In a coalescing queue, a delta of an object
    /// that waits already may be accepted without room, and a rare one refused in spite of room.
    pub fn has_room(&self) -> bool {
        self.entries.len() < self.capacity && self.bytes < self.max_bytes
    }

    /// Takes out up to `max` deltas in order; more only to keep those of one object together.
    /// Empty if nothing waits.
    pub fn pop_batch(&mut self, max: usize) -> Batch {
        let mut batch = Batch::default();
        while let Some(entry) = self.entries.front() {
            let count = batch.deltas.len() + entry.deltas.len();
            if count > max && !batch.deltas.is_empty() {
                break;
            }
            self.take_first(&mut batch.deltas);
        }
        let reached = self
            .entries
            .front()
            .map_or(&self.pushed.version, |entry| &entry.before);
        batch.version = ResourceVersion::new(&**reached);
        batch
    }

    /// Returns whether the first list was handed out completely, or there was none before the first
    /// change. Handed out is not applied: the store knows that.
    pub fn has_synced(&self) -> bool {
        self.is_populated && self.synced_after.is_none_or(|number| self.first >= number)
    }

    /// Deltas that wait.
    pub const fn len(&self) -> usize {
        self.deltas
    }

    /// Returns whether no delta waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the objects that wait.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes nothing more; what waits still comes out.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Returns whether the queue is closed and empty, so that no delta will ever come out again.
    pub fn is_finished(&self) -> bool {
        self.is_closed && self.is_empty()
    }

    /// Returns whether such a delta of the same object waits; only used to reintroduce known bugs.
    fn waits(&self, object: &Object, is_such: fn(&Delta) -> bool) -> bool {
        let mut waiting = self.entries.iter().flat_map(|entry| &entry.deltas);
        waiting.any(|delta| is_such(delta) && key_of(delta) == Some(object.key_ref()))
    }

    fn last_delta(&mut self) -> Option<&mut Delta> {
        self.entries.back_mut()?.deltas.last_mut()
    }

    /// The hash of what the delta is coalesced by, if it is.
    fn hash_of(&self, delta: &Delta) -> Option<u64> {
        let coalesces = self.policy == FifoPolicy::Coalescing && !self.is_in_list;
        if !coalesces {
            None
        } else {
            key_of(delta).map(KeyRef::hash64)
        }
    }

    fn open_entry(&self, hash: u64, delta: &Delta) -> Option<u64> {
        let same_key = |number: &u64| {
            let entry = &self.entries[(number - self.first) as usize];
            entry.deltas.first().and_then(key_of) == key_of(delta)
        };
        self.open.find(hash, same_key).copied()
    }

    fn append(&mut self, hash: Option<u64>, delta: Delta) {
        let number = self.first + self.entries.len() as u64;
        match &delta {
            Delta::ListBegin => {
                self.open.clear();
                self.is_in_list = true;
                if !std::mem::replace(&mut self.is_populated, true) {
                    self.synced_after = Some(u64::MAX);
                }
            }
            Delta::ListEnd { .. } | Delta::ListAbort => {
                self.is_in_list = false;
                let is_whole = matches!(delta, Delta::ListEnd { .. });
                if is_whole && self.synced_after == Some(u64::MAX) {
                    self.synced_after = Some(number + 1);
                }
            }
            Delta::CaughtUp => {
                self.is_populated = true;
                self.synced_after.get_or_insert(number + 1);
            }
            // Nothing waits across it: what comes after it is of another scope.
            Delta::Scope(_) => self.open.clear(),
            Delta::Forget | Delta::Bookmark { .. } | Delta::Sync { .. } => {}
            Delta::WentBack | Delta::Doubted => {}
            Delta::Added(_) | Delta::Updated(_) | Delta::Deleted(_) => self.is_populated = true,
            Delta::Replaced(_) | Delta::Quarantined(_) => {}
        }
        if let Some(hash) = hash {
            let rehash = |number: &u64| {
                let entry = &self.entries[(number - self.first) as usize];
                entry.hash.unwrap_or_default()
            };
            self.open.insert_unique(hash, number, rehash);
        }
        self.bytes += bytes_of(&delta);
        self.deltas += 1;
        let before = Arc::clone(&self.pushed.version);
        if !self.is_in_list {
            self.pushed.by(&delta);
        }
        self.entries.push_back(Entry {
            before,
            hash,
            deltas: SmallVec::from_buf([delta]),
        });
    }

    /// Adds to what waits of the same object.
    fn join(&mut self, number: u64, delta: Delta) -> Result<(), Full> {
        let entry = &mut self.entries[(number - self.first) as usize];
        let is_full = entry.deltas.len() >= MAX_DELTAS_A_KEY;
        match (entry.deltas.last_mut(), &delta) {
            // client-go: isDeletionDup: the later one stays.
            (Some(Delta::Deleted(old)), Delta::Deleted(new)) if old.uid() == new.uid() => {
                self.bytes -= supersede(old, new);
                self.bytes += old.heap_size();
                self.pushed.by(&delta);
                return Ok(());
            }
            (Some(Delta::Added(old) | Delta::Updated(old)), Delta::Updated(new))
                if is_full && old.uid() == new.uid() =>
            {
                self.bytes -= supersede(old, new);
                self.bytes += old.heap_size();
                self.pushed.by(&delta);
                return Ok(());
            }
            _ if is_full => return Err(Full(delta)),
            _ => {}
        }
        self.pushed.by(&delta);
        self.bytes += bytes_of(&delta);
        self.deltas += 1;
        entry.deltas.push(delta);
        Ok(())
    }

    fn take_first(&mut self, into: &mut Vec<Delta>) {
        let number = self.first;
        if let Some(hash) = self.entries.front().and_then(|entry| entry.hash)
            && let Ok(open) = self.open.find_entry(hash, |open| *open == number)
        {
            open.remove();
        }
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.first += 1;
        self.deltas -= entry.deltas.len();
        self.bytes -= entry.deltas.iter().map(bytes_of).sum::<usize>();
        into.extend(entry.deltas);
    }
}

impl Batch {
    /// Returns whether the batch has no deltas.
    pub fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }
}

impl IntoIterator for Batch {
    type Item = Delta;
    type IntoIter = std::vec::IntoIter<Delta>;

    fn into_iter(self) -> Self::IntoIter {
        self.deltas.into_iter()
    }
}

impl Reached {
    fn by(&mut self, delta: &Delta) {
        let (version, revision) = match delta {
            Delta::Added(o) | Delta::Updated(o) | Delta::Deleted(o) => {
                (o.resource_version(), o.revision())
            }
            Delta::Bookmark { version } => (&**version, parsed(version)),
            Delta::Quarantined(quarantine) if quarantine.origin != QuarantineOrigin::List => {
                let Some(version) = &quarantine.version else {
                    return;
                };
                (&**version, parsed(version))
            }
            Delta::ListEnd { version } => {
                self.version = (**version).into();
                self.revision = parsed(version);
                return;
            }
            Delta::ListBegin
            | Delta::WentBack
            | Delta::Doubted
            | Delta::ListAbort
            | Delta::CaughtUp
            | Delta::Forget
            | Delta::Scope(_)
            | Delta::Replaced(_)
            | Delta::Sync { .. }
            | Delta::Quarantined(_) => return,
        };
        let is_behind = matches!((revision, self.revision), (Some(new), Some(old)) if new < old);
        if !version.is_empty() && !is_behind {
            self.version = version.into();
            self.revision = revision;
        }
    }
}

/// The later of two states stays; returns the bytes of what stood there before.
fn supersede(old: &mut Object, new: &Object) -> usize {
    let before = old.heap_size();
    let is_behind = matches!((new.revision(), old.revision()), (Some(new), Some(old)) if new < old);
    if !is_behind {
        *old = new.clone();
    }
    before
}

fn parsed(version: &str) -> Option<u64> {
    ResourceVersion::from(version).parsed()
}

fn key_of(delta: &Delta) -> Option<KeyRef<'_>> {
    match delta {
        Delta::Added(o) | Delta::Updated(o) | Delta::Deleted(o) | Delta::Replaced(o) => {
            Some(o.key_ref())
        }
        Delta::Quarantined(quarantine) => quarantine.key.as_ref().map(|key| key.key_ref()),
        Delta::ListBegin
        | Delta::WentBack
        | Delta::Doubted
        | Delta::ListEnd { .. }
        | Delta::ListAbort
        | Delta::CaughtUp
        | Delta::Forget
        | Delta::Scope(_)
        | Delta::Sync { .. }
        | Delta::Bookmark { .. } => None,
    }
}

fn bytes_of(delta: &Delta) -> usize {
    delta.object().map_or(0, |object| object.heap_size())
}
