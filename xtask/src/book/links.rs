//! The links of the book: files, anchors and lines that exist, and addresses of other hosts.
//!
//! ```text
//! page, link ──resolve──▶ another host │ a path of the repository, anchor ──▶ exists? ──▶ findings
//! ```
//!
//! Nothing is fetched: addresses of other hosts are listed. A link may leave the book, but not the
//! repository.

use std::collections::BTreeMap;
use std::path::Path;

use super::page::{self, Link};
use crate::text::file::File;

/// The place to which a link leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An address of another host.
    Elsewhere,
    /// A file or folder of the repository, and a part of it.
    Here {
        path: String,
        anchor: Option<String>,
    },
    /// A path above the root of the repository, or from the root of the machine.
    Outside,
}

/// The result: what is wrong, and the addresses of other hosts with the number of their links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) findings: Vec<String>,
    pub(super) elsewhere: BTreeMap<String, usize>,
}

/// Checks the links of `pages`, files of the repository `files` at `root`.
pub(super) fn check(root: &Path, files: &[File], pages: &[&File]) -> Report {
    let mut report = Report::default();
    for page in pages {
        for link in page::links(&page.text) {
            match resolve(&page.path, &link.target) {
                Place::Elsewhere => *report.elsewhere.entry(link.target).or_default() += 1,
                Place::Outside => {
                    let why = "leaves the repository";
                    report.findings.push(finding(page, &link, why));
                }
                Place::Here { path, anchor } => {
                    let wrong = wrong(root, files, &path, anchor.as_deref());
                    report
                        .findings
                        .extend(wrong.map(|why| finding(page, &link, &why)));
                }
            }
        }
    }
    report
}

fn finding(page: &File, link: &Link, why: &str) -> String {
    let line = page::line(&page.text, link.at);
    format!("{}:{line}: {}: {why}", page.path, link.target)
}

/// The fault of a place of the repository.
fn wrong(root: &Path, files: &[File], path: &str, anchor: Option<&str>) -> Option<String> {
    let file = files.iter().find(|file| file.path == path);
    let Some(anchor) = anchor else {
        // A folder, or a file that is no text.
        let exists = file.is_some() || root.join(path).exists();
        return (!exists).then(|| format!("there is no {path}"));
    };
    let Some(file) = file else {
        return Some(format!("there is no text {path}"));
    };
    if path.ends_with(".md") {
        let has = page::anchors(&file.text).contains(anchor);
        return (!has).then(|| format!("{path} has no heading of that anchor"));
    }
    // A line of a source file, as GitHub shows it.
    let line = anchor.strip_prefix('L').and_then(|line| line.parse().ok());
    let has = line.is_some_and(|line: usize| (1..=file.text.lines().count()).contains(&line));
    (!has).then(|| format!("{path} has no such line"))
}

/// The place to which `target` leads from the page at `from`.
pub(super) fn resolve(from: &str, target: &str) -> Place {
    let scheme = target.split([':', '/', '#']).next().unwrap_or_default();
    if target[scheme.len()..].starts_with(':') {
        return Place::Elsewhere;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if path.is_empty() {
        let path = from.to_owned();
        return Place::Here { path, anchor };
    }
    if path.starts_with('/') {
        return Place::Outside;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Place::Outside;
                }
            }
            part => parts.push(part),
        }
    }
    Place::Here {
        path: parts.join("/"),
        anchor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_target_is_a_place() {
        let here = |path: &str, anchor: Option<&str>| Place::Here {
            path: path.to_owned(),
            anchor: anchor.map(str::to_owned),
        };
        for (target, expected) in [
            ("https://example.com/a.md", Place::Elsewhere),
            ("mailto:a@example.com", Place::Elsewhere),
            ("b.md", here("docs/book/src/b.md", None)),
            ("#c", here("docs/book/src/a.md", Some("c"))),
            ("../../cli.md#d", here("docs/cli.md", Some("d"))),
            ("../../../crates/kinform/", here("crates/kinform", None)),
            ("../../../../etc/passwd", Place::Outside),
            ("/b.md", Place::Outside),
        ] {
            assert_eq!(resolve("docs/book/src/a.md", target), expected, "{target}");
        }
    }

    #[test]
    fn files_anchors_and_lines_must_exist() {
        let files = [
            file("docs/a.md", "# Here\n## Here\n"),
            file("src/b.rs", "one\ntwo\n"),
        ];
        for (target, is_right) in [
            ("a.md", true),
            ("b.md", false),
            ("#here-1", true),
            ("a.md#there", false),
            ("../src/b.rs", true),
            ("../src/b.rs#L2", true),
            ("../src/b.rs#L3", false),
            ("../src/b.rs#two", false),
            ("../../x", false),
        ] {
            let page = file("docs/a.md", &format!("[x]({target})\n# Here\n# Here"));
            let report = check(Path::new("/nonexistent"), &files, &[&page]);
            assert_eq!(report.findings.is_empty(), is_right, "{target}: {report:?}");
        }
    }

    #[test]
    fn other_hosts_are_counted_and_a_finding_names_its_line() {
        let page = file(
            "a.md",
            "[x](https://example.com)\n[y](https://example.com)\n[z](b.md)",
        );
        let report = check(Path::new("/nonexistent"), &[], &[&page]);
        let elsewhere: Vec<_> = report.elsewhere.into_iter().collect();
        assert_eq!(elsewhere, [("https://example.com".to_owned(), 2)]);
        assert_eq!(report.findings, ["a.md:3: b.md: there is no b.md"]);
    }
}
