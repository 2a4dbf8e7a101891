//! Other people's cluster programs and test suites, against `kinform serve`.
//!
//! Opt-in, because their builds take minutes: `cargo xtask e2e peers`, `cargo xtask e2e programs` and
//! `cargo xtask e2e upstream`.

mod cluster;
mod programs;
mod suites;
mod upstream;

use kinform_e2e::missing;

/// A runtime that waits for servers. The programs under test are processes of their own.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Returns whether a part must be skipped, having said so.
fn is_skipped(what: &str) -> bool {
    let missing = missing().join(", ");
    if missing.is_empty() {
        return false;
    }
    eprintln!("SKIPPED: {what}: to build and start it, {missing} is needed");
    println!("RESULT | {what} | embedded | skipped: no {missing} |");
    true
}
