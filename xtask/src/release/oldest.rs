//! The oldest Rust that a release promises: the workspace is checked with it, where it is installed.
//!
//! ```text
//! rust-version of kinform-cli ─▶ rustup toolchain list ─▶ cargo check --workspace ──▶ passed | failed | missing
//! ```
//!
//! Its builds are in a folder of their own in the target folder: another compiler would undo those
//! of the toolchain in use.

use std::process::Command;

use super::workspace::{output, target};
use super::{Outcome, Release};

/// Checks the workspace, with all its features, with the oldest Rust.
pub(super) fn rust(release: &Release) -> Outcome {
    let Some(promised) = release.workspace.rust_version() else {
        return Outcome::Failed("kinform-cli has no rust-version".to_owned());
    };
    let mut list = Command::new("rustup");
    let list = output(list.args(["toolchain", "list"])).unwrap_or_default();
    let Some(toolchain) = toolchain(&list, promised) else {
        return Outcome::Missing(format!(
            "Rust {promised} is not installed: rustup toolchain install {promised} --profile minimal"
        ));
    };
    let mut check = Command::new("rustup");
    check
        .args(["run", toolchain, "cargo", "check", "--workspace"])
        .args(["--all-features", "--locked", "--offline"])
        .env(
            "CARGO_TARGET_DIR",
            target(&release.root).join("oldest-rust"),
        )
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(&release.root);
    let checked = output(&mut check);
    let checked = checked.map(|_| format!("the workspace passes `cargo check` with {toolchain}"));
    checked.into()
}

/// The toolchain of this version in the list of rustup.
fn toolchain<'a>(list: &'a str, version: &str) -> Option<&'a str> {
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let is_version = |name: &&str| {
        let rest = name.strip_prefix(version);
        // `1.8` is not `1.89`, but `1.89` is `1.89.0`.
        rest.is_some_and(|rest| rest.starts_with(['.', '-']))
    };
    names.clone().find(is_version)
}

#[cfg(test)]
mod tests {
    use super::toolchain;

    #[test]
    fn the_toolchain_is_the_one_of_exactly_this_version() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\n\
                    1.89.0-x86_64-unknown-linux-gnu\n1.90-x86_64-unknown-linux-gnu\n";
        let check = |version, expected| assert_eq!(toolchain(list, version), expected);
        check("1.89", Some("1.89.0-x86_64-unknown-linux-gnu"));
        check("1.90", Some("1.90-x86_64-unknown-linux-gnu"));
        check("1.8", None);
        check("1.9", None);
    }
}
