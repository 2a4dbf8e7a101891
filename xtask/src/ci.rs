//! `cargo xtask ci`: exactly what CI runs, by running it.
//!
//! ```text
//! cargo xtask ci ──▶ .ci/run ──▶ test beside format, clippy, tidy, docs ──▶ new beside soak ──▶ e2e beside the rest ──▶ mutants
//! ```
//!
//! The steps are listed once, in the script, so that the two cannot differ.

use std::path::Path;
use std::process::Command;

/// The script with the steps.
const SCRIPT: &str = ".ci/run";

/// Runs all steps in the repository at `root`; their output goes to the terminal.
///
/// # Errors
/// A step failed, or the script could not be started.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let status = Command::new("bash").arg(SCRIPT).current_dir(root).status();
    match status {
        Ok(status) if status.success() => Ok("ci: all steps passed".to_owned()),
        Ok(status) => Err(format!("ci: {SCRIPT} failed: {status}")),
        Err(error) => Err(format!("ci: {SCRIPT} could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_script_runs_each_step_in_order() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/run");
        let script = std::fs::read_to_string(script).unwrap();
        let steps = [
            "cargo test --workspace --locked",
            "cargo fmt --all --check",
            "cargo clippy --workspace --all-targets --locked -- -D warnings",
            "cargo clippy -p kinform-core -p kinform --locked -- -D warnings",
            "cargo xtask tidy",
            "cargo doc --workspace --no-deps --locked",
            "cargo xtask soak --for 2m --profile dev",
            "cargo xtask new",
            "cargo xtask contract",
            "cargo xtask e2e --may-skip \"${KINFORM_CI_MAY_SKIP:-}\"",
            "cargo xtask simulate --seeds 500",
            "cargo xtask simulate --hours 1",
            "cargo xtask schedules",
            "cargo xtask ports --quick",
            "cargo xtask mutants --fortieth",
        ];
        let at: Vec<_> = steps.iter().map(|step| script.find(step)).collect();
        assert!(at.iter().all(Option::is_some), "{at:?}");
        assert!(at.is_sorted(), "{at:?}");
        assert!(script.contains("RUSTDOCFLAGS=\"-D warnings\""));
    }
}
