//! The full screen of a watch.
//!
//! ```text
//! Rows ──a page of them──▶ terminal, five times a second at most       keys ──▶ scroll │ end
//! ```
//!
//! The terminal is given back however the command ends; lines for stderr are kept until then, and the
//! last of them are at the foot of the screen. All cells are without letters that control a terminal.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row as TableRow, Table};
use tokio::time::{Interval, MissedTickBehavior};

use super::rows::{Mark, Rows};
use crate::exit::{Ending, Failure};
use crate::full_screen::FullScreen;

/// The time between two pictures.
const PERIOD: Duration = Duration::from_millis(200);
/// BOUND: lines of stderr at the foot.
const FOOT: usize = 3;
/// BOUND: letters that a column is made as wide as.
const MAX_WIDTH: usize = 60;

/// The terminal while the command has it.
#[derive(Debug)]
pub(super) struct Screen {
    full: FullScreen,
    period: Interval,
    from: usize,
    /// Rows that fit.
    height: usize,
}

impl Screen {
    /// Takes the terminal; `None` if there is none, or a log is written to it.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub(super) fn open() -> Result<Option<Self>, Failure> {
        let Some(full) = FullScreen::open()? else {
            return Ok(None);
        };
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Some(Self {
            full,
            period,
            from: 0,
            height: 1,
        }))
    }

    /// Waits until a picture is due.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn due(&mut self) {
        self.period.tick().await;
    }

    /// Reads the keys that were pressed: an ending, if one asks for it.
    pub(super) fn keys(&mut self) -> Result<Option<Ending>, Failure> {
        while event::poll(Duration::ZERO)? {
            let Event::Key(key) = event::read()? else {
                continue;
            };
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('c') if control => return Ok(Some(Ending::Interrupted)),
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Some(Ending::Done)),
                KeyCode::Down | KeyCode::Char('j') => self.from += 1,
                KeyCode::Up | KeyCode::Char('k') => self.from = self.from.saturating_sub(1),
                KeyCode::PageDown | KeyCode::Char(' ') => self.from += self.height,
                KeyCode::PageUp => self.from = self.from.saturating_sub(self.height),
                KeyCode::Home | KeyCode::Char('g') => self.from = 0,
                KeyCode::End | KeyCode::Char('G') => self.from = usize::MAX,
                _ => {}
            }
        }
        Ok(None)
    }

    /// Draws a page of the rows of some types.
    pub(super) fn draw(
        &mut self,
        head: &str,
        types: usize,
        rows: &mut Rows,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        rows.expire(now);
        let foot = self.full.last_lines(FOOT);
        let (from, held) = (&mut self.from, foot.len());
        let mut height = self.height;
        self.full.terminal().draw(|frame| {
            let foot_height = u16::try_from(held).unwrap_or(0);
            let parts = [
                Constraint::Length(1),
                Constraint::Min(2),
                Constraint::Length(foot_height),
            ];
            let [top, middle, bottom] = Layout::vertical(parts).areas(frame.area());
            height = usize::from(middle.height).saturating_sub(1).max(1);
            *from = (*from).min(rows.count().saturating_sub(height));
            let page = rows.page(types, *from, height, now);
            let shown = match rows.count() > height {
                true => format!("  {}-{} shown, j k scroll", *from + 1, *from + page.len()),
                false => String::new(),
            };
            let title = format!("{head}  {} objects{shown}  q ends", rows.len());
            frame.render_widget(Paragraph::new(Line::from(title).bold()), top);
            frame.render_widget(table(types, &page), middle);
            let lines: Vec<Line<'_>> = foot
                .iter()
                .map(|line| Line::from(line.as_str()).dim())
                .collect();
            frame.render_widget(Paragraph::new(Text::from(lines)), bottom);
        })?;
        self.height = height;
        Ok(())
    }
}

fn table<'a>(types: usize, page: &'a [(Vec<String>, Mark)]) -> Table<'a> {
    let header = Rows::header(types);
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.len()).collect();
    for (cells, _) in page {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count()).min(MAX_WIDTH);
        }
    }
    let last = widths.len() - 1;
    let widths = widths
        .iter()
        .enumerate()
        .map(|(column, width)| match column == last {
            true => Constraint::Fill(1),
            false => Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)),
        });
    let lines = page.iter().map(|(cells, mark)| {
        let style = match mark {
            Mark::Plain => Style::new(),
            Mark::New => Style::new().bold(),
            Mark::Changed => Style::new().bold().yellow(),
            Mark::Gone => Style::new().dim().crossed_out(),
        };
        TableRow::new(cells.iter().map(String::as_str)).style(style)
    });
    Table::new(lines, widths.collect::<Vec<_>>())
        .header(TableRow::new(header).style(Style::new().bold()))
        .column_spacing(3)
}
