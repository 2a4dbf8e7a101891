//! A subject: does one scenario and reports its cost.
//!
//! ```text
//! SCENARIO SIZE [URL [TOKEN]] ──▶ work between two moments ──▶ a line of JSON for each metric
//! ```
//!
//! A subject that does not support a scenario prints no line.

pub mod kinform;
pub mod kube_rs;
pub mod latency;
pub mod small;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::runtime;

use crate::meter::{AskHeap, Moment, Usage, resident_bytes};
use crate::row::Reading;
use crate::scenario::Work;

/// The error of a subject: any failure ends it.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The task that a subject receives.
#[derive(Clone, Debug)]
pub struct Task {
    /// The scenario's work.
    pub work: Work,
    /// The scenario's size.
    pub size: usize,
    /// The server's address.
    pub url: String,
    /// The bearer token for the server; empty if the server needs no token.
    pub token: String,
    /// The function that asks the allocator for its counters.
    pub heap: AskHeap,
}

impl Task {
    /// Reads it from the command line.
    ///
    /// # Errors
    /// There is no such scenario, or no size.
    pub fn from_args(heap: AskHeap) -> Result<Self, Failed> {
        let mut words = std::env::args().skip(1);
        let mut word = || words.next().unwrap_or_default();
        let name = word();
        let work = Work::named(&name).ok_or_else(|| format!("no such scenario: {name:?}"))?;
        Ok(Self {
            work,
            size: word().parse()?,
            url: word(),
            token: word(),
            heap,
        })
    }

    /// Now.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment::now(self.heap)
    }

    /// The live bytes, or 0 if this program does not count allocations.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.heap.map_or(0, |ask| ask().live_bytes)
    }

    /// The cost of filling a cache: time if the allocator does not count, memory if it does. Memory
    /// is read once the buffers of the transfer are freed.
    ///
    /// # Errors
    /// Another number of objects is stored than the corpus has.
    pub async fn of_a_sync(
        &self,
        usage: Usage,
        live_before: u64,
        stored: usize,
    ) -> Result<Vec<Reading>, Failed> {
        if stored != self.size {
            return Err(format!("{stored} objects are stored, not {}", self.size).into());
        }
        tokio::time::sleep(SETTLING).await;
        let (now, most) = resident_bytes();
        let is_small = self.work == Work::SmallOperator;
        let Some(ask) = self.heap else {
            let mut readings = of_time(usage);
            readings.extend(match is_small {
                true => vec![Reading::new("mimalloc_resident_bytes", "B", now as f64)],
                false => of_a_process(now, most),
            });
            return Ok(readings);
        };
        let heap = ask();
        let live = heap.live_bytes.saturating_sub(live_before) as f64;
        let mut readings = vec![
            Reading::new("allocations", "count", usage.allocations as f64),
            Reading::new("bytes_per_object", "B", live / stored.max(1) as f64),
            Reading::new(
                "peak_over_steady",
                "x",
                heap.peak_bytes as f64 / heap.live_bytes.max(1) as f64,
            ),
        ];
        // A program that names no allocator has the one of this program.
        if is_small {
            readings.splice(0..0, of_a_process(now, most));
        }
        Ok(readings)
    }

    /// The cost of listing again, compared with the memory held before.
    pub fn of_a_relist(&self, usage: Usage, steady: u64) -> Vec<Reading> {
        let Some(ask) = self.heap else {
            return of_time(usage);
        };
        let most = ask().peak_bytes as f64;
        vec![
            Reading::new("allocations", "count", usage.allocations as f64),
            Reading::new("peak_over_steady", "x", most / steady.max(1) as f64),
        ]
    }

    /// The cost of `cycles` cycles of a work queue.
    pub fn of_cycles(&self, usage: Usage, cycles: usize) -> Vec<Reading> {
        if self.heap.is_some() {
            let each = usage.allocations as f64 / cycles.max(1) as f64;
            return vec![Reading::new("allocations_per_cycle", "count", each)];
        }
        let each_ns = |seconds: f64| seconds * 1e9 / cycles.max(1) as f64;
        vec![
            Reading::new("ns_per_cycle", "ns", each_ns(usage.wall_seconds)),
            Reading::new("cpu_ns_per_cycle", "ns", each_ns(usage.cpu_seconds)),
        ]
    }

    /// The cost of delayed adds that are all still waiting.
    pub fn of_adds(&self, usage: Usage, live_before: u64) -> Vec<Reading> {
        let size = self.size.max(1) as f64;
        let Some(ask) = self.heap else {
            let each_ns = usage.cpu_seconds * 1e9 / size;
            return vec![Reading::new("cpu_ns_per_add", "ns", each_ns)];
        };
        let live = ask().live_bytes.saturating_sub(live_before) as f64;
        vec![Reading::new("bytes_per_add", "B", live / size)]
    }

    /// The configuration of a client for the server.
    ///
    /// # Errors
    /// The task has no server.
    pub fn server(&self) -> Result<kube::Config, Failed> {
        let mut config = kube::Config::new(self.url.parse()?);
        if !self.token.is_empty() {
            config.auth_info.token = Some(self.token.clone().into());
        }
        Ok(config)
    }

    /// Posts a command to the replay server.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn tell_replay(&self, what: &str) -> Result<(), Failed> {
        let client = kube::Client::try_from(self.server()?)?;
        let request = http::Request::post(format!("/replay/{what}")).body(Vec::new())?;
        client.request_text(request).await?;
        Ok(())
    }
}

/// The CPU time of a program, in total and in user mode.
fn of_time(usage: Usage) -> Vec<Reading> {
    vec![
        Reading::new("cpu_seconds", "s", usage.cpu_seconds),
        Reading::new("user_seconds", "s", usage.user_seconds),
    ]
}

/// Its resident memory now, and at most.
fn of_a_process(now: u64, most: u64) -> Vec<Reading> {
    vec![
        Reading::new("resident_bytes", "B", now as f64),
        Reading::new("peak_resident_bytes", "B", most as f64),
    ]
}

/// The time that buffers may take to be freed before memory is read.
pub(crate) const SETTLING: Duration = Duration::from_millis(300);

/// The time that reads of one kind go on.
pub(crate) const READ_TIME: Duration = Duration::from_millis(500);

/// The number of pods in scenarios about dispatching events.
pub(crate) const HEARD_PODS: usize = 1000;

/// Repeats `turn` for `time`; returns nanoseconds a turn.
pub(crate) fn each_ns(time: Duration, mut turn: impl FnMut(usize)) -> f64 {
    let began = Instant::now();
    let mut turns = 0;
    // The clock is not read each turn.
    while began.elapsed() < time {
        for _ in 0..16 {
            turn(turns);
            turns += 1;
        }
    }
    began.elapsed().as_secs_f64() * 1e9 / turns as f64
}

/// The function that does a subject's task.
pub type Run = for<'a> fn(&'a Task) -> BoxFuture<'a, Result<Vec<Reading>, Failed>>;

/// Runs a subject's program: does the task of the command line on tokio and prints a line for each
/// reading.
///
/// # Errors
/// The task cannot be done, or stdout is closed.
pub fn main_of(run: Run, heap: AskHeap) -> Result<(), Failed> {
    let task = Task::from_args(heap)?;
    let mut runtime = match task.work {
        Work::SyncProtobufOneThread => runtime::Builder::new_current_thread(),
        _ => runtime::Builder::new_multi_thread(),
    };
    let readings = runtime.enable_all().build()?.block_on(run(&task))?;
    let mut out = io::stdout().lock();
    for reading in readings {
        writeln!(out, "{}", serde_json::to_string(&reading)?)?;
    }
    Ok(out.flush()?)
}
