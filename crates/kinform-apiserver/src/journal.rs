//! The journal of the last requests, for tests that assert "one list, no relist".
//!
//! ```text
//! request ──begin──▶ Record ──bytes, end──▶ ring, oldest out; listener
//! ```
//!
//! A record is in the ring from the start of its request, so that tests see the watches under way.
//! The listener receives each request when it has ended, even if its record has left the ring. Only
//! names are kept: no bodies, no tokens.
//!
//! A request is recorded before it is authorized, and its sender chooses the texts. So the ring is
//! bounded in bytes, and the texts of senders without a valid credential are cut.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::object::strict::beginning;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// BOUND: the number of requests that are kept.
const KEPT: usize = 10_000;
/// BOUND: the bytes of all requests that are kept.
const KEPT_BYTES: usize = 16 << 20;
/// BOUND: the bytes of a text of a sender without a valid credential.
const STRANGERS_TEXT: usize = 256;
/// The mark at the end of a text that was cut.
const CUT: &str = "...";

/// A request and its outcome.
#[derive(Clone, Debug)]
pub struct Record {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the
    /// method in small letters if the path is not a resource.
    pub verb: &'static str,
    /// The plural, or the path if it is not a resource.
    pub resource: String,
    /// The namespace in the request's path.
    pub namespace: Option<String>,
    /// The name in the request's path.
    pub name: Option<String>,
    /// The query as it was sent. Of a sender without a valid credential, this and the other texts
    /// are cut after 256 bytes and end with `...`.
    pub query: String,
    /// The controller inside the server that made this request, or `None` for a client's request.
    pub controller: Option<&'static str>,
    /// The HTTP status, 0 until it is known.
    pub code: u16,
    /// The bytes of the body that the client has read, before compression of the connection.
    pub bytes: u64,
    /// Annotations that admission has for an audit log: `pod-security.kubernetes.io/enforce-policy`, ..
    pub annotations: BTreeMap<String, String>,
    /// The time of its arrival, by the server's clock.
    pub time: Timestamp,
    /// The instant of its arrival, for measuring durations.
    pub started: Instant,
    /// The instant at which its body ended or was dropped.
    pub ended: Option<Instant>,
}

impl Record {
    /// Returns whether the request has this verb and this resource.
    #[must_use]
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }

    /// Cuts the texts, which a sender without a valid credential chose.
    #[must_use]
    pub(crate) fn of_a_stranger(mut self) -> Self {
        let names = [&mut self.namespace, &mut self.name];
        let texts = [&mut self.resource, &mut self.query];
        for text in texts.into_iter().chain(names.into_iter().flatten()) {
            if text.len() > STRANGERS_TEXT {
                *text = format!("{}{CUT}", beginning(text, STRANGERS_TEXT));
            }
        }
        self
    }

    /// The bytes that the record occupies.
    fn weight(&self) -> usize {
        let name = |name: &Option<String>| name.as_ref().map_or(0, String::len);
        let texts = self.resource.len() + self.query.len();
        let annotations = self.annotations.iter();
        let annotations: usize = annotations
            .map(|(key, value)| key.len() + value.len())
            .sum();
        size_of::<Self>() + texts + name(&self.namespace) + name(&self.name) + annotations
    }

    /// Returns the record as a JSON object: `verb`, `resource`, `namespace`, `name`, `query`,
    /// `code`, `bytes`, `time` (of its arrival, RFC 3339), `seconds` (its duration, null while it is
    /// under way) and `annotations`, if there are any.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let seconds = self.ended.map(|ended| (ended - self.started).as_secs_f64());
        let mut shown = json!({
            "verb": self.verb, "resource": self.resource, "namespace": self.namespace,
            "name": self.name, "query": self.query, "code": self.code, "bytes": self.bytes,
            "time": self.time.to_string(), "seconds": seconds,
        });
        if !self.annotations.is_empty() {
            shown["annotations"] = json!(self.annotations);
        }
        shown
    }
}

/// Receives requests that have ended.
pub(crate) type Listener = Box<dyn Fn(&Record) + Send + Sync>;

/// The last requests.
#[derive(Default)]
pub struct Journal {
    ring: Mutex<Ring>,
    listener: Option<Listener>,
}

#[derive(Default)]
struct Ring {
    records: VecDeque<Arc<Mutex<Record>>>,
    // INVARIANT: the sum of the weights of the records.
    bytes: usize,
}

impl Ring {
    fn push(&mut self, weight: usize, record: Arc<Mutex<Record>>) {
        self.bytes += weight;
        self.records.push_back(record);
        self.shrink();
    }

    /// Adds annotations to a record, if it is still in the ring.
    fn annotate(&mut self, record: &Arc<Mutex<Record>>, annotations: BTreeMap<String, String>) {
        // Most likely one of the last.
        let mut all = self.records.iter().rev();
        let is_kept = all.any(|of| Arc::ptr_eq(of, record));
        let mut record = locked(record);
        let before = record.weight();
        record.annotations = annotations;
        if is_kept {
            self.bytes += record.weight() - before;
            drop(record);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        while self.records.len() > KEPT || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.records.pop_front() else {
                return;
            };
            self.bytes -= locked(&oldest).weight();
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("records", &self.ring().records.len())
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

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn matching(&self, is_wanted: impl Fn(&Record) -> bool) -> usize {
        let ring = self.ring();
        ring.records
            .iter()
            .filter(|record| is_wanted(&locked(record)))
            .count()
    }

    /// Returns the kept requests, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let ring = self.ring();
        ring.records
            .iter()
            .map(|record| locked(record).clone())
            .collect()
    }

    /// Counts the kept requests of clients that have this verb and this resource.
    #[must_use]
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        self.matching(|record| record.controller.is_none() && record.is(verb, resource))
    }

    /// Counts the watches of a resource that are under way.
    #[must_use]
    pub fn open_watches(&self, resource: &str) -> usize {
        self.matching(|record| record.is("watch", resource) && record.ended.is_none())
    }

    /// Drops all records.
    pub fn clear(&self) {
        *self.ring() = Ring::default();
    }

    pub(crate) fn begin(self: &Arc<Self>, record: Record) -> Entry {
        let weight = record.weight();
        let record = Arc::new(Mutex::new(record));
        self.ring().push(weight, record.clone());
        Entry {
            journal: self.clone(),
            record,
            slot: None,
            measured: None,
        }
    }
}

fn locked(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request under way. Dropping it records the end.
#[derive(Debug)]
pub(crate) struct Entry {
    journal: Arc<Journal>,
    record: Arc<Mutex<Record>>,
    slot: Option<OwnedSemaphorePermit>,
    measured: Option<Box<dyn Any + Send + Sync>>,
}

impl Entry {
    /// Keeps a slot until the request ends.
    pub(crate) fn hold(&mut self, slot: OwnedSemaphorePermit) {
        self.slot = Some(slot);
    }

    /// Keeps a measurement until the request ends.
    pub(crate) fn measure(&mut self, measured: impl Any + Send + Sync) {
        self.measured = Some(Box::new(measured));
    }

    /// Adds annotations, if there are any. Called at most once.
    pub(crate) fn annotate(&self, annotations: Option<BTreeMap<String, String>>) {
        if let Some(annotations) = annotations {
            self.journal.ring().annotate(&self.record, annotations);
        }
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
            // The record is unlocked first, because a listener may query the journal.
            let record = locked(&self.record).clone();
            listener(&record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(query: String) -> Record {
        Record {
            verb: "list",
            resource: "pods".to_owned(),
            namespace: Some("default".to_owned()),
            name: None,
            query,
            controller: None,
            code: 0,
            bytes: 0,
            annotations: BTreeMap::new(),
            time: Timestamp::UNIX_EPOCH,
            started: clock::instant(),
            ended: None,
        }
    }

    #[test]
    fn the_oldest_records_leave_when_the_journal_has_too_many_bytes() {
        let journal = Arc::new(Journal::default());
        for at in 0..700 {
            journal.begin(record(format!("{at:060000}")));
        }
        let records = journal.records();
        let bytes: usize = records.iter().map(Record::weight).sum();
        assert!(
            bytes <= KEPT_BYTES && bytes > KEPT_BYTES - (64 << 10),
            "{bytes}"
        );
        assert_eq!(bytes, journal.ring().bytes);
        assert!(records.last().unwrap().query.ends_with("699"));
        journal.clear();
        for _ in 0..=KEPT {
            journal.begin(record(String::new()));
        }
        assert_eq!(journal.records().len(), KEPT);
    }

    #[test]
    fn annotations_count_as_bytes_of_their_record() {
        let journal = Arc::new(Journal::default());
        for at in 0..100 {
            let entry = journal.begin(record(at.to_string()));
            let annotations = BTreeMap::from([("k".to_owned(), "v".repeat(1 << 20))]);
            entry.annotate(Some(annotations));
        }
        let records = journal.records();
        let bytes: usize = records.iter().map(Record::weight).sum();
        assert!(bytes <= KEPT_BYTES && records.len() == 15, "{bytes}");
        assert_eq!(bytes, journal.ring().bytes);
        let last = records.last().unwrap().to_json();
        assert_eq!(last["query"], "99");
        assert!(last["annotations"]["k"].as_str().unwrap().starts_with('v'));
    }

    #[test]
    fn the_texts_of_a_stranger_are_cut() {
        let mut long = record("\u{e9}".repeat(1000));
        long.name = Some("n".repeat(257));
        long.resource = "r".repeat(256);
        let cut = long.of_a_stranger();
        assert_eq!(cut.query, format!("{}...", "\u{e9}".repeat(128)));
        assert_eq!(cut.name, Some(format!("{}...", "n".repeat(256))));
        assert_eq!(cut.resource, "r".repeat(256));
        assert_eq!(cut.namespace.as_deref(), Some("default"));
    }
}
