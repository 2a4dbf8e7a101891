//! The size that a list, and the cache made of it, may have.
//!
//! ```text
//! item ──▶ Size of the list under way ──larger than CacheLimits?──▶ abort, wait, list again
//! cache, grown by events ──larger?──▶ Input::OverLimit ──▶ list again: the list decides
//! ```
//!
//! A server that sends objects without an end would fill the memory of its client. A list that is
//! too large counts for nothing, as one that breaks off; the cache keeps what it had. A cache that
//! outgrows the limits by events is listed again: no event is read meanwhile, so it grows no further.
//! Never: drops objects to make room.
//!
//! Upstream counterpart: none; client-go reads whatever a server sends.

use crate::delta::Delta;
use crate::time::Instant;

use super::recover::Next;
use super::report::{Problem, ProblemKind};
use super::{Phase, Reflector};

/// The largest cache, and the largest list.
///
/// BOUND: 10 million objects, as many as 20,000 pages of 500; 16 GiB, since etcd advises its users to
/// keep less than 8 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Objects. Default: 10 million.
    pub objects: usize,
    /// Bytes of objects on the heap, uncompressed. Default: 16 GiB.
    pub bytes: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            objects: 10_000_000,
            bytes: usize::try_from(16_u64 << 30).unwrap_or(usize::MAX),
        }
    }
}

impl CacheLimits {
    /// Returns whether a cache of this size is within the limits.
    #[must_use]
    pub const fn allow(&self, objects: usize, bytes: usize) -> bool {
        objects <= self.objects && bytes <= self.bytes
    }
}

/// The size of the list being read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    objects: usize,
    bytes: usize,
}

impl Size {
    pub(super) fn add(&mut self, delta: &Delta) {
        let bytes = match delta {
            Delta::Replaced(object) | Delta::Updated(object) => object.heap_size(),
            _ => 0,
        };
        self.objects = self.objects.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Reflector {
    /// Gives a list up that is larger than a cache may be.
    pub(super) fn check_size(&mut self, now: Instant) {
        let (Size { objects, bytes }, limits) = (self.cycle.size, self.config.cache_limits);
        if limits.allow(objects, bytes) {
            return;
        }
        let Phase::Reading(ask) = self.phase else {
            return;
        };
        let problem = Problem {
            verb: ask.verb(),
            kind: ProblemKind::OverLimit,
            code: None,
            message: format!(
                "more than {} objects or {} bytes",
                limits.objects, limits.bytes
            ),
        };
        self.close();
        self.abort_list();
        self.wait(Next::Cycle, problem, None, now);
    }
}
