//! Metrics of the process itself.
//!
//! ```text
//! /proc/self, rusage, rlimits → process_*
//! ```
//!
//! Linux only: elsewhere there are no such families.
//!
//! Upstream counterpart: `client_golang`'s process collector.

use super::family::{Family, Labels};

/// Clock ticks in a second, as Linux shows them to programs on every architecture.
#[cfg(target_os = "linux")]
const TICKS: f64 = 100.0;

/// The families of this process.
pub(crate) fn families() -> Vec<Family> {
    let mut families = Vec::new();
    let none = Labels::new();
    if let Some((resident, virtual_size, threads)) = memory() {
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory.",
                resident,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory.",
                virtual_size,
            ),
            ("process_threads", "Threads.", threads),
        ] {
            let mut family = Family::gauge(name, help);
            family.set(&none, value as f64);
            families.push(family);
        }
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        let mut family = Family::gauge("process_open_fds", "Open file descriptors.");
        family.set(&none, open.count() as f64);
        families.push(family);
    }
    #[cfg(target_os = "linux")]
    families.extend(of_kernel());
    families
}

/// Time used, time of the start, and limits. An unlimited address space is the largest number, as
/// upstream has it.
#[cfg(target_os = "linux")]
fn of_kernel() -> Vec<Family> {
    use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};

    let none = Labels::new();
    let mut families = Vec::new();
    if let Ok(used) = getrusage(UsageWho::RUSAGE_SELF) {
        let seconds = |time: nix::sys::time::TimeVal| {
            time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0
        };
        let mut family = Family::counter("process_cpu_seconds_total", "Time on a processor.");
        family.count_seconds(
            &none,
            seconds(used.user_time()) + seconds(used.system_time()),
        );
        families.push(family);
    }
    let limit = |of| getrlimit(of).ok().map(|(soft, _)| soft as f64);
    for (name, help, value) in [
        (
            "process_start_time_seconds",
            "Time of the start, in seconds since 1970.",
            started_at(),
        ),
        (
            "process_max_fds",
            "Limit of open file descriptors.",
            limit(Resource::RLIMIT_NOFILE),
        ),
        (
            "process_virtual_memory_max_bytes",
            "Limit of the virtual memory.",
            limit(Resource::RLIMIT_AS),
        ),
    ] {
        let Some(value) = value else { continue };
        let mut family = Family::gauge(name, help);
        family.set(&none, value);
        families.push(family);
    }
    families
}

/// The start of this process, in seconds since 1970: that of the host, and the ticks since then.
#[cfg(target_os = "linux")]
fn started_at() -> Option<f64> {
    let host = std::fs::read_to_string("/proc/stat").ok()?;
    let booted = host.lines().find_map(|line| line.strip_prefix("btime "))?;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, can have spaces. The start is the 20th word after it.
    let (_, words) = stat.rsplit_once(')')?;
    let ticks: f64 = words.split_whitespace().nth(19)?.parse().ok()?;
    Some(booted.trim().parse::<f64>().ok()? + ticks / TICKS)
}

/// Bytes resident, bytes of address space, and threads.
fn memory() -> Option<(u64, u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((
        number("VmRSS:")? * 1024,
        number("VmSize:")? * 1024,
        number("Threads:")?,
    ))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_tells_its_start_its_time_and_its_limits() {
        let names: Vec<_> = families().iter().map(|family| family.name).collect();
        for name in [
            "cpu_seconds_total",
            "start_time_seconds",
            "max_fds",
            "virtual_memory_max_bytes",
        ] {
            assert!(
                names.contains(&format!("process_{name}").as_str()),
                "{names:?}"
            );
        }
        let now = kinform::env::wall_clock().as_second() as f64;
        let age = now - started_at().unwrap();
        // A test binary runs for minutes at most; the host's boot time is in whole seconds.
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}
