//! The lines of a source file that say something.
//!
//! ```text
//! text ─▶ lines that are neither empty nor a comment
//! ```
//!
//! Formatted by rustfmt at the same width, so that lines are comparable.

/// Counts the lines of Rust that are neither empty nor only a comment.
#[must_use]
pub fn count(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn empty_lines_and_comments_do_not_count() {
        assert_eq!(
            count("//! Head.\n\nuse a; // why\n  /// Doc.\nfn f() {\n\n}\n"),
            3
        );
    }
}
