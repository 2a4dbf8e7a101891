//! The past: the newest roots of a store by version, for reads of a state that is over.
//!
//! ```text
//! published roots ──keep──▶ [first version, root].. ──at(version)──▶ the state at that version
//! ```
//!
//! A kept root shares with its neighbours whatever did not change between them, so what it costs is
//! the objects that were replaced since. The oldest roots give way to the limits. A version that
//! only moved (a bookmark) adds no root.
//!
//! Versions of a server that went back have no order with those before: its first list begins the
//! past anew.
//!
//! INVARIANT: versions are in ascending order, and all of one epoch.
//!
//! Upstream counterpart: none; client-go's store has one state.
//! Complexity: `keep` is O(changed blocks), `at` is O(log roots).

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use kinform_api::ResourceVersion;

use super::diff::Diff;
use super::root::Root;
use crate::time::Instant;

// What a root pins besides objects: copied blocks, an estimate. As of a batch in the ring.
const ROOT_BYTES: usize = 4 * 1024;
const CHANGE_BYTES: usize = 1024;

/// BOUND: changes that are weighed at a time.
const PIECE: usize = 1024;

/// The limits of the states that are kept. The present state does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastLimits {
    /// States, which are roots. Default: 1,024.
    pub roots: usize,
    /// Bytes that nothing but the past may keep alive, estimated. Default: 32 MiB.
    pub bytes: usize,
    /// Time since a state was replaced. Default: 10 min.
    pub age: Duration,
}

impl Default for PastLimits {
    fn default() -> Self {
        Self {
            roots: 1024,
            bytes: 32 << 20,
            age: Duration::from_secs(600),
        }
    }
}

/// The reason for which there is no state of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// It is older than all that is kept; this is the oldest version, if there is one.
    TooOld(Option<ResourceVersion>),
    /// The store has not got there; this is its version.
    NotReached(ResourceVersion),
    /// The version has no order with those of the store.
    Incomparable,
}

/// A state, from the version with which it began.
#[derive(Debug, Clone)]
struct Kept {
    from: ResourceVersion,
    root: Root,
    /// Bytes that are pinned for it: what the next state replaced.
    bytes: usize,
    /// When the next state replaced it.
    replaced: Option<Instant>,
}

/// The newest roots of one store.
#[derive(Debug, Clone)]
pub struct Past {
    limits: PastLimits,
    // INVARIANT: the last one is the present state; there is one if there are any.
    kept: VecDeque<Kept>,
    bytes: usize,
}

impl Past {
    /// An empty past.
    #[must_use]
    pub fn new(limits: PastLimits) -> Self {
        Self {
            limits,
            kept: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Takes a root that was published. One without a complete list is not kept.
    pub fn keep(&mut self, root: &Root, now: Instant) {
        if !root.has_synced() {
            return self.clear();
        }
        let version = ResourceVersion::from(&**root.version());
        let Some(last) = self.kept.back_mut() else {
            return self.push(version, root);
        };
        let order = version.compare(&ResourceVersion::from(&**last.root.version()));
        if root.epoch() != last.root.epoch()
            || !matches!(order, Ok(Ordering::Equal | Ordering::Greater))
        {
            self.clear();
            return self.push(version, root);
        }
        let Some(replaced) = weigh(&last.root, root, self.limits.bytes) else {
            // It alone would fill the past.
            self.clear();
            return self.push(version, root);
        };
        if replaced == 0 {
            last.root = root.clone();
            return self.drop_old(now);
        }
        last.bytes = replaced + ROOT_BYTES;
        last.replaced = Some(now);
        self.bytes += last.bytes;
        self.push(version, root);
        self.drop_old(now);
    }

    /// Drops states that have been over for too long.
    pub fn drop_old(&mut self, now: Instant) {
        let limits = self.limits;
        while let Some(Kept {
            replaced: Some(replaced),
            bytes,
            ..
        }) = self.kept.front()
        {
            let is_old = now.since(*replaced) > limits.age;
            if !is_old && self.kept.len() <= limits.roots + 1 && self.bytes <= limits.bytes {
                return;
            }
            self.bytes -= bytes;
            self.kept.pop_front();
        }
    }

    /// The state that the store had when its server was at `version`: the newest one that began at
    /// or before it. Changes that were published together became one state.
    ///
    /// # Errors
    /// The version is too old, not reached, or of another kind.
    pub fn at(&self, version: &ResourceVersion) -> Result<&Root, Missing> {
        let Some(newest) = self.kept.back() else {
            return Err(Missing::TooOld(None));
        };
        let reached = ResourceVersion::from(&**newest.root.version());
        match version.compare(&reached) {
            Ok(Ordering::Greater) => return Err(Missing::NotReached(reached)),
            Ok(_) => {}
            Err(_) => return Err(Missing::Incomparable),
        }
        let is_after = |kept: &Kept| matches!(kept.from.compare(version), Ok(Ordering::Greater));
        let after = self.kept.partition_point(|kept| !is_after(kept));
        match after.checked_sub(1) {
            Some(at) => Ok(&self.kept[at].root),
            None => Err(Missing::TooOld(
                self.kept.front().map(|kept| kept.from.clone()),
            )),
        }
    }

    /// Returns the number of states, the present one among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether there is no state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bytes that nothing but the past may keep alive, estimated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, from: ResourceVersion, root: &Root) {
        self.kept.push_back(Kept {
            from,
            root: root.clone(),
            bytes: 0,
            replaced: None,
        });
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }
}

/// The bytes that `new` has no more use for; 0 if both have the same objects, `None` if it is more than
/// `most`.
fn weigh(old: &Root, new: &Root, most: usize) -> Option<usize> {
    let mut diff = Diff::between(old.clone(), new.clone()).with_what_left();
    let mut changes = Vec::new();
    let mut bytes = 0;
    while !diff.is_done() {
        diff.take_into(&mut changes, PIECE);
        let piece = changes.drain(..);
        bytes += piece
            .map(|change| change.heap_size() + CHANGE_BYTES)
            .sum::<usize>();
        if bytes > most {
            return None;
        }
    }
    Some(bytes)
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld(None) => f.write_str("no state is kept"),
            Self::TooOld(Some(oldest)) => write!(f, "the oldest state that is kept is of {oldest}"),
            Self::NotReached(version) => write!(f, "the cache is at {version}"),
            Self::Incomparable => f.write_str("the version has no order with the cache's"),
        }
    }
}
