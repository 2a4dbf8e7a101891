//! The subject kube-rs behind counters of the system's allocator: allocations and bytes.
//!
//! ```text
//! SCENARIO SIZE [URL] ──▶ lines of JSON
//! ```

use std::alloc::System;

use cap::Cap;
use kinform_bench::meter::Heap;
use kinform_bench::subject::{Failed, kube_rs::run, main_of};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: Cap<&StatsAlloc<System>> = Cap::new(&INSTRUMENTED_SYSTEM, usize::MAX);

fn heap() -> Heap {
    let stats = INSTRUMENTED_SYSTEM.stats();
    Heap {
        live_bytes: ALLOCATOR.allocated() as u64,
        peak_bytes: ALLOCATOR.max_allocated() as u64,
        allocations: (stats.allocations + stats.reallocations) as u64,
    }
}

fn main() -> Result<(), Failed> {
    main_of(run, Some(heap))
}
