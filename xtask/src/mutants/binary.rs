//! Test binaries, run without cargo: which tests, with which bug, until the first failure.
//!
//! ```text
//! suite ──▶ [Binary] ──run(tests, bug)──▶ Passed │ Failed(test) │ Hung(test)
//! ```
//!
//! A binary lists its tests and runs them by their exact names. Its output is read while it runs,
//! and it is killed at the first failure: the rest cannot change the result.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::table::Mutant;
use crate::suite;

/// BOUND: how long a run may go on without a test that ends.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// Chooses the bug in programs built with the cfg.
const CHOICE: &str = "KINFORM_MUTANT";

/// One binary and its tests.
#[derive(Debug)]
pub(super) struct Binary {
    binary: suite::Binary,
    tests: Vec<String>,
}

/// The end of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// The test that failed first.
    Failed(String),
    /// A test still running after no test had ended within the limit.
    Hung(String),
}

impl Binary {
    /// A binary with the tests that it lists.
    pub(super) fn new(binary: suite::Binary) -> Result<Self, String> {
        let tests = binary.list()?;
        Ok(Self { binary, tests })
    }

    /// The package of its tests.
    pub(super) fn package(&self) -> &str {
        let name = &self.binary.name;
        name.split_once('/').map_or(name, |(package, _)| package)
    }

    /// All tests.
    pub(super) fn tests(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().map(String::as_str)
    }

    /// The tests whose own name begins with that of the bug.
    pub(super) fn named_after(&self, mutant: &Mutant) -> impl Iterator<Item = &str> {
        self.tests()
            .filter(|test| is_named_after(test, mutant.name))
    }

    /// Runs these tests until one fails.
    ///
    /// # Errors
    /// The binary could not be started.
    pub(super) fn run(&self, tests: &[&str], bug: Option<&str>) -> Result<Outcome, String> {
        if tests.is_empty() {
            return Ok(Outcome::Passed);
        }
        let mut command = self.binary.command();
        command.arg("--exact").args(tests);
        match bug {
            Some(bug) => command.env(CHOICE, bug),
            None => command.env_remove(CHOICE),
        };
        let name = &self.binary.name;
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{name} could not be started: {e}"))?;
        let of = |test| format!("{name} {test}");
        Ok(match follow(child, tests) {
            Outcome::Passed => Outcome::Passed,
            Outcome::Failed(test) => Outcome::Failed(of(test)),
            Outcome::Hung(test) => Outcome::Hung(of(test)),
        })
    }
}

fn is_named_after(test: &str, bug: &str) -> bool {
    let name = test.rsplit("::").next().unwrap_or(test);
    let rest = name.strip_prefix(&*bug.to_ascii_lowercase());
    rest.is_some_and(|rest| rest.starts_with('_'))
}

/// Reads a run's output until a test fails, it ends, or the limit is reached.
fn follow(mut child: Child, tests: &[&str]) -> Outcome {
    let (sender, lines) = channel();
    let output = child.stdout.take();
    let reader = thread::spawn(move || {
        let lines = output.into_iter().flat_map(|o| BufReader::new(o).lines());
        // Sending fails once the outcome is known, and the thread ends.
        lines
            .map_while(Result::ok)
            .try_for_each(|l| sender.send(l).ok())
    });
    let mut waiting = tests.to_vec();
    let outcome = loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) => match read(&line) {
                Some((test, "ok" | "ignored")) => waiting.retain(|known| *known != test),
                Some((test, "FAILED")) => break Outcome::Failed(test.to_owned()),
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) => break Outcome::Hung(first(&waiting)),
            Err(RecvTimeoutError::Disconnected) => match child.wait() {
                Ok(status) if status.success() => break Outcome::Passed,
                // The whole process died: an abort, an overflow of the stack.
                _ => break Outcome::Failed(first(&waiting)),
            },
        }
    };
    // It may have ended by itself meanwhile.
    let _ = child.kill();
    let _ = child.wait();
    drop(lines);
    let _ = reader.join();
    outcome
}

fn first(waiting: &[&str]) -> String {
    waiting.first().unwrap_or(&"its end").to_string()
}

/// The test and the word in a line `test a::b ... ok`.
fn read(line: &str) -> Option<(&str, &str)> {
    let (test, word) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let test = test.strip_suffix(" - should panic").unwrap_or(test);
    let word = word.split([',', ' ']).next().unwrap_or(word);
    Some((test, word))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_line_says_which_test_ended_and_how() {
        assert_eq!(read("test a::b ... ok"), Some(("a::b", "ok")));
        assert_eq!(read("test b6_x ... FAILED"), Some(("b6_x", "FAILED")));
        let panics = "test b6_x - should panic ... ok";
        assert_eq!(read(panics), Some(("b6_x", "ok")));
        assert_eq!(
            read("test b6_x ... ignored, why"),
            Some(("b6_x", "ignored"))
        );
        assert_eq!(read("test result: ok. 1 passed"), None);
        assert_eq!(read("running 3 tests"), None);
    }

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn a_run_is_left_at_its_first_failure() {
        let fails = "echo test a ... ok; echo test b ... FAILED; exec sleep 1000";
        let outcome = follow(shell(fails), &["a", "b", "c"]);
        assert_eq!(outcome, Outcome::Failed("b".into()));
    }

    #[test]
    fn a_process_that_dies_fails_what_it_had_not_done() {
        let outcome = follow(shell("echo test a ... ok; exit 134"), &["a", "b"]);
        assert_eq!(outcome, Outcome::Failed("b".into()));
        let outcome = follow(shell("echo test a ... ok"), &["a"]);
        assert_eq!(outcome, Outcome::Passed);
    }

    #[test]
    fn tests_are_found_by_the_name_of_the_bug() {
        for (test, expected) in [
            ("b6_x", true),
            ("m::b6_y", true),
            ("m::b16_z", false),
            ("b6_m::z", false),
            ("b6", false),
            ("d6_x", false),
        ] {
            assert_eq!(is_named_after(test, "B6"), expected, "{test}");
        }
    }
}
