//! `cargo xtask e2e`: real clients and real servers, as far as they are available here.
//!
//! ```text
//! e2e [PART]  ──▶ e2e/ (a workspace of its own): its tests, or a part of them ──▶ a table of the results
//!                   └── no Go, no Python ──▶ skipped: in the table and in the closing line
//! e2e differential [--seed N] ──▶ e2e/: scripted histories through kinform and client-go
//! e2e browser ──▶ browser.rs: the inspector's page in Chromium
//! e2e shards ──▶ shards.rs: replicas of sharded operators in trouble
//! e2e terminal ──▶ terminal.rs: `kinform top` in tmux
//! ```
//!
//! A part is skipped where a program is missing. With `--may-skip` only parts that lack the
//! programs named there may be skipped: CI passes `--may-skip ""`, so that a machine without Go
//! fails there.
//!
//! The first time, building the real server takes minutes. Only crates, Go modules and Python
//! packages are fetched, at the versions that `e2e/` names.

mod shards;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, Subcommand};

use crate::{browser, suite, terminal};

/// The part that is run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    only: Option<Only>,
    /// Fails where a part is skipped for another reason than these missing programs, as
    /// `go,python`.
    #[arg(long, global = true, value_delimiter = ',')]
    may_skip: Option<Vec<String>>,
}

/// A part of it.
#[derive(Debug, Subcommand)]
enum Only {
    /// Answers that clients can observe, of the embedded and of a real server, compared.
    Conformance {
        /// Only rows whose name has this in it.
        #[arg(default_value = "")]
        row: String,
        /// A real server of this older version, such as 1.34.4. Opt-in: its first build takes minutes.
        #[arg(long)]
        kubernetes: Option<String>,
    },
    /// Programs of client-go, controller-runtime and the Python client on both servers.
    Clients,
    /// kubectl on both servers: the same story, the same transcript.
    Kubectl,
    /// Seeded invalid writes to both servers: refused with the same code.
    Invalid {
        /// The seed; 7 by default.
        #[arg(long)]
        seed: Option<u64>,
        /// The number of writes; 800 by default.
        #[arg(long)]
        writes: Option<u64>,
    },
    /// kube's runtime on both servers.
    KubeRs,
    /// kinform's own informers on both servers.
    Informers,
    /// Replicas of an operator on both servers: stopped, killed, paused, deprived of their lease;
    /// against a replica of client-go; without rights; on a server that is killed; frozen with a
    /// write on its way.
    Operators {
        /// Rounds against a replica of client-go; 10 by default.
        #[arg(long)]
        rounds: Option<u64>,
        /// Leaders that are frozen with a write on its way, with a hard fence and without; 20 of
        /// each by default.
        #[arg(long)]
        trials: Option<u64>,
    },
    /// Replicas of sharded operators that are killed, paused, added and removed in a loop: on both
    /// servers, behind two servers of which one lacks ShardedListAndWatch, and the sample. Opt-in: one
    /// after the other, six times the minutes.
    Shards(shards::Arguments),
    /// The sample's manifests on both servers, and its program with exactly their rights.
    Deploy,
    /// A real API server that calls our webhooks: verdicts, rotation, roll-outs, conversion.
    Webhooks,
    /// An operator's metrics by Prometheus' Python reader, compared with controller-runtime's.
    Metrics {
        /// Writes controller-runtime's list anew.
        #[arg(long)]
        record: bool,
    },
    /// An operator that loses the right to list what it needs, on both servers.
    Rights,
    /// Rounds of faults against a real server.
    Rounds,
    /// Time to serve lists of many pods, compared with a real server of the same pods; a release
    /// build.
    Serve {
        /// The number of pods.
        #[arg(long, default_value_t = 10_000)]
        pods: u64,
    },
    /// The real controllers and scheduler, kwok and kubectl's way into its pods, and
    /// controller-runtime's test suites on `kinform serve`. Opt-in: builds of some minutes.
    Peers,
    /// Programs of others, each with a story: helm, operators, clients in other languages, on
    /// `kinform serve --controllers`. Opt-in: builds of some minutes.
    Programs {
        /// Only those whose test has this in its path, such as `helm`.
        #[arg(default_value = "")]
        program: String,
    },
    /// Kubernetes' own specs of its API on `kinform serve --controllers`. Opt-in: a build of some
    /// minutes, and half an hour.
    Upstream,
    /// The inspector's page in Chromium. Opt-in: a release build, and some minutes.
    Browser(browser::Arguments),
    /// `kinform top` on terminals of tmux, 80x24 and 200x50. Opt-in.
    Terminal(terminal::Arguments),
    /// Scripted histories through kinform and the real client-go: the same notifications.
    Differential {
        /// The number of histories; 50, or one if a seed is given.
        #[arg(long)]
        histories: Option<u64>,
        /// The seed of the first.
        #[arg(long)]
        seed: Option<u64>,
        /// The number of histories at a time.
        #[arg(long)]
        width: Option<u64>,
    },
}

/// The version of the real API server, if it is not that of `e2e/oracle/go.mod`.
const VERSION: &str = "KINFORM_E2E_KUBERNETES";
/// Start of a test's line that belongs into the table.
const RESULT: &str = "RESULT |";
/// BOUND: tests side by side, each with a real server of some 300 MB.
const THREADS: &str = "--test-threads=3";

/// Start of the last cell of a part that was skipped; `no` and the missing programs follow.
const SKIPPED: &str = "skipped:";

/// Runs `e2e/` of the repository at `root`; its output goes to the terminal.
///
/// # Errors
/// A test failed, could not be started, or was skipped for a reason that was not named.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let leave = arguments.may_skip.as_deref();
    match &arguments.only {
        None => tests(root, "", &[], leave),
        Some(Only::Conformance { row, kubernetes }) => {
            let given = [("ROW", Some(row)), (VERSION, kubernetes.as_ref())];
            let given = given.map(|(name, value)| Some((name, value?.clone())));
            let given: Vec<_> = given.into_iter().flatten().collect();
            tests(root, "conformance::", &given, leave)
        }
        Some(Only::Clients) => tests(root, "clients::", &[], leave),
        Some(Only::Kubectl) => tests(root, "kubectl::", &[], leave),
        Some(Only::Invalid { seed, writes }) => {
            let given = [("KINFORM_SEED", seed), ("KINFORM_WRITES", writes)];
            let given = given.map(|(name, value)| Some((name, (*value)?.to_string())));
            tests(
                root,
                "invalid::",
                &given.into_iter().flatten().collect::<Vec<_>>(),
                leave,
            )
        }
        Some(Only::KubeRs) => tests(root, "kube_rs::", &[], leave),
        Some(Only::Informers) => tests(root, "informers::", &[], leave),
        Some(Only::Operators { rounds, trials }) => {
            let given = [
                ("KINFORM_DUEL_ROUNDS", rounds),
                ("KINFORM_FROZEN_TRIALS", trials),
            ];
            let given = given.map(|(name, value)| Some((name, (*value)?.to_string())));
            let filter = "operators:: election:: storms:: restarts:: frozen::";
            let given: Vec<_> = given.into_iter().flatten().collect();
            tests(root, filter, &given, leave)
        }
        Some(Only::Shards(arguments)) => summed_up(arguments.command(cargo(root)), leave),
        Some(Only::Deploy) => tests(root, "deploy::", &[], leave),
        Some(Only::Webhooks) => tests(root, "webhooks::", &[], leave),
        Some(Only::Metrics { record }) => {
            let record = record.then(|| ("KINFORM_RECORD", "1".to_owned()));
            tests(root, "metrics::", record.as_slice(), leave)
        }
        Some(Only::Rights) => tests(root, "rights::", &[], leave),
        Some(Only::Rounds) => tests(root, "rounds::", &[], leave),
        Some(Only::Serve { pods }) => serve(root, *pods, leave),
        Some(Only::Peers) => peers(root, "cluster:: reach:: suites::", leave),
        Some(Only::Programs { program }) => {
            let filter = match program.as_str() {
                "" => "programs::".to_owned(),
                program => format!("programs::{program}"),
            };
            peers(root, &filter, leave)
        }
        Some(Only::Upstream) => peers(root, "upstream::", leave),
        Some(Only::Browser(arguments)) => browser(root, arguments, leave),
        Some(Only::Terminal(arguments)) => terminal(root, arguments, leave),
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
            differential(root, &options, leave)
        }
    }
}

/// The missing programs for which parts may be skipped; `None`: for any.
type Leave<'a> = Option<&'a [String]>;

/// Runs the tests whose path has a word of `filter` in it with these variables, and sums up what they print.
fn tests(
    root: &Path,
    filter: &str,
    variables: &[(&str, String)],
    leave: Leave<'_>,
) -> Result<String, String> {
    let mut command = cargo(root);
    command.args(["test", "--locked", "--", "--nocapture", THREADS]);
    command.args(filter.split(' '));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    summed_up(command, leave)
}

/// Runs a command, shows what it prints, and ends with a table of its results.
fn summed_up(mut command: Command, leave: Leave<'_>) -> Result<String, String> {
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
    let skipped = Skipped::of(&rows);
    let is_empty = rows.is_empty();
    let table = table(rows);
    let seconds = began.elapsed().as_secs();
    if !status.success() {
        return Err(format!("{table}e2e: FAILED in {seconds} s: {status}"));
    }
    // A filter that fits no test is no success.
    if is_empty {
        return Err(format!(
            "e2e: FAILED in {seconds} s: nothing was checked, as no test has such a name"
        ));
    }
    let closing = skipped.close(seconds, leave);
    closing
        .map(|line| format!("{table}{line}"))
        .map_err(|line| format!("{table}{line}"))
}

/// The parts that were skipped, by the programs that are missing.
#[derive(Debug, Default)]
struct Skipped(BTreeMap<String, BTreeSet<String>>);

impl Skipped {
    /// Takes them from the rows of the table: `part | server | skipped: no Go, openssl (why)`.
    fn of(rows: &[String]) -> Self {
        let mut skipped = Self::default();
        for row in rows {
            let mut cells = row.trim().trim_end_matches('|').split('|').map(str::trim);
            let part = cells.next().unwrap_or_default();
            let Some(programs) = cells
                .next_back()
                .and_then(|cell| cell.strip_prefix(SKIPPED))
            else {
                continue;
            };
            let programs = programs.split(" (").next().unwrap_or(programs).trim();
            let programs = programs.strip_prefix("no ").unwrap_or(programs);
            for program in programs.split(", ") {
                let program = program.to_ascii_lowercase().replace(' ', "-");
                skipped
                    .0
                    .entry(program)
                    .or_default()
                    .insert(part.to_owned());
            }
        }
        skipped
    }

    /// The last line of a run without failures.
    fn close(&self, seconds: u64, leave: Leave<'_>) -> Result<String, String> {
        if self.0.is_empty() {
            return Ok(format!("e2e: all passed in {seconds} s, nothing skipped"));
        }
        let parts = self.0.iter().map(|(program, parts)| {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            format!("{} (no {program})", parts.join(", "))
        });
        let skipped = format!("skipped: {}", parts.collect::<Vec<_>>().join("; "));
        let unexpected = |program: &&String| leave.is_some_and(|named| !named.contains(program));
        let unexpected: Vec<&str> = self
            .0
            .keys()
            .filter(unexpected)
            .map(String::as_str)
            .collect();
        if unexpected.is_empty() {
            return Ok(format!("e2e: passed in {seconds} s; {skipped}"));
        }
        Err(format!(
            "e2e: FAILED in {seconds} s: {} may not be missing; {skipped}",
            unexpected.join(", ")
        ))
    }
}

#[expect(clippy::print_stdout, reason = "what tests print goes to the caller")]
fn say(line: &str) {
    println!("{line}");
}

/// The results of each client on each server.
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

/// Runs the tests of programs beside `kinform serve` whose path has a word of `filter` in it.
fn peers(root: &Path, filter: &str, leave: Leave<'_>) -> Result<String, String> {
    let program = program(root, "debug", &[])?;
    let mut command = cargo(root);
    command.args(["test", "--locked", "--test", "peers", "--", "--nocapture"]);
    // One cluster at a time: each has several programs on two cores.
    command.arg("--test-threads=1").args(filter.split(' '));
    command.env("KINFORM_PROGRAM", program);
    summed_up(command, leave)
}

/// Builds the program `kinform` with these flags; returns its path.
fn program(root: &Path, profile: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let mut build = suite::cargo();
    build.current_dir(root);
    build.args(["build", "--locked", "-p", "kinform-cli"]);
    build.args(flags);
    let built = build.status().map_err(|error| format!("e2e: {error}"))?;
    if !built.success() {
        return Err(format!("e2e: the program does not build: {built}"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), |path| root.join(path));
    Ok(target.join(profile).join("kinform"))
}

/// Builds the program as it is released, and measures it.
fn serve(root: &Path, pods: u64, leave: Leave<'_>) -> Result<String, String> {
    let program = program(root, "release", &["--release"])?;
    let mut measure = Command::new("python3");
    measure
        .arg(root.join("e2e/serve/measure.py"))
        .arg(program)
        .arg(pods.to_string());
    summed_up(measure, leave)
}

/// Runs the checks of the inspector's page.
fn browser(
    root: &Path,
    arguments: &browser::Arguments,
    leave: Leave<'_>,
) -> Result<String, String> {
    match browser::ready(root)? {
        Ok(ready) => summed_up(ready.checks(arguments), leave),
        Err(missing) => {
            say(&format!("SKIPPED: {}", missing.advice()));
            let programs = missing.0.join(", ");
            let row = format!("inspector in Chromium | embedded | {SKIPPED} no {programs} |");
            Skipped::of(&[row]).close(0, leave)
        }
    }
}

fn terminal(
    root: &Path,
    arguments: &terminal::Arguments,
    leave: Leave<'_>,
) -> Result<String, String> {
    if !terminal::is_possible() {
        say(&format!(
            "SKIPPED: the terminal's checks need {}",
            terminal::NEEDED
        ));
        let row = format!("kinform top in tmux | embedded | {SKIPPED} no tmux |");
        return Skipped::of(&[row]).close(0, leave);
    }
    terminal::run(root, arguments)
}

fn differential(
    root: &Path,
    options: &[(&str, &Option<u64>)],
    leave: Leave<'_>,
) -> Result<String, String> {
    if !suite::is_there("go", "version") {
        let row = format!("histories through kinform and client-go | both | {SKIPPED} no Go |");
        return Skipped::of(&[row]).close(0, leave);
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
    let mut command = suite::cargo_beside(root);
    command.current_dir(root.join("e2e"));
    command
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Skipped, summed_up};

    #[test]
    fn a_command_that_prints_no_result_has_checked_nothing() {
        let ran = |line: &str| {
            let mut command = Command::new("echo");
            command.arg(line);
            summed_up(command, None)
        };
        assert!(ran("RESULT | a | embedded | 1 check, 0 failed |").is_ok());
        assert!(ran("running 0 tests").is_err_and(|told| told.contains("nothing was checked")));
    }

    /// Checks the closing line of a run with these rows.
    #[track_caller]
    fn check(rows: &[&str], leave: Option<&[&str]>, expected: Result<&str, &str>) {
        let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        let leave: Option<Vec<String>> =
            leave.map(|named| named.iter().map(|name| (*name).to_owned()).collect());
        let line = Skipped::of(&rows).close(7, leave.as_deref());
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(line, expected);
    }

    #[test]
    fn a_skip_is_in_the_closing_line_and_fails_without_leave() {
        let passed = " python | real | 9 checks, 0 failed |";
        let rows = [
            passed,
            " rounds | real | skipped: no Go, openssl |",
            " old | both | skipped: no kubectl 1.20 (no net) |",
        ];
        let skipped = "skipped: rounds (no go); old (no kubectl-1.20); rounds (no openssl)";
        let all = "e2e: all passed in 7 s, nothing skipped";
        check(&[passed], None, Ok(all));
        check(&[passed], Some(&[]), Ok(all));
        let rest = format!("e2e: passed in 7 s; {skipped}");
        check(&rows, None, Ok(&rest));
        check(&rows, Some(&["go", "openssl", "kubectl-1.20"]), Ok(&rest));
        let failed =
            |what: &str| format!("e2e: FAILED in 7 s: {what} may not be missing; {skipped}");
        check(
            &rows,
            Some(&["go", "openssl"]),
            Err(&failed("kubectl-1.20")),
        );
        let unknown =
            "e2e: FAILED in 7 s: full-moon may not be missing; skipped: rounds (no full-moon)";
        let row = "rounds | real | skipped: full moon |";
        check(&[row], Some(&["go"]), Err(unknown));
        check(
            &rows,
            Some(&[""]),
            Err(&failed("go, kubectl-1.20, openssl")),
        );
    }

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
