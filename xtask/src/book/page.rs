//! A Markdown page as far as its links need: headings, their anchors, and the targets of links.
//!
//! ```text
//! text ──fences and code masked──▶ [Link { at, target }]        headings ──anchors──▶ {"an-anchor", ..}
//! ```
//!
//! Anchors are made as mdBook and GitHub make them: lower case, blanks become hyphens, punctuation is
//! dropped, and the second of two equal ones ends in `-1`. It is no parser of Markdown: a link is
//! `](target)` or a line `[name]: target`.
//!
//! Upstream counterpart: `mdBook:crates/mdbook-html/src/html/tree.rs`.

use std::collections::{BTreeMap, BTreeSet};

/// A link, and its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// The offset of the target.
    pub(super) at: usize,
    /// The target as written.
    pub(super) target: String,
    /// It shows a picture.
    pub(super) is_image: bool,
}

/// The links of a page, in order.
pub(super) fn links(text: &str) -> Vec<Link> {
    let masked = mask_code(text);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = masked[from..].find("](") {
        let at = from + open + 2;
        let Some(length) = masked[at..].find([')', ' ', '\n']) else {
            break;
        };
        let begin = opening(&masked[..at - 2]);
        found.push(Link {
            at,
            target: text[at..at + length].to_owned(),
            is_image: begin.is_some_and(|begin| masked[..begin].ends_with('!')),
        });
        from = at + length;
    }
    let mut start = 0;
    for line in masked.split_inclusive('\n') {
        if line.starts_with('[')
            && let Some(colon) = line.find("]: ")
        {
            let at = start + colon + 3;
            let length = line[colon + 3..].trim_end().len();
            found.push(Link {
                at,
                target: text[at..at + length].to_owned(),
                is_image: false,
            });
        }
        start += line.len();
    }
    found.sort_by_key(|link| link.at);
    found
}

/// The bracket that the end of `text` is inside of.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.bytes().rposition(|byte| match byte {
        b'[' if depth == 0 => true,
        b'[' => {
            depth -= 1;
            false
        }
        b']' => {
            depth += 1;
            false
        }
        _ => false,
    })
}

/// The anchors of a page's headings.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for heading in headings(text) {
        let id = anchor(heading);
        let before = times.entry(id.clone()).or_default();
        found.insert(match *before {
            0 => id,
            n => format!("{id}-{n}"),
        });
        *before += 1;
    }
    found
}

/// The line of an offset, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

/// The texts of the headings that begin with `#`.
fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut in_fence = false;
    text.lines().filter_map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        let is_heading = !in_fence && (1..=6).contains(&depth) && title.starts_with(' ');
        is_heading.then(|| title.trim())
    })
}

/// The anchor of a heading: of a link in it, the text counts.
fn anchor(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    let kept = shown.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Replaces code in fences and in backquotes by blanks, byte for byte.
fn mask_code(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let (mut in_fence, mut in_code) = (false, false);
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        in_code &= !(is_fence || line.trim().is_empty()); // no code goes on after a paragraph
        for c in line.chars() {
            let is_quote = c == '`' && !(is_fence || in_fence);
            in_code ^= is_quote;
            match c {
                '\n' => masked.push(c),
                _ if is_fence || in_fence || in_code || is_quote => {
                    masked.extend(std::iter::repeat_n(' ', c.len_utf8()));
                }
                _ => masked.push(c),
            }
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        for (text, expected) in [
            ("[a](b.md) and [c\nd](e.md#f)", &["b.md", "e.md#f"][..]),
            ("![a](b.png) `[c](d.md)`", &["b.png"]),
            ("```rust\nlet a = b[c](d);\n```\n[e](f.md)", &["f.md"]),
            ("[`a`](b.md \"title\")", &["b.md"]),
            ("[![a](b.png)](c.md)", &["b.png", "c.md"]),
            ("[a]: b.md\nx [a]: no", &["b.md"]),
            (
                "äö [a](b.md)\n\n`open [c](d.md)\n\n[e](f.md)",
                &["b.md", "f.md"],
            ),
        ] {
            let found: Vec<String> = links(text).into_iter().map(|link| link.target).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_picture_is_told_from_a_page() {
        let text = "![a](b.png) [c](d.md) [![e](f.png)](g.md)";
        let found: Vec<bool> = links(text).iter().map(|link| link.is_image).collect();
        assert_eq!(found, [true, false, true, false]);
    }

    #[test]
    fn anchors_are_those_of_mdbook() {
        for (text, expected) in [
            ("# Two Words", &["two-words"][..]),
            ("## `a_b`: what? (C++)", &["a_b-what-c"]),
            ("# A\n# A\n# A", &["a", "a-1", "a-2"]),
            ("# a - b", &["a---b"]),
            ("# Äpfel und 3 Birnen.", &["äpfel-und-3-birnen"]),
            ("# [A link](b.md) here", &["a-link-here"]),
            ("```console\n# no\n```\n#no\n####### no", &[]),
        ] {
            let found: Vec<String> = anchors(text).into_iter().collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_line_is_counted_from_one() {
        for (at, expected) in [(0, 1), (2, 2), (3, 2)] {
            assert_eq!(line("a\nbc", at), expected, "{at}");
        }
    }
}
