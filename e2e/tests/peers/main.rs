//! Other people's cluster programs and test suites, against `kinform serve`.
//!
//! Opt-in, because their builds take minutes: `cargo xtask e2e peers` and `cargo xtask e2e
//! upstream`.

mod cluster;
mod reach;
mod suites;
mod upstream;

/// A runtime that waits for servers. The programs under test are processes of their own.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}
