//! `cargo xtask new`: the project that `kinform new` writes builds, passes its tests, and is tidy.
//!
//! ```text
//! kinform new ─▶ a folder in target/new ──cargo test, clippy, fmt──▶ passed, and the seconds of each step
//! ```
//!
//! The kinds have names that code uses, so that a clash shows. The lock file is the workspace's, and
//! the target folder and the profile, too: what the tests of the workspace have built is not built
//! again where it has the same features. It needs no network.
//!
//! Names of other lengths are formatted, and not built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::suite;

/// The program that writes the projects.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A program `kinform`; by default the one that the tests of the workspace use.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// The projects that are built, one of each scope. A kind is a name that the code around it uses.
const BUILT: [[&str; 6]; 2] = [
    [
        "client-operator",
        "--group",
        "things.example.com",
        "--kind",
        "Client",
        "--scope=namespaced",
    ],
    ["arc", "--group", "a.b", "--kind", "Arc", "--scope=cluster"],
];

/// Projects that are formatted only: names of other lengths change where lines break.
const FORMATTED: [[&str; 6]; 2] = [
    [
        "web",
        "--group",
        "example.com",
        "--kind",
        "Website",
        "--scope=namespaced",
    ],
    [
        "operator-of-applications-with-a-long-name",
        "--group",
        "applications.platform.example.com",
        "--kind",
        "ApplicationDeploymentConfigurationRequest",
        "--scope=cluster",
    ],
];

/// Writes the projects and checks them.
///
/// # Errors
/// A step failed; its output went to the terminal.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let folder = target(root).join("new");
    // A project that an earlier run left may have other files.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let kinform = match &arguments.program {
        Some(program) => program.clone(),
        None => kinform(root)?,
    };
    for names in BUILT.iter().chain(&FORMATTED) {
        let project = folder.join(names[0]);
        write(&kinform, root, &project, names)?;
        cargo("fmt", &project, &["fmt", "--check"])?;
    }
    let shared = shared(root);
    let shared: Vec<&str> = shared.iter().map(String::as_str).collect();
    let mut seconds = Vec::new();
    for [name, ..] in BUILT {
        let project = folder.join(name);
        let test = cargo("test", &project, &[&["test"], &shared[..]].concat())?;
        let words = [
            &["clippy", "--all-targets"],
            &shared[..],
            &["--", "-D", "warnings"],
        ]
        .concat();
        let clippy = cargo("clippy", &project, &words)?;
        seconds.push(format!("{name}: tests {test} s, clippy {clippy} s"));
    }
    Ok(format!(
        "new: {} projects are formatted, {} pass their tests and clippy ({})",
        BUILT.len() + FORMATTED.len(),
        BUILT.len(),
        seconds.join("; ")
    ))
}

/// The words with which cargo builds a project as it builds this workspace.
fn shared(root: &Path) -> [String; 5] {
    let text = |path: &Path| path.display().to_string();
    [
        "--offline".to_owned(),
        "--config".to_owned(),
        text(&root.join(".cargo/config.toml")),
        "--target-dir".to_owned(),
        text(&target(root)),
    ]
}

/// The workspace's target folder.
fn target(root: &Path) -> PathBuf {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// The command, as the tests of the workspace have built it.
fn kinform(root: &Path) -> Result<PathBuf, String> {
    let words = ["test", "--workspace", "--no-run"];
    let programs = suite::programs(suite::cargo(), root, &words)?;
    let kinform = programs.get("kinform").cloned();
    kinform.ok_or_else(|| "new: cargo built no program kinform".to_owned())
}

/// Writes a project on this checkout.
fn write(kinform: &Path, root: &Path, project: &Path, names: &[&str]) -> Result<(), String> {
    let status = Command::new(kinform)
        .arg("new")
        .args(names)
        .arg("--kinform-path")
        .arg(root)
        .arg("--dir")
        .arg(project)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("new: kinform new {}: {status}", names.join(" "))),
        Err(error) => Err(format!("new: {}: {error}", kinform.display())),
    }
}

/// Runs cargo in a project; the seconds that it took.
fn cargo(step: &str, project: &Path, words: &[&str]) -> Result<u64, String> {
    let begin = Instant::now();
    let status = suite::cargo().args(words).current_dir(project).status();
    match status {
        Ok(status) if status.success() => Ok(begin.elapsed().as_secs()),
        Ok(status) => Err(format!("new: {step} in {}: {status}", project.display())),
        Err(error) => Err(format!("new: cargo could not be started: {error}")),
    }
}
