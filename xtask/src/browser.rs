//! `cargo xtask e2e browser`, `cargo xtask pictures`: the inspector's page in a real browser.
//!
//! ```text
//! Chromium, Node.js, npm ──missing──▶ a row that says so
//!      └─▶ e2e/'s program `watched`, a release build ─┐
//! e2e/browser/: packages into target/browser/, *.mjs ─┴▶ node main.mjs ──▶ ok | FAILED, a line a check
//! ```
//!
//! Packages have the versions of `package-lock.json`, and none of their scripts runs at the install.
//! Never: a download of a browser, or a package in the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::suite;

/// The folder of the checks, in the repository.
const SOURCE: &str = "e2e/browser";
/// Names of the browser.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// The variable that names another one.
const VARIABLE: &str = "KINFORM_CHROMIUM";

/// The checks that are run.
#[derive(Debug, Default, Args)]
pub(crate) struct Arguments {
    /// Only the parts whose name has this in it: access, size, content, looks, keyboard, names,
    /// canary, search, ends.
    #[arg(default_value = "")]
    part: String,
    /// Also leaves a page open at a rate, and watches its heap.
    #[arg(long)]
    long: bool,
    /// The time that it is left open.
    #[arg(long, default_value_t = 10.0, requires = "long")]
    minutes: f64,
    /// Measures the cost of an open page instead.
    #[arg(long, conflicts_with = "long")]
    figures: bool,
    /// The length of each of the six windows of figures.
    #[arg(long, default_value_t = 60.0, requires = "figures")]
    seconds: f64,
    /// Events a second of figures and of the long check.
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
}

/// Programs and packages that the checks need.
#[derive(Debug)]
pub(crate) struct Ready {
    chromium: PathBuf,
    program: PathBuf,
    folder: PathBuf,
}

/// Programs that are missing, and how to get them.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) Vec<&'static str>);

impl Missing {
    /// Names the packages to install.
    pub(crate) fn advice(&self) -> String {
        format!(
            "the browser's checks need {}: install Debian's package chromium (or set {VARIABLE}), \
             and Node.js 20 or newer with npm; {SOURCE}/package.json names the packages, which npm \
             fetches",
            self.0.join(", ")
        )
    }
}

/// Finds or makes all that is needed.
///
/// # Errors
/// The program does not build, or the folder cannot be written.
pub(crate) fn ready(root: &Path) -> Result<Result<Ready, Missing>, String> {
    let chromium = chromium();
    let mut missing = Vec::new();
    if chromium.is_none() {
        missing.push("Chromium");
    }
    let is_there = |program| suite::is_there(program, "--version");
    if !is_there("node") || !is_there("npm") {
        missing.push("Node.js");
    }
    let Some(chromium) = chromium.filter(|_| missing.is_empty()) else {
        return Ok(Err(Missing(missing)));
    };
    let folder = suite::target(root).join("browser");
    let folder = std::path::absolute(&folder)
        .map_err(|error| format!("browser: {}: {error}", folder.display()))?;
    if !install(&root.join(SOURCE), &folder)? {
        return Ok(Err(Missing(vec!["npm packages"])));
    }
    let words = ["build", "--release", "--bin", "watched"];
    let program = suite::program(root, &root.join("e2e"), &words, "watched")?;
    Ok(Ok(Ready {
        chromium,
        program,
        folder,
    }))
}

/// The browser of this machine.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let mut all = BROWSERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.find(|path| path.is_file())
}

/// Copies the checks, and fetches their packages if they are not there; returns whether they are.
fn install(source: &Path, folder: &Path) -> Result<bool, String> {
    let wrong = |error: std::io::Error| format!("browser: {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(wrong)?;
    let unread = |error: std::io::Error| format!("browser: {}: {error}", source.display());
    let lock = fs::read(source.join("package-lock.json")).map_err(unread)?;
    let stamp = folder.join("installed");
    for file in fs::read_dir(source).map_err(unread)? {
        let file = file.map_err(unread)?;
        // Packages that somebody installed there stay there.
        if !file.path().is_file() {
            continue;
        }
        fs::copy(file.path(), folder.join(file.file_name())).map_err(wrong)?;
    }
    if fs::read(&stamp).is_ok_and(|of| of == lock) {
        return Ok(true);
    }
    let installed = Command::new("npm")
        .args(["ci", "--silent", "--no-audit", "--no-fund"])
        // Packages are code of others: none of it runs before the checks do.
        .arg("--ignore-scripts")
        .current_dir(folder)
        .status()
        .map_err(wrong)?;
    if !installed.success() {
        return Ok(false);
    }
    fs::write(stamp, lock).map_err(wrong)?;
    Ok(true)
}

impl Ready {
    /// The command of the checks, without options.
    fn command(&self) -> Command {
        let mut command = Command::new("node");
        command
            .arg("main.mjs")
            .arg("--program")
            .arg(&self.program)
            .arg("--chromium")
            .arg(&self.chromium)
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }

    /// The command of these checks.
    pub(crate) fn checks(&self, arguments: &Arguments) -> Command {
        let mut command = self.command();
        command
            .args(["--only", &arguments.part])
            .args(["--rate", &arguments.rate.to_string()]);
        if arguments.long {
            command
                .arg("--long")
                .args(["--minutes", &arguments.minutes.to_string()]);
        }
        if arguments.figures {
            command
                .arg("--figures")
                .args(["--seconds", &arguments.seconds.to_string()]);
        }
        command
    }
}

/// Makes the pictures of the page in a folder.
///
/// # Errors
/// A program is missing or fails, or a picture is too large.
pub(crate) fn pictures(root: &Path, folder: &Path) -> Result<(), String> {
    let ready = ready(root)?.map_err(|missing| missing.advice())?;
    match ready.command().arg("--pictures").arg(folder).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("pictures: {status}")),
        Err(error) => Err(format!("pictures: node could not be started: {error}")),
    }
}
