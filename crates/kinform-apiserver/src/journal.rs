//! What was asked of the server: the last requests, for tests that assert "one list, no relist".
//!
//! ```text
//! request ──begin──▶ Record ──bytes, end──▶ ring, oldest out
//! ```
//!
//! A record stands in the ring from the request's start, so that watches under way are seen. Only names
//! are kept: no bodies, no tokens.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// BOUND: requests that are remembered.
const KEPT: usize = 10_000;

/// A request and what became of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the
    /// method in small letters for what is no resource.
    pub verb: &'static str,
    /// The plural, or the path of what is no resource.
    pub resource: String,
    /// The namespace asked.
    pub namespace: Option<String>,
    /// The name asked.
    pub name: Option<String>,
    /// The query as it came.
    pub query: String,
    /// The HTTP status, 0 until it is known.
    pub code: u16,
    /// Bytes of the body that were taken, before compression of the connection.
    pub bytes: u64,
    /// When it came.
    pub started: Instant,
    /// When its body ended or was dropped.
    pub ended: Option<Instant>,
}

impl Record {
    /// Whether this asked a verb of a resource.
    #[must_use]
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }
}

/// The last requests.
#[derive(Debug, Default)]
pub struct Journal {
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<Record>,
    first: u64,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests that are remembered, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.iter().cloned().collect()
    }

    /// How many remembered requests asked this verb of this resource.
    #[must_use]
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        self.lock()
            .records
            .iter()
            .filter(|record| record.is(verb, resource))
            .count()
    }

    /// How many watches of a resource are under way.
    #[must_use]
    pub fn open_watches(&self, resource: &str) -> usize {
        let open = |record: &&Record| record.is("watch", resource) && record.ended.is_none();
        self.lock().records.iter().filter(open).count()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut ring = self.lock();
        ring.first += ring.records.len() as u64;
        ring.records.clear();
    }

    pub(crate) fn begin(self: &Arc<Self>, record: Record) -> Entry {
        let mut ring = self.lock();
        if ring.records.len() == KEPT {
            ring.records.pop_front();
            ring.first += 1;
        }
        ring.records.push_back(record);
        let id = ring.first + ring.records.len() as u64 - 1;
        Entry {
            journal: self.clone(),
            id,
        }
    }
}

/// A request under way. Its end is noted when it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    journal: Arc<Journal>,
    id: u64,
}

impl Entry {
    pub(crate) fn answered(&self, code: u16) {
        self.update(|record| record.code = code);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.update(|record| record.bytes += bytes as u64);
    }

    fn update(&self, change: impl FnOnce(&mut Record)) {
        let mut ring = self.journal.lock();
        let at = self
            .id
            .checked_sub(ring.first)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(record) = at.and_then(|at| ring.records.get_mut(at)) {
            change(record);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.update(|record| record.ended = Some(Instant::now()));
    }
}
