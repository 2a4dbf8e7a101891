//! `cargo xtask ports`: public operators moved over, measured compared with what they were.
//!
//! ```text
//! ports [--quick] ──▶ examples/ports/ (a workspace of its own): its tests, then both columns ──▶ a table
//! ```
//!
//! The programs are release builds, and the whole takes about an hour of an idle machine. With
//! `--quick` they are those that the tests use, with small amounts; figures of memory and time mean
//! less then.
//!
//! Upstream has no counterpart.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::Args;

use crate::suite;

/// The measurement.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Small amounts with the programs that the tests use: three minutes without the build.
    #[arg(long)]
    quick: bool,
    /// Leaves the tests out.
    #[arg(long)]
    measure_only: bool,
    /// One port alone: documents or hosts.
    #[arg(long, value_parser = PORTS)]
    port: Option<String>,
    /// Flags of the harness, such as --starts-only or --objects 5000.
    #[arg(last = true)]
    harness: Vec<String>,
}

/// The ports, which are folders of packages.
const PORTS: [&str; 2] = ["documents", "hosts"];

/// Tests and measures the ports in the repository at `root`; progress goes to the terminal.
///
/// # Errors
/// A test failed, a program does not build, or a column on kinform missed a change.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let folder = root.join("examples/ports");
    let profile: &[&str] = if arguments.quick { &[] } else { &["--release"] };
    // One build for both, so that each dependency has the same features in all programs.
    let words = [&["build", "--workspace"], profile].concat();
    let programs = suite::programs(suite::cargo_beside(root), &folder, &words)?;
    if !arguments.measure_only {
        tests(root, &folder, profile)?;
    }
    let program = |name: &str| {
        let path = programs.get(name).cloned();
        path.ok_or_else(|| format!("ports: cargo built no program {name}"))
    };
    let (mut report, mut running) = (String::new(), Vec::new());
    let harness = program("ports")?;
    for port in PORTS {
        if arguments.port.as_deref().is_some_and(|only| only != port) {
            continue;
        }
        let mut command = Command::new(&harness);
        command.args(["--port", port]);
        command.args(arguments.quick.then_some("--quick"));
        for column in ["kube-runtime", "kinform"] {
            let flag = format!("--{column}");
            command.arg(flag).arg(program(&format!("{port}-{column}"))?);
        }
        command.arg("--source").arg(folder.join(port).join("src"));
        command.args(&arguments.harness);
        let child = command.stdout(Stdio::piped()).spawn();
        running.push((port, child));
        // Small amounts are mostly waiting, so all ports wait together.
        if !arguments.quick {
            report = tables(report, running.drain(..))?;
        }
    }
    tables(report, running.drain(..))
}

/// Runs the tests of both columns, and of the harness.
fn tests(root: &Path, folder: &Path, profile: &[&str]) -> Result<(), String> {
    let status = suite::cargo_beside(root)
        .args(["test", "--workspace", "--locked"])
        .args(profile)
        .current_dir(folder)
        .status()
        .map_err(|error| format!("ports: cargo could not be started: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("ports: the tests failed: {status}")),
    }
}

/// Waits for the harness of each port, and adds their tables to the report.
fn tables(
    mut report: String,
    running: impl Iterator<Item = (&'static str, io::Result<Child>)>,
) -> Result<String, String> {
    let mut failed = Vec::new();
    for (port, child) in running {
        let output = child
            .and_then(Child::wait_with_output)
            .map_err(|error| format!("ports: the harness could not be started: {error}"))?;
        let table = String::from_utf8_lossy(&output.stdout);
        report.push_str(&format!("# {port}\n\n{table}"));
        if !output.status.success() {
            failed.push(format!("{port}: {}", output.status));
        }
    }
    match failed.is_empty() {
        true => Ok(report),
        false => Err(format!("{report}ports: failed: {}", failed.join(", "))),
    }
}
