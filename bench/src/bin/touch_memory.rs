//! Uses as many bytes of memory as it is told, and ends: see `kinform_bench::backing`.

use kinform_bench::backing;
use kinform_bench::subject::Failed;

// As the subjects do: it asks for huge pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Failed> {
    let bytes = std::env::args().nth(1).unwrap_or_default().parse()?;
    backing::touch(bytes);
    Ok(())
}
