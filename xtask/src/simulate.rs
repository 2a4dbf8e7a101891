//! `cargo xtask simulate`: seeded scripts of trouble against kinform itself.
//!
//! ```text
//! arguments ──▶ release build of crates/kinform-simulation ──▶ its report, its exit code
//! --mutants ──▶ the same with the cfg and debug assertions ──▶ each bug: found, shrunk │ not found
//! ```
//!
//! The program reads its arguments itself: 2 for those that make no sense, 1 for a promise that broke.
//! It is built with tokio's choices seeded, which is a flag of the compiler, and so in a folder of its
//! own of the target directory. A build with known bugs shares the dependencies there.
//!
//! Upstream has no counterpart.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use clap::Args;

use crate::mutants;

/// The scripts to play.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Puts known bugs back, one at a time, and plays seeds until one of them breaks a promise.
    /// Without names: each bug of a crate that the simulation runs.
    #[arg(long, value_delimiter = ',', num_args = 0..=1, value_name = "NAMES")]
    mutants: Option<Vec<String>>,
    /// Arguments of the simulation: see `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds the simulation of the repository at `root`, and runs it.
///
/// # Errors
/// It could not be built or started.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    if let Some(names) = &arguments.mutants {
        return with_bugs(root, names, &arguments.rest);
    }
    exit_code(cargo(root, "run").arg("--").args(&arguments.rest).status())
}

/// The exit code of a program that has ended.
fn exit_code(status: io::Result<ExitStatus>) -> Result<ExitCode, String> {
    let status = status.map_err(|error| format!("the program could not be started: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn target(root: &Path) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target).join("simulate")
}

fn cargo(root: &Path, task: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .env("CARGO_TARGET_DIR", target(root))
        .env("RUSTFLAGS", "--cfg tokio_unstable")
        .args([
            task,
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "kinform-simulation",
        ])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"));
    command
}

/// Plays seeds with each of these bugs; a line for each.
fn with_bugs(root: &Path, names: &[String], rest: &[String]) -> Result<ExitCode, String> {
    let bugs = mutants::simulated(names)?;
    let mut build = cargo(root, "build");
    let status = mutants::wrap(&mut build, &mutants::wrapper()?).status();
    let status = status.map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err("the simulation does not build".to_owned());
    }
    let program = copied(&target(root).join("release"))?;
    let mut found = 0;
    for (name, mistake) in &bugs {
        let play = || {
            let mut command = Command::new(&program);
            command.arg("--brief").args(rest);
            command.env("KINFORM_MUTANT", name);
            command
        };
        // Panics of the simulated programs are no news.
        let output = play().stderr(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let is_found = match output.status.code() {
            Some(0) => false,
            Some(1) => true,
            // The arguments make no sense: the program says why.
            Some(2) => return exit_code(play().status()),
            _ => {
                return Err(format!(
                    "the simulation of {name} failed: {}",
                    output.status
                ));
            }
        };
        found += usize::from(is_found);
        say(&format!("{name:4} {} ({mistake})", said.trim()));
    }
    say(&format!("simulate: {found} of {} bugs found", bugs.len()));
    Ok(ExitCode::SUCCESS)
}

/// The program with the seams, under a name of its own: the one without may be built meanwhile.
fn copied(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("kinform-simulation-mutants");
    let copied = std::fs::copy(folder.join("kinform-simulation"), &program);
    copied.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

#[expect(clippy::print_stdout, reason = "a line when it is known")]
fn say(line: &str) {
    println!("{line}");
}
