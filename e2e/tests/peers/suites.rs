//! controller-runtime's own test suites, against `kinform serve` as their existing cluster.

use std::path::{Path, PathBuf};
use std::process::Command;

use kinform_e2e::ginkgo::{self, Listed, Outcome};
use kinform_e2e::missing;
use kinform_e2e::peers::{Serve, go, list, module};
use kinform_testkit::checks::stage::StageError;

use crate::runtime;

const MODULE: (&str, &str) = ("sigs.k8s.io/controller-runtime", "v0.25.2");
/// The suites that want a cluster, by their folder under `pkg/`, and the specs of each run.
const SUITES: [(&str, &[&str]); 16] = [
    ("builder", &[""]),
    ("cache", &[""]),
    ("client", &[""]),
    ("cluster", &[""]),
    ("controller", &[""]),
    ("controller/controllerutil", &[""]),
    ("envtest", &[""]),
    ("handler", &[""]),
    ("internal/controller", &[""]),
    ("internal/recorder", &[""]),
    ("manager", &[""]),
    // Both of its specs make an object of one name.
    (
        "manager/internal/integration",
        &["controller warmup enabled", "controller warmup not enabled"],
    ),
    ("metrics/filters", &[""]),
    ("reconcile", &[""]),
    ("source", &[""]),
    ("webhook", &[""]),
];

/// A command that runs a suite on a server that it finds there.
fn suite(program: &Path, folder: &Path, server: &Serve) -> Command {
    let mut command = Command::new(program);
    command
        .arg("-test.timeout=590s")
        .current_dir(folder)
        .env("KUBECONFIG", server.kubeconfig())
        .env("USE_EXISTING_CLUSTER", "true")
        .env("HOME", server.home());
    command
}

/// Builds the tests of a package; returns the program.
fn built(module: &Path, package: &str, home: &Path) -> Result<PathBuf, StageError> {
    let program = home.join(package.replace('/', "-"));
    let (to, of) = (program.display().to_string(), format!("./pkg/{package}"));
    go(module, ["test", "-c", "-p", "2", "-o", &to, &of])?;
    Ok(program)
}

fn tell(name: &str, outcome: &Outcome) {
    let (passed, failed, skipped) = (outcome.passed.len(), outcome.failed.len(), outcome.skipped);
    println!(
        "RESULT | controller-runtime {name} | embedded | {passed} specs passed, {failed} failed, \
         {skipped} pending |"
    );
}

#[test]
fn the_suites_of_controller_runtime_pass() {
    let missing = missing().join(", ");
    if !missing.is_empty() {
        println!("RESULT | controller-runtime's suites | embedded | skipped: no {missing} |");
        return;
    }
    let module = module(MODULE.0, MODULE.1).unwrap();
    let home = tempfile::tempdir().unwrap();
    let (mut faults, cannot) = (Vec::new(), list("cannot.txt").unwrap());
    for (name, runs) in SUITES {
        let program = built(&module, name, home.path()).unwrap();
        let folder = module.join("pkg").join(name);
        let mut all = Outcome::default();
        for focus in runs {
            let server = runtime().block_on(Serve::start(&["--rbac"])).unwrap();
            let mut command = suite(&program, &folder, &server);
            if !focus.is_empty() {
                command.arg(format!("-ginkgo.focus={focus}"));
            }
            let outcome = ginkgo::run(&mut command, home.path()).unwrap();
            all.passed.extend(outcome.passed);
            all.failed.extend(outcome.failed);
            // With a focus, all others are skipped.
            if focus.is_empty() {
                all.skipped = outcome.skipped;
            }
        }
        tell(name, &all);
        let listed = Listed::of(&cannot, name).faults(&all);
        faults.extend(listed.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// These tests are Go's own, without specs. Half of those of the mapper start an older server
/// without aggregated discovery, whatever cluster there is.
#[test]
fn the_tests_of_controller_runtime_pass() {
    let missing = missing().join(", ");
    if !missing.is_empty() {
        println!("RESULT | controller-runtime's tests | embedded | skipped: no {missing} |");
        return;
    }
    let module = module(MODULE.0, MODULE.1).unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for name in ["client/apiutil", "envtest/komega"] {
        let program = built(&module, name, home.path()).unwrap();
        let server = runtime().block_on(Serve::start(&["--rbac"])).unwrap();
        let output = suite(&program, &module.join("pkg").join(name), &server)
            .args(["-test.v", "-test.skip=/aggregatedDiscovery=false"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = || said.lines().map(str::trim);
        let count = |word: &str| lines().filter(|line| line.starts_with(word)).count();
        let (passed, failed) = (count("--- PASS"), count("--- FAIL"));
        println!(
            "RESULT | controller-runtime {name} | embedded | {passed} tests passed, {failed} \
             failed |"
        );
        if !output.status.success() || passed == 0 {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
