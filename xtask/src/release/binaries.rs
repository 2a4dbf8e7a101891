//! The program for x86_64 Linux: dynamic and static, the same bytes twice, and alone in a root.
//!
//! ```text
//! cargo build --release (paths remapped) ─▶ release-files/kinform-VERSION-PLATFORM[-static] ─▶ chroot: demo, get
//! ```
//!
//! The static program has glibc in it, so that it runs where there is no other file but devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::workspace::{output, target};
use super::{Outcome, Release};
use crate::suite;

/// The platform of the programs.
pub(super) const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The flag of a program that needs no other file.
const STATIC: &str = "-C target-feature=+crt-static";

/// The remedy where a root cannot be changed.
const NO_CHROOT: &str =
    "NOT RUN: this user may not make device nodes and change the root: run as root";

/// Builds the dynamic program.
pub(super) fn dynamic(release: &Release) -> Result<String, String> {
    let name = format!("kinform-{}-{PLATFORM}", release.workspace.version());
    let built = build(&release.root, &folder(release, "dynamic"), "")?;
    keep(release, &built, &name)
}

/// Builds the static program.
pub(super) fn static_program(release: &Release) -> Result<String, String> {
    let built = build(&release.root, &folder(release, "static"), STATIC)?;
    keep(release, &built, &name_of_static(release))
}

/// The folder of a build. With remapped paths, cargo gives builds with other flags the same file names, so
/// that in one folder each would undo the other.
fn folder(release: &Release, name: &str) -> PathBuf {
    target(&release.root).join("release-builds").join(name)
}

pub(super) fn name_of_static(release: &Release) -> String {
    format!("kinform-{}-{PLATFORM}-static", release.workspace.version())
}

fn keep(release: &Release, built: &Path, name: &str) -> Result<String, String> {
    let copied = fs::copy(built, release.folder.join(name));
    let bytes = copied.map_err(|error| format!("{name}: {error}"))?;
    Ok(format!("{name}: {:.1} MB", bytes as f64 / 1e6))
}

/// Builds the program of the checkout in `root`. No path of this machine is in it, and no time.
fn build(root: &Path, target: &Path, flags: &str) -> Result<PathBuf, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let home = home.ok_or("there is no home directory")?;
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    // The last that fits counts: the target folder may be in the root.
    let paths = [(root, "/kinform"), (&home, "/cargo"), (target, "/target")];
    let paths = paths.map(|(from, to)| remap(from, to)).join(" ");
    let flags = [flags, &paths].join(" ");
    let mut cargo = suite::cargo();
    cargo
        .args(["build", "--release", "--locked", "--package", "kinform-cli"])
        .args(["--target", PLATFORM])
        .env("RUSTFLAGS", flags.trim_start())
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        // The time that a C compiler writes for `__TIME__`, which the allocator's code has.
        .env("SOURCE_DATE_EPOCH", "0")
        .current_dir(root);
    output(&mut cargo)?;
    Ok(target.join(PLATFORM).join("release/kinform"))
}

/// Builds the static program of the last commit once more, in a clone, and compares the bytes.
pub(super) fn reproducible(release: &Release) -> Result<String, String> {
    let first = release.folder.join(name_of_static(release));
    let first = fs::read(&first).map_err(|error| format!("{}: {error}", first.display()))?;
    let folder = target(&release.root).join("reproducible");
    let _ = fs::remove_dir_all(&folder);
    // A path of another length than that of the repository.
    let root = folder.join("a-clone-in-another-folder");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--no-hardlinks"])
        .arg(&release.root)
        .arg(&root);
    output(&mut git)?;
    let built = build(&root, &root.join("target"), STATIC)?;
    let second = fs::read(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    let compared = alike(&first, &second);
    if compared.is_ok() {
        // Else it stays, to be compared by hand.
        let _ = fs::remove_dir_all(&folder);
    }
    compared
}

/// Compares the programs of two builds.
fn alike(first: &[u8], second: &[u8]) -> Result<String, String> {
    if first == second {
        let count = first.len();
        return Ok(format!(
            "a build in another folder has the same {count} bytes"
        ));
    }
    let count = first.iter().zip(second).filter(|(a, b)| a != b).count();
    Err(format!(
        "a build in another folder differs: {} bytes and {}, of which {count} or more are others \
         (uncommitted files are not in it)",
        first.len(),
        second.len()
    ))
}

/// Runs the static program in a root that holds only two devices and `/tmp`: the demo, then a `get`.
pub(super) fn alone(release: &Release) -> Outcome {
    let root = release.folder.join("chroot");
    let ended = in_root(release, &root);
    let _ = fs::remove_dir_all(&root);
    match ended {
        Ok(Some(told)) => Outcome::Passed(told),
        Ok(None) => Outcome::Missing(NO_CHROOT.to_owned()),
        Err(failed) => Outcome::Failed(failed),
    }
}

/// The steps in the root; `None` if this user may not change it.
fn in_root(release: &Release, root: &Path) -> Result<Option<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", root.display());
    fs::create_dir_all(root).map_err(failed)?;
    let program = release.folder.join(name_of_static(release));
    fs::copy(&program, root.join("kinform")).map_err(failed)?;
    // As in a container: glibc in a static program takes random bytes from these, and the demo keeps
    // a kubeconfig in the folder for temporary files.
    fs::create_dir_all(root.join("tmp")).map_err(failed)?;
    fs::create_dir_all(root.join("dev")).map_err(failed)?;
    for (name, minor) in [("random", "8"), ("urandom", "9")] {
        let mut mknod = Command::new("mknod");
        mknod.args(["-m", "666"]).arg(root.join("dev").join(name));
        if output(mknod.args(["c", "1", minor])).is_err() {
            return Ok(None);
        }
    }
    let way = [
        "chroot".to_owned(),
        root.display().to_string(),
        "/kinform".to_owned(),
    ];
    let mut version = Command::new(&way[0]);
    if output(version.args(&way[1..]).args(["version", "--client"])).is_err() {
        return Ok(None);
    }
    let mut demo = Command::new(&way[0]);
    demo.args(&way[1..])
        .args(["demo", "--for", "5s", "--pods", "500", "-o", "json"]);
    let report = output(&mut demo)?;
    if !report.contains("\"reconciles\"") {
        return Err(format!("the demo in the root printed no report: {report}"));
    }
    let mut served = Command::new(&program);
    served
        .args(["serve", "--pods", "5", "--write-kubeconfig"])
        .arg(root.join("kubeconfig"))
        .arg("--")
        .args(&way)
        .args([
            "get",
            "pods",
            "-A",
            "-o",
            "name",
            "--kubeconfig",
            "/kubeconfig",
        ]);
    let pods = output(&mut served)?;
    match pods.lines().count() {
        5 => Ok(Some(format!("`{}` runs the demo and gets 5 pods", way[0]))),
        count => Err(format!(
            "a get in the root printed {count} pods, not 5: {pods}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::alike;

    #[test]
    fn two_builds_are_alike_if_they_have_the_same_bytes() {
        let alike = |first: &str, second: &str| alike(first.as_bytes(), second.as_bytes());
        assert!(alike("abc", "abc").is_ok_and(|told| told.contains("same 3 bytes")));
        assert!(alike("abc", "axc").is_err_and(|told| told.contains("of which 1 or more")));
        assert!(alike("abc", "abcd").is_err_and(|told| told.contains("3 bytes and 4")));
    }
}
