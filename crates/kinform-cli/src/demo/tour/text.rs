//! Paragraphs of 80 columns.
//!
//! ```text
//! text → words → lines of 80 columns at most
//! ```

/// BOUND: columns of a line.
const COLUMNS: usize = 80;

/// The text in lines of 80 columns at most, with a line break at the end. A longer word has a line of
/// its own.
pub(super) fn paragraph(text: &str) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        let text = "four ".repeat(40);
        let paragraph = paragraph(&text);
        assert_eq!(paragraph.split_whitespace().count(), 40);
        assert_eq!(paragraph.lines().map(str::len).max(), Some(79));
        assert_eq!(super::paragraph(" a\n b "), "a b\n");
    }
}
