//! `cargo xtask release --dry-run`: everything that a release needs, but for publishing and the tag.
//!
//! ```text
//! checks.rs (tree, versions, packages, tools), oldest.rs (the oldest Rust) ─▶ a line each
//! bom.rs, notices.rs, binaries.rs, files.rs ─▶ target/release-files ─▶ a line each
//! ```
//!
//! It publishes nothing and makes no tag: that is done by hand, as `docs/releasing.md` says. A tool
//! that is missing is named together with the way to install it, and is no failure.

mod binaries;
mod bom;
mod checks;
mod files;
mod notices;
mod oldest;
mod workspace;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use self::workspace::Workspace;

/// The exit code of a release that would publish.
const USAGE: u8 = 2;

/// The form of the run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Checks and makes the files; without it, nothing is done.
    #[arg(long)]
    dry_run: bool,
    /// Builds the static program once more, in another folder, and compares the bytes.
    #[arg(long)]
    reproducible: bool,
    /// Runs the static program in a root folder that holds nothing else.
    #[arg(long)]
    chroot: bool,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It holds.
    Passed(String),
    /// It does not hold.
    Failed(String),
    /// It could not be checked: what is missing, and how to get it.
    Missing(String),
}

impl From<Result<String, String>> for Outcome {
    fn from(result: Result<String, String>) -> Self {
        match result {
            Ok(passed) => Self::Passed(passed),
            Err(failed) => Self::Failed(failed),
        }
    }
}

/// The facts that every step reads.
#[derive(Debug)]
struct Release {
    root: PathBuf,
    /// The folder of the files.
    folder: PathBuf,
    workspace: Workspace,
}

/// Runs the steps in order; a line for each goes to the terminal.
///
/// # Errors
/// The workspace cannot be read, or the folder cannot be made.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    if !arguments.dry_run {
        say(
            "release: publishing is by hand, as docs/releasing.md says; --dry-run checks and makes the files",
        );
        return Ok(ExitCode::from(USAGE));
    }
    let root = root
        .canonicalize()
        .map_err(|error| format!("{}: {error}", root.display()))?;
    let folder = workspace::target(&root).join("release-files");
    // Files of an earlier run would be in the checksums.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let release = Release {
        workspace: Workspace::read(&root)?,
        folder,
        root,
    };
    let mut failures = 0;
    let mut step = |name: &str, outcome: Outcome| {
        let (word, text) = match outcome {
            Outcome::Passed(text) => ("ok     ", text),
            Outcome::Missing(text) => ("missing", text),
            Outcome::Failed(text) => {
                failures += 1;
                ("FAILED ", text)
            }
        };
        say(&format!("{word} {name}: {text}"));
    };
    step("tree", checks::tree(&release).into());
    step("versions", checks::versions(&release).into());
    step("packages", checks::packages(&release).into());
    step("licences", checks::licences(&release));
    step("advisories", checks::advisories(&release));
    step("semver", checks::semver(&release));
    step("rust", oldest::rust(&release));
    step("sbom", bom::write(&release).into());
    step("notices", notices::write(&release));
    step("static", binaries::static_program(&release).into());
    if arguments.chroot {
        step("chroot", binaries::alone(&release));
    }
    if arguments.reproducible {
        step("reproducible", binaries::reproducible(&release).into());
    }
    step("container", files::container(&release).into());
    step("archive", files::archive(&release));
    step("krew", files::krew(&release).into());
    step("dynamic", binaries::dynamic(&release).into());
    step("checksums", files::checksums(&release));
    say(&format!(
        "release: {failures} failures; files in {}",
        release.folder.display()
    ));
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

#[expect(clippy::print_stdout, reason = "a task's report goes to its caller")]
fn say(line: &str) {
    println!("{line}");
}
