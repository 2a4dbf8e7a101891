//! Progress, hints and logs: everything that is not data, on stderr.
//!
//! ```text
//! progress!("..") ──no control of the terminal──▶ a line, its further lines indented
//! RUST_LOG → tracing lines
//! ```
//!
//! Words of a server may be in a line: they neither control a terminal nor look like a line of ours.
//! A closed stderr is no reason to end: write errors are dropped here, and only here.

use std::fmt::Arguments;
use std::io::Write as _;

use tracing_subscriber::EnvFilter;

use crate::terminal::shown;

/// Prints one line on stderr.
#[macro_export]
macro_rules! progress {
    ($($words:tt)*) => { $crate::stderr::line(format_args!($($words)*)) };
}

/// The function behind [`progress!`].
pub(crate) fn line(words: Arguments<'_>) {
    let text = line_of(&words.to_string());
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// The text with its further lines indented, without letters that could control a terminal.
fn line_of(text: &str) -> String {
    let text = shown(text);
    let mut lines = text.trim_end().lines();
    let mut line = lines.next().unwrap_or_default().to_owned();
    for more in lines {
        let indent = if more.starts_with("  ") { "\n" } else { "\n  " };
        line.push_str(indent);
        line.push_str(more);
    }
    line
}

/// Logs on stderr according to `RUST_LOG`; silent if it is unset.
pub(crate) fn log_from_environment() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_server_do_not_look_like_a_line_of_ours() {
        let words = "error: 400: no\nloaded 5 objects\r\u{1b}[2J\n  hint: x\n";
        let expected = "error: 400: no\n  loaded 5 objects\u{fffd}\u{fffd}[2J\n  hint: x";
        assert_eq!(line_of(words), expected);
    }
}
