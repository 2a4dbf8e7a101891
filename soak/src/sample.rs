//! The figures of the operator's process, and the commands that ask for them.
//!
//! ```text
//! driver ──command, a line──▶ operator ──reply, a line of JSON──▶ driver
//! /proc/self ──▶ resident memory, descriptors, threads │ tokio ──▶ tasks │ allocator ──▶ live memory
//! ```
//!
//! Where the system has no `/proc`, its figures are zero.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A command to the operator; each is answered by one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// Sends the figures; those of an interval begin anew.
    Sample,
    /// Handlers, streams and informers come and go from now on.
    Load,
    /// They stop to come; replies when the last of them is gone.
    Rest,
    /// Compares every cache with the server.
    Compare,
    /// Ends the operator.
    Stop,
}

/// The reply to a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The figures.
    Sample(Box<Sample>),
    /// The command was carried out.
    Done,
    /// The differences between caches and server, and between parents and children.
    Compared(Vec<String>),
}

/// The figures of a process by the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Resident memory.
    pub(crate) resident_bytes: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    /// Threads.
    pub(crate) threads: u64,
}

/// The figures of the operator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Its process.
    #[serde(flatten)]
    pub(crate) usage: Usage,
    /// Memory allocated and not freed.
    pub(crate) live_bytes: u64,
    /// Tasks of its runtime that have not ended.
    pub(crate) tasks: u64,
    /// Of these, the tasks of informers and their handlers.
    pub(crate) informer_tasks: u64,
    /// The port of its metrics; zero before it listens.
    pub(crate) metrics_port: u16,
    /// It holds the lease.
    pub(crate) is_leading: bool,
    /// Terms that it has had.
    pub(crate) terms: u64,
    /// Every informer has stored a list.
    pub(crate) has_synced: bool,
    /// Objects in all caches.
    pub(crate) objects: u64,
    /// Lists after the first of each informer.
    pub(crate) relists: u64,
    /// Watches that continued where the one before stopped.
    pub(crate) reopens: u64,
    /// Notifications that handlers heard since the start.
    pub(crate) heard: u64,
    /// Calls of handlers that ended in a panic, all of them planned.
    pub(crate) panics: u64,
    /// Times that a handler fell behind and received a difference.
    pub(crate) times_behind: u64,
    /// Handlers, streams and informers that came and went.
    pub(crate) visits: u64,
    /// Children that were applied.
    pub(crate) reconciles: u64,
    /// Milliseconds from a write to a handler, since the last sample.
    pub(crate) lag_ms: Percentiles,
    /// Checkers that heard a contradiction.
    pub(crate) contradictions: u64,
    /// The first of these contradictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contradiction: Option<String>,
}

/// A summary of many measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    /// The number of measurements.
    pub(crate) count: usize,
    /// Half of them are at most this.
    pub(crate) p50: u64,
    /// 99 of 100 are at most this.
    pub(crate) p99: u64,
    /// The largest.
    pub(crate) max: u64,
}

impl Percentiles {
    /// Summarizes measurements.
    pub(crate) fn of(mut measured: Vec<u64>) -> Self {
        measured.sort_unstable();
        let at = |percent: usize| {
            let place = (measured.len() * percent).div_ceil(100).saturating_sub(1);
            measured.get(place).copied().unwrap_or_default()
        };
        Self {
            count: measured.len(),
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

impl Usage {
    /// The figures of a process; of this one if `process` is `None`.
    pub(crate) fn of(process: Option<u32>) -> Self {
        let folder = match process {
            Some(id) => PathBuf::from(format!("/proc/{id}")),
            None => PathBuf::from("/proc/self"),
        };
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        // Reading the folder of one's own descriptors takes one.
        let own = u64::from(process.is_none());
        let open = fs::read_dir(folder.join("fd")).map_or(0, |entries| entries.count() as u64);
        Self {
            resident_bytes: field(&status, "VmRSS:") * 1024,
            descriptors: open.saturating_sub(own),
            threads: field(&status, "Threads:"),
        }
    }
}

/// The number behind a name in a `status` file of `/proc`.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measurements() {
        for (measured, p50, p99, max) in [
            (vec![], 0, 0, 0),
            (vec![7], 7, 7, 7),
            (vec![3, 1, 2], 2, 3, 3),
            ((1..=200).rev().collect(), 100, 198, 200),
        ] {
            let count = measured.len();
            let expected = Percentiles {
                count,
                p50,
                p99,
                max,
            };
            assert_eq!(Percentiles::of(measured), expected);
        }
    }

    #[test]
    fn a_status_file_is_read_by_name() {
        let status = "Name:\tsoak\nVmRSS:\t   2048 kB\nThreads:\t4\n";
        for (name, expected) in [("VmRSS:", 2048), ("Threads:", 4), ("VmSwap:", 0)] {
            assert_eq!(field(status, name), expected, "{name}");
        }
    }

    #[test]
    fn a_sample_is_one_line_and_read_as_it_was_written() {
        let sample = Sample {
            tasks: 12,
            contradiction: Some("two\nlines".to_owned()),
            ..Sample::default()
        };
        let line = serde_json::to_string(&Reply::Sample(Box::new(sample))).unwrap();
        assert!(!line.contains('\n'), "{line}");
        let Reply::Sample(read) = serde_json::from_str(&line).unwrap() else {
            panic!("{line}");
        };
        assert_eq!((read.tasks, read.contradiction.is_some()), (12, true));
    }
}
