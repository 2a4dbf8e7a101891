//! Padded columns, as kubectl prints them.
//!
//! ```text
//! header + rows → text          widths, cells → one line (for streams)
//! ```
//!
//! Cells are shown, never interpreted: control characters of server data do not reach a terminal.

use crate::terminal::visible;

/// A table of text.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table under a header.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            rows: vec![header.iter().map(|cell| (*cell).to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// The whole text, three blanks between columns, no blanks at line ends.
    pub(crate) fn render(&self) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                let width = cell.chars().count();
                match widths.get_mut(column) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        self.rows
            .iter()
            .map(|row| padded(row, &widths) + "\n")
            .collect()
    }
}

/// One line of a stream whose columns keep at least these widths.
pub(crate) fn padded(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (column, cell) in cells.iter().enumerate() {
        if column > 0 {
            line.push_str("   ");
        }
        let shown = visible(cell);
        let blanks = widths
            .get(column)
            .copied()
            .unwrap_or(0)
            .saturating_sub(shown.chars().count());
        line.push_str(&shown);
        line.extend(std::iter::repeat_n(' ', blanks));
    }
    line.truncate(line.trim_end().len());
    line
}

/// An age as kubectl prints it: `12s`, `3m4s`, `5h`, `2d`.
pub(crate) fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        match seconds % 60 {
            0 => format!("{minutes}m"),
            rest => format!("{minutes}m{rest}s"),
        }
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        match minutes % 60 {
            0 => format!("{hours}h"),
            rest => format!("{hours}h{rest}m"),
        }
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        match hours % 24 {
            0 => format!("{days}d"),
            rest => format!("{days}d{rest}h"),
        }
    } else {
        format!("{days}d")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_clean() {
        let mut table = Table::new(&["NAME", "AGE"]);
        table.push(vec!["a".to_owned(), "3s".to_owned()]);
        table.push(vec!["longer".to_owned(), String::new()]);
        assert_eq!(table.render(), "NAME     AGE\na        3s\nlonger\n");
    }

    #[test]
    fn ages_read_as_kubectls() {
        for (seconds, expected) in [
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (86_400, "24h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (864_000, "10d"),
        ] {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }
}
