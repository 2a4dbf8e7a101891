//! What was asked of the server: the last requests, for tests that assert "one list, no relist".
//!
//! ```text
//! request ──begin──▶ Record ──bytes, end──▶ ring, oldest out; listener
//! ```
//!
//! A record stands in the ring from the request's start, so that watches under way are seen. Whoever
//! listens hears of each request when it has ended, also of one that the ring has forgotten. Only names are
//! kept: no bodies, no tokens.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
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
    /// The controller inside the server that did this; none for a client's request.
    pub controller: Option<&'static str>,
    /// The HTTP status, 0 until it is known.
    pub code: u16,
    /// Bytes of the body that were taken, before compression of the connection.
    pub bytes: u64,
    /// The time at which it came, by the server's clock.
    pub time: Timestamp,
    /// The same, to measure durations from.
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

    /// The record as an object of JSON: `verb`, `resource`, `namespace`, `name`, `query`, `code`, `bytes`,
    /// `time` (when it came, RFC 3339) and `seconds` (how long it took, null while it is under way).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let seconds = self.ended.map(|ended| (ended - self.started).as_secs_f64());
        json!({
            "verb": self.verb, "resource": self.resource, "namespace": self.namespace,
            "name": self.name, "query": self.query, "code": self.code, "bytes": self.bytes,
            "time": self.time.to_string(), "seconds": seconds,
        })
    }
}

/// Hears of requests that have ended.
pub(crate) type Listener = Box<dyn Fn(&Record) + Send + Sync>;

/// The last requests.
#[derive(Default)]
pub struct Journal {
    ring: Mutex<VecDeque<Arc<Mutex<Record>>>>,
    listener: Option<Listener>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("records", &self.ring().len())
            .finish_non_exhaustive()
    }
}

impl Journal {
    pub(crate) fn heard_by(listener: Option<Listener>) -> Self {
        Self {
            ring: Mutex::default(),
            listener,
        }
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<Arc<Mutex<Record>>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn matching(&self, is_wanted: impl Fn(&Record) -> bool) -> usize {
        let ring = self.ring();
        ring.iter()
            .filter(|record| is_wanted(&locked(record)))
            .count()
    }

    /// The requests that are remembered, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let ring = self.ring();
        ring.iter().map(|record| locked(record).clone()).collect()
    }

    /// How many remembered requests of clients asked this verb of this resource.
    #[must_use]
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        self.matching(|record| record.controller.is_none() && record.is(verb, resource))
    }

    /// How many watches of a resource are under way.
    #[must_use]
    pub fn open_watches(&self, resource: &str) -> usize {
        self.matching(|record| record.is("watch", resource) && record.ended.is_none())
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.ring().clear();
    }

    pub(crate) fn begin(self: &Arc<Self>, record: Record) -> Entry {
        let record = Arc::new(Mutex::new(record));
        let mut ring = self.ring();
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(record.clone());
        Entry {
            journal: self.clone(),
            record,
            slot: None,
        }
    }
}

fn locked(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request under way. Its end is noted when it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    journal: Arc<Journal>,
    record: Arc<Mutex<Record>>,
    slot: Option<OwnedSemaphorePermit>,
}

impl Entry {
    /// Keeps a slot until the request ends.
    pub(crate) fn hold(&mut self, slot: OwnedSemaphorePermit) {
        self.slot = Some(slot);
    }

    pub(crate) fn answered(&self, code: u16) {
        locked(&self.record).code = code;
    }

    pub(crate) fn sent(&self, bytes: usize) {
        locked(&self.record).bytes += bytes as u64;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        locked(&self.record).ended = Some(clock::instant());
        if let Some(listener) = &self.journal.listener {
            // Not under a lock: a listener may ask the journal.
            let record = locked(&self.record).clone();
            listener(&record);
        }
    }
}
