//! Test binaries, run without cargo: which tests, with which bug, until the first failure.
//!
//! ```text
//! cargo's messages ──▶ [Binary] ──run(tests, bug)──▶ Passed │ Failed(test) │ Hung(test)
//! ```
//!
//! A binary says what its tests are, and is then asked for them by their exact names. It is read
//! while it runs, and ended at the first failure: the rest cannot change the answer.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::table::Mutant;

/// BOUND: how long a run of one binary may take.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// Chooses the bug in what was built with the cfg.
const CHOICE: &str = "KINFORM_MUTANT";

/// The tests of one target of one package.
#[derive(Debug)]
pub(super) struct Binary {
    package: String,
    target: String,
    path: PathBuf,
    folder: PathBuf,
    tests: Vec<String>,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// The test that failed first.
    Failed(String),
    /// A test that was not done within the limit.
    Hung(String),
}

/// One line of cargo's, as far as it matters.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Runs `cargo`, and asks each binary that it made for its tests.
pub(super) fn build(mut cargo: Command) -> Result<Vec<Binary>, String> {
    let output = cargo
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if !output.status.success() {
        return Err("the tests could not be built".to_owned());
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    let mut binaries = Vec::new();
    for message in lines.lines().filter_map(|l| serde_json::from_str(l).ok()) {
        let Message {
            manifest_path: Some(manifest),
            target: Some(target),
            executable: Some(path),
        } = message
        else {
            continue;
        };
        binaries.push(Binary::new(&manifest, target.name, path)?);
    }
    Ok(binaries)
}

impl Binary {
    fn new(manifest: &Path, target: String, path: PathBuf) -> Result<Self, String> {
        let folder = manifest.parent().unwrap_or(manifest).to_owned();
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        let listed = Command::new(&path)
            .args(["--list", "--format", "terse"])
            .current_dir(&folder)
            .output()
            .map_err(|e| format!("{} could not be started: {e}", path.display()))?;
        let lines = String::from_utf8_lossy(&listed.stdout);
        let tests = lines.lines().filter_map(|l| l.strip_suffix(": test"));
        Ok(Self {
            package: package.into_owned(),
            target,
            tests: tests.map(str::to_owned).collect(),
            path,
            folder,
        })
    }

    pub(super) fn package(&self) -> &str {
        &self.package
    }

    /// All tests.
    pub(super) fn tests(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().map(String::as_str)
    }

    /// The tests whose own name begins with that of the bug.
    pub(super) fn named_after(&self, mutant: &Mutant) -> impl Iterator<Item = &str> {
        let start = format!("{}_", mutant.name.to_ascii_lowercase());
        self.tests().filter(move |test| {
            let name = test.rsplit("::").next().unwrap_or(test);
            name.starts_with(&start)
        })
    }

    /// Runs these tests until one fails.
    ///
    /// # Errors
    /// The binary could not be started.
    pub(super) fn run(&self, tests: &[&str], bug: Option<&str>) -> Result<Outcome, String> {
        if tests.is_empty() {
            return Ok(Outcome::Passed);
        }
        let mut command = Command::new(&self.path);
        command.arg("--exact").args(tests).current_dir(&self.folder);
        match bug {
            Some(bug) => command.env(CHOICE, bug),
            None => command.env_remove(CHOICE),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{} could not be started: {e}", self.path.display()))?;
        Ok(match follow(child, tests) {
            Outcome::Passed => Outcome::Passed,
            Outcome::Failed(test) => Outcome::Failed(format!("{}::{test}", self.target)),
            Outcome::Hung(test) => Outcome::Hung(format!("{}::{test}", self.target)),
        })
    }
}

/// Reads what a run says until a test fails, it ends, or time is over.
fn follow(mut child: Child, tests: &[&str]) -> Outcome {
    let deadline = Instant::now() + LIMIT;
    let (sender, lines) = channel();
    let output = child.stdout.take();
    let reader = thread::spawn(move || {
        let lines = output.into_iter().flat_map(|o| BufReader::new(o).lines());
        // Nobody listens any more once the answer is known.
        lines
            .map_while(Result::ok)
            .try_for_each(|l| sender.send(l).ok())
    });
    let mut waiting = tests.to_vec();
    let outcome = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
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
        let binary = Binary {
            package: "p".into(),
            target: "it".into(),
            path: PathBuf::new(),
            folder: PathBuf::new(),
            tests: ["b6_x", "m::b6_y", "m::b16_z", "b6", "d6_x"]
                .map(str::to_owned)
                .to_vec(),
        };
        let mutant = Mutant {
            name: "B6",
            seen: "",
            mistake: "",
            packages: &[],
        };
        let named: Vec<&str> = binary.named_after(&mutant).collect();
        assert_eq!(named, ["b6_x", "m::b6_y"]);
    }
}
