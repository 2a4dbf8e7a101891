//! `cargo xtask election`: seeded histories of leader election, as many as one likes.
//!
//! ```text
//! election [--seeds N] [--seed FIRST] ──▶ release build of the model's tests ──▶ RESULT lines, the lowest seed that failed
//! ```
//!
//! The same tests run with a few thousand seeds in `cargo test`. Upstream's algorithm runs in the same
//! simulation, and has to fail there.
//! Upstream has no counterpart.

use std::path::Path;

use clap::Args;

use crate::suite;

/// The seeds to run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of seeds.
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only tests whose name has this in it.
    #[arg(default_value = "")]
    test: String,
}

/// Runs the seeds in the repository at `root`; the output of the tests goes to the terminal.
///
/// # Errors
/// A seed failed, or the tests could not be built.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let filter = format!("election::tests::model::{}", arguments.test);
    let mut command = suite::cargo();
    command
        .args([
            "test",
            "--release",
            "--locked",
            "-p",
            "kinform-core",
            "--lib",
        ])
        .args(["--", "--nocapture", "--test-threads=1", &filter])
        .env("KINFORM_ELECTION_SEEDS", arguments.seeds.to_string())
        .env("KINFORM_ELECTION_FIRST", arguments.seed.to_string())
        .current_dir(root);
    let status = command
        .status()
        .map_err(|error| format!("election: could not be started: {error}"))?;
    match status.success() {
        true => Ok(format!(
            "election: {} seeds from {}: no write of an older term after one of a newer",
            arguments.seeds, arguments.seed
        )),
        false => Err(format!("election: a seed failed: {status}")),
    }
}
