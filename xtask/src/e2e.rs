//! `cargo xtask e2e`: real clients and real servers, as far as they can be had here.
//!
//! ```text
//! e2e [PART]  ──▶ e2e/ (a workspace of its own): its tests, or a part of them ──▶ a table of what came of it
//!                   └── no Go, no Python ──▶ what is skipped, said in the table
//! e2e differential [--seed N] ──▶ e2e/: scripted histories through kinform and client-go
//! ```
//!
//! The first time, building the real server takes minutes. Nothing is fetched but crates, Go modules and
//! Python packages, at the versions that `e2e/` names.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, Subcommand};

use crate::suite;

/// What is run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    only: Option<Only>,
}

/// A part of it.
#[derive(Debug, Subcommand)]
enum Only {
    /// What clients can observe, asked of the embedded and a real server, and compared.
    Conformance {
        /// Only rows whose name has this in it.
        #[arg(default_value = "")]
        row: String,
    },
    /// Programs of client-go, controller-runtime and the Python client on both servers.
    Clients,
    /// kubectl on both servers: the same story, the same transcript.
    Kubectl,
    /// Seeded invalid writes to both servers: refused with the same code.
    Invalid {
        /// The seed; 7 if none is given.
        #[arg(long)]
        seed: Option<u64>,
        /// How many; 800 if nothing is said.
        #[arg(long)]
        writes: Option<u64>,
    },
    /// kube's runtime on both servers.
    KubeRs,
    /// kinform's own informers on both servers.
    Informers,
    /// Rounds of faults against a real server.
    Rounds,
    /// How fast lists of many pods are served, beside a real server that holds the same; a release build.
    Serve {
        /// How many pods.
        #[arg(long, default_value_t = 10_000)]
        pods: u64,
    },
    /// Scripted histories through kinform and the real client-go: the same notifications.
    Differential {
        /// How many histories; 50, or one if a seed is given.
        #[arg(long)]
        histories: Option<u64>,
        /// The seed of the first.
        #[arg(long)]
        seed: Option<u64>,
        /// How many side by side.
        #[arg(long)]
        width: Option<u64>,
    },
}

/// How a line of a test begins that belongs into the table.
const RESULT: &str = "RESULT |";
/// BOUND: tests side by side, each with a real server of some 300 MB.
const THREADS: &str = "--test-threads=2";

/// Runs what is in `e2e/` of the repository at `root`; its output goes to the terminal.
///
/// # Errors
/// A test failed, or could not be started.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    match &arguments.only {
        None => tests(root, "", &[]),
        Some(Only::Conformance { row }) => tests(root, "conformance::", &[("ROW", row.clone())]),
        Some(Only::Clients) => tests(root, "clients::", &[]),
        Some(Only::Kubectl) => tests(root, "kubectl::", &[]),
        Some(Only::Invalid { seed, writes }) => {
            let given = [("KINFORM_SEED", seed), ("KINFORM_WRITES", writes)];
            let given = given.map(|(name, value)| Some((name, (*value)?.to_string())));
            tests(
                root,
                "invalid::",
                &given.into_iter().flatten().collect::<Vec<_>>(),
            )
        }
        Some(Only::KubeRs) => tests(root, "kube_rs::", &[]),
        Some(Only::Informers) => tests(root, "informers::", &[]),
        Some(Only::Rounds) => tests(root, "rounds::", &[]),
        Some(Only::Serve { pods }) => serve(root, *pods),
        Some(Only::Differential {
            histories,
            seed,
            width,
        }) => {
            let options = [
                ("--histories", histories),
                ("--seed", seed),
                ("--width", width),
            ];
            differential(root, &options)
        }
    }
}

/// Runs the tests whose path has `filter` in it, told these variables, and sums up what they print.
fn tests(root: &Path, filter: &str, told: &[(&str, String)]) -> Result<String, String> {
    let mut command = cargo(root);
    command.args(["test", "--locked", "--", "--nocapture", THREADS, filter]);
    command.envs(told.iter().map(|(name, value)| (name, value)));
    summed_up(command)
}

/// Runs a command, shows what it prints, and ends with a table of its results.
fn summed_up(mut command: Command) -> Result<String, String> {
    let began = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("e2e: could not be started: {error}"))?;
    let lines = child.stdout.take().map(BufReader::new);
    let mut rows = Vec::new();
    for line in lines.into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|error| format!("e2e: its output ended: {error}"))?;
        match line.find(RESULT) {
            Some(at) => rows.push(line[at + RESULT.len()..].to_owned()),
            None => say(&line),
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("e2e: lost: {error}"))?;
    let table = table(rows);
    let seconds = began.elapsed().as_secs();
    if !status.success() {
        return Err(format!("{table}e2e: FAILED in {seconds} s: {status}"));
    }
    Ok(format!("{table}e2e: all passed in {seconds} s"))
}

#[expect(clippy::print_stdout, reason = "what tests print goes to the caller")]
fn say(line: &str) {
    println!("{line}");
}

/// What came of each client on each server.
fn table(mut rows: Vec<String>) -> String {
    rows.sort_unstable();
    rows.dedup();
    let cells = |row: &str| -> Vec<String> {
        let cells = row.trim().trim_end_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let mut table = vec![["client", "server", "result"].map(str::to_owned).into()];
    table.extend(rows.iter().map(|row| cells(row)));
    let width = |at: usize| {
        let cells = table.iter().filter_map(|row| row.get(at));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let (first, second) = (width(0), width(1));
    let mut text = String::from("\n");
    for row in &table {
        let cell = |at: usize| row.get(at).map_or("", String::as_str);
        let _ = writeln!(text, "{:first$}  {:second$}  {}", cell(0), cell(1), cell(2));
    }
    text
}

/// Builds the program as it is released, and measures it.
fn serve(root: &Path, pods: u64) -> Result<String, String> {
    let mut build = suite::cargo();
    build.current_dir(root);
    build.args(["build", "--release", "--locked", "-p", "kinform-cli"]);
    let built = build.status().map_err(|error| format!("e2e: {error}"))?;
    if !built.success() {
        return Err(format!("e2e: the program does not build: {built}"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), |path| root.join(path));
    let mut measure = Command::new("python3");
    measure
        .arg(root.join("e2e/serve/measure.py"))
        .arg(target.join("release/kinform"))
        .arg(pods.to_string());
    summed_up(measure)
}

fn differential(root: &Path, options: &[(&str, &Option<u64>)]) -> Result<String, String> {
    if !is_there("go") {
        return Ok("e2e: SKIPPED: no go here, so client-go cannot be built.\n\
             e2e: not run: the scripted histories through kinform and client-go."
            .to_owned());
    }
    let mut command = cargo(root);
    command.args(["run", "--locked", "--quiet", "--bin", "differential", "--"]);
    for (name, value) in options {
        if let Some(value) = value {
            command.args([(*name).to_owned(), value.to_string()]);
        }
    }
    match command.status() {
        Ok(status) if status.success() => Ok("e2e: kinform and client-go tell the same".to_owned()),
        Ok(status) => Err(format!("e2e: failed: {status}")),
        Err(error) => Err(format!("e2e: could not be started: {error}")),
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = suite::cargo();
    command.current_dir(root.join("e2e"));
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        // Most of its dependencies are built there.
        command.env("CARGO_TARGET_DIR", root.join("target"));
    }
    command
}

fn is_there(program: &str) -> bool {
    let asked = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_tests_print_becomes_a_table() {
        let rows = [
            " python | real | 9 checks, 0 failed |",
            " conformance | embedded | 3 of 3 |",
        ];
        let table = super::table(rows.map(str::to_owned).into());
        let wanted = "\nclient       server    result\nconformance  embedded  3 of 3\n\
                      python       real      9 checks, 0 failed\n";
        assert_eq!(table, wanted);
    }
}
