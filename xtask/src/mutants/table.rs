//! Which known bugs can be put back.
//!
//! ```text
//! MUTANTS ──name──▶ `mutant!("B6")` in the sources, `fn b6_..` in the tests of these packages
//! ```
//!
//! One row a bug that informers or queues shipped with. A row without a seam, a seam without a row,
//! and a row without a test of its name fail this file's test. Sorted by name.

/// A known bug that can be put back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutant {
    /// What `mutant!` asks for; tests named after it begin with it in lower case.
    pub(crate) name: &'static str,
    /// Where the bug was seen.
    pub(crate) seen: &'static str,
    /// What it puts back.
    pub(crate) mistake: &'static str,
    /// Whose tests are run, in this order.
    pub(crate) packages: &'static [&'static str],
}

const CORE: &[&str] = &["kinform-core", "kinform", "kinform-testkit"];

/// All of them.
pub(crate) const MUTANTS: &[Mutant] = &[Mutant {
    name: "B31",
    seen: "kubernetes#43605, kubernetes#109115",
    mistake: "an index keeps an object under the values of an older state if its function fails",
    packages: CORE,
}];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// All Rust sources of the crates.
    fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                sources(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }

    fn crates() -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        sources(&crates, &mut found);
        found.retain(|(path, _)| !path.ends_with("mutant.rs"));
        found
    }

    /// What stands between `before` and `after`, wherever it does.
    fn between<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
        let parts = text.split(before).skip(1);
        parts
            .filter_map(|part| Some(part.split_once(after)?.0))
            .collect()
    }

    #[test]
    fn each_mutant_has_a_seam_and_a_test_and_each_seam_a_mutant() {
        let sources = crates();
        let seams = sources
            .iter()
            .flat_map(|(_, text)| between(text, "mutant!(\"", '"'));
        let mut seams: Vec<&str> = seams.collect();
        seams.sort_unstable();
        seams.dedup();
        let mut names: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        names.sort_unstable();
        assert_eq!(seams, names);
        let tests: Vec<&str> = sources
            .iter()
            .flat_map(|(_, text)| between(text, "fn ", '('))
            .collect();
        for name in names {
            let start = format!("{}_", name.to_ascii_lowercase());
            assert!(
                tests.iter().any(|test| test.starts_with(&start)),
                "no test {start}.."
            );
        }
    }

    #[test]
    fn the_table_is_sorted_by_letter_and_number() {
        let place = |mutant: &Mutant| {
            (
                mutant.name[..1].to_owned(),
                mutant.name[1..].parse::<u32>().unwrap(),
            )
        };
        assert!(MUTANTS.is_sorted_by_key(place));
    }
}
