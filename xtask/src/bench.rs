//! `cargo xtask bench`: the cost of kinform compared with kube-rs and client-go.
//!
//! ```text
//! bench [--quick] ──▶ kinform, bench/ (a workspace of its own), built for release ──▶ bench/results/*
//! bench operators ──▶ bench/ alone, its program `operators`
//! bench control-plane ──▶ kinform, bench/'s program `control_plane`
//!                       └── no Go ──▶ client-go is skipped, loudly
//! ```
//!
//! The table goes to the terminal, too. Building takes minutes the first time.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::suite;

const DONE: &str = "bench: the results are in bench/results/";

/// The rows that are measured.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// `--quick`, and the other options of `bench --help`; or `operators` or `control-plane` and those of that
    /// program.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    options: Vec<String>,
}

/// Builds the bench of the repository at `root`, and runs it.
///
/// One target directory serves both workspaces, as their common dependencies take minutes to build.
///
/// # Errors
/// It does not build, or a scenario fails.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = std::path::absolute(&target)
        .map_err(|error| format!("bench: {}: {error}", target.display()))?;
    let bench = root.join("bench");
    let build = ["build", "--release", "--locked"];
    let cargo = |directory: &Path, words: &[&str]| {
        let mut command = suite::cargo();
        command
            .current_dir(directory)
            .env("CARGO_TARGET_DIR", &target)
            // As a user's program is built; the command line itself forgoes it for a shorter build.
            .env("CARGO_PROFILE_RELEASE_LTO", "false");
        command.args(build).args(words);
        succeed(command, "build")
    };
    let program = |name: &str, options: &[String]| {
        let mut command = Command::new(target.join("release").join(name));
        command.current_dir(&bench).args(options);
        succeed(command, name)
    };
    if let [first, options @ ..] = &arguments.options[..]
        && first == "operators"
    {
        cargo(&bench, &["--bin", "operators"])?;
        program("operators", options)?;
        return Ok(DONE.to_owned());
    }
    // The bench starts the programs next to it: the subjects, and `kinform`.
    let kinform = ["--package", "kinform-cli", "--bin", "kinform"];
    if let [first, options @ ..] = &arguments.options[..]
        && first == "control-plane"
    {
        cargo(root, &kinform)?;
        cargo(&bench, &["--bin", "control_plane"])?;
        program("control_plane", options)?;
        return Ok(DONE.to_owned());
    }
    cargo(
        root,
        &[&kinform[..], &["--features", "typed,compressed"]].concat(),
    )?;
    cargo(&bench, &["--bins"])?;
    program("bench", &arguments.options)?;
    Ok(DONE.to_owned())
}

fn succeed(mut command: Command, what: &str) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("bench: {what} could not be started: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("bench: {what}: {status}")),
    }
}
