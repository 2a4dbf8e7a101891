//! The book's table of contents: it names each chapter, and each once.
//!
//! ```text
//! SUMMARY.md, names of the chapters' files ──▶ named twice │ no such file │ not named
//! ```
//!
//! A line in a comment (`<!-- .. -->`) names a chapter that is to come.

use std::collections::BTreeMap;

use super::page;

/// The file's name.
pub(super) const NAME: &str = "SUMMARY.md";

/// The faults of the table of contents over the chapters' file names.
pub(super) fn check(summary: &str, chapters: &[&str]) -> Vec<String> {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for link in page::links(&without_comments(summary)) {
        *named.entry(link.target).or_default() += 1;
    }
    let mut found = Vec::new();
    for (name, times) in &named {
        if *times > 1 {
            found.push(format!("{NAME} names {name} {times} times"));
        }
        if !chapters.contains(&name.as_str()) {
            found.push(format!("{NAME} names {name}, which does not exist"));
        }
    }
    for chapter in chapters {
        if !named.contains_key(*chapter) {
            found.push(format!("{NAME} does not name {chapter}"));
        }
    }
    found
}

/// A text without its comments; an open one reaches to the end.
pub(super) fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chapter_is_named_once() {
        for (summary, chapters, expected) in [
            ("- [A](a.md)\n- [B](b.md)", &["a.md", "b.md"][..], &[][..]),
            (
                "- [A](a.md)",
                &["a.md", "b.md"],
                &["SUMMARY.md does not name b.md"],
            ),
            (
                "- [A](a.md)\n- [B](b.md)",
                &["a.md"],
                &["SUMMARY.md names b.md, which does not exist"],
            ),
            (
                "- [A](a.md)\n- [B](a.md)",
                &["a.md"],
                &["SUMMARY.md names a.md 2 times"],
            ),
            ("- [A](a.md)\n<!-- - [B](b.md)\n-->", &["a.md"], &[]),
        ] {
            assert_eq!(check(summary, chapters), expected, "{summary}");
        }
    }
}
