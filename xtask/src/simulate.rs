//! `cargo xtask simulate`: seeded scripts of trouble against kinform itself.
//!
//! ```text
//! arguments ──▶ release build of crates/kinform-simulation ──▶ its report, its exit code
//! ```
//!
//! The program reads its arguments itself: 2 for those that make no sense, 1 for a promise that broke.
//! It is built with tokio's choices seeded, which is a flag of the compiler, and so in a folder of its
//! own of the target directory.
//!
//! Upstream has no counterpart.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

/// The scripts to play.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Arguments of the simulation: see `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds the simulation of the repository at `root`, and runs it.
///
/// # Errors
/// It could not be built or started.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = root.join("Cargo.toml");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let mut command = Command::new(cargo);
    command
        .env("CARGO_TARGET_DIR", root.join(target).join("simulate"))
        .env("RUSTFLAGS", "--cfg tokio_unstable")
        .args([
            "run",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "kinform-simulation",
        ])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--")
        .args(&arguments.rest);
    let status = command.status();
    let status = status.map_err(|error| format!("cargo could not be started: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
