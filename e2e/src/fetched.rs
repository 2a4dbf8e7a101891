//! Command-line programs of others that are fetched as Go modules, built once, and kept.
//!
//! ```text
//! Fetched { module, version, package } ──go build──▶ cache/programs/NAME-VERSION ──▶ Tool
//! ```
//!
//! They are built in the module's own folder, with the versions that it replaces. A version is built
//! at most once; `cache/programs` may be removed at any time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kinform_testkit::checks::stage::StageError;

use crate::kubectl::cache;
use crate::peers::module;

/// BOUND: the time that a build may take.
const BUILD: Duration = Duration::from_secs(900);
/// BOUND: the time that one command of a tool may take.
const COMMAND: Duration = Duration::from_secs(120);

/// A program of a Go module.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// Its name in the cache.
    pub name: &'static str,
    /// The module that it belongs to.
    pub module: &'static str,
    /// The version of the module.
    pub version: &'static str,
    /// The folder of its main package in the module.
    pub package: &'static str,
}

impl Fetched {
    /// Builds it, if it is not built yet; returns the program.
    ///
    /// # Errors
    /// The module cannot be fetched, or does not build in time.
    pub fn built(&self) -> Result<PathBuf, StageError> {
        let folder = cache().join("programs");
        let program = folder.join(format!("{}-{}", self.name, self.version));
        if program.exists() {
            return Ok(program);
        }
        fs::create_dir_all(&folder)?;
        eprintln!("building {} {} ...", self.name, self.version);
        // Another name until it is whole: a build may be ended.
        let part = folder.join(format!("{}.part", self.name));
        let (to, package) = (part.display().to_string(), format!("./{}", self.package));
        let flags = ["build", "-p", "2", "-ldflags=-s -w", "-o", &to, &package];
        let source = module(self.module, self.version)?;
        let mut build = Command::new("go");
        build.args(flags).current_dir(source);
        let said = within(build, BUILD)?;
        if !said.is_success {
            return Err(format!("{} does not build: {}", self.name, said.err).into());
        }
        fs::rename(part, &program)?;
        Ok(program)
    }
}

/// The outcome of a command.
#[derive(Clone, Debug)]
pub struct Said {
    /// True for the exit code 0.
    pub is_success: bool,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Runs a command to its end, within a time.
///
/// # Errors
/// It cannot be started, or does not end in time.
fn within(command: Command, limit: Duration) -> Result<Said, StageError> {
    let name = format!("{command:?}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let mut command = tokio::process::Command::from(command);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        tokio::time::timeout(limit, output).await
    });
    let output = ended.map_err(|_| format!("{name} did not end in {limit:?}"))??;
    Ok(Said {
        is_success: output.status.success(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// A command-line program for one server.
#[derive(Debug)]
pub struct Tool {
    program: PathBuf,
    kubeconfig: PathBuf,
    // Its caches and settings.
    home: tempfile::TempDir,
}

impl Tool {
    /// For the server of this file.
    ///
    /// # Errors
    /// No directory can be made.
    pub fn new(program: &Path, kubeconfig: &Path) -> Result<Self, StageError> {
        Ok(Self {
            program: program.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            home: tempfile::tempdir()?,
        })
    }

    /// Runs a command, given as words between spaces, whether it succeeds or not.
    ///
    /// # Errors
    /// It cannot be started, or does not end in time.
    pub fn ask(&self, words: &str) -> Result<Said, StageError> {
        let mut command = Command::new(&self.program);
        command
            .args(words.split(' '))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .current_dir(self.home.path());
        within(command, COMMAND)
    }

    /// The same; returns what it prints.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, words: &str) -> Result<String, StageError> {
        let said = self.ask(words)?;
        match said.is_success {
            true => Ok(said.out),
            false => Err(format!("{words}: {}{}", said.out, said.err).into()),
        }
    }
}
