//! Progress, hints and logs: everything that is not data, on stderr.
//!
//! ```text
//! progress!("..") ──no control of the terminal──▶ a line, its further lines indented
//! RUST_LOG → tracing lines, the same way
//! ```
//!
//! Words of a server may be in a line: they neither control a terminal nor look like a line of ours.
//! A closed stderr is no reason to end: write errors are dropped here, and only here.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;
use crate::terminal::shown;

/// Prints one line on stderr.
#[macro_export]
macro_rules! progress {
    ($($words:tt)*) => { $crate::stderr::line(format_args!($($words)*)) };
}

/// BOUND: lines that are kept while a full screen has the terminal; the oldest go.
const MAX_HELD: usize = 1_000;

/// The lines that wait, while a full screen has the terminal.
static HELD: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

/// Keeps lines back until it is dropped, since they would spoil a full screen.
#[derive(Debug)]
pub(crate) struct Hold(());

impl Hold {
    /// Begins to keep lines back.
    pub(crate) fn begin() -> Self {
        held().get_or_insert_default();
        Self(())
    }

    /// The last lines, oldest first.
    pub(crate) fn last(&self, most: usize) -> Vec<String> {
        let held = held();
        let lines = held.iter().flatten();
        let skipped = held.as_ref().map_or(0, VecDeque::len).saturating_sub(most);
        lines.skip(skipped).cloned().collect()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let lines = held().take().unwrap_or_default();
        for text in lines {
            write(&text);
        }
    }
}

fn held() -> MutexGuard<'static, Option<VecDeque<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The function behind [`progress!`].
pub(crate) fn line(words: Arguments<'_>) {
    let text = line_of(&words.to_string());
    if let Some(lines) = held().as_mut() {
        if lines.len() == MAX_HELD {
            lines.pop_front();
        }
        lines.push_back(text);
        return;
    }
    write(&text);
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// Prints a failure: a line and, apart from it, a hint, which no message can imitate.
pub(crate) fn failure(failure: &Failure) {
    let (message, hint) = failure.parts();
    line(format_args!("error: {message}"));
    if let Some(hint) = hint {
        line(format_args!("  hint: {hint}"));
    }
}

/// The text with its further lines indented, without letters that could control a terminal.
fn line_of(text: &str) -> String {
    let text = shown(text);
    let mut lines = text.trim_end().lines();
    let mut line = lines.next().unwrap_or_default().to_owned();
    for more in lines {
        line.push_str("\n    ");
        line.push_str(more);
    }
    line
}

/// Logs on stderr according to `RUST_LOG`; silent if it is unset.
pub(crate) fn log_from_environment() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(|| Log(std::io::stderr()))
        .init();
}

/// Writes lines of a log, which may have words of a server.
struct Log(std::io::Stderr);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // A line comes whole.
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(shown(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_server_do_not_look_like_a_line_of_ours() {
        let words = "error: 400: no\nloaded 5 objects\r\u{1b}[2J\n  hint: x\n";
        let expected = "error: 400: no\n    loaded 5 objects\u{fffd}\u{fffd}[2J\n      hint: x";
        assert_eq!(line_of(words), expected);
    }
}
