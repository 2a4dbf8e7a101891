//! `cargo xtask mutants`: known bugs are put back, one at a time, and the tests must notice.
//!
//! ```text
//! table ──▶ build once, with the cfg ──▶ all pass without a bug? ──▶ each bug: named tests, then all
//!                                                                     ──▶ killed by .. │ SURVIVED
//! ```
//!
//! The binaries are built once, with every seam in them; the environment chooses the bug. This
//! program is also the compiler's wrapper that sets the cfg. Cargo uses the wrapper for the crates
//! of a workspace alone, so dependencies are not built again and builds without the cfg stay.
//! Tests named after a bug run first, since they should be the ones that notice. A binary is
//! stopped at its first failure. A test that hangs is killed at the limit, and its line reports
//! that.
//!
//! Upstream counterpart: none; `cargo-mutants` makes random bugs, these are real ones.

mod binary;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use binary::{Binary, Outcome};
use table::{MUTANTS, Mutant, SCHEDULES};

use crate::{schedules, suite};

/// Says that this program is to wrap the compiler.
const WRAPPED: &str = "KINFORM_MUTANTS_WRAPPED";
/// BOUND: bugs tried in parallel; each runs its tests in threads of their own.
const AT_ONCE: usize = 2;

/// The bugs to put back.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only these, as `B6,B31`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only each fortieth, from this one on: 0 to 39, by default as the last commit's hash has it.
    #[arg(long, conflicts_with = "only", num_args = 0..=1, default_missing_value = "commit")]
    fortieth: Option<Fortieth>,
    /// Lists the bugs that can be put back, and exits.
    #[arg(long)]
    list: bool,
}

/// Mutants from one of a fortieth to the next.
const FORTIETH: usize = 40;

/// The first mutant of a fortieth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fortieth {
    /// This one.
    Start(usize),
    /// The one that the last commit's hash chooses: always the same for one commit.
    Commit,
}

impl FromStr for Fortieth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(start) if start < FORTIETH => Ok(Self::Start(start)),
            _ if text == "commit" => Ok(Self::Commit),
            _ => Err(format!("{text}: expected 0 to 39, or commit")),
        }
    }
}

impl Fortieth {
    fn start(self, root: &Path) -> Result<usize, String> {
        if let Self::Start(start) = self {
            return Ok(start);
        }
        let git = Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(root)
            .output();
        let output = git.map_err(|e| format!("git could not be started: {e}"))?;
        let hash = String::from_utf8_lossy(&output.stdout);
        of_hash(hash.trim()).ok_or_else(|| "this is no commit: say --fortieth 0 to 39".to_owned())
    }
}

/// The fortieth that a commit's hash chooses.
fn of_hash(hash: &str) -> Option<usize> {
    let number = u64::from_str_radix(hash.get(..8)?, 16).ok()?;
    usize::try_from(number).ok().map(|number| number % FORTIETH)
}

/// Runs the compiler with the cfg if this process wraps it.
pub(crate) fn wrapped_compiler() -> Option<ExitCode> {
    std::env::var_os(WRAPPED)?;
    let mut arguments = std::env::args_os().skip(1);
    let status = Command::new(arguments.next()?)
        .args(arguments)
        // Seams exist with debug assertions only: a release of our crates has them here, too.
        .args(["--cfg", "kinform_mutants", "-C", "debug-assertions=on"])
        .status();
    let code = status.ok().and_then(|status| status.code());
    let code = code.and_then(|code| u8::try_from(code).ok());
    Some(ExitCode::from(code.unwrap_or(1)))
}

/// The bugs of these names, or all of crates that the simulation runs: each name and its mistake.
///
/// # Errors
/// There is no bug of a name.
pub(crate) fn simulated(only: &[String]) -> Result<Vec<(&'static str, &'static str)>, String> {
    let chosen = choose(only)?.into_iter();
    let is_run = |mutant: &&Mutant| !only.is_empty() || mutant.packages != [SCHEDULES];
    let chosen = chosen.filter(is_run);
    Ok(chosen.map(|mutant| (mutant.name, mutant.mistake)).collect())
}

/// The path of this program, which wraps the compiler.
///
/// # Errors
/// It is unknown.
pub(crate) fn wrapper() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("this program's path: {e}"))
}

/// Has cargo compile the crates of a workspace with every seam in them.
pub(crate) fn wrap<'a>(cargo: &'a mut Command, wrapper: &Path) -> &'a mut Command {
    cargo
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
        .env(WRAPPED, "1")
}

/// Puts known bugs back in the repository at `root`; each prints a line.
///
/// # Errors
/// A bug survived, the tests fail without any, or something could not be built or run.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let mut chosen = choose(&arguments.only)?;
    let mut of_all = String::new();
    if let Some(fortieth) = arguments.fortieth {
        let start = fortieth.start(root)?;
        chosen = chosen.into_iter().skip(start).step_by(FORTIETH).collect();
        of_all = format!(", fortieth {start} of {} mutants", MUTANTS.len());
    }
    if arguments.list {
        let lines = chosen.iter().map(|m| describe(m));
        return Ok(lines.collect::<Vec<_>>().join("\n"));
    }
    let is_whole = arguments.only.is_empty() && arguments.fortieth.is_none();
    let mut binaries = build(root, &chosen, is_whole)?;
    let is_needed = |b: &Binary| chosen.iter().any(|m| m.packages.contains(&b.package()));
    binaries.retain(is_needed);
    let start = Instant::now();
    // A few are asked for while one works on them: then only their own tests must pass before.
    let tests = try_without(&binaries, &chosen, is_whole)?;
    say(&format!(
        "without a bug: {tests} tests passed in {} s",
        start.elapsed().as_secs()
    ));
    let next = AtomicUsize::new(0);
    let survived = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(mutant) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let fate = fate(mutant, &binaries);
                    survived.fetch_add(usize::from(fate.is_none()), Ordering::Relaxed);
                    say(&match fate {
                        Some(by) => format!("{} killed by {by}", mutant.name),
                        None => format!("{} SURVIVED: {}", mutant.name, mutant.mistake),
                    });
                }
            });
        }
    });
    let survived = survived.into_inner();
    let killed = chosen.len() - survived;
    let report = format!("mutants: {killed} killed, {survived} survived{of_all}");
    if survived == 0 {
        Ok(report)
    } else {
        Err(report)
    }
}

fn choose(only: &[String]) -> Result<Vec<&'static Mutant>, String> {
    let is_known = |name: &String| MUTANTS.iter().any(|m| m.name == name);
    if let Some(name) = only.iter().find(|name| !is_known(name)) {
        return Err(format!("there is no mutant {name}; --list says which"));
    }
    let is_chosen = |m: &&Mutant| only.is_empty() || only.iter().any(|name| name == m.name);
    Ok(MUTANTS.iter().filter(is_chosen).collect())
}

fn describe(mutant: &Mutant) -> String {
    let Mutant {
        name,
        seen,
        mistake,
        ..
    } = mutant;
    format!("{name:4} {mistake} ({seen})")
}

/// The packages of the workspace that are optimised for their tests.
const OPTIMISED: [&str; 9] = [
    "kinform-api",
    "kinform-schema",
    "kinform-core",
    "kinform",
    "kinform-operator",
    "kinform-apiserver",
    "kinform-controlplane",
    "kinform-testkit",
    "kinform-simulation",
];

/// The test binaries of the packages that the chosen bugs need, with every seam in them.
///
/// A few bugs run few tests, which are done sooner than these packages are optimised.
fn build(root: &Path, chosen: &[&Mutant], is_whole: bool) -> Result<Vec<Binary>, String> {
    let unoptimised = |package| format!("--config=profile.dev.package.{package}.opt-level=0");
    let quick: Vec<String> = match is_whole {
        true => Vec::new(),
        false => OPTIMISED.map(unoptimised).into(),
    };
    let is_scheduled = |package: &&str| *package == SCHEDULES;
    let mut packages = chosen.iter().flat_map(|mutant| mutant.packages);
    let wrapper = wrapper()?;
    let cargo = || {
        let mut cargo = suite::cargo();
        wrap(&mut cargo, &wrapper);
        cargo
    };
    let mut built = Vec::new();
    if !packages.clone().all(is_scheduled) {
        // The whole workspace: any other choice gives dependencies other features, and builds them
        // again.
        let mut arguments = vec!["--workspace", "--lib", "--test", "it"];
        arguments.extend(quick.iter().map(String::as_str));
        built = suite::build_by(cargo(), root, &arguments)?;
    }
    if packages.any(is_scheduled) {
        built.extend(schedules::build(root, cargo)?);
    }
    built.into_iter().map(Binary::new).collect()
}

/// Runs every test, or only those named after the chosen bugs, without a bug.
fn try_without(binaries: &[Binary], chosen: &[&Mutant], is_whole: bool) -> Result<usize, String> {
    let mut count = 0;
    for binary in binaries {
        let tests: Vec<&str> = if is_whole {
            binary.tests().collect()
        } else {
            let named = chosen.iter().flat_map(|mutant| binary.named_after(mutant));
            named.collect()
        };
        count += tests.len();
        match binary.run(&tests, None)? {
            Outcome::Passed => {}
            Outcome::Failed(by) | Outcome::Hung(by) => {
                return Err(format!("without a bug, this fails already: {by}"));
            }
        }
    }
    Ok(count)
}

/// The test that kills the mutant, if one does.
fn fate(mutant: &Mutant, binaries: &[Binary]) -> Option<String> {
    let of = |package| binaries.iter().filter(move |b| b.package() == package);
    let all = || mutant.packages.iter().flat_map(|package| of(*package));
    let named = all().map(|b| (b, b.named_after(mutant).collect::<Vec<_>>()));
    let whole = all().map(|b| (b, b.tests().collect()));
    let runs = named.chain(whole).filter(|(_, tests)| !tests.is_empty());
    for (binary, tests) in runs {
        match binary.run(&tests, Some(mutant.name)) {
            Ok(Outcome::Passed) => {}
            Ok(Outcome::Failed(by)) => return Some(by),
            Ok(Outcome::Hung(by)) => {
                let seconds = binary::LIMIT.as_secs();
                return Some(format!("{by}, which was not done after {seconds} s"));
            }
            // A binary that could not be started proves nothing about the tests.
            Err(error) => say(&format!("{}: {error}", mutant.name)),
        }
    }
    None
}

#[expect(clippy::print_stdout, reason = "a line when it is known")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortieths_are_numbers_or_the_commits() {
        assert_eq!("0".parse(), Ok(Fortieth::Start(0)));
        assert_eq!("39".parse(), Ok(Fortieth::Start(39)));
        assert_eq!("commit".parse(), Ok(Fortieth::Commit));
        for bad in ["40", "-1", "", "all"] {
            assert!(bad.parse::<Fortieth>().is_err(), "{bad}");
        }
        assert_eq!(of_hash("0000000c316aa23"), Some(12));
        assert_eq!(of_hash("fatal: no"), None);
    }

    #[test]
    fn all_fortieths_are_all_mutants() {
        let fortieth = |start| MUTANTS.iter().skip(start).step_by(FORTIETH).map(|m| m.name);
        let mut names: Vec<&str> = (0..FORTIETH).flat_map(fortieth).collect();
        names.sort_unstable();
        let mut all: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        all.sort_unstable();
        assert_eq!(names, all);
    }
}
