//! Kubernetes' own specs of its API, against `kinform serve --controllers`.

use std::path::Path;
use std::process::Command;

use kinform_e2e::ginkgo::{self, Listed};
use kinform_e2e::missing;
use kinform_e2e::peers::{Serve, build, go, list};

use crate::runtime;

/// The specs that are run, but for those in `peers/left-out.txt`.
const FOCUS: &str = r"\[sig-api-machinery\]";

/// One expression for the specs that are left out.
fn left_out(list: &str) -> String {
    let rows = list.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.filter_map(|row| Some(row.split_once(" | ")?.0));
    rows.collect::<Vec<_>>().join("|")
}

#[test]
fn the_specs_of_kubernetes_api_machinery_pass() {
    let missing = missing().join(", ");
    if !missing.is_empty() {
        println!("RESULT | Kubernetes' API specs | embedded | skipped: no {missing} |");
        return;
    }
    let bin = build(&["kubectl"]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("upstream");
    let program = home.path().join("upstream");
    let to = program.display().to_string();
    go(
        &source,
        ["test", "-c", "-mod=readonly", "-p", "2", "-o", &to, "."],
    )
    .unwrap();
    let serve = Serve::start(&["--rbac", "--controllers"]);
    let server = runtime().block_on(serve).unwrap();
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let mut command = Command::new(&program);
    command
        .args([
            "--provider=skeleton",
            "-test.timeout=2h",
            "-ginkgo.timeout=2h",
        ])
        .arg(flag("kubeconfig", server.kubeconfig()))
        .arg(flag("kubectl-path", &bin.join("kubectl")))
        .arg(format!("-ginkgo.focus={FOCUS}"))
        .arg(format!(
            "-ginkgo.skip={}",
            left_out(&list("left-out.txt").unwrap())
        ))
        .current_dir(home.path())
        .env("HOME", server.home());
    let outcome = ginkgo::run(&mut command, home.path()).unwrap();
    let (passed, failed) = (outcome.passed.len(), outcome.failed.len());
    println!(
        "RESULT | Kubernetes' API specs | embedded, --controllers | {passed} passed, {failed} failed |"
    );
    let faults = Listed::of(&list("cannot.txt").unwrap(), "upstream").faults(&outcome);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
