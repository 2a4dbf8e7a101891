//! The files around the programs: recipe of an image, archive, manifest of the plugin, checksums.
//!
//! ```text
//! static program + LICENSE + NOTICES.txt ─▶ .tar.gz ─sha256─▶ kinform.krew.yaml, SHA256SUMS;  Containerfile
//! ```

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::binaries::name_of_static;
use super::workspace::output;
use super::{Outcome, Release, notices};
use crate::suite;

/// The tools of these files.
const TAR: &str = "GNU tar is not installed: it is the package `tar` of distributions";
const SHA256SUM: &str =
    "sha256sum is not installed: it is in the package `coreutils` of distributions";

fn archive_name(release: &Release) -> String {
    format!("kinform-{}-linux-amd64.tar.gz", release.workspace.version())
}

fn write(release: &Release, name: &str, text: &str) -> Result<String, String> {
    fs::write(release.folder.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    Ok(name.to_owned())
}

/// Writes the recipe of an image that holds the static program alone.
pub(super) fn container(release: &Release) -> Result<String, String> {
    let (program, notices) = (name_of_static(release), notices::FILE);
    let licence = fs::copy(release.root.join("LICENSE"), release.folder.join("LICENSE"));
    licence.map_err(|error| format!("LICENSE: {error}"))?;
    let text = format!(
        "# docker build -f Containerfile -t kinform:{} .\nFROM scratch\nCOPY --chmod=755 {program} /kinform\n\
         COPY LICENSE {notices} /\nUSER 65532:65532\nENTRYPOINT [\"/kinform\"]\n",
        release.workspace.version()
    );
    write(release, "Containerfile", &text)
}

/// Packs the static program as the plugin of kubectl, with the licences; the same bytes each time.
pub(super) fn archive(release: &Release) -> Outcome {
    if !suite::is_there("tar", "--version") {
        return Outcome::Missing(TAR.to_owned());
    }
    packed(release).into()
}

fn packed(release: &Release) -> Result<String, String> {
    let folder = release.folder.join("archive");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::copy(
        release.folder.join(name_of_static(release)),
        folder.join("kubectl-kinform"),
    )
    .map_err(failed)?;
    fs::copy(release.root.join("LICENSE"), folder.join("LICENSE")).map_err(failed)?;
    fs::copy(
        release.folder.join(notices::FILE),
        folder.join(notices::FILE),
    )
    .map_err(failed)?;
    let name = archive_name(release);
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
    ])
    .args([
        "--mode=a+rX,u+w,go-w",
        "--use-compress-program=gzip -n",
        "-cf",
    ])
    .arg(release.folder.join(&name))
    .arg("-C")
    .arg(&folder)
    .args(["LICENSE", notices::FILE, "kubectl-kinform"]);
    output(&mut tar)?;
    let _ = fs::remove_dir_all(&folder);
    Ok(name)
}

/// Writes the manifest of the plugin for krew.
pub(super) fn krew(release: &Release) -> Result<String, String> {
    let name = archive_name(release);
    let mut sum = Command::new("sha256sum");
    let sum = output(sum.arg(release.folder.join(&name)))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    write(
        release,
        "kinform.krew.yaml",
        &manifest(release.workspace.version(), &name, sum),
    )
}

fn manifest(version: &str, archive: &str, sum: &str) -> String {
    format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata:\n  name: kinform\n\
         spec:\n  version: v{version}\n  homepage: https://github.com/kinform/kinform\n  \
         shortDescription: Watch, query and explain objects through informers\n  description: |\n    \
         Watches and queries objects through caches, tells what happens to an object and why,\n    \
         finds out what is wrong with rights and connections, and serves an API server for tests.\n  \
         platforms:\n  - selector:\n      matchLabels:\n        os: linux\n        arch: amd64\n    \
         uri: https://github.com/kinform/kinform/releases/download/v{version}/{archive}\n    \
         sha256: {sum}\n    bin: kubectl-kinform\n    files:\n    - from: kubectl-kinform\n      to: .\n    \
         - from: LICENSE\n      to: .\n    - from: NOTICES.txt\n      to: .\n"
    )
}

/// Writes the checksums of all files.
pub(super) fn checksums(release: &Release) -> Outcome {
    if !suite::is_there("sha256sum", "--version") {
        return Outcome::Missing(SHA256SUM.to_owned());
    }
    summed(release).into()
}

fn summed(release: &Release) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", release.folder.display());
    let entries = fs::read_dir(&release.folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().map_err(failed)?;
    let mut names: Vec<_> = paths.iter().filter_map(|path| path.file_name()).collect();
    names.sort();
    let mut sums = Command::new("sha256sum");
    let sums = output(sums.args(&names).current_dir(&release.folder))?;
    write(release, "SHA256SUMS", &sums)?;
    Ok(format!("SHA256SUMS of {} files", names.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_of_the_plugin_names_archive_sum_and_program() {
        let manifest = manifest("1.2.3", "k.tar.gz", "abc");
        for line in [
            "  name: kinform\n",
            "  version: v1.2.3\n",
            "/download/v1.2.3/k.tar.gz\n",
            "    sha256: abc\n",
            "    bin: kubectl-kinform\n",
            "        os: linux\n",
        ] {
            assert!(manifest.contains(line), "{line}: {manifest}");
        }
    }
}
