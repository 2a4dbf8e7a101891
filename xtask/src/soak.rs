//! `cargo xtask soak`: an operator for a long time under load and trouble.
//!
//! ```text
//! soak --for 45m ──▶ builds `kinform` and `kinform-soak` ──▶ a run (soak/) ──▶ figures in a file, a verdict
//! ```
//!
//! The programs are release builds. With `--profile dev` they are those that
//! `cargo test --workspace` built, so that CI builds nothing twice; figures of memory and time mean
//! less then.
//!
//! Upstream has no counterpart.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::suite;

/// BOUND: the shortest run in which anything happens, and the longest.
const LENGTHS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(24 * 3600));

/// The run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The time under load, as 2m, 45m or 1h30m; start and end take up to three minutes more.
    #[arg(long = "for", value_parser = length, default_value = "45m", value_name = "DURATION")]
    length: Duration,
    /// The seed of writes and troubles.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes a second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// The file of the figures; by default one in `target/soak`.
    #[arg(long)]
    output: Option<PathBuf>,
    /// The build of the programs.
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
}

/// A build of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// As they are released.
    Release,
    /// As `cargo test --workspace` builds them.
    Dev,
}

/// Builds the programs of the repository at `root` and runs them; their summary goes to the
/// terminal.
///
/// # Errors
/// The run failed: the reasons are on the terminal; or the programs could not be built.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let words: &[&str] = match arguments.profile {
        Profile::Release => &[
            "build",
            "--release",
            "-p",
            "kinform-soak",
            "-p",
            "kinform-cli",
        ],
        Profile::Dev => &["test", "--workspace", "--no-run"],
    };
    let programs = suite::programs(suite::cargo(), root, words)?;
    let program = |name: &str| {
        let path = programs.get(name).cloned();
        path.ok_or_else(|| format!("soak: cargo built no program {name}"))
    };
    let (soak, server) = (program("kinform-soak")?, program("kinform")?);
    let seconds = arguments.length.as_secs();
    let output = arguments.output.clone().unwrap_or_else(|| {
        let name = format!("{seconds}s-seed-{}.jsonl", arguments.seed);
        suite::target(root).join("soak").join(name)
    });
    let status = Command::new(soak)
        .arg("drive")
        .arg("--server")
        .arg(server)
        .args(["--seconds", &seconds.to_string()])
        .args(["--seed", &arguments.seed.to_string()])
        .args(["--rate", &arguments.rate.to_string()])
        .arg("--output")
        .arg(output)
        .status();
    let status = status.map_err(|error| format!("soak: could not be started: {error}"))?;
    match status.success() {
        true => Ok(format!("soak: {seconds} s held")),
        false => Err(format!(
            "soak: {seconds} s with seed {} failed ({status})",
            arguments.seed
        )),
    }
}

/// Parses the length of a run: numbers with h, m or s.
fn length(text: &str) -> Result<Duration, String> {
    let nonsense = || format!("{text:?} is no duration: 2m, 45m, 90s, 1h30m");
    let (mut seconds, mut rest) = (0_u64, text);
    let mut smaller = u64::MAX;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(nonsense)?;
        let (number, unit) = rest.split_at(digits);
        let each = match unit.as_bytes()[0] {
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return Err(nonsense()),
        };
        if each >= smaller {
            return Err(nonsense());
        }
        smaller = each;
        let number: u64 = number.parse().map_err(|_| nonsense())?;
        seconds = number
            .checked_mul(each)
            .and_then(|more| seconds.checked_add(more))
            .ok_or_else(nonsense)?;
        rest = &unit[1..];
    }
    let length = Duration::from_secs(seconds);
    match (LENGTHS.0..=LENGTHS.1).contains(&length) {
        true => Ok(length),
        false => Err(format!("{text:?} is not between 30s and 24h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_numbers_with_units_from_large_to_small() {
        for (text, seconds) in [
            ("45m", Some(2700)),
            ("2m", Some(120)),
            ("90s", Some(90)),
            ("1h30m", Some(5400)),
            ("1m30s", Some(90)),
            ("24h", Some(86_400)),
            ("30s", Some(30)),
            ("", None),
            ("45", None),
            ("m", None),
            ("29s", None),
            ("25h", None),
            ("-5m", None),
            ("1.5h", None),
            ("30s1m", None),
            ("1m1m", None),
            ("5 m", None),
            ("5min", None),
            ("5µ", None),
            ("soon", None),
            ("99999999999999999999h", None),
            ("9999999999999999h", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(length(text).ok(), expected, "{text:?}");
        }
    }
}
