//! `cargo xtask e2e`: against a real API server and the real client-go, where they can be built.
//!
//! ```text
//! e2e              ── go, openssl, curl? ──▶ e2e/ (a workspace of its own): all its tests
//! e2e differential ── go?                ──▶ e2e/: scripted histories through kinform and client-go
//!                      └── no ──▶ says what was skipped, and why
//! ```
//!
//! The first time, building the server takes minutes. Nothing is fetched but Go modules, at the
//! versions in `e2e/oracle/go.mod` and `e2e/client-go/go.mod`.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};

use crate::suite;

/// What is run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    only: Option<Only>,
}

/// A part of it.
#[derive(Debug, Subcommand)]
enum Only {
    /// Scripted histories through kinform and the real client-go: the same notifications.
    Differential {
        /// How many histories; 50, or one if a seed is given.
        #[arg(long)]
        histories: Option<u64>,
        /// The seed of the first.
        #[arg(long)]
        seed: Option<u64>,
        /// How many side by side.
        #[arg(long)]
        width: Option<u64>,
    },
}

/// Programs without which no real server can be had.
const NEEDED: [&str; 3] = ["go", "openssl", "curl"];

/// Runs what is in `e2e/` of the repository at `root`; its output goes to the terminal.
///
/// # Errors
/// A test failed, or could not be started.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    match &arguments.only {
        None => everything(root),
        Some(Only::Differential {
            histories,
            seed,
            width,
        }) => {
            let options = [
                ("--histories", histories),
                ("--seed", seed),
                ("--width", width),
            ];
            differential(root, &options)
        }
    }
}

fn everything(root: &Path) -> Result<String, String> {
    if let Some(missing) = missing(&NEEDED) {
        return Ok(format!(
            "e2e: SKIPPED ALL OF IT: no {missing} here, so no real API server can be built and started.\n\
             e2e: not run: twenty rounds of faults against a real server; fifty histories beside client-go."
        ));
    }
    let arguments = ["test", "--locked", "--", "--nocapture"];
    cargo(root, arguments.map(str::to_owned).into())?;
    Ok("e2e: all tests passed".to_owned())
}

fn differential(root: &Path, options: &[(&str, &Option<u64>)]) -> Result<String, String> {
    if let Some(missing) = missing(&["go"]) {
        return Ok(format!(
            "e2e: SKIPPED: no {missing} here, so client-go cannot be built.\n\
             e2e: not run: the scripted histories through kinform and client-go."
        ));
    }
    let fixed = ["run", "--locked", "--quiet", "--bin", "differential", "--"];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
    for (name, value) in options {
        if let Some(value) = value {
            arguments.extend([(*name).to_owned(), value.to_string()]);
        }
    }
    cargo(root, arguments)?;
    Ok("e2e: kinform and client-go tell the same".to_owned())
}

fn missing(needed: &[&str]) -> Option<String> {
    let missing: Vec<_> = needed.iter().copied().filter(|p| !is_there(p)).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

fn cargo(root: &Path, arguments: Vec<String>) -> Result<(), String> {
    let status = suite::cargo()
        .args(arguments)
        .current_dir(root.join("e2e"))
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
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
