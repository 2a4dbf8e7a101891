//! `docs/contract.md`: each promise names the tests that hold it, and the tests exist.
//!
//! ```text
//! | promise | test |        column "test" ──▶ `names` ──▶ a fn of that name in the sources
//! ```
//!
//! In every table with a column whose head begins with "test", what stands in backticks there
//! is a test: its name, or a path ending in it. Rows without one are promises without proof and
//! fail as well, unless the cell gives a reason in words.

use std::collections::HashSet;

use super::source::{Source, is_ident, words};
use super::{File, Finding};

/// The page.
pub(crate) const PATH: &str = "docs/contract.md";

/// Checks the page's tables against the sources.
pub(crate) fn check(page: &File, sources: &[Source<'_>]) -> Vec<Finding> {
    let tests: HashSet<&str> = sources.iter().flat_map(|s| functions(&s.code)).collect();
    let mut findings = Vec::new();
    for (line, cell) in test_cells(&page.text) {
        let mut push = |message: String| {
            findings.push(Finding {
                path: page.path.clone(),
                line,
                rule: "contract",
                message,
            });
        };
        if cell.trim().is_empty() {
            push("a promise without a test".to_owned());
        }
        for name in cell.split('`').skip(1).step_by(2) {
            let function = name.rsplit("::").next().unwrap_or(name);
            if !tests.contains(function) {
                push(format!("there is no test {name}"));
            }
        }
    }
    findings
}

/// The cells under a head that begins with "test", with their lines.
fn test_cells(page: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut column = None;
    let mut in_table = false;
    for (number, line) in (1..).zip(page.lines().map(str::trim)) {
        let Some(row) = line.strip_prefix('|') else {
            (in_table, column) = (false, None);
            continue;
        };
        let row: Vec<&str> = row.trim_end_matches('|').split('|').collect();
        if !in_table {
            in_table = true;
            column = row
                .iter()
                .position(|c| c.trim().to_ascii_lowercase().starts_with("test"));
        } else if let Some(column) = column
            && !row
                .iter()
                .all(|c| c.trim().bytes().all(|b| matches!(b, b'-' | b':')))
        {
            cells.push((number, row.get(column).copied().unwrap_or_default()));
        }
    }
    cells
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
        let page = "| test | promise |\n|:--|--:|\n|  | a |\n| differs: no such gate | b |\n";
        assert_eq!(findings(page), [(3, "a promise without a test".to_owned())]);
    }

    #[test]
    fn other_tables_are_not_looked_at() {
        assert_eq!(findings("| a | b |\n|---|---|\n| `x` | `y` |\n"), []);
    }
}
