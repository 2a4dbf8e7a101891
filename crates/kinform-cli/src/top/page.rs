//! A view as rows of text, before it is known which of them fit the screen.
//!
//! ```text
//! view ─▶ Page { rows: a line, and the place that Enter opens }
//! ```
//!
//! INVARIANT: no letter of a row controls the terminal: the rows are the only way from texts of the
//! program to the screen.
//! BOUND: 200 rows of each list, 5,000 rows in all.
//!
//! Upstream counterpart: none.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::place::Place;
use crate::terminal::visible;

/// BOUND: rows of a list.
pub(super) const ROWS: usize = 200;
/// BOUND: rows of a page.
pub(super) const LINES: usize = 5_000;

/// The rows of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) rows: Vec<Row>,
    /// The cursor stops at each row, as in a text.
    pub(super) is_text: bool,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) line: Line<'static>,
    pub(super) kind: Kind,
    /// The place that Enter opens.
    pub(super) target: Option<Place>,
}

/// The kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An entry of a list, at which the cursor stops.
    Item,
    /// A further row of the item above.
    More,
    /// A title or a note, which stays when rows are filtered.
    Head,
}

impl Row {
    pub(super) fn new(kind: Kind, spans: Vec<Span<'static>>, target: Option<Place>) -> Self {
        let clean =
            |span: Span<'static>| Span::styled(visible(&span.content).into_owned(), span.style);
        Self {
            line: Line::from(spans.into_iter().map(clean).collect::<Vec<_>>()),
            kind,
            target,
        }
    }

    fn text(&self) -> String {
        self.line.spans.iter().map(|span| &*span.content).collect()
    }
}

impl Page {
    pub(super) fn head(&mut self, text: &str, style: Style) {
        let span = Span::styled(text.to_owned(), style);
        self.add([Row::new(Kind::Head, vec![span], None)]);
    }

    pub(super) fn blank(&mut self) {
        self.head("", Style::new());
    }

    /// A further row of the item above.
    pub(super) fn more(&mut self, text: String, style: Style) {
        self.add([Row::new(Kind::More, vec![Span::styled(text, style)], None)]);
    }

    pub(super) fn add(&mut self, rows: impl IntoIterator<Item = Row>) {
        let left = LINES.saturating_sub(self.rows.len());
        self.rows.extend(rows.into_iter().take(left));
    }

    /// The note about rows that the program left out.
    pub(super) fn hidden(&mut self, count: u64, what: &str, style: Style) {
        if count > 0 {
            let count = super::numbers::number(count);
            let why = "you may not list them, or there are too many";
            let note = format!("{what} not shown: {count} ({why})");
            self.head(&note, style);
        }
    }

    /// Returns whether the cursor stops at a row.
    pub(super) fn stops(&self, at: usize) -> bool {
        let kind = self.rows.get(at).map(|row| row.kind);
        kind.is_some_and(|kind| self.is_text || kind == Kind::Item)
    }

    /// The items with a text, with all their rows, and all titles; without regard to case.
    pub(super) fn filtered(self, part: &str) -> Self {
        if part.is_empty() {
            return self;
        }
        let part = part.to_lowercase();
        let mut rows: Vec<Row> = Vec::new();
        for rows_of_one in self.items() {
            let is_head = rows_of_one.iter().all(|row| row.kind == Kind::Head);
            let has = |row: &Row| row.text().to_lowercase().contains(&part);
            if is_head || rows_of_one.iter().any(has) {
                rows.extend_from_slice(rows_of_one);
            }
        }
        Self {
            rows,
            is_text: self.is_text,
        }
    }

    /// The rows of each item, and each title alone.
    fn items(&self) -> impl Iterator<Item = &[Row]> {
        self.rows
            .chunk_by(|_, next| next.kind == Kind::More && !self.is_text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, text: &str) -> Row {
        Row::new(kind, vec![Span::raw(text.to_owned())], None)
    }

    fn texts(page: &Page) -> Vec<String> {
        page.rows.iter().map(Row::text).collect()
    }

    #[test]
    fn a_filter_keeps_items_whole_and_titles() {
        let mut page = Page::default();
        page.add([
            row(Kind::Head, "TITLE"),
            row(Kind::Item, "pods"),
            row(Kind::More, "stale"),
            row(Kind::Item, "nodes"),
            row(Kind::More, "fine"),
        ]);
        let found = |part: &str| texts(&page.clone().filtered(part));
        assert_eq!(found("STALE"), ["TITLE", "pods", "stale"]);
        assert_eq!(found("node"), ["TITLE", "nodes", "fine"]);
        assert_eq!(found("").len(), 5);
        assert_eq!(found("nothing"), ["TITLE"]);
        page.is_text = true;
        assert_eq!(texts(&page.filtered("fine")), ["TITLE", "fine"]);
    }

    #[test]
    fn a_row_has_no_letter_that_controls_a_terminal() {
        let row = row(Kind::Item, "a\u{1b}[2J\u{202e}b\n");
        assert_eq!(row.text(), "a\u{fffd}[2J\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_page_ends() {
        let mut page = Page::default();
        page.add((0..2 * LINES).map(|_| row(Kind::Item, "x")));
        page.add([row(Kind::Item, "y")]);
        assert_eq!(page.rows.len(), LINES);
    }
}
