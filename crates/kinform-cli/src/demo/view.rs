//! The pipeline on a terminal, or as plain lines without one.
//!
//! ```text
//! Numbers → full screen (ratatui) | one line on stderr;   keys → Wish
//! ```
//!
//! The terminal is restored however the demo ends.

use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Paragraph, Row as TableRow, Sparkline, Table};

use super::acts::Acts;
use super::numbers::Numbers;
use crate::exit::Failure;

/// The title of the notices, with the last key.
const BELOW: &str = " what happened · [q] ends, and compares the caches with the server ";
/// BOUND: notices kept on the screen.
const NOTICES: usize = 6;

/// The request of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// End.
    Quit,
    /// Play the act of this number, or end it.
    Play(u8),
}

/// The place where numbers are shown: the full screen, or lines on stderr.
#[derive(Debug)]
pub(crate) struct View {
    terminal: Option<DefaultTerminal>,
    notices: Vec<String>,
}

impl View {
    /// Takes the terminal over.
    pub(crate) fn full_screen() -> Result<Self, Failure> {
        Ok(Self {
            terminal: Some(ratatui::try_init()?),
            notices: Vec::new(),
        })
    }

    /// Prints lines on stderr.
    pub(crate) fn plain() -> Self {
        Self {
            terminal: None,
            notices: Vec::new(),
        }
    }

    /// The last request by key since the previous call.
    pub(crate) fn wish(&self) -> Result<Option<Wish>, Failure> {
        if self.terminal.is_none() {
            return Ok(None);
        }
        let mut wish = None;
        while event::poll(Duration::ZERO)? {
            let Event::Key(key) = event::read()? else {
                continue;
            };
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            wish = match key.code {
                KeyCode::Char('c') if control => Some(Wish::Quit),
                KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
                KeyCode::Char(digit @ '1'..='8') => Some(Wish::Play(digit as u8 - b'0')),
                _ => wish,
            };
        }
        Ok(wish)
    }

    /// Shows a notice.
    pub(crate) fn notice(&mut self, notice: &str) {
        if self.terminal.is_none() {
            crate::progress!("* {notice}");
            return;
        }
        self.notices.push(notice.to_owned());
        if self.notices.len() > NOTICES {
            self.notices.remove(0);
        }
    }

    /// Shows the numbers.
    pub(crate) fn show(&mut self, numbers: &Numbers) -> Result<(), Failure> {
        match &mut self.terminal {
            Some(terminal) => {
                let notices = &self.notices;
                terminal.draw(|frame| draw(frame, numbers, notices))?;
            }
            None => crate::progress!("{}", line(numbers)),
        }
        Ok(())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.terminal.is_some() {
            ratatui::restore();
        }
    }
}

/// One plain line.
fn line(n: &Numbers) -> String {
    format!(
        "{:5.1} s  {} objects  {:.1} MB  {:.0} events/s  {} heard  queue {}  {} reconciles  {} relists  write to handler p50 {:.1} ms p99 {:.1} ms",
        n.seconds,
        n.objects,
        n.bytes as f64 / 1e6,
        n.events_per_second,
        n.notifications,
        n.queue_depth,
        n.reconciles,
        n.relists,
        n.latency_p50_ms,
        n.latency_p99_ms,
    )
}

/// The pipeline as one drawing with numbers on its edges.
fn flow(n: &Numbers) -> Vec<Line<'static>> {
    let queued: u64 = n.rows.iter().map(|row| row.queue_depth).sum();
    let lag = n.rows.iter().map(|row| row.handler_lag).max().unwrap_or(0);
    vec![
        Line::from(format!(
            "writes {} ({} refused) ──▶ API server ──{:.0}/s──▶ reflectors ──▶ fifo [{queued}] ──▶ store {} objects, {:.1} MB",
            n.writes,
            n.refused,
            n.events_per_second,
            n.objects,
            n.bytes as f64 / 1e6
        )),
        Line::from(format!(
            "   ──▶ handlers {} heard, {lag} batches behind ──▶ queue [{}] ──▶ 2 workers: {} reconciles, {} retried",
            n.notifications, n.queue_depth, n.reconciles, n.reconcile_errors
        )),
        Line::from(format!(
            "write to handler: median {:.1} ms, 99th percentile {:.1} ms     relists {}     busiest node by index: {}",
            n.latency_p50_ms,
            n.latency_p99_ms,
            n.relists,
            n.busiest_node
                .as_ref()
                .map_or_else(String::new, |(node, pods)| format!(
                    "{node} with {pods} pods"
                )),
        )),
    ]
}

fn draw(frame: &mut Frame<'_>, numbers: &Numbers, notices: &[String]) {
    let [top, table, spark, below, help] = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Min(3),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    let title = format!(" kinform demo · {:.0} s ", numbers.seconds);
    frame.render_widget(
        Paragraph::new(Text::from(flow(numbers))).block(Block::bordered().title(title)),
        top,
    );
    frame.render_widget(types(numbers), table);
    let events = Sparkline::default()
        .block(Block::bordered().title(" events a tick "))
        .style(Style::new().fg(Color::Cyan))
        .data(numbers.history.iter().copied());
    frame.render_widget(events, spark);
    // The last ones that fit, without the borders.
    let fit = usize::from(below.height.saturating_sub(2));
    let notices: Vec<Line<'_>> = notices[notices.len().saturating_sub(fit)..]
        .iter()
        .map(|notice| Line::from(notice.as_str()))
        .collect();
    frame.render_widget(
        Paragraph::new(notices).block(Block::bordered().title(BELOW)),
        below,
    );
    frame.render_widget(Paragraph::new(keys()).dim(), help);
}

/// The keys of the acts, in lines of 80 columns.
fn keys() -> Text<'static> {
    let acts = Acts::list()
        .iter()
        .map(|act| format!("[{}] {}", act.number, act.title));
    let acts: Vec<String> = acts.collect();
    let (first, second) = acts.split_at(acts.len() / 2);
    Text::from(vec![
        Line::from(first.join("  ")),
        Line::from(second.join("  ")),
    ])
}

fn types(numbers: &Numbers) -> Table<'static> {
    let rows = numbers.rows.iter().map(|row| {
        TableRow::new([
            row.title.to_owned(),
            row.objects.to_string(),
            format!("{:.1} MB", row.bytes as f64 / 1e6),
            row.events.to_string(),
            row.lists.to_string(),
            row.reopens.to_string(),
        ])
    });
    let header = TableRow::new([
        "type",
        "objects",
        "bytes",
        "events",
        "lists",
        "watches resumed",
    ])
    .bold();
    let widths = [
        Constraint::Length(14),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(16),
    ];
    Table::new(rows, widths)
        .header(header)
        .block(Block::bordered().title(" caches "))
}

#[cfg(test)]
mod tests {
    use super::super::numbers::Row;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn numbers() -> Numbers {
        Numbers {
            seconds: 12.3,
            objects: 5_720,
            bytes: 6_800_000,
            events_per_second: 199.6,
            relists: 4,
            notifications: 9_001,
            queue_depth: 3,
            reconciles: 77,
            latency_p50_ms: 1.1,
            latency_p99_ms: 6.0,
            busiest_node: Some(("node-7".to_owned(), 61)),
            rows: vec![Row {
                title: "pods",
                objects: 5_000,
                ..Row::default()
            }],
            history: vec![1, 5, 3],
            ..Numbers::default()
        }
    }

    #[test]
    fn a_plain_line_has_the_figures() {
        assert_eq!(
            line(&numbers()),
            " 12.3 s  5720 objects  6.8 MB  200 events/s  9001 heard  queue 3  77 reconciles  4 relists  \
             write to handler p50 1.1 ms p99 6.0 ms"
        );
    }

    #[test]
    fn the_screen_shows_pipeline_caches_and_notices() {
        let mut terminal = Terminal::new(TestBackend::new(140, 24)).unwrap();
        terminal
            .draw(|frame| draw(frame, &numbers(), &["every watch was cut".to_owned()]))
            .unwrap();
        let screen = terminal.backend().to_string();
        for expected in [
            "API server",
            "pods",
            "5000",
            "every watch was cut",
            "node-7 with 61 pods",
            "[q]",
        ] {
            assert!(screen.contains(expected), "{expected} in\n{screen}");
        }
    }

    #[test]
    fn a_small_terminal_has_every_act_and_the_newest_notice() {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let notices: Vec<String> = (1..=6).map(|number| format!("notice {number}")).collect();
        terminal
            .draw(|frame| draw(frame, &numbers(), &notices))
            .unwrap();
        let screen = terminal.backend().to_string();
        for act in Acts::list() {
            let key = format!("[{}] {}", act.number, act.title);
            assert!(screen.contains(&key), "{key} in\n{screen}");
        }
        assert!(screen.contains("notice 6"), "{screen}");
    }
}
