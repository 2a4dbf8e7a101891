//! `kinform new`: writes the project of an operator, with its tests and manifests.
//!
//! ```text
//! NewArgs → names.rs: valid? → template.rs: files → folder.rs: written beside, formatted, renamed
//! ```
//!
//! It reads no cluster and fetches nothing. A refused name or folder is one line and exit code 2,
//! and nothing is written. Code is formatted by the user's rustfmt, as the length of names decides
//! on where lines break.
//!
//! Upstream counterpart: `kubebuilder init` and `kubebuilder create api` (plugin go/v4).

mod folder;
mod names;
mod template;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use self::folder::Folder;
use self::template::{Origin, ROOTS, files};
use crate::args::creating::NewArgs;
use crate::exit::{Ending, Failure};
use crate::progress;

/// BOUND: the time that the formatter has.
const PATIENCE: Duration = Duration::from_secs(60);

/// The file of the versions of all dependencies.
const LOCK: &str = "Cargo.lock";
/// BOUND: the bytes of it; kinform's own has a twentieth.
const LARGEST_LOCK: u64 = 4 << 20;

/// Characters that a path in a manifest and in a command of a shell would have to escape.
const NO_PATH: [char; 5] = ['"', '\'', '\\', '$', '`'];

/// Makes the project.
pub(crate) async fn run(args: NewArgs) -> Result<Ending, Failure> {
    let names = names::names(&args).map_err(Failure::usage)?;
    let checkout = args.kinform_path.as_deref().map(checkout).transpose()?;
    let origin = match &checkout {
        Some(path) => Origin::Checkout(path),
        None => Origin::Published,
    };
    let target = args
        .dir
        .clone()
        .unwrap_or_else(|| PathBuf::from(&names.project));
    let folder = Folder::begin(&target)?;
    let mut count = 0;
    for (path, text) in files(&names, args.scope, origin) {
        folder.write(path, &text)?;
        count += 1;
    }
    if let Some(versions) = checkout.as_deref().and_then(versions) {
        folder.write(LOCK, &versions)?;
        count += 1;
    }
    let is_formatted = format(folder.draft()).await;
    folder.finish()?;
    progress!(
        "{count} files in {}; README.md has the next commands",
        target.display()
    );
    if !is_formatted {
        progress!("not formatted, since rustfmt did not run: `cargo fmt` does it");
    }
    if origin == Origin::Published {
        progress!(
            "kinform's crates are not published yet: it builds with --kinform-path DIR, a checkout of {}",
            env!("CARGO_PKG_REPOSITORY")
        );
    }
    Ok(Ending::Done)
}

/// The absolute path of a checkout of kinform.
fn checkout(path: &Path) -> Result<String, Failure> {
    let refused = |why: &str| Failure::usage(format!("--kinform-path {path:?} is refused: {why}"));
    if !path.join("crates/kinform/Cargo.toml").is_file() {
        return Err(refused(
            "use the folder of a checkout, with crates/kinform in it",
        ));
    }
    let absolute = path.canonicalize()?;
    let text = absolute
        .to_str()
        .ok_or_else(|| refused("use a path in UTF-8"))?;
    if text.contains(|c: char| c.is_control() || NO_PATH.contains(&c)) {
        return Err(refused(
            "use a path without quotes, \\, $, ` and control characters",
        ));
    }
    Ok(text.to_owned())
}

/// The versions with which a checkout was tested: the project begins with the same, and builds without a
/// network where the checkout did.
fn versions(checkout: &str) -> Option<String> {
    let path = Path::new(checkout).join(LOCK);
    let is_small = fs::metadata(&path).ok()?.len() <= LARGEST_LOCK;
    is_small.then(|| fs::read_to_string(&path).ok()).flatten()
}

/// Formats the code; returns whether the formatter did.
async fn format(project: &Path) -> bool {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt
        .args(["--quiet", "--edition", "2024"])
        .args(ROOTS)
        .current_dir(project)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, rustfmt.status()).await;
    matches!(ended, Ok(Ok(status)) if status.success())
}
