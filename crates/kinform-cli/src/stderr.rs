//! Progress, hints and logs: everything that is not data, on stderr.
//!
//! ```text
//! progress!("..") → one line;   RUST_LOG → tracing lines
//! ```
//!
//! A closed stderr is no reason to end: write errors are dropped here, and only here.

use std::fmt::Arguments;
use std::io::Write as _;

use tracing_subscriber::EnvFilter;

/// Prints one line on stderr.
#[macro_export]
macro_rules! progress {
    ($($words:tt)*) => { $crate::stderr::line(format_args!($($words)*)) };
}

/// The function behind [`progress!`].
pub(crate) fn line(words: Arguments<'_>) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{words}").and_then(|()| stderr.flush());
}

/// Logs on stderr according to `RUST_LOG`; silent if it is unset.
pub(crate) fn log_from_environment() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
