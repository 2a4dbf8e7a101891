//! `cargo xtask shards`: seeded histories of sharding, as many as one likes, and one large crowd.
//!
//! ```text
//! shards [--seeds N] [--seed FIRST] ──▶ release build of the model's tests ──▶ RESULT lines, the lowest seed that failed
//! ```
//!
//! The same tests run with a few hundred seeds of each scenario in `cargo test`. The crowd is 1,000
//! members with 16,384 shards and ten million keys, which one more member joins; `cargo test` has a
//! small one.
//! Upstream has no counterpart.

use std::path::Path;

use clap::Args;

use crate::suite;

/// The seeds to run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of seeds of each scenario.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The members of the crowd.
    #[arg(long, default_value_t = 1_000)]
    members: u32,
    /// Only tests whose name has this in it.
    #[arg(default_value = "")]
    test: String,
}

/// Runs the seeds in the repository at `root`; the output of the tests goes to the terminal.
///
/// # Errors
/// A seed failed, or the tests could not be built.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
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
        .args(["--", "--nocapture", "--test-threads=1"])
        .args(filters(&arguments.test))
        .env("KINFORM_SHARDS_SEEDS", arguments.seeds.to_string())
        .env("KINFORM_SHARDS_FIRST", arguments.seed.to_string())
        .env("KINFORM_SHARDS_MEMBERS", arguments.members.to_string())
        .env("KINFORM_SHARDS_COUNT", "16384")
        .env("KINFORM_SHARDS_KEYS", "10000000")
        .current_dir(root);
    let status = command
        .status()
        .map_err(|error| format!("shards: could not be started: {error}"))?;
    match status.success() {
        true => Ok(format!(
            "shards: {} seeds of each scenario from {}: no two workers of a shard at one time",
            arguments.seeds, arguments.seed
        )),
        false => Err(format!("shards: a seed failed: {status}")),
    }
}

/// The tests of the model and of the crowd.
fn filters(test: &str) -> [String; 2] {
    ["model", "large"].map(|room| format!("shards::tests::{room}::{test}"))
}
