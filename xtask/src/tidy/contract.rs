//! `docs/contract/`: each promise names the tests that hold it, and the tests exist.
//!
//! ```text
//! - **promise** *Verdict.* difference   Tests: `names`.   Upstream: names.
//!        │           │         │               └──▶ a fn of that name in the sources
//!        └───────────┴─────────┴──▶ short enough to be read, a verdict that is known
//! ```
//!
//! An entry without a test is a promise without proof, unless its verdict gives the reason: "Not
//! ours", "Later" or "Measured". The pages are complete: together they name each upstream test of
//! `upstream-tests.txt`.

use std::collections::{BTreeSet, HashSet};

use super::finding::Finding;
use crate::text::file::File;
use crate::text::source::{Source, is_ident, words};

/// The folder of the pages.
pub(crate) const FOLDER: &str = "docs/contract";

/// The upstream tests that the pages are about, by name; comments begin with `#`.
const UPSTREAM: &str = include_str!("upstream-tests.txt");

/// Verdicts of an entry that names tests.
const TESTED: [&str; 2] = ["Same", "Better"];

/// Verdicts of an entry without tests, followed by the reason.
const UNTESTED: [&str; 3] = ["Not ours", "Later", "Measured"];

/// BOUND: characters of a promise, and of what follows its verdict; longer ones are read twice.
const MAX_LENGTH: usize = 150;

/// Returns whether `path` is one of the pages with entries.
pub(crate) fn is_page(path: &str) -> bool {
    let name = path.strip_prefix(FOLDER).unwrap_or_default();
    name.starts_with('/') && name.ends_with(".md") && name != "/README.md"
}

/// Compares the entries of a page with the sources.
pub(crate) fn check(page: &File, sources: &[Source<'_>]) -> Vec<Finding> {
    let tests: HashSet<&str> = sources.iter().flat_map(|s| functions(&s.code)).collect();
    let mut findings = Vec::new();
    let mut push = |line: usize, message: String| {
        findings.push(Finding {
            path: page.path.clone(),
            line,
            rule: "contract",
            message,
        });
    };
    for (line, item) in items(&page.text) {
        let Some(entry) = Entry::parse(line, item) else {
            push(line, "an entry begins with its promise in bold".to_owned());
            continue;
        };
        let names = entry.tests();
        if !TESTED.contains(&entry.verdict) && !UNTESTED.contains(&entry.verdict) {
            push(
                entry.line,
                format!("no verdict is called {:?}", entry.verdict),
            );
        } else if names.is_empty() && TESTED.contains(&entry.verdict) {
            push(entry.line, "a promise without a test".to_owned());
        }
        let parts = [("promise", entry.promise), ("difference", entry.difference)];
        for (part, text) in parts {
            let length = text.split_whitespace().map(|word| word.chars().count() + 1);
            if length.sum::<usize>() > MAX_LENGTH + 1 {
                push(
                    entry.line,
                    format!("the {part} has more than {MAX_LENGTH} characters"),
                );
            }
        }
        for name in names.iter().filter(|name| !tests.contains(*name)) {
            push(entry.line, format!("there is no test {name}"));
        }
    }
    findings
}

/// Finds the upstream tests that no page names.
pub(crate) fn check_complete(pages: &[&File]) -> Vec<Finding> {
    let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words = pages.iter().flat_map(|page| page.text.split(is_other));
    let named: HashSet<&str> = words.collect();
    let upstream = UPSTREAM.lines().filter(|line| !line.starts_with('#'));
    upstream
        .filter(|name| !named.contains(name))
        .map(|name| Finding {
            path: FOLDER.to_owned(),
            line: 1,
            rule: "complete",
            message: format!("client-go's {name} is on no page"),
        })
        .collect()
}

/// The tests that a page names, sorted, each once.
pub(crate) fn tests(page: &str) -> BTreeSet<&str> {
    let entries = items(page).filter_map(|(line, item)| Entry::parse(line, item));
    entries.flat_map(|entry| entry.tests()).collect()
}

/// One promise.
struct Entry<'a> {
    line: usize,
    promise: &'a str,
    verdict: &'a str,
    difference: &'a str,
    proof: &'a str,
}

impl<'a> Entry<'a> {
    /// Parses a list item that begins with a bold promise.
    fn parse(line: usize, text: &'a str) -> Option<Self> {
        let (promise, rest) = text.strip_prefix("- **")?.split_once("**")?;
        let (rest, _upstream) = rest.split_once("Upstream: ").unwrap_or((rest, ""));
        let (body, proof) = rest.split_once("Tests: ").unwrap_or((rest, ""));
        let verdict = body
            .trim()
            .strip_prefix('*')
            .and_then(|body| body.split_once(".*"));
        let (verdict, difference) = verdict.unwrap_or_default();
        Some(Self {
            line,
            promise,
            verdict,
            difference,
            proof,
        })
    }

    /// The functions named in backticks: a name, or the last part of a path.
    fn tests(&self) -> Vec<&'a str> {
        let names = self.proof.split('`').skip(1).step_by(2);
        names
            .map(|name| name.rsplit("::").next().unwrap_or(name))
            .collect()
    }
}

/// The list items of a page with their lines, each with the indented lines below it.
fn items(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut items: Vec<(usize, usize, usize)> = Vec::new();
    let mut at = 0;
    for (line, text) in (1..).zip(page.split_inclusive('\n')) {
        let end = at + text.len();
        if text.starts_with("- ") {
            items.push((line, at, end));
        } else if let Some((.., until)) = items.last_mut()
            && *until == at
            && text.starts_with("  ")
        {
            *until = end;
        }
        at = end;
    }
    items
        .into_iter()
        .filter_map(|(line, from, until)| Some((line, page.get(from..until)?)))
}

/// The names of all functions in code.
fn functions(code: &str) -> impl Iterator<Item = &str> {
    words(code, "fn").filter_map(|at| {
        let name = code[at + 2..].trim_start();
        let end = name.bytes().position(|b| !is_ident(b))?;
        (end > 0).then(|| &name[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> File {
        File {
            path: format!("{FOLDER}/store.md"),
            text: text.to_owned(),
        }
    }

    fn findings(text: &str) -> Vec<(usize, String)> {
        let code = File {
            path: "crates/a/tests/it/a.rs".into(),
            text: "#[test]\nfn late_handler_hears() {}\nasync fn drains() {}\n// fn gone() {}"
                .into(),
        };
        let found = check(&page(text), &[Source::new(&code)]);
        found.into_iter().map(|f| (f.line, f.message)).collect()
    }

    #[test]
    fn named_tests_exist() {
        let text = "text `x`\n\n- **A.** *Same.*\n  Tests: `late_handler_hears`,\n  \
                    `queue::tests::drains`.\n  Upstream: TestX, `y`.\n- **B.** *Better.* So.\n  \
                    Tests: `gone`.\n\n- `z`, in plain letters\n";
        let plain = "an entry begins with its promise in bold".to_owned();
        let gone = "there is no test gone".to_owned();
        assert_eq!(findings(text), [(7, gone), (10, plain)]);
    }

    #[test]
    fn a_promise_names_a_test_or_a_reason() {
        let text = "- **A.** *Same.*\n- **B.** *Better.* Faster.\n  Upstream: `TestB`.\n\
                    - **C.** *Not ours.* No such gate.\n- **D.** *Later.* Election.\n\
                    - **E.** *Measured.* `queue-cycle`.\n- **F.** *Worse.* So.\n";
        let without = "a promise without a test".to_owned();
        let unknown = "no verdict is called \"Worse\"".to_owned();
        assert_eq!(
            findings(text),
            [(1, without.clone()), (2, without), (7, unknown)]
        );
    }

    #[test]
    fn a_promise_is_short_enough_to_be_read() {
        let entry = |promise: usize, difference: usize| {
            let (promise, difference) = ("p".repeat(promise), "d".repeat(difference));
            format!("- **{promise}**\n  *Same.* {difference}\n  Tests: `drains`.\n")
        };
        assert_eq!(findings(&entry(150, 150)), []);
        for (text, part) in [(entry(151, 0), "promise"), (entry(1, 151), "difference")] {
            let long = format!("the {part} has more than 150 characters");
            assert_eq!(findings(&text), [(1, long)]);
        }
    }

    #[test]
    fn the_pages_name_everything_upstream_pins() {
        let missing = check_complete(&[&page("")]).len();
        let (first, second) = UPSTREAM.split_at(UPSTREAM.find("\nTestM").unwrap_or(0));
        assert_eq!(check_complete(&[&page(first), &page(second)]), []);
        assert!(missing > 200, "{missing}");
        let without = UPSTREAM.replace("TestHeap_AddIfNotPresent", "TestHeap_AddIfNotPresentAtAll");
        assert_eq!(check_complete(&[&page(&without)]).len(), 1);
    }

    #[test]
    fn pages_are_those_of_the_folder() {
        assert!(is_page("docs/contract/store.md"));
        assert!(!is_page("docs/contract/README.md") && !is_page("docs/contract.md"));
    }
}
