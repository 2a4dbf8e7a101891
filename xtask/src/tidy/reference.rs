//! Pages of reference: each error text and each family of metrics that the code has is on its page.
//!
//! ```text
//! literals of the sources ──▶ error texts, `{..}` as `..` ──▶ troubleshooting.md has each
//!                        └──▶ names of families ──────────▶ metrics-reference.md has each; no other is there or in dashboard.json
//! ```
//!
//! A text counts if it is given to a constructor with an `ErrorKind`, to `#[error(..)]`, or is a
//! `message`. One without a word of its own, as `"{what}: {why}"`, passes another text on.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::text::file::File;
use crate::text::source::Source;

/// The page of error texts.
pub(super) const ERRORS: &str = "docs/book/src/troubleshooting.md";

/// The page of metrics.
pub(super) const METRICS: &str = "docs/book/src/metrics-reference.md";

/// The dashboard, which names some of them.
pub(super) const DASHBOARD: &str = "docs/dashboard.json";

/// The sources whose errors reach users of the libraries.
const FOLDERS: [&str; 2] = ["crates/kinform/src/", "crates/kinform-operator/src/"];

/// First words of the families' names.
const FAMILIES: [&str; 8] = [
    "controller_runtime_",
    "informer_",
    "kinform_",
    "leader_election_",
    "process_",
    "reflector_",
    "rest_client_",
    "workqueue_",
];

/// Compares the page of error texts with the sources.
pub(super) fn check_errors(page: &File, sources: &[Source<'_>]) -> Vec<Finding> {
    let told = one_line(&page.text);
    let texts = ours(sources).flat_map(|source| {
        literals(source)
            .filter(|literal| is_of_an_error(literal.before))
            .map(|literal| (message(literal.text), source.path, literal.line))
    });
    let missing = texts.filter(|(text, ..)| has_words(text) && !told.contains(text.as_str()));
    missing
        .map(|(text, path, line)| Finding {
            path: path.to_owned(),
            line,
            rule: "reference",
            message: format!("{ERRORS} does not have {text:?}"),
        })
        .collect()
}

/// Compares the page of metrics, and the dashboard, with the sources.
pub(super) fn check_metrics(page: &File, sources: &[Source<'_>]) -> Vec<Finding> {
    let mut families = BTreeMap::new();
    for source in ours(sources) {
        let named = literals(source).filter(|literal| is_family(literal.text));
        families.extend(named.map(|literal| (literal.text, (source.path, literal.line))));
    }
    let lines = page.text.lines().enumerate();
    let told: BTreeMap<&str, usize> = lines
        .flat_map(|(at, line)| names(line).map(move |name| (name, at + 1)))
        .collect();
    let finding = |path: &str, line: usize, message: String| Finding {
        path: path.to_owned(),
        line,
        rule: "reference",
        message,
    };
    let untold = families
        .iter()
        .filter(|(name, _)| page.path == METRICS && !told.contains_key(*name));
    let untold = untold.map(|(name, (path, line))| {
        finding(path, *line, format!("{METRICS} does not have {name}"))
    });
    let unknown = told
        .iter()
        .filter(|(name, _)| !families.contains_key(*name));
    let unknown = unknown
        .map(|(name, line)| finding(&page.path, *line, format!("there is no family {name}")));
    untold.chain(unknown).collect()
}

/// The families named in a line: a series of a histogram counts as its family.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
        .filter(|word| is_family(word))
}

fn ours<'a, 'b>(sources: &'b [Source<'a>]) -> impl Iterator<Item = &'b Source<'a>> {
    let is_ours = |path: &str| FOLDERS.iter().any(|folder| path.starts_with(folder));
    sources.iter().filter(move |source| is_ours(source.path))
}

/// A string literal of code that is not for tests.
struct Literal<'a> {
    /// The code before it.
    before: &'a str,
    text: &'a str,
    line: usize,
}

fn literals<'a>(source: &'a Source<'_>) -> impl Iterator<Item = Literal<'a>> {
    let code = source.production();
    let quotes: Vec<usize> = code.match_indices('"').map(|(at, _)| at).collect();
    let pairs: Vec<(usize, usize)> = quotes
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect();
    pairs.into_iter().map(move |(from, to)| Literal {
        before: &code[..from],
        text: &source.text[from + 1..to],
        line: source.line(from),
    })
}

/// Returns whether the literal after this code is the text of an error.
fn is_of_an_error(before: &str) -> bool {
    let mut before = before.trim_end();
    for wrapper in ["format!(", "&", "one_line("] {
        before = before.strip_suffix(wrapper).unwrap_or(before).trim_end();
    }
    let kind = before.strip_suffix(',').map(str::trim_end);
    let kind = kind.map(|text| text.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_'));
    kind.is_some_and(|text| text.ends_with("ErrorKind::"))
        || before.ends_with("#[error(")
        || before.ends_with("message =")
}

/// The text of a literal, as its page has it: placeholders are `..`.
fn message(literal: &str) -> String {
    let mut text = String::new();
    let mut depth = 0_usize;
    let mut rest = literal.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' => {
                depth += 1;
                text.push_str(if depth == 1 { ".." } else { "" });
            }
            '}' => depth = depth.saturating_sub(1),
            '\\' => match rest.next() {
                Some('\n') => while rest.next_if(|c| c.is_whitespace()).is_some() {},
                Some('n') => text.push(' '),
                Some(other) if depth == 0 => text.push(other),
                _ => {}
            },
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    one_line(&text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a text says something: it has two words, and not placeholders alone.
fn has_words(text: &str) -> bool {
    let is_word = |word: &&str| word.chars().filter(char::is_ascii_lowercase).count() >= 2;
    text.contains(' ') && text.split(' ').any(|word| is_word(&word))
}

fn is_family(name: &str) -> bool {
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_name && FAMILIES.iter().any(|first| name.starts_with(first))
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
    fn texts_of_errors_are_on_their_page() {
        let check = |code: &str, page: &str, expected: usize| {
            let code = file("crates/kinform/src/a.rs", code);
            let sources = [Source::new(&code)];
            let found = check_errors(&file(ERRORS, page), &sources);
            assert_eq!(found.len(), expected, "{found:?}");
        };
        let gone =
            r#"fn f() { Error::new(ErrorKind::Stopped, format!("{what:?} of {} is gone", a)) }"#;
        check(gone, "| `.. of .. is\ngone` | wait |", 0);
        check(gone, "| `.. is gone` | wait |", 1);
        check(
            r#"#[error("no such \"thing\": {0}")] A"#,
            "`no such \"thing\": ..`",
            0,
        );
        check("let message = format!(\n \"two \\\n lines {x}\");", "", 1);
        check(
            "let message = format!(\n \"two \\\n lines {x}\");",
            "two lines ..",
            0,
        );
        check(r#"ErrorKind::Part, format!("{attempt}: {cause}")"#, "", 0);
        check(r#"let other = "no error at all";"#, "", 0);
        check(
            "#[cfg(test)]\nmod tests { fn f() { g(ErrorKind::A, \"of a test\"); } }",
            "",
            0,
        );
    }

    #[test]
    fn families_are_on_their_page_and_no_others() {
        let check = |code: &str, page: &str, expected: usize| {
            let code = file("crates/kinform-operator/src/a.rs", code);
            let sources = [Source::new(&code)];
            let found = check_metrics(&file(METRICS, page), &sources);
            assert_eq!(found.len(), expected, "{found:?}");
        };
        let depth = r#"Family::gauge("workqueue_depth", "Keys.")"#;
        check(depth, "| `workqueue_depth` | gauge |", 0);
        check(depth, "", 1);
        check("", "| `workqueue_depth` | gauge |", 1);
        check(depth, "`workqueue_depth` and workqueue_old", 1);
        check(depth, "rate(workqueue_depth_bucket{a=~\"b\"})", 0);
    }
}
