//! Texts that name files: each name must have a file.
//!
//! ```text
//! header of a module ──"`x.rs`, `x/`"──▶ exists beside it, below it or above it?
//! ARCHITECTURE.md ──architecture──▶ paths exist? crates may import that? each room named?
//! ```
//!
//! Only names in backquotes that end in `.rs` or a slash are paths here. Findings are counted by
//! area; rooms that no row names are counted by crate.

mod architecture;
mod paths;

use super::ceilings::Counted;
use crate::text::file::area;
use crate::text::source::Source;

use paths::{RULE, counted, names};

pub(crate) use architecture::{PATH as ARCHITECTURE, check as check_architecture};
pub(crate) use paths::Paths;

/// Checks the files that a module's header names.
pub(crate) fn check_header(source: &Source<'_>, paths: &Paths<'_>) -> Vec<Counted> {
    let own = source.path.trim_end_matches(".rs");
    let mut found = Vec::new();
    let mut in_fence = false;
    let header = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"));
    for (line, text) in (1..).zip(header) {
        in_fence ^= text.starts_with("//! ```");
        if in_fence {
            continue; // a picture
        }
        // From the folder of its children outwards; `mod.rs` is in that folder already.
        for name in names(text).filter(|name| paths.find(own, name).is_none()) {
            let key = format!("{RULE}.{}", area(source.path));
            found.push(counted(
                source.path,
                line,
                key,
                format!("there is no {name}"),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::file::File;

    #[track_caller]
    fn check(header: &str, expected: &[&str]) {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file("crates/x/src/a/b.rs", header),
            file("crates/x/src/a/b/c.rs", ""),
            file("crates/x/src/a/d.rs", ""),
            file("crates/x/src/e/f.rs", ""),
            file("crates/y/src/g.rs", ""),
        ];
        let found = check_header(&Source::new(&files[0]), &Paths::new(&files)).into_iter();
        let found: Vec<String> = found.map(|c| c.finding.message).collect();
        assert_eq!(found, expected, "{header}");
    }

    #[test]
    fn files_are_found_below_beside_and_above() {
        check(
            "//! `c.rs`, `d.rs`, `e/f.rs`, `e/`, `y/src/g.rs`, `crates/y/`",
            &[],
        );
        check(
            "//! One line.\n//! `f.rs` or `b/d.rs`",
            &["there is no f.rs", "there is no b/d.rs"],
        );
        check("//! `h/`", &["there is no h/"]);
    }

    #[test]
    fn other_names_are_no_paths() {
        check(
            "//! `client-go:tools/cache/x.rs` `/api/` `d::rs` `x.go` `../z.rs`",
            &[],
        );
        check("//! a\n\n//! `gone.rs`", &[]);
        check(
            "//! ```text\n//! `gone.rs`\n//! ```\n//! `lib.rs`, `mod.rs`",
            &[],
        );
    }
}
