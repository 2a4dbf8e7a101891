//! The subject kinform, allocating with mimalloc: time and resident memory.
//!
//! ```text
//! SCENARIO SIZE [URL] ──▶ lines of JSON
//! ```

use kinform_bench::subject::{Failed, kinform::run, main_of};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Failed> {
    main_of(run, None)
}
