//! Has memory used, and free again, before a subject asks for it: see `kinform_bench::backing`.

use kinform_bench::backing;
use kinform_bench::subject::Failed;

fn main() -> Result<(), Failed> {
    backing::serve()
}
