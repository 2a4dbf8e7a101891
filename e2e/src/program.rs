//! Client programs in other languages: built here, run against a server, and asked for a report.
//!
//! ```text
//! source ──build──▶ program KUBECONFIG NAMESPACE ──stdout──▶ Report { checks }
//! ```
//!
//! They do not know which server they talk to; their assertions are their own.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kinform_testkit::checks::stage::StageError;
use serde::Deserialize;
use tokio::process::Command;

use crate::servers::{Host, Servers};

/// BOUND: how long a program may take on one server.
const PATIENCE: Duration = Duration::from_secs(300);

/// A program, ready to run.
#[derive(Debug)]
pub struct Program {
    name: String,
    path: PathBuf,
    arguments: Vec<PathBuf>,
    // The directory that holds the built program.
    _home: tempfile::TempDir,
}

/// A program's report at its end.
#[derive(Debug, Deserialize)]
pub struct Report {
    checks: Vec<Check>,
}

#[derive(Debug, Deserialize)]
struct Check {
    name: String,
    #[serde(default)]
    failure: String,
    seconds: f64,
}

impl Report {
    /// The number of checks made.
    pub fn checks(&self) -> usize {
        self.checks.len()
    }

    /// The number of failed checks.
    pub fn failures(&self) -> usize {
        let failed = |check: &&Check| !check.failure.is_empty();
        self.checks.iter().filter(failed).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Check {
            name,
            failure,
            seconds,
        } in &self.checks
        {
            match failure.as_str() {
                "" => writeln!(f, "  ok      {seconds:5.1} s  {name}")?,
                failure => writeln!(f, "  FAILED  {seconds:5.1} s  {name}: {failure}")?,
            }
        }
        Ok(())
    }
}

/// Returns whether a program can be run.
fn is_there(program: &str, argument: &str) -> bool {
    let asked = std::process::Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

/// The name of a program: that of its folder.
fn name_of(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

impl Program {
    /// Builds the Go package of a folder under `e2e/`; `None`, with a message on stderr, where Go
    /// is missing.
    ///
    /// # Errors
    /// It does not build.
    pub async fn go(folder: &str, package: &str) -> Result<Option<Self>, StageError> {
        if !is_there("go", "version") {
            eprintln!("SKIPPED: {folder}: no Go here to build it with");
            println!("RESULT | {folder} | both | skipped: no Go |");
            return Ok(None);
        }
        let home = tempfile::tempdir()?;
        let path = home.path().join("program");
        let built = Command::new("go")
            .args(["build", "-mod=readonly", "-p", "2", "-o"])
            .arg(&path)
            .arg(package)
            .current_dir(source(folder))
            .status()
            .await?;
        if !built.success() {
            return Err(format!("{folder}: go build failed: {built}").into());
        }
        Ok(Some(Self {
            name: folder.to_owned(),
            path,
            arguments: Vec::new(),
            _home: home,
        }))
    }

    /// A Python script of a folder under `e2e/`, with the packages of its `requirements.txt`
    /// installed into an environment of its own; `None`, with a message on stderr, where that is
    /// impossible.
    ///
    /// # Errors
    /// No directory can be made.
    pub async fn python(folder: &str) -> Result<Option<Self>, StageError> {
        let home = tempfile::tempdir()?;
        let environment = home.path().join("environment");
        let python = environment.join("bin").join("python");
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment)
            .stdout(Stdio::null())
            .status()
            .await;
        if !made.is_ok_and(|status| status.success()) {
            let folder = name_of(folder);
            eprintln!("SKIPPED: {folder}: no Python with its venv module here");
            println!("RESULT | {folder} | both | skipped: no Python |");
            return Ok(None);
        }
        let installed = Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(["--require-virtualenv", "-r"])
            .arg(source(folder).join("requirements.txt"))
            .status()
            .await?;
        if !installed.success() {
            let folder = name_of(folder);
            eprintln!("SKIPPED: {folder}: its packages cannot be installed: {installed}");
            println!("RESULT | {folder} | both | skipped: no packages |");
            return Ok(None);
        }
        Ok(Some(Self {
            name: name_of(folder).to_owned(),
            path: python,
            arguments: vec![source(folder).join("main.py")],
            _home: home,
        }))
    }

    /// A JavaScript program of a folder under `e2e/`, with the packages of its `package.json`
    /// installed into a directory of its own; `None`, with a message on stderr, where that is
    /// impossible.
    ///
    /// # Errors
    /// No directory can be made.
    pub async fn node(folder: &str) -> Result<Option<Self>, StageError> {
        let name = name_of(folder);
        if !is_there("node", "--version") || !is_there("npm", "--version") {
            eprintln!("SKIPPED: {name}: no Node.js with npm here");
            println!("RESULT | {name} | both | skipped: no Node.js |");
            return Ok(None);
        }
        let home = tempfile::tempdir()?;
        for file in ["package.json", "main.mjs"] {
            std::fs::copy(source(folder).join(file), home.path().join(file))?;
        }
        let installed = Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund"])
            // Packages are code of others: none of it runs before the program does.
            .arg("--ignore-scripts")
            .current_dir(home.path())
            .status()
            .await?;
        if !installed.success() {
            eprintln!("SKIPPED: {name}: its packages cannot be installed: {installed}");
            println!("RESULT | {name} | both | skipped: no packages |");
            return Ok(None);
        }
        Ok(Some(Self {
            name: name.to_owned(),
            path: PathBuf::from("node"),
            arguments: vec![home.path().join("main.mjs")],
            _home: home,
        }))
    }

    /// Runs it with these arguments; returns what it prints.
    ///
    /// # Errors
    /// It fails, or does not end in time.
    pub async fn ask(&self, arguments: &[&OsStr]) -> Result<String, StageError> {
        let name = &self.name;
        let child = Command::new(&self.path)
            .args(&self.arguments)
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, child).await;
        let output = output.map_err(|_| format!("{name} did not end in {PATIENCE:?}"))??;
        if !output.status.success() {
            let (code, said) = (output.status, String::from_utf8_lossy(&output.stderr));
            return Err(format!("{name} ended with {code}: {said}").into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The command that starts it, without arguments of a server.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        command
    }

    /// Runs it on a server.
    ///
    /// # Errors
    /// It does not end in time, or prints no report.
    pub async fn run(&self, host: &Host) -> Result<Report, StageError> {
        let name = &self.name;
        let child = Command::new(&self.path)
            .args(&self.arguments)
            .arg(host.kubeconfig())
            .arg(format!("story-{name}"))
            .env("HOME", host.home())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, child).await;
        let output = output.map_err(|_| format!("{name} did not end in {PATIENCE:?}"))??;
        let said = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout).map_err(|error| {
            let code = output.status;
            format!("{name} ended with {code} and no report ({error}): {said}")
        })?;
        Ok(report)
    }

    /// Runs it on all servers and prints the results; returns the failures, by server.
    ///
    /// # Errors
    /// A server or the program fails altogether.
    pub async fn tell(&self, servers: &Servers) -> Result<Vec<String>, StageError> {
        let mut wrong = Vec::new();
        for host in servers.hosts() {
            let (name, kind) = (&self.name, host.kind());
            // Clients then meet expired versions.
            host.forget().await?;
            let report = self.run(host).await?;
            eprint!("{name} on the {kind} server:\n{report}");
            let (checks, failures) = (report.checks(), report.failures());
            println!("RESULT | {name} | {kind} | {checks} checks, {failures} failed |");
            if failures > 0 || checks == 0 {
                wrong.push(format!("{name} on the {kind} server:\n{report}"));
            }
        }
        Ok(wrong)
    }
}
