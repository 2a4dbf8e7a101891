//! The comments of a Rust file as blocks of text.
//!
//! ```text
//! /// One line,      ──▶ Block { Outer, "One line,\nand another." }
//! /// and another.
//! ```
//!
//! A block is a run of lines with one marker. Block comments (`/* */`) are not written here.

use crate::text::source::{Source, comments};

/// The marker of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    /// `//!`
    Inner,
    /// `///`
    Outer,
    /// `//`
    Plain,
}

/// A run of comment lines.
#[derive(Debug)]
pub(super) struct Block {
    marker: Marker,
    /// Its lines without markers.
    pub(super) text: String,
    first_line: usize,
    /// Offset of its end in the file.
    end: usize,
}

impl Block {
    /// The line in the file of an offset in the text.
    pub(super) fn line(&self, at: usize) -> usize {
        self.first_line + self.text[..at].matches('\n').count()
    }

    /// Returns whether it is documentation.
    pub(super) fn is_doc(&self) -> bool {
        self.marker != Marker::Plain
    }

    /// Returns whether it documents a public item, or the crate.
    pub(super) fn is_public(&self, source: &Source<'_>) -> bool {
        match self.marker {
            Marker::Plain => false,
            Marker::Inner => source.path.ends_with("/src/lib.rs"),
            Marker::Outer => {
                is_public(item(&source.code[self.end..]))
                    || is_inside_public(&source.code, self.end)
            }
        }
    }

    /// Returns whether the command line prints it: documentation in a file of its arguments.
    pub(super) fn is_help(&self, source: &Source<'_>) -> bool {
        self.marker == Marker::Outer && source.code.contains("use clap::")
    }
}

/// The text of an item, after its attributes.
fn item(code: &str) -> &str {
    let mut rest = code.trim_start();
    while rest.starts_with("#[") {
        let mut depth = 0_usize;
        let end = rest.bytes().position(|byte| {
            match byte {
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            byte == b']' && depth == 0
        });
        rest = rest[end.map_or(rest.len(), |end| end + 1)..].trim_start();
    }
    rest
}

fn is_public(item: &str) -> bool {
    item.strip_prefix("pub ").is_some()
}

/// Returns whether an offset is in the body of a public enum or trait.
fn is_inside_public(code: &str, at: usize) -> bool {
    // The headers of the blocks that are open.
    let mut open: Vec<&str> = Vec::new();
    let mut start = 0;
    for (index, byte) in code[..at].bytes().enumerate() {
        match byte {
            b'{' => open.push(&code[start..index]),
            b'}' => {
                open.pop();
            }
            _ => {}
        }
        if matches!(byte, b'{' | b'}' | b';') {
            start = index + 1;
        }
    }
    open.iter().any(|header| {
        let item = item(header);
        ["pub enum ", "pub trait "]
            .iter()
            .any(|start| item.starts_with(start))
    })
}

/// The blocks of a file.
pub(super) fn blocks(source: &Source<'_>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut line = 1;
    let mut counted = 0;
    for (start, end) in comments(source.text) {
        line += source.text[counted..start].matches('\n').count();
        counted = start;
        let comment = &source.text[start..end];
        let Some((marker, text)) = marker(comment) else {
            continue;
        };
        let indent = source.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let is_alone = source.text[indent..start].trim().is_empty();
        if let Some(last) = blocks.last_mut()
            && is_alone
            && last.marker == marker
            && source.text[last.end..start].trim().is_empty()
            && source.text[last.end..start].matches('\n').count() == 1
        {
            last.text.push('\n');
            last.text.push_str(text);
            last.end = end;
            continue;
        }
        blocks.push(Block {
            marker,
            text: text.to_owned(),
            first_line: line,
            end,
        });
    }
    blocks
}

fn marker(comment: &str) -> Option<(Marker, &str)> {
    let rest = comment.strip_prefix("//")?;
    let (marker, text) = match rest.as_bytes() {
        [b'!', ..] => (Marker::Inner, &rest[1..]),
        [b'/', b'/', ..] => (Marker::Plain, rest),
        [b'/', ..] => (Marker::Outer, &rest[1..]),
        _ => (Marker::Plain, rest),
    };
    Some((marker, text.strip_prefix(' ').unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::file::File;

    /// Checks the blocks: first line, text, and whether each is of a public item.
    #[track_caller]
    fn check(path: &str, text: &str, expected: &[(usize, &str, bool)]) {
        let file = File {
            path: format!("crates/x/src/{path}"),
            text: text.to_owned(),
        };
        let source = Source::new(&file);
        let blocks = blocks(&source);
        let found: Vec<_> = blocks
            .iter()
            .map(|b| (b.first_line, b.text.as_str(), b.is_public(&source)))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_of_one_marker_are_a_block() {
        let text = "//! A\n//! b.\n\n/// C\n/// d.\npub fn f() { // E\n  // F\n  // g\n  x(\"// no\");\n}\n";
        check(
            "lib.rs",
            text,
            &[
                (1, "A\nb.", true),
                (4, "C\nd.", true),
                (6, "E\nF\ng", false),
            ],
        );
        check(
            "a.rs",
            "//! A\n\n//! B\n",
            &[(1, "A", false), (3, "B", false)],
        );
    }

    #[test]
    fn public_items_are_told_from_others() {
        let text = "/// A\n#[derive(X[1])]\npub enum A {\n/// B\nB,\n}\n/// C\npub(crate) struct C {\n/// D\npub d: u8,\n}\nimpl A {\n/// E\nfn e() {}\n}";
        let expected = [
            (1, "A", true),
            (4, "B", true),
            (7, "C", false),
            (9, "D", true),
            (13, "E", false),
        ];
        check("a.rs", text, &expected);
    }
}
