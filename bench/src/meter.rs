//! The resources that a process has used: CPU time, allocations, memory.
//!
//! ```text
//! Moment::now ──work──▶ until_now → Usage { cpu_seconds, user_seconds, wall_seconds, allocations }
//! ```
//!
//! Each Rust subject is two programs. The plain one allocates with mimalloc (the best that kube-rs
//! can have, so no subject has an advantage) and reports time and resident memory. The counted one
//! has the system's allocator behind counters, which cost time, and reports allocations and bytes
//! asked for.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// The counters of a counting allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap {
    /// Bytes held, as asked for.
    pub live_bytes: u64,
    /// The most that were ever held.
    pub peak_bytes: u64,
    /// Allocations made.
    pub allocations: u64,
}

/// Asks the allocator, if this program has one that counts.
pub type AskHeap = Option<fn() -> Heap>;

/// The resources used between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu_seconds: f64,
    /// The user time of that, without time in the kernel.
    pub user_seconds: f64,
    /// Time that passed.
    pub wall_seconds: f64,
    /// Calls of the allocator.
    pub allocations: u64,
}

/// A moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    ask: AskHeap,
    cpu_seconds: f64,
    user_seconds: f64,
    at: std::time::Instant,
    allocations: u64,
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now(ask: AskHeap) -> Self {
        let (user_seconds, system_seconds) = seconds();
        Self {
            ask,
            cpu_seconds: user_seconds + system_seconds,
            user_seconds,
            at: std::time::Instant::now(),
            allocations: ask.map_or(0, |ask| ask().allocations),
        }
    }

    /// The resources used since this moment.
    #[must_use]
    pub fn until_now(self) -> Usage {
        let now = Self::now(self.ask);
        Usage {
            cpu_seconds: now.cpu_seconds - self.cpu_seconds,
            user_seconds: now.user_seconds - self.user_seconds,
            wall_seconds: (now.at - self.at).as_secs_f64(),
            allocations: now.allocations - self.allocations,
        }
    }
}

/// Resident memory of this process now, and its peak.
#[must_use]
pub fn resident_bytes() -> (u64, u64) {
    let status = |name| bytes_in("/proc/self/status", name);
    (status("VmRSS:"), status("VmHWM:"))
}

/// Available memory of the machine; zero where the system does not report it.
#[must_use]
pub fn available_bytes() -> u64 {
    bytes_in("/proc/meminfo", "MemAvailable:")
}

/// User and system time of this process so far.
fn seconds() -> (f64, f64) {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF).map_or((0.0, 0.0), |usage| {
        (seconds(usage.user_time()), seconds(usage.system_time()))
    })
}

/// A line of such a file, in bytes; zero where the system does not report it.
#[must_use]
pub(crate) fn bytes_in(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
}
