//! The workspace as cargo knows it, and the programs that a release calls.
//!
//! ```text
//! cargo metadata, cargo tree ──▶ Workspace { packages, tree };  program + words ──▶ stdout | one line
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::suite;

/// The workspace, as `cargo metadata` describes it.
#[derive(Debug)]
pub(super) struct Workspace {
    metadata: Value,
}

impl Workspace {
    /// Asks cargo, offline, for the platform of the programs.
    ///
    /// # Errors
    /// Cargo cannot read the workspace.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut cargo = suite::cargo();
        cargo.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
        cargo.args(["--filter-platform", super::binaries::PLATFORM]);
        let text = output(cargo.current_dir(root))?;
        let metadata = serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
        Ok(Self { metadata })
    }

    /// All packages, dependencies included.
    pub(super) fn packages(&self) -> impl Iterator<Item = &Value> {
        self.metadata["packages"].as_array().into_iter().flatten()
    }

    /// The tree of the program's crates, as lines `DEPTH|NAME vVERSION ..`.
    ///
    /// # Errors
    /// Cargo cannot make it.
    pub(super) fn tree(&self, root: &Path) -> Result<String, String> {
        let mut cargo = suite::cargo();
        cargo.args(["tree", "--locked", "--offline", "--package", "kinform-cli"]);
        cargo.args(["--edges", "normal,build", "--target"]);
        cargo.args([super::binaries::PLATFORM, "--prefix", "depth"]);
        output(cargo.args(["--format", "|{p}"]).current_dir(root))
    }

    /// The packages of this repository.
    pub(super) fn members(&self) -> impl Iterator<Item = &Value> {
        self.packages()
            .filter(|package| package["source"].is_null())
    }

    /// The packages of this repository that are published.
    pub(super) fn published(&self) -> impl Iterator<Item = &Value> {
        self.members()
            .filter(|package| package["publish"].is_null())
    }

    /// The version of the release.
    pub(super) fn version(&self) -> &str {
        self.program("version").unwrap_or("0.0.0")
    }

    /// The oldest Rust that the release promises.
    pub(super) fn rust_version(&self) -> Option<&str> {
        self.program("rust_version")
    }

    /// A fact of the program's package.
    fn program(&self, key: &str) -> Option<&str> {
        let mut members = self.members();
        let cli = members.find(|package| package["name"] == "kinform-cli");
        cli?[key].as_str()
    }
}

/// The target folder of the workspace.
pub(super) fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// Runs a program to its end; its output, or its last line of complaint.
///
/// # Errors
/// It could not be started, or failed.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let line = complaint(&told);
    Err(format!(
        "{name}: {} ({})",
        line.unwrap_or("failed"),
        output.status
    ))
}

/// The line of a program's messages that says the most: the first error, or the last line.
fn complaint(told: &str) -> Option<&str> {
    let mut lines = told.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.starts_with("error") || line.contains("[ERROR]");
    lines.clone().find(is_error).or_else(|| lines.next_back())
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn a_failure_is_told_by_its_first_error_or_its_last_line() {
        let cases = [
            ("a\nerror[E1]: b\nerror: c\n", Some("error[E1]: b")),
            ("a\n2026-01-01 [ERROR] b\n\n", Some("2026-01-01 [ERROR] b")),
            ("a\nb\n \n", Some("b")),
            ("\n", None),
        ];
        for (told, line) in cases {
            assert_eq!(complaint(told), line);
        }
    }
}
