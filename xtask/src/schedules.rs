//! `cargo xtask schedules`: the concurrent code under a scheduler, as many schedules as one likes.
//!
//! ```text
//! schedules [--each N] [--scenario NAME] ──▶ builds of schedules/ ──▶ RESULT lines │ a file to replay
//!                                             shuttle: N schedules each; loom: every order
//! ```
//!
//! The scenarios are a workspace of their own (`schedules/`), built in a folder of the target
//! directory. Two run at once, on a thread each.
//!
//! Upstream has no counterpart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::suite::{self, Binary};

/// The manifest of the scenarios.
const MANIFEST: &str = "schedules/Cargo.toml";

/// The tests of a build, and what selects them. Loom's models take the place of shuttle's.
const BUILDS: [&[&str]; 2] = [&["--test", "it"], &["--features", "loom", "--test", "loom"]];

/// The schedules to run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Schedules of each scenario under shuttle: half of them random, half by priorities.
    #[arg(long, default_value_t = 10_000)]
    each: u64,
    /// Only scenarios whose test has this in its name.
    #[arg(long, default_value = "")]
    scenario: String,
    /// The seed of the schedules.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs the schedule in this file again, of the one scenario that is named.
    #[arg(long, requires = "scenario")]
    replay: Option<PathBuf>,
}

/// Runs the scenarios of the repository at `root`; their lines go to the terminal.
///
/// # Errors
/// A schedule failed, or the scenarios could not be built.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let mut binaries = build(root, suite::cargo)?;
    if arguments.replay.is_some() {
        binaries.truncate(1);
    }
    let start = Instant::now();
    for binary in binaries {
        run_one(&binary, &folder(root).join("failed"), arguments)?;
    }
    let seconds = start.elapsed().as_secs();
    Ok(match &arguments.replay {
        Some(_) => "schedules: the schedule passed".to_owned(),
        None => format!(
            "schedules: {} of each scenario from seed {} passed in {seconds} s",
            arguments.each, arguments.seed
        ),
    })
}

fn run_one(binary: &Binary, failed: &Path, arguments: &Arguments) -> Result<(), String> {
    fs::create_dir_all(failed).map_err(|e| format!("{}: {e}", failed.display()))?;
    let mut command = binary.command();
    command
        .args(["--nocapture", "--test-threads=2", &arguments.scenario])
        .env("KINFORM_SCHEDULES", arguments.each.to_string())
        .env("KINFORM_SCHEDULES_SEED", arguments.seed.to_string())
        .env("KINFORM_SCHEDULES_FAILED", failed);
    if let Some(file) = &arguments.replay {
        let file = fs::canonicalize(file).map_err(|e| format!("{}: {e}", file.display()))?;
        command.env("KINFORM_SCHEDULE", file);
    }
    let status = command.status();
    let status = status.map_err(|e| format!("{}: could not be started: {e}", binary.name))?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "{}: a schedule failed ({status}); the file that is named above runs it again:\n\
         cargo xtask schedules --scenario NAME --replay FILE",
        binary.name
    ))
}

/// The folder of their builds.
fn folder(root: &Path) -> PathBuf {
    suite::target(root).join("schedules")
}

/// Builds the test binaries of the scenarios, each by a cargo that the caller provides.
///
/// # Errors
/// They do not build.
pub(crate) fn build(root: &Path, cargo: impl Fn() -> Command) -> Result<Vec<Binary>, String> {
    let mut binaries = Vec::new();
    for tests in BUILDS {
        let mut cargo = cargo();
        cargo.env("CARGO_TARGET_DIR", folder(root));
        let arguments = [
            &["--manifest-path", MANIFEST, "--profile", "schedules"],
            tests,
        ]
        .concat();
        binaries.extend(suite::build_by(cargo, root, &arguments)?);
    }
    Ok(binaries)
}
