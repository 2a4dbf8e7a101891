//! `cargo xtask bench`: what kinform costs beside kube-rs and client-go.
//!
//! ```text
//! bench [--quick] ──▶ bench/ (a workspace of its own), built for release ──▶ bench/results/*
//!                       └── no Go ──▶ client-go is skipped, loudly
//! ```
//!
//! The table goes to the terminal, too. Building takes minutes the first time.

use std::path::Path;

use clap::Args;

use crate::suite;

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// `--quick`, and the other options of `bench --help`.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    options: Vec<String>,
}

/// Builds the bench of the repository at `root`, and runs it.
///
/// # Errors
/// It does not build, or a scenario fails.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let steps = [
        // All programs: the bench starts the subjects that lie beside it.
        vec!["build", "--release", "--locked", "--bins"],
        vec![
            "run",
            "--release",
            "--locked",
            "--quiet",
            "--bin",
            "bench",
            "--",
        ],
    ];
    for (number, step) in steps.iter().enumerate() {
        let mut command = suite::cargo();
        command.current_dir(root.join("bench")).args(step);
        if number == 1 {
            command.args(&arguments.options);
        }
        let status = command
            .status()
            .map_err(|error| format!("bench: cargo could not be started: {error}"))?;
        if !status.success() {
            return Err(format!("bench: cargo {}: {status}", step[0]));
        }
    }
    Ok("bench: the results are in bench/results/".to_owned())
}
