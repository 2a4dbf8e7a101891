//! Tables that fit a width: columns shrink, then the least important one goes.
//!
//! ```text
//! columns, cells, width ─▶ a row of titles and a row an item
//! ```
//!
//! Upstream counterpart: none.

use ratatui::style::Style;
use ratatui::text::Span;

use super::page::{Kind, ROWS, Row};
use super::paint::Paint;
use super::place::Place;
use crate::terminal::visible;

/// Letters between two columns.
const GAP: usize = 2;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    side: Side,
    /// The column with the lowest goes first.
    importance: u8,
    /// The width to which it may shrink.
    least: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// A column of words, which shrinks to 12 letters.
pub(super) const fn words(title: &'static str, importance: u8) -> Column {
    Column {
        title,
        side: Side::Left,
        importance,
        least: 12,
    }
}

/// A column of numbers, which does not shrink.
pub(super) const fn figures(title: &'static str, importance: u8) -> Column {
    Column {
        title,
        side: Side::Right,
        importance,
        least: usize::MAX,
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(super) fn styled(text: &str, style: Style) -> Self {
        Self {
            text: visible(text).into_owned(),
            style,
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text.as_ref(), Style::new())
    }
}

/// A row: its cells, the place that it opens, and further lines of text.
pub(super) struct Item {
    pub(super) cells: Vec<Cell>,
    pub(super) target: Option<Place>,
    pub(super) more: Vec<Row>,
}

/// The rows of a table.
pub(super) fn table(columns: &[Column], items: Vec<Item>, width: usize, paint: Paint) -> Vec<Row> {
    let items: Vec<Item> = items.into_iter().take(ROWS).collect();
    let widths = fit(columns, &natural(columns, &items), width);
    let titles = columns.iter().zip(&widths).filter_map(|(column, width)| {
        let text = padded(column.title, (*width)?, column.side);
        Some(Span::styled(text, paint.head()))
    });
    let mut rows = vec![Row::new(Kind::Head, apart(titles), None)];
    for item in items {
        let cells = columns.iter().zip(&widths).zip(item.cells);
        let cells = cells.filter_map(|((column, width), cell)| {
            let text = padded(&cell.text, (*width)?, column.side);
            Some(Span::styled(text, cell.style))
        });
        rows.push(Row::new(Kind::Item, apart(cells), item.target));
        rows.extend(item.more);
    }
    rows
}

/// The spans with gaps between them.
fn apart(spans: impl Iterator<Item = Span<'static>>) -> Vec<Span<'static>> {
    let mut all = Vec::new();
    for span in spans {
        if !all.is_empty() {
            all.push(Span::raw(" ".repeat(GAP)));
        }
        all.push(span);
    }
    all
}

fn natural(columns: &[Column], items: &[Item]) -> Vec<usize> {
    let widest = |at: usize| {
        let cells = items.iter().filter_map(|item| item.cells.get(at));
        cells.map(|cell| width(&cell.text)).max().unwrap_or(0)
    };
    let columns = columns.iter().enumerate();
    columns
        .map(|(at, column)| widest(at).max(width(column.title)))
        .collect()
}

/// The width of each column; `None` for one that has no room.
fn fit(columns: &[Column], natural: &[usize], room: usize) -> Vec<Option<usize>> {
    let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
    let least = |at: usize| columns[at].least.min(natural[at]);
    let total = |widths: &[Option<usize>]| {
        let shown: Vec<usize> = widths.iter().flatten().copied().collect();
        shown.iter().sum::<usize>() + GAP * shown.len().saturating_sub(1)
    };
    loop {
        let over = total(&widths).saturating_sub(room);
        if over == 0 {
            return widths;
        }
        let spare = |at: &usize| widths[*at].map_or(0, |width| width - least(*at));
        let widest = (0..widths.len()).max_by_key(spare);
        if let Some(at) = widest.filter(|at| spare(at) > 0)
            && let Some(width) = &mut widths[at]
        {
            *width -= 1;
            continue;
        }
        let shown = (0..widths.len()).filter(|at| widths[*at].is_some());
        let Some(last) = shown.rev().min_by_key(|at| columns[*at].importance) else {
            return widths;
        };
        if widths.iter().flatten().count() == 1 {
            widths[last] = Some(room);
            return widths;
        }
        // With one column less, the others may be wide again.
        widths[last] = None;
        for at in 0..widths.len() {
            widths[at] = widths[at].map(|_| natural[at]);
        }
    }
}

/// The columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

fn padded(text: &str, room: usize, side: Side) -> String {
    let text = cut(text, room);
    let space = " ".repeat(room.saturating_sub(width(&text)));
    match side {
        Side::Left => text + &space,
        Side::Right => space + &text,
    }
}

/// The text, or its beginning and an ellipsis.
pub(super) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut end = String::new();
    let mut used = 0;
    for letter in text.chars() {
        let mut buffer = [0; 4];
        used += width(letter.encode_utf8(&mut buffer));
        if used + 1 > room {
            break;
        }
        end.push(letter);
    }
    end + "…"
}

/// A text as lines of words, at most `most`; the last one is cut.
pub(super) fn wrapped(text: &str, room: usize, most: usize) -> Vec<String> {
    let text = visible(text);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let is_full = lines.len() >= most;
        if let Some(line) = lines.last_mut() {
            if line.is_empty() {
                line.push_str(word);
                continue;
            }
            if is_full || width(line) + 1 + width(word) <= room {
                line.push(' ');
                line.push_str(word);
                continue;
            }
        }
        lines.push(word.to_owned());
    }
    lines.iter().map(|line| cut(line, room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(room: usize) -> Vec<String> {
        const COLUMNS: [Column; 4] = [
            words("NAME", 9),
            figures("COUNT", 5),
            figures("OLD", 1),
            words("WHY", 3),
        ];
        let cells = [
            "a-name-of-many-letters",
            "1,234",
            "9",
            "because of \u{4f60}\u{597d}",
        ];
        let item = Item {
            cells: cells.into_iter().map(Cell::from).collect(),
            target: None,
            more: Vec::new(),
        };
        let rows = table(&COLUMNS, vec![item], room, Paint::PLAIN);
        let line = |row: Row| row.line.spans.iter().map(|span| &*span.content).collect();
        rows.into_iter().map(line).collect()
    }

    #[test]
    fn columns_shrink_and_then_the_least_important_one_goes() {
        for (room, expected) in [
            (
                60,
                [
                    "NAME                    COUNT  OLD  WHY            ",
                    "a-name-of-many-letters  1,234    9  because of \u{4f60}\u{597d}",
                ],
            ),
            (
                46,
                [
                    "NAME              COUNT  OLD  WHY            ",
                    "a-name-of-many-…  1,234    9  because of \u{4f60}\u{597d}",
                ],
            ),
            (
                32,
                [
                    "NAME          COUNT  WHY        ",
                    "a-name-of-m…  1,234  because of…",
                ],
            ),
            (20, ["NAME           COUNT", "a-name-of-ma…  1,234"]),
            (6, ["NAME  ", "a-nam…"]),
        ] {
            let lines = drawn(room);
            assert!(
                lines.iter().all(|line| width(line) <= room),
                "{room} {lines:?}"
            );
            if room != 46 && room != 32 {
                assert_eq!(lines, expected, "{room}");
            }
        }
    }

    #[test]
    fn text_wraps_at_words_and_ends() {
        assert_eq!(
            wrapped("one two three four", 9, 2),
            ["one two", "three fo…"]
        );
        assert_eq!(wrapped("", 9, 2), [""]);
        assert_eq!(cut("\u{4f60}\u{597d}", 3), "\u{4f60}…");
    }
}
