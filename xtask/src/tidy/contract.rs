//! `docs/contract.md`: each promise names the tests that hold it, and the tests exist.
//!
//! ```text
//! | promise | test |        column "test" ──▶ `names` ──▶ a fn of that name in the sources
//! ```
//!
//! In every table with a column whose head begins with "test", each name in backticks there is a
//! test's, or a path ending in one. Rows without a test are promises without proof and fail as
//! well, unless the row's verdict begins with "not ours", "later" or "measured" and so states a
//! reason.
//!
//! The page is complete: each upstream test of `upstream-tests.txt` is named on it, and each of the
//! capabilities `#1` to `#108`.

use std::collections::{BTreeSet, HashSet};

use super::finding::Finding;
use crate::text::file::File;
use crate::text::source::{Source, is_ident, words};

/// The page.
pub(crate) const PATH: &str = "docs/contract.md";

/// The upstream tests that it is about, by name; comments begin with `#`.
const UPSTREAM: &str = include_str!("upstream-tests.txt");

/// Capabilities of an informer library, numbered on the page.
const CAPABILITIES: std::ops::RangeInclusive<u32> = 1..=108;

/// Starts of the verdict of a row without a test.
const WITHOUT_TEST: [&str; 3] = ["not ours", "later", "measured"];

/// Checks the page's tables against the sources.
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
    for row in rows(&page.text) {
        let is_excused = WITHOUT_TEST
            .iter()
            .any(|word| row.verdict.starts_with(word));
        if row.tests().next().is_none() && !is_excused {
            push(row.line, "a promise without a test".to_owned());
        }
        for name in row.tests().filter(|name| !tests.contains(name)) {
            push(row.line, format!("there is no test {name}"));
        }
    }
    findings
}

/// Findings for upstream tests and capabilities that the page leaves out.
pub(crate) fn check_complete(page: &File) -> Vec<Finding> {
    let named: HashSet<&str> = page
        .text
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '#')))
        .collect();
    let upstream = UPSTREAM.lines().filter(|line| !line.starts_with('#'));
    let missing = upstream
        .filter(|name| !named.contains(name))
        .map(|name| format!("client-go's {name} is not on the page"));
    let capabilities = CAPABILITIES
        .filter(|number| !named.contains(format!("#{number}").as_str()))
        .map(|number| format!("capability #{number} is not on the page"));
    missing
        .chain(capabilities)
        .map(|message| Finding {
            path: page.path.clone(),
            line: 1,
            rule: "complete",
            message,
        })
        .collect()
}

/// The tests that the page names, sorted, each once.
pub(crate) fn tests(page: &str) -> BTreeSet<&str> {
    rows(page).iter().flat_map(Row::tests).collect()
}

/// One promise.
struct Row<'a> {
    line: usize,
    verdict: &'a str,
    cell: &'a str,
}

impl<'a> Row<'a> {
    /// The functions named in backticks.
    fn tests(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let names = self.cell.split('`').skip(1).step_by(2);
        names.map(|name| name.rsplit("::").next().unwrap_or(name))
    }
}

/// The rows of tables with a head that begins with "test".
fn rows(page: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut columns = None;
    let mut in_table = false;
    for (line, text) in (1..).zip(page.lines().map(str::trim)) {
        let Some(row) = text.strip_prefix('|') else {
            (in_table, columns) = (false, None);
            continue;
        };
        let row: Vec<&str> = row
            .trim_end_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let starting = |word: &str| {
            let is_it = |cell: &&str| cell.to_ascii_lowercase().starts_with(word);
            row.iter().position(is_it)
        };
        if !in_table {
            in_table = true;
            columns = starting("test").map(|test| (test, starting("verdict")));
        } else if let Some((test, verdict)) = columns
            && !row
                .iter()
                .all(|c| c.bytes().all(|b| matches!(b, b'-' | b':')))
        {
            rows.push(Row {
                line,
                verdict: verdict
                    .and_then(|at| row.get(at))
                    .copied()
                    .unwrap_or_default(),
                cell: row.get(test).copied().unwrap_or_default(),
            });
        }
    }
    rows
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

    fn findings(page: &str) -> Vec<(usize, String)> {
        let code = File {
            path: "crates/a/tests/it/a.rs".into(),
            text: "#[test]\nfn late_handler_hears() {}\nasync fn drains() {}\n// fn gone() {}"
                .into(),
        };
        let page = File {
            path: PATH.into(),
            text: page.into(),
        };
        let found = check(&page, &[Source::new(&code)]);
        found.into_iter().map(|f| (f.line, f.message)).collect()
    }

    #[test]
    fn named_tests_exist() {
        let page = "text `x`\n\n| promise | Tests |\n|---|---|\n\
                    | a | `late_handler_hears`, `queue::tests::drains` |\n| b | `gone` |\n";
        assert_eq!(findings(page), [(6, "there is no test gone".to_owned())]);
    }

    #[test]
    fn a_promise_names_a_test_or_a_reason() {
        let page = "| test | promise | verdict |\n|:--|--:|--|\n|  | a | same |\n| - | b | same |\n\
                    | - | c | not ours: no such gate |\n| - | d | later: election |\n\
                    | - | e | measured: `queue-cycle` |\n";
        let without = "a promise without a test".to_owned();
        assert_eq!(findings(page), [(3, without.clone()), (4, without)]);
    }

    #[test]
    fn the_page_names_everything_upstream_pins() {
        let page = |text: String| File {
            path: PATH.into(),
            text,
        };
        let missing = check_complete(&page(String::new())).len();
        let numbers: Vec<_> = CAPABILITIES.map(|number| format!("#{number}")).collect();
        let whole = format!("{UPSTREAM} {}", numbers.join(", "));
        assert_eq!(check_complete(&page(whole.clone())), []);
        assert!(missing > 300, "{missing}");
        let without = whole.replace("TestHeap_AddIfNotPresent", "TestHeap_AddIfNotPresentAtAll");
        assert_eq!(check_complete(&page(without)).len(), 1);
    }

    #[test]
    fn other_tables_are_not_looked_at() {
        assert_eq!(findings("| a | b |\n|---|---|\n| `x` | `y` |\n"), []);
    }
}
