//! The widths of Markdown: lines of at most 100 columns, cells of at most 150 characters.
//!
//! ```text
//! text ──▶ fences skipped, targets of links left out ──▶ lines and cells that are too wide, phrases
//! ```

use super::patterns::{self, Fault};

// BOUND: the house's limits, in characters.
const COLUMNS_MAX: usize = 100;
const CELL_MAX: usize = 150;

/// The faults of a text.
pub(super) fn check(text: &str) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (number, line) in (1..).zip(text.lines()) {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        if !(in_fence || is_fence) {
            found.extend(width(line).map(|message| (number, message)));
        }
    }
    let phrases = patterns::check(text, false).into_iter();
    found.extend(phrases.map(|(at, message)| (1 + text[..at].matches('\n').count(), message)));
    found.sort();
    found
}

fn width(line: &str) -> Option<String> {
    let is_target = line.starts_with('[') && line.contains("]: ");
    if is_target {
        return None;
    }
    if let Some(row) = line.trim_start().strip_prefix('|') {
        let widest = row.split('|').map(|cell| visible(cell.trim())).max()?;
        let message =
            format!("a cell of {widest} characters, at most {CELL_MAX}: make it a paragraph");
        return (widest > CELL_MAX).then_some(message);
    }
    let columns = visible(line);
    let message = format!("{columns} columns, at most {COLUMNS_MAX}");
    (columns > COLUMNS_MAX).then_some(message)
}

/// The characters of a text without the targets of its links.
fn visible(text: &str) -> usize {
    let mut count = 0;
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        count += rest[..at].chars().count();
        rest = rest[at..].split_once(')').map_or("", |(_, after)| after);
    }
    let words = rest.split(' ').filter(|word| !word.contains("://"));
    count
        + words
            .map(|word| word.chars().count() + 1)
            .sum::<usize>()
            .saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[(usize, &str)]) {
        let found = check(text);
        let starts = found
            .iter()
            .zip(expected)
            .all(|((line, message), (at, start))| line == at && message.starts_with(start));
        assert!(starts && found.len() == expected.len(), "{text}: {found:?}");
    }

    #[test]
    fn lines_are_wrapped_and_cells_are_short() {
        let wide = |count: usize| "ä".repeat(count);
        check_text(&wide(100), &[]);
        check_text(&format!("# a\n{}", wide(101)), &[(2, "101 columns")]);
        check_text(
            &format!("```\n{}\n```\n{}", wide(101), wide(102)),
            &[(4, "102 columns")],
        );
        check_text(&format!("| a | {} |", wide(150)), &[]);
        check_text(&format!("| a | {} | b", wide(151)), &[(1, "a cell of 151")]);
    }

    #[test]
    fn targets_of_links_have_no_width() {
        let target = "x".repeat(99);
        check_text(&format!("see [a]({target}) and [b]({target})"), &[]);
        check_text(&format!("see https://{target}"), &[]);
        check_text(&format!("[a]: {target}/"), &[]);
    }

    #[test]
    fn phrases_are_found_outside_of_code() {
        check_text("a\nhe is told\n`so many`", &[(2, "\"is told\"")]);
    }
}
