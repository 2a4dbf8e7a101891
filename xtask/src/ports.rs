//! `cargo xtask ports`: public operators moved over, measured compared with what they were.
//!
//! ```text
//! ports [--quick] ──▶ examples/ports/ (a workspace of its own): its tests, then both columns ──▶ a table
//! ```
//!
//! The programs are release builds, and the whole takes about half an hour of an idle machine. With
//! `--quick` they are those that the tests use, with small amounts, so that CI sees that it works;
//! figures of memory and time mean less then.
//!
//! Upstream has no counterpart.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::suite;

/// The measurement.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Small amounts with the programs that the tests use: two minutes without the build.
    #[arg(long)]
    quick: bool,
    /// Leaves the tests out.
    #[arg(long)]
    measure_only: bool,
}

/// A port: the folder of its package, and its programs on kube-runtime and on kinform.
const PORTS: [(&str, [&str; 2]); 1] =
    [("documents", ["documents-kube-runtime", "documents-kinform"])];

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
    let mut report = String::new();
    for (package, [theirs, ours]) in PORTS {
        let columns = [program(theirs)?, program(ours)?];
        let source = folder.join(package).join("src");
        let table = measured(&program("ports")?, &columns, &source, arguments.quick)?;
        report.push_str(&format!("# {package}\n\n{table}"));
    }
    Ok(report)
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

/// Measures the two programs; the table.
fn measured(
    harness: &Path,
    [theirs, ours]: &[PathBuf; 2],
    source: &Path,
    is_quick: bool,
) -> Result<String, String> {
    let output = Command::new(harness)
        .arg("--kube-runtime")
        .arg(theirs)
        .arg("--kinform")
        .arg(ours)
        .arg("--source")
        .arg(source)
        .args(is_quick.then_some("--quick"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("ports: the harness could not be started: {error}"))?;
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(table),
        false => Err(format!("{table}ports: failed: {}", output.status)),
    }
}
