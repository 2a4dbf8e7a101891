//! `cargo xtask contract`: runs the tests that the pages of `docs/contract/` name, and no other.
//!
//! ```text
//! docs/contract/*.md ──▶ names ──suite──▶ the tests of those names, so many times in a row ──▶ figures
//! ```
//!
//! A name that is no test of the workspace is an error, but for those in `e2e/`, which has a
//! workspace of its own. The first failure ends it: a flake found once is a flake.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use crate::suite::{self, Binary};
use crate::text::file::read;
use crate::tidy::contract::{FOLDER, is_page, tests};

/// The number of runs.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Runs in a row.
    #[arg(long, default_value_t = 1)]
    times: u32,
}

/// Runs the tests that the pages name.
///
/// # Errors
/// A test failed, with its output, or does not exist.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let files = read(root)?;
    let pages = files.iter().filter(|file| is_page(&file.path));
    let mut named: BTreeSet<&str> = pages.flat_map(|page| tests(&page.text)).collect();
    if named.is_empty() {
        return Err(format!("contract: no page of {FOLDER}/ names a test"));
    }
    let elsewhere = outside(root)?;
    named.retain(|name| !elsewhere.contains(*name));
    let chosen = choose(&suite::build(root, &["--workspace"])?, &named)?;
    let count: usize = chosen.iter().map(|(_, tests)| tests.len()).sum();
    let mut rounds = Vec::new();
    for round in 1..=arguments.times {
        let begin = Instant::now();
        for (binary, tests) in &chosen {
            binary
                .run(tests)
                .map_err(|why| format!("contract: round {round}: {why}"))?;
        }
        rounds.push(begin.elapsed());
    }
    let slowest = rounds.iter().max().copied().unwrap_or_default();
    let total: Duration = rounds.iter().sum();
    Ok(format!(
        "contract: {} names, {count} tests, {} rounds without a failure; a round took {:.1} s on average, {:.1} s at most",
        named.len(),
        rounds.len(),
        total.as_secs_f64() / f64::from(arguments.times.max(1)),
        slowest.as_secs_f64()
    ))
}

/// The chosen tests of each binary.
fn choose(
    binaries: &[Binary],
    named: &BTreeSet<&str>,
) -> Result<Vec<(Binary, BTreeSet<String>)>, String> {
    let mut chosen = Vec::new();
    let mut missing = named.clone();
    for binary in binaries {
        let mut tests = BTreeSet::new();
        for test in binary.list()? {
            let name = test.rsplit("::").next().unwrap_or(&test);
            if named.contains(name) {
                missing.remove(name);
                tests.insert(test);
            }
        }
        if !tests.is_empty() {
            chosen.push((binary.clone(), tests));
        }
    }
    if missing.is_empty() {
        return Ok(chosen);
    }
    let missing: Vec<_> = missing.into_iter().collect();
    Err(format!(
        "contract: no test is called {}",
        missing.join(", ")
    ))
}

/// The functions of `e2e/`.
fn outside(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeMap::new();
    sources(&root.join("e2e"), &mut found).map_err(|e| format!("reading e2e: {e}"))?;
    let names = found
        .values()
        .flat_map(|text: &String| text.split("fn ").skip(1));
    let name = |rest: &str| {
        rest.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .next()
            .map(str::to_owned)
    };
    Ok(names.filter_map(name).collect())
}

fn sources(folder: &Path, found: &mut BTreeMap<std::path::PathBuf, String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path.clone(), fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
