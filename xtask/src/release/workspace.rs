//! The workspace as cargo knows it, and the programs that a release calls.
//!
//! ```text
//! cargo metadata ──▶ Workspace { packages, published };  program + words ──▶ stdout | one line
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

    /// The nodes of the graph of dependencies.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Value> {
        let nodes = self.metadata["resolve"]["nodes"].as_array();
        nodes.into_iter().flatten()
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
        let cli = self
            .members()
            .find(|package| package["name"] == "kinform-cli");
        cli.and_then(|cli| cli["version"].as_str())
            .unwrap_or("0.0.0")
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
    let is_error = |line: &&str| line.starts_with("error");
    let line = told.lines().find(is_error).or_else(|| told.lines().last());
    Err(format!(
        "{name}: {} ({})",
        line.unwrap_or("failed"),
        output.status
    ))
}
