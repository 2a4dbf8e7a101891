//! Programs of others, each with a story of its own, on `kinform serve --controllers`.
//!
//! ```text
//! Fetched (Go module) ──build──▶ Tool: commands and their answers
//! package of Python, JavaScript ──▶ Program: a report of checks, on a real server, too
//! ```
//!
//! Charts and objects are of our own (`e2e/programs/`). Programs that were looked at and are not run
//! are in `programs/left-out.txt`.

mod helm;
mod languages;
mod stern;

use std::path::{Path, PathBuf};

use kinform_e2e::fetched::Fetched;
use kinform_e2e::peers::{Kubectl, Serve, build};
use kinform_testkit::checks::stage::StageError;

use crate::{is_skipped, runtime};

/// A file under `e2e/programs/`.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    folder.join(name)
}

/// A server with the built-in controllers, and kubectl for it.
fn served() -> Result<(Serve, Kubectl), StageError> {
    build(&["kubectl"])?;
    let serve = runtime().block_on(Serve::start(&["--controllers", "--rbac"]))?;
    let kubectl = Kubectl::new(serve.kubeconfig())?;
    Ok((serve, kubectl))
}

/// Builds a program; `None`, having said so, where Go is missing.
fn built(program: &Fetched) -> Option<PathBuf> {
    let name = format!("{} {}", program.name, program.version);
    (!is_skipped(&name)).then(|| program.built().unwrap())
}
