//! `cargo xtask schedules`: the concurrent code under a scheduler, as many schedules as one likes.
//!
//! ```text
//! schedules [--each N] [--scenario NAME] ──▶ build of schedules/ ──▶ RESULT lines │ a file to replay
//! ```
//!
//! The scenarios are a workspace of their own (`schedules/`), built in a folder of the target
//! directory. Two run at once, on a thread each.
//!
//! Upstream has no counterpart.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::suite::{self, Binary};

/// The manifest of the scenarios.
const MANIFEST: &str = "schedules/Cargo.toml";

/// The schedules to run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Schedules of each scenario: half of them random, half by priorities.
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
    let folder = folder(root);
    let binary = build(root, &folder, "")?
        .pop()
        .ok_or("schedules: no tests were built")?;
    let failed = folder.join("failed");
    fs::create_dir_all(&failed).map_err(|e| format!("{}: {e}", failed.display()))?;
    let mut command = binary.command();
    command
        .args(["--nocapture", "--test-threads=2", &arguments.scenario])
        .env("KINFORM_SCHEDULES", arguments.each.to_string())
        .env("KINFORM_SCHEDULES_SEED", arguments.seed.to_string())
        .env("KINFORM_SCHEDULES_FAILED", &failed);
    if let Some(file) = &arguments.replay {
        let file = fs::canonicalize(file).map_err(|e| format!("{}: {e}", file.display()))?;
        command.env("KINFORM_SCHEDULE", file);
    }
    let status = command.status();
    let status = status.map_err(|e| format!("schedules: could not be started: {e}"))?;
    match (status.success(), &arguments.replay) {
        (true, None) => Ok(format!(
            "schedules: {} of each scenario from seed {}: none failed",
            arguments.each, arguments.seed
        )),
        (true, Some(_)) => Ok("schedules: the schedule passed".to_owned()),
        (false, _) => Err(format!(
            "schedules: a schedule failed: {status}; the file that is named above runs it again:\n\
             cargo xtask schedules --scenario NAME --replay FILE"
        )),
    }
}

/// The folder of their builds.
pub(crate) fn folder(root: &Path) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target).join("schedules")
}

/// Builds the test binaries of the scenarios in a folder, with flags of the compiler besides those of
/// the environment.
///
/// # Errors
/// They do not build.
pub(crate) fn build(root: &Path, folder: &Path, flags: &str) -> Result<Vec<Binary>, String> {
    let mut cargo = suite::cargo();
    if !flags.is_empty() {
        let known = env::var("RUSTFLAGS").unwrap_or_default();
        cargo.env("RUSTFLAGS", format!("{known} {flags}"));
    }
    cargo.env("CARGO_TARGET_DIR", folder);
    suite::build_by(cargo, root, &["--manifest-path", MANIFEST, "--test", "it"])
}
