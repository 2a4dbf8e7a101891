//! `cargo xtask e2e`: against a real API server, where one can be built.
//!
//! ```text
//! go, openssl? ──▶ e2e/ (a workspace of its own): oracle/up, rounds, oracle/down
//!       └── no ──▶ says what was skipped, and why
//! ```
//!
//! The first time, building the server takes minutes. Nothing is fetched but Go modules, at the
//! versions in `e2e/oracle/go.mod`.

use std::path::Path;
use std::process::{Command, Stdio};

/// Programs without which no real server can be had.
const NEEDED: [&str; 3] = ["go", "openssl", "curl"];

/// Runs everything in `e2e/` of the repository at `root`; its output goes to the terminal.
///
/// # Errors
/// A test failed, or could not be started.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let missing: Vec<_> = NEEDED
        .into_iter()
        .filter(|program| !is_there(program))
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Ok(format!(
            "e2e: SKIPPED ALL OF IT: no {missing} here, so no real API server can be built and started.\n\
             e2e: not run: twenty rounds of faults against a real server."
        ));
    }
    let status = Command::new("cargo")
        .args(["test", "--locked", "--", "--nocapture"])
        .current_dir(root.join("e2e"))
        .status();
    match status {
        Ok(status) if status.success() => Ok("e2e: all tests passed".to_owned()),
        Ok(status) => Err(format!("e2e: failed: {status}")),
        Err(error) => Err(format!("e2e: could not be started: {error}")),
    }
}

fn is_there(program: &str) -> bool {
    let asked = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok()
}
