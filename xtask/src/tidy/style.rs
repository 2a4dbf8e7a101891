//! The look of a file: its length, its header, its name, and code that is never written.
//!
//! ```text
//! source ──▶ too long? headless? a drawer for odds and ends? `select!` unbiased? unfinished?
//! ```
//!
//! Sizes count whole files, tests included. Tests need no header; everything else holds for
//! them too.

use super::finding::Finding;
use crate::text::source::{Source, words};

// BOUND: the house's limit, in lines.
const LINES_MAX: usize = 600;
/// A file longer than this needs a header of at least [`HEADER_MIN`] lines.
const HEADLESS_MAX: usize = 60;
const HEADER_MIN: usize = 3;

const DRAWERS: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "#[ignore"];

/// Checks one Rust file.
pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut push = |line: usize, rule: &'static str, message: String| {
        findings.push(Finding {
            path: source.path.to_owned(),
            line,
            rule,
            message,
        });
    };
    let lines = source.text.lines().count();
    if lines > LINES_MAX {
        push(
            LINES_MAX + 1,
            "size",
            format!("{lines} lines, at most {LINES_MAX}"),
        );
    }
    let header = source
        .text
        .lines()
        .take_while(|l| l.starts_with("//!"))
        .count();
    if lines > HEADLESS_MAX && header < HEADER_MIN && !source.is_test() {
        push(
            1,
            "header",
            format!("a header of {header} lines, at least {HEADER_MIN}"),
        );
    }
    for (at, drawer) in DRAWERS.iter().flat_map(|d| modules(&source.code, d)) {
        push(
            source.line(at),
            "names",
            format!("mod {drawer}: name what is in it"),
        );
    }
    for word in UNFINISHED {
        for at in words(&source.code, word) {
            push(source.line(at), "unfinished", format!("{word} is not done"));
        }
    }
    for at in words(&source.code, "thread::sleep") {
        push(
            source.line(at),
            "sleep",
            "wait for what is awaited, or use paused time".to_owned(),
        );
    }
    for at in words(&source.code, "select!") {
        if !is_biased(&source.code[at + "select!".len()..]) {
            push(
                source.line(at),
                "select",
                "select! begins with `biased;`".to_owned(),
            );
        }
    }
    findings
}

/// Checks a path's names.
pub(crate) fn check_name(path: &str) -> Option<Finding> {
    let drawer = path.split('/').find(|part| {
        let stem = part.split('.').next().unwrap_or(part);
        DRAWERS.contains(&stem)
    })?;
    let message = format!("{drawer}: name what is in it");
    Some(Finding {
        path: path.to_owned(),
        line: 1,
        rule: "names",
        message,
    })
}

fn modules<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    words(code, name)
        .filter(|at| code[..*at].trim_end().ends_with("mod"))
        .map(move |at| (at, name))
}

fn is_biased(after: &str) -> bool {
    let body = after.trim_start().strip_prefix(['{', '(']);
    let rest = body.and_then(|b| b.trim_start().strip_prefix("biased"));
    rest.is_some_and(|r| r.trim_start().starts_with(';'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::file::File;

    #[track_caller]
    fn check_text(path: &str, text: &str, rules: &[&str]) {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let found: Vec<&str> = check(&Source::new(&file)).iter().map(|f| f.rule).collect();
        assert_eq!(found, rules, "{path}: {text}");
    }

    #[test]
    fn long_files_fail() {
        let header = "//! a\n//! b\n//! c\n";
        check_text(
            "crates/a/src/x.rs",
            &(header.to_owned() + &"\n".repeat(597)),
            &[],
        );
        check_text(
            "crates/a/src/x.rs",
            &(header.to_owned() + &"\n".repeat(598)),
            &["size"],
        );
    }

    #[test]
    fn files_say_what_they_are() {
        let body = "\n".repeat(61);
        check_text("crates/a/src/x.rs", &body, &["header"]);
        check_text("crates/a/src/x.rs", &"\n".repeat(60), &[]);
        check_text(
            "crates/a/src/x.rs",
            &("//! a\n//!\n//! c\n".to_owned() + &body),
            &[],
        );
        check_text("crates/a/tests/it/x.rs", &body, &[]);
    }

    #[test]
    fn unfinished_code_is_found_and_words_in_strings_are_not() {
        check_text("a.rs", "fn f() { todo!() }", &["unfinished"]);
        check_text(
            "a.rs",
            "#[ignore = \"slow\"] fn f() { unimplemented!() }",
            &["unfinished"; 2],
        );
        check_text("a.rs", "fn f() { g(\"todo!()\"); } // todo!()", &[]);
        check_text("a.rs", "fn f() { std::thread::sleep(d) }", &["sleep"]);
    }

    #[test]
    fn select_is_biased() {
        check_text(
            "a.rs",
            "tokio::select! {\n    biased;\n    x = y => {} }",
            &[],
        );
        check_text("a.rs", "select! { x = y => {} }", &["select"]);
        check_text("a.rs", "select_biased! { x = y => {} }", &[]);
    }

    #[test]
    fn drawers_are_found_by_file_and_by_module() {
        check_text("a.rs", "mod utils;", &["names"]);
        check_text("a.rs", "pub(crate) mod common {}", &["names"]);
        check_text("a.rs", "use tokio_util::x; let common = 1;", &[]);
        assert!(check_name("crates/a/src/helpers.rs").is_some());
        assert!(check_name("crates/a/tests/common/mod.rs").is_some());
        assert!(check_name("crates/a/src/utility_bill.rs").is_none());
    }
}
