//! The matrix as Markdown: a table of marks, then the tests and reasons of each fault.
//!
//! ```text
//! Matrix ──▶ | F1 connection refused | ✓ | ✓ | – | … |   - **F1.** `test`, `test`. Reason.
//! ```

use std::fmt::Write as _;

use super::matrix::{CELLS, Cell, FAULTS, Matrix};

const BEGIN: &str = "<!-- Made by `cargo xtask faults --write`. -->\n";
const END: &str = "<!-- End of what is made. -->\n";
/// BOUND: columns of a line of Markdown.
const COLUMNS: usize = 100;

/// The page with this matrix between its marks.
pub(super) fn with(page: &str, matrix: &Matrix) -> Result<String, String> {
    let parts = page.split_once(BEGIN);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("the page has no {BEGIN:?} and {END:?}"))?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", render(matrix)))
}

fn render(matrix: &Matrix) -> String {
    let mut text = String::from(
        "| fault | J l o | J l c | J s o | J s c | P l o | P l c | P s o | P s c |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for (number, row) in &matrix.rows {
        let _ = write!(text, "| F{number} {} |", FAULTS[number - 1]);
        for cell in 0..CELLS {
            let mark = match row.cell(cell) {
                Cell::Tested => '✓',
                Cell::Excused => '–',
                Cell::Open => '?',
            };
            let _ = write!(text, " {mark} |");
        }
        text.push('\n');
    }
    text.push('\n');
    for (number, row) in &matrix.rows {
        let mut words = vec![format!("**F{number}.**")];
        let count = row.tests.len();
        words.extend(row.tests.iter().enumerate().map(|(at, test)| {
            let end = if at + 1 == count { '.' } else { ',' };
            format!("`{test}`{end}")
        }));
        for reason in &row.reasons {
            words.push("Does not apply:".to_owned());
            words.extend(format!("{reason}.").split(' ').map(str::to_owned));
        }
        text += &item(&words);
    }
    text
}

/// A list item, wrapped.
fn item(words: &[String]) -> String {
    let mut lines = vec![String::from("-")];
    for word in words {
        let line = lines.last_mut().expect("there is a first line");
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("  {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::file::File;

    #[test]
    fn the_part_between_the_marks_is_replaced() {
        let text = "#[test]\nfn a_fault() {\n    let line = \"F1 json x list x in-order\";\n}\n\
                    // no fault: F1 protobuf x list x in-order: no such thing\n";
        let file = File {
            path: "crates/a/tests/it/a.rs".to_owned(),
            text: text.to_owned(),
        };
        let matrix = Matrix::new(&[file]);
        let page = with(&format!("# A\n{BEGIN}old\n{END}after\n"), &matrix).unwrap();
        assert!(page.starts_with("# A\n") && page.ends_with("after\n"));
        let row =
            "| F1 connection refused, or broken in a frame | ✓ | ? | ? | ? | – | ? | ? | ? |\n";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("- **F1.** `a_fault`. Does not apply: no such thing.\n"));
        assert_eq!(with(&page, &matrix).unwrap(), page);
        assert!(with("# A\n", &matrix).is_err());
    }

    #[test]
    fn items_are_wrapped() {
        let words: Vec<String> = (0..30).map(|number| format!("word{number:03}")).collect();
        let text = item(&words);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
        assert_eq!(text.lines().count(), 3);
    }
}
