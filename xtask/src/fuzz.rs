//! `cargo xtask fuzz`: hostile bytes for the readers of the wire, of the server and of files.
//!
//! ```text
//! fuzz [TARGET] [--for 10m] ──▶ a nightly compiler and cargo-fuzz ──▶ cargo +nightly fuzz run
//!                                └── not there ──▶ fuzz/: its driver, over the same targets
//! ```
//!
//! One target after the other, each for the time given; the first that finds something ends the
//! run.
//! Upstream: `kubernetes:test/fuzz`, run by OSS-Fuzz.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;

use crate::suite;

/// The targets to run, and the time for each.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// One of the targets; all of them if not said.
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
    /// The time for each: 90s, 10m, 2h.
    #[arg(long = "for", default_value = "10m", value_parser = seconds)]
    seconds: u64,
    /// The seed of the driver for stable compilers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const TARGETS: [&str; 21] = [
    "list",
    "watch",
    "head",
    "protobuf",
    "selectors",
    "field_path",
    "json_path",
    "json_patch",
    "merge_patch",
    "strategic_merge",
    "apply",
    "continue_token",
    "negotiation",
    "admission_reply",
    "yaml",
    "cel",
    "patterns",
    "kubeconfig",
    "manifests",
    "snapshot",
    "recording",
];

/// Runs the targets of `fuzz/` in the repository at `root`; their output goes to the terminal.
///
/// # Errors
/// A target found something, or could not be started.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let targets = match &arguments.target {
        Some(target) => vec![target.as_str()],
        None => TARGETS.to_vec(),
    };
    let (by, has_coverage) = match has_cargo_fuzz(root) {
        true => ("cargo-fuzz on the nightly compiler", true),
        false => (
            "the driver for stable compilers (no nightly compiler with cargo-fuzz here)",
            false,
        ),
    };
    say(&format!("fuzz: by {by}"));
    for target in &targets {
        let status = match has_coverage {
            true => by_coverage(root, target, arguments),
            false => by_driver(root, target, arguments),
        }
        .status()
        .map_err(|error| format!("fuzz: {target} could not be started: {error}"))?;
        if !status.success() {
            return Err(format!("fuzz: {target} found something: {status}"));
        }
    }
    let seconds = arguments.seconds;
    Ok(format!(
        "fuzz: {} clean for {seconds} s each, by {by}",
        targets.join(", ")
    ))
}

fn by_coverage(root: &Path, target: &str, arguments: &Arguments) -> Command {
    let mut command = suite::cargo();
    // Inputs found on the way are kept out of the repository.
    let found = format!("fuzz/artifacts/{target}/corpus");
    let _ = std::fs::create_dir_all(root.join(&found));
    command
        .args(["+nightly", "fuzz", "run", "--features", "libfuzzer", target])
        .args([found, format!("fuzz/corpus/{target}"), "--".to_owned()])
        .arg(format!("-max_total_time={}", arguments.seconds))
        .args(["-timeout=10", "-rss_limit_mb=2048", "-max_len=65536"])
        .current_dir(root);
    command
}

fn by_driver(root: &Path, target: &str, arguments: &Arguments) -> Command {
    let mut command = suite::cargo();
    command
        .args(["run", "--release", "--locked", "--quiet", "--bin", "drive"])
        .args(["--", target, "--for", &format!("{}s", arguments.seconds)])
        .args(["--seed", &arguments.seed.to_string()])
        .current_dir(root.join("fuzz"));
    command
}

fn has_cargo_fuzz(root: &Path) -> bool {
    let asked = suite::cargo()
        .args(["+nightly", "fuzz", "--version"])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// `90s`, `10m`, `2h`.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no duration as 90s, 10m or 2h");
    let unit = match text.bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3600,
        _ => return Err(wrong()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    Ok(u64::from(number) * unit)
}

#[expect(clippy::print_stdout, reason = "which fuzzer it is, before it begins")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{TARGETS, seconds};

    #[test]
    fn durations_are_read() {
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds("2h"), Ok(7200));
        for text in ["", "m", "10", "1é", "-1s", "1.5m"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_target_is_known_to_the_task() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
        for target in TARGETS {
            assert!(folder.join(target).is_dir(), "{target}");
        }
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), TARGETS.len());
    }
}
