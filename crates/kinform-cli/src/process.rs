//! The resource usage of this process: memory, its peak, CPU time.
//!
//! ```text
//! the operating system → Usage { rss_bytes, peak_rss_bytes, cpu } ;  the allocator → live bytes, their peak
//! a command that holds little → SmallPages
//! ```
//!
//! Resident memory is read from `/proc` on Linux; elsewhere it is the peak.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use mimalloc::MiMalloc;
use nix::sys::resource::{UsageWho, getrusage};

/// Counts the bytes that are allocated and not yet freed, to measure the cost of objects. It wraps
/// the allocator that the bench measures with: glibc's takes a quarter to a third more time to
/// decode a cache.
#[global_allocator]
static ALLOCATOR: cap::Cap<MiMalloc> = cap::Cap::new(MiMalloc, usize::MAX);

/// The time between two looks at the allocated bytes.
const LOOK: Duration = Duration::from_millis(1);

/// The usage of the process up to now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Resident memory now.
    pub(crate) rss_bytes: u64,
    /// The peak of resident memory.
    pub(crate) peak_rss_bytes: u64,
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
}

/// Reads the process's usage; zeros where the system does not report it.
pub(crate) fn usage() -> Usage {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Usage {
            rss_bytes: 0,
            peak_rss_bytes: 0,
            cpu: Duration::ZERO,
        };
    };
    // Linux counts kilobytes, macOS bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    let peak = u64::try_from(usage.max_rss()).unwrap_or(0) * unit;
    let time = |t: nix::sys::time::TimeVal| {
        Duration::new(u64::try_from(t.tv_sec()).unwrap_or(0), 0)
            + Duration::from_micros(u64::try_from(t.tv_usec()).unwrap_or(0))
    };
    let rss = resident().unwrap_or(peak);
    Usage {
        rss_bytes: rss,
        // The kernel updates the peak only now and then.
        peak_rss_bytes: peak.max(rss),
        cpu: time(usage.user_time()) + time(usage.system_time()),
    }
}

/// Bytes allocated and not freed.
pub(crate) fn live_bytes() -> u64 {
    ALLOCATOR.allocated() as u64
}

/// The peak of allocated bytes while it is held, as a thread of its own sees it.
#[derive(Debug)]
pub(crate) struct Peak {
    most: Arc<AtomicU64>,
    /// The thread ends when this is dropped.
    _watched: Sender<()>,
}

impl Peak {
    /// Begins to look every millisecond. A count at each allocation would slow down all threads.
    pub(crate) fn watch() -> Self {
        let most = Arc::<AtomicU64>::default();
        let (watched, ended) = mpsc::channel();
        let seen = Arc::clone(&most);
        std::thread::spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                seen.fetch_max(live_bytes(), Ordering::Relaxed);
            }
        });
        Self {
            most,
            _watched: watched,
        }
    }

    /// The most bytes that were allocated at once so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.most.load(Ordering::Relaxed).max(live_bytes())
    }
}

/// Small pages of memory, for a command that holds little.
///
/// The allocator asks for huge ones, with which a large cache is faster. A huge page is resident as a
/// whole, 2 MB, once a byte of it was touched. On a kernel without this setting nothing changes.
#[derive(Debug)]
pub(crate) struct SmallPages {
    #[cfg(target_os = "linux")]
    were_small: bool,
}

impl SmallPages {
    /// Takes memory in small pages from now on.
    pub(crate) fn take() -> Self {
        #[cfg(target_os = "linux")]
        {
            use nix::sys::prctl::{get_thp_disable, set_thp_disable};
            let were_small = get_thp_disable().unwrap_or(false);
            let _ = set_thp_disable(true);
            Self { were_small }
        }
        #[cfg(not(target_os = "linux"))]
        Self {}
    }

    /// Takes memory from now on as before.
    pub(crate) fn give_back(self) {
        #[cfg(target_os = "linux")]
        let _ = nix::sys::prctl::set_thp_disable(self.were_small);
    }
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn small_pages_are_taken_until_they_are_given_back() {
        use nix::sys::prctl::get_thp_disable;
        let before = get_thp_disable().expect("Linux has had this setting since 3.15");
        let pages = SmallPages::take();
        assert!(get_thp_disable().unwrap());
        pages.give_back();
        assert_eq!(get_thp_disable().unwrap(), before);
    }

    #[test]
    fn usage_is_of_this_process() {
        let (before, peak) = (live_bytes(), Peak::watch());
        // Far more than other tests of this process may free meanwhile.
        let held = vec![1_u8; 64 << 20];
        assert!(live_bytes() >= before + held.len() as u64 / 2);
        assert!(peak.bytes() >= held.len() as u64);
        let usage = usage();
        assert!(usage.rss_bytes > 1 << 20, "{usage:?}");
        assert!(usage.peak_rss_bytes >= usage.rss_bytes / 2, "{usage:?}");
    }
}
