//! Metrics of the process itself.
//!
//! ```text
//! /proc/self → process_*
//! ```
//!
//! Linux only: elsewhere there are no such families.
//!
//! Upstream counterpart: `client_golang`'s process collector.

use super::family::{Family, Labels};

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
    families
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
