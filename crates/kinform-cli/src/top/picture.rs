//! The content of the screen, before it is drawn. Pure.
//!
//! ```text
//! State, Page, head and foot, size ─▶ Picture ─▶ ratatui's buffer        equal pictures are drawn once
//! ```
//!
//! ```text
//! kinform top · shop · caches                                     live
//! 1 pipeline [2 caches] 3 queues 4 objects 5 memory 6 problems
//! > rows of the page
//! notices of a host, six at most
//! keys, a prompt, or a message
//! ```
//!
//! Upstream counterpart: none.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::columns::{cut, width};
use super::page::{Kind, Page, Row};
use super::paint::Paint;
use super::place::{Form, Place};
use super::state::{Mode, State};
use crate::args::inspecting::VIEWS;
use crate::terminal::visible;

/// BOUND: notices that are shown.
const NOTICES: usize = 6;
/// BOUND: things to try that are shown.
const THINGS: usize = 9;

const HELP: [&str; 14] = [
    "1-6, Tab, Shift-Tab   choose a view",
    "j k, arrows, PgUp PgDn, g G   move",
    "left, right   move a text",
    "Enter   open what the cursor is on",
    "Esc   back; ends a filter",
    "d   object with its versions and their differences",
    "y   object as YAML",
    "m   managers of its fields, from the API server",
    "/   filter; of objects and keys a search in the program",
    ":   pipeline, caches, queues [CONTROLLER], objects [CACHE],",
    "    memory [CACHE], problems, help, q",
    "r   ask again, as for objects and memory",
    "t   things to try, in the demo",
    "q, Ctrl-C   end",
];

/// The text around the page.
#[derive(Clone, Debug, Default)]
pub(super) struct Around<'a> {
    pub(super) program: &'a str,
    /// `None` as long as the program answers.
    pub(super) trouble: Option<String>,
    /// The time of a reply that is not asked for again by itself.
    pub(super) read_at: Option<String>,
    /// The lines of a host.
    pub(super) notices: &'a [String],
    pub(super) things: &'a [String],
}

/// A screen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    size: Size,
    left: u16,
    head: Line<'static>,
    tabs: Line<'static>,
    body: Vec<Line<'static>>,
    notices: Vec<Line<'static>>,
    foot: Line<'static>,
    popup: Option<(&'static str, Vec<Line<'static>>)>,
}

/// The rows that a page has on a screen.
pub(super) fn height(size: Size, notices: usize) -> usize {
    let notices = shown_notices(size, notices);
    usize::from(size.height).saturating_sub(3 + notices).max(1)
}

/// Notices that fit: the page keeps most of a small screen.
fn shown_notices(size: Size, notices: usize) -> usize {
    notices.min(NOTICES).min(usize::from(size.height) / 4)
}

impl Picture {
    pub(super) fn new(
        state: &State,
        page: &Page,
        around: &Around<'_>,
        (size, paint): (Size, Paint),
    ) -> Self {
        let room = usize::from(size.width);
        let notices = shown_notices(size, around.notices.len());
        let skipped = around.notices.len() - notices;
        let shown = around.notices.iter().skip(skipped);
        let notice = |text: &String| plain(&format!("· {text}"), paint.warning(), room);
        let popup = match state.mode() {
            Mode::Help => {
                let lines = HELP.iter().map(|line| Line::from(*line));
                Some((" keys ", lines.collect()))
            }
            Mode::Things => Some((" things to try ", things(around.things, paint))),
            _ => None,
        };
        Self {
            size,
            left: u16::try_from(state.left()).unwrap_or(u16::MAX),
            head: head(state, around, room, paint),
            tabs: tabs(state.place(), room, paint),
            body: body(state, page, height(size, around.notices.len()), paint),
            notices: shown.map(notice).collect(),
            foot: foot(state, page, around, room, paint),
            popup,
        }
    }

    /// Draws it.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let notices = u16::try_from(self.notices.len()).unwrap_or(0);
        let parts = [
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(notices),
            Constraint::Length(1),
        ];
        let [head, tabs, body, below, foot] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(self.head.clone(), head);
        frame.render_widget(self.tabs.clone(), tabs);
        frame.render_widget(
            Paragraph::new(self.body.clone()).scroll((0, self.left)),
            body,
        );
        frame.render_widget(Paragraph::new(self.notices.clone()), below);
        frame.render_widget(self.foot.clone(), foot);
        if let Some((title, lines)) = &self.popup {
            popup(frame, title, lines);
        }
    }
}

fn popup(frame: &mut Frame<'_>, title: &str, lines: &[Line<'static>]) {
    let all = frame.area();
    let widest = lines
        .iter()
        .map(Line::width)
        .max()
        .unwrap_or(0)
        .max(title.len());
    let wanted = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).saturating_add(2);
    let (columns, rows) = (
        wanted(widest).min(all.width),
        wanted(lines.len()).min(all.height),
    );
    let area = Rect {
        x: all.x + (all.width - columns) / 2,
        y: all.y + (all.height - rows) / 2,
        width: columns,
        height: rows,
    };
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(title.to_owned());
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), area);
}

fn things(things: &[String], paint: Paint) -> Vec<Line<'static>> {
    if things.is_empty() {
        return vec![Line::styled(
            "none here: kinform demo has some",
            paint.faint(),
        )];
    }
    let thing = |(at, text): (usize, &String)| Line::from(format!("{}  {}", at + 1, visible(text)));
    things.iter().take(THINGS).enumerate().map(thing).collect()
}

fn plain(text: &str, style: Style, room: usize) -> Line<'static> {
    Line::styled(cut(&visible(text), room), style)
}

fn head(state: &State, around: &Around<'_>, room: usize, paint: Paint) -> Line<'static> {
    let (status, style) = match (&around.trouble, &around.read_at) {
        (Some(trouble), _) => (format!("! {trouble}"), paint.bad()),
        (None, Some(at)) => (format!("read at {at}, r reads again"), Style::new()),
        (None, None) => ("live".to_owned(), paint.good()),
    };
    let title = format!(
        "kinform top · {} · {}",
        around.program,
        state.place().title()
    );
    let left = room.saturating_sub(width(&status) + 2);
    let title = cut(&visible(&title), left);
    let space = " ".repeat(left.saturating_sub(width(&title)) + 2);
    Line::from(vec![
        Span::styled(title, paint.head()),
        Span::raw(space),
        Span::styled(visible(&status).into_owned(), style),
    ])
}

fn tabs(place: &Place, room: usize, paint: Paint) -> Line<'static> {
    let mut spans = Vec::new();
    // The shown one has brackets, where there are 16 letters to spare.
    let is_wide = room >= 70;
    for (at, view) in VIEWS.iter().enumerate() {
        let is_shown = at == place.number();
        let name = if is_wide || is_shown {
            view
        } else {
            &view[..3]
        };
        spans.push(match is_shown {
            true => Span::styled(format!("[{} {name}]", at + 1), paint.chosen()),
            false => Span::styled(format!(" {} {name} ", at + 1), paint.faint()),
        });
    }
    Line::from(spans)
}

/// The rows that fit, with the cursor among them.
fn body(state: &State, page: &Page, height: usize, paint: Paint) -> Vec<Line<'static>> {
    let from = first_row(state.at(), page, height);
    let rows = page.rows.iter().enumerate().skip(from).take(height);
    let line = |(at, row): (usize, &Row)| {
        let is_chosen = at == state.at() && page.stops(at);
        let mark = if is_chosen { "> " } else { "  " };
        let mut line = row.line.clone();
        line.spans.insert(0, Span::raw(mark));
        if is_chosen {
            line = line.style(paint.chosen());
        }
        line
    };
    rows.map(line).collect()
}

/// The first row that is shown. Titles above the first stop and further rows of the chosen item are
/// shown with them.
fn first_row(at: usize, page: &Page, height: usize) -> usize {
    let last_from = page.rows.len().saturating_sub(height);
    let is_first = !(0..at).any(|before| page.stops(before));
    if is_first && at < height {
        return 0;
    }
    let more = page.rows.iter().skip(at + 1);
    let further = match page.is_text {
        true => 0,
        false => more.take_while(|row| row.kind == Kind::More).count(),
    };
    // The cursor is in the middle as long as there are rows on both sides.
    let middle = at.saturating_sub(height / 2);
    let whole = (at + further + 1).saturating_sub(height).min(at);
    middle.max(whole).min(last_from)
}

fn foot(
    state: &State,
    page: &Page,
    around: &Around<'_>,
    room: usize,
    paint: Paint,
) -> Line<'static> {
    match state.mode() {
        Mode::Command(text) => return plain(&format!(":{text}█"), paint.head(), room),
        Mode::Search(text, _) => return plain(&format!("/{text}█"), paint.head(), room),
        _ => {}
    }
    if let Some(message) = state.message() {
        return plain(message, paint.warning(), room);
    }
    let mut hints = Vec::new();
    if !state.filter().is_empty() {
        hints.push(format!("filter {:?}, Esc ends it", state.filter()));
    }
    let form = match state.place() {
        Place::Object { form, .. } => Some(form),
        _ => None,
    };
    match form {
        Some(Form::Yaml) => hints.push("d differences".to_owned()),
        Some(_) => hints.push("y YAML  m managers".to_owned()),
        None => {}
    }
    let target = page
        .rows
        .get(state.at())
        .and_then(|row| row.target.as_ref());
    match target {
        Some(Place::Object { .. }) => hints.push("Enter d open  y YAML".to_owned()),
        Some(_) => hints.push("Enter opens".to_owned()),
        None => {}
    }
    if !around.things.is_empty() {
        hints.push("t things to try".to_owned());
    }
    let search = match state.place().clone().search() {
        Some(_) => "/ search",
        None => "/ filter",
    };
    hints.push(format!("{search}  : command  Esc back  ? help  q end"));
    plain(&hints.join("  "), paint.faint(), room)
}
