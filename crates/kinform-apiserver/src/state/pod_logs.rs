//! Logs of containers that never ran: the lines that tests register.
//!
//! ```text
//! append(namespace, pod, container, text) ──▶ lines with times ──begin, next──▶ chunks from a place
//! ```
//!
//! Readers keep a position in the lines and have no queue: a reader that falls behind the kept
//! lines skips the discarded ones. `actions/pod_log.rs` parses requests for logs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use tokio::sync::watch;

/// BOUND: bytes of a container's log; the oldest lines go first.
const KEPT: usize = 4 << 20;
/// BOUND: containers with a log.
const CONTAINERS: usize = 10_000;
/// The size of a chunk of a reply.
const CHUNK: usize = 64 << 10;

/// The logs of all containers.
///
/// The lines of a container stay when its pod is deleted: a new pod of the same name has them
/// again.
#[derive(Debug)]
pub struct PodLogs {
    containers: Mutex<HashMap<Key, Log>>,
    pub(crate) changes: watch::Sender<u64>,
    clock: Clock,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    namespace: String,
    pod: String,
    container: String,
    run: Run,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Run {
    Current,
    Previous,
}

#[derive(Debug, Default)]
struct Log {
    lines: VecDeque<(Timestamp, Bytes)>,
    /// The number of the first line that is kept.
    first: u64,
    bytes: usize,
    has_ended: bool,
}

impl PodLogs {
    /// No logs yet; lines get the time of this clock.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            containers: Mutex::default(),
            changes: watch::Sender::new(0),
            clock,
        }
    }

    /// Adds lines to the log of a container, with the current time. An unterminated last line is
    /// terminated.
    pub fn append(&self, namespace: &str, pod: &str, container: &str, text: &str) {
        self.add(Key::new([namespace, pod, container], Run::Current), text);
    }

    /// Adds lines to the log of the container that ran before.
    pub fn append_previous(&self, namespace: &str, pod: &str, container: &str, text: &str) {
        self.add(Key::new([namespace, pod, container], Run::Previous), text);
    }

    /// Marks the log of a container as complete: its followers end.
    pub fn finish(&self, namespace: &str, pod: &str, container: &str) {
        let key = Key::new([namespace, pod, container], Run::Current);
        if let Some(log) = self.lock().get_mut(&key) {
            log.has_ended = true;
        }
        self.changes.send_modify(|count| *count += 1);
    }

    fn add(&self, key: Key, text: &str) {
        let mut logs = self.lock();
        if logs.len() >= CONTAINERS && !logs.contains_key(&key) {
            return;
        }
        let log = logs.entry(key).or_default();
        let now = self.clock.now();
        for line in text.lines() {
            let line = Bytes::from(format!("{line}\n"));
            log.bytes += line.len();
            log.lines.push_back((now, line));
        }
        while log.bytes > KEPT {
            let Some((_, line)) = log.lines.pop_front() else {
                break;
            };
            log.bytes -= line.len();
            log.first += 1;
        }
        drop(logs);
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Log>> {
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the first line that a reader gets. `None` if there is no such log.
    pub(crate) fn begin(
        &self,
        key: &Key,
        since: Option<Timestamp>,
        tail: Option<usize>,
    ) -> Option<u64> {
        let logs = self.lock();
        let log = logs.get(key)?;
        let recent = log
            .lines
            .partition_point(|(at, _)| since.is_some_and(|since| *at < since));
        let tail = tail.map_or(0, |tail| log.lines.len().saturating_sub(tail));
        Some(log.first + recent.max(tail) as u64)
    }

    /// Returns the next chunk from a place, and whether more may come.
    pub(crate) fn next(&self, key: &Key, place: &mut u64, with_times: bool) -> (BytesMut, bool) {
        let mut out = BytesMut::new();
        let logs = self.lock();
        let Some(log) = logs.get(key) else {
            return (out, false);
        };
        *place = (*place).max(log.first);
        let from = usize::try_from(*place - log.first).unwrap_or(usize::MAX);
        for (at, line) in log.lines.iter().skip(from) {
            if with_times {
                out.extend_from_slice(
                    at.strftime("%Y-%m-%dT%H:%M:%S%.9fZ ")
                        .to_string()
                        .as_bytes(),
                );
            }
            out.extend_from_slice(line);
            *place += 1;
            if out.len() >= CHUNK {
                break;
            }
        }
        (out, !log.has_ended)
    }
}

impl Key {
    pub(crate) fn new([namespace, pod, container]: [&str; 3], run: Run) -> Self {
        Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            run,
        }
    }
}
