//! The workspace's test binaries: built once, then run without cargo.
//!
//! ```text
//! cargo test --no-run --message-format json ──▶ [Binary] ──list──▶ names ──run──▶ Outcome
//! ```
//!
//! Running the binaries directly makes many runs cheap. Each runs in its package's folder, as under
//! cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// One test binary.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    /// The package, and the target where that is not the library.
    pub(crate) name: String,
    path: PathBuf,
    folder: PathBuf,
}

/// Builds the test binaries that `arguments` of `cargo test` select.
///
/// # Errors
/// Cargo could not be started, or the build failed; its messages went to the terminal.
pub(crate) fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Binary>, String> {
    build_by(cargo(), root, arguments)
}

/// The same, by a [`cargo`] that the caller has changed.
pub(crate) fn build_by(
    mut cargo: Command,
    root: &Path,
    arguments: &[&str],
) -> Result<Vec<Binary>, String> {
    let output = cargo
        .args(["test", "--no-run", "--locked", "--message-format", "json"])
        .args(arguments)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Ok(messages
        .filter_map(|message: Value| binary(&message))
        .collect())
}

/// Runs cargo with these words, and returns the programs that it built by their names.
///
/// # Errors
/// Cargo could not be started, or the build failed; its messages went to the terminal.
pub(crate) fn programs(
    mut cargo: Command,
    root: &Path,
    words: &[&str],
) -> Result<BTreeMap<String, PathBuf>, String> {
    let output = cargo
        .args(words)
        .args(["--locked", "--message-format", "json"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if !output.status.success() {
        return Err("the programs do not build".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let program = |message: Value| {
        let is_test = message["profile"]["test"].as_bool()?;
        let path = message["executable"].as_str()?;
        let name = message["target"]["name"].as_str()?;
        (!is_test).then(|| (name.to_owned(), PathBuf::from(path)))
    };
    Ok(messages.filter_map(program).collect())
}

/// Builds one program of the workspace in `folder`, beside those of the repository at `root`.
///
/// # Errors
/// As [`programs`], or cargo built no program of this name.
pub(crate) fn program(
    root: &Path,
    folder: &Path,
    words: &[&str],
    name: &str,
) -> Result<PathBuf, String> {
    let mut built = programs(cargo_beside(root), folder, words)?;
    let program = built.remove(name);
    program.ok_or_else(|| format!("cargo built no program {name}"))
}

/// [`cargo`] with the builds of the repository at `root`, also in a workspace of its own: most of its
/// dependencies are built there.
pub(crate) fn cargo_beside(root: &Path) -> Command {
    let mut command = cargo();
    if env::var_os("CARGO_TARGET_DIR").is_none() {
        command.env("CARGO_TARGET_DIR", root.join("target"));
    }
    command
}

/// Returns whether a program answers the flag that asks for its version.
pub(crate) fn is_there(program: &str, flag: &str) -> bool {
    let asked = Command::new(program)
        .arg(flag)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// The folder of the builds of the repository at `root`.
pub(crate) fn target(root: &Path) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target)
}

/// Cargo without the variables of the calling package: build scripts look at them, and a dependency
/// would be rebuilt each time that they appear or disappear.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    for (name, _) in env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            [
                "CARGO_PKG_",
                "CARGO_MANIFEST_",
                "CARGO_BIN_",
                "CARGO_CRATE_",
            ]
            .iter()
            .any(|start| name.starts_with(start))
        });
        if of_package {
            command.env_remove(name);
        }
    }
    command
}

fn binary(message: &Value) -> Option<Binary> {
    let is_test = message["profile"]["test"].as_bool()?;
    let path = message["executable"].as_str()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?;
    let package = folder.file_name()?.to_string_lossy();
    let target = message["target"]["name"].as_str()?;
    is_test.then(|| Binary {
        name: format!("{package}/{target}"),
        path: path.into(),
        folder: folder.to_owned(),
    })
}

impl Binary {
    /// The tests in it, by path.
    ///
    /// # Errors
    /// It could not be started.
    pub(crate) fn list(&self) -> Result<Vec<String>, String> {
        let output = self
            .command()
            .args(["--list", "--format", "terse"])
            .output();
        let output = output.map_err(|e| format!("{} could not be started: {e}", self.name))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(tests.map(str::to_owned).collect())
    }

    /// Runs these tests only.
    ///
    /// # Errors
    /// A test failed; the message is its output.
    pub(crate) fn run(&self, tests: &BTreeSet<String>) -> Result<(), String> {
        let output = self.command().arg("--exact").args(tests).output();
        let output = output.map_err(|e| format!("{} could not be started: {e}", self.name))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!(
            "{} failed:\n{}{}",
            self.name,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }

    /// The binary in its folder, with an empty stdin.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}
