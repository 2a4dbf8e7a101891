//! *Problems*: what is wrong with the program, and what to do about it.
//!
//! ```text
//! Problems ─▶ of each: kind, since when, where; the message; the advice
//! ```
//!
//! The severity is a word and a mark, which a colour repeats.
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{Problem, Problems};
use ratatui::style::Style;
use ratatui::text::Span;

use super::Look;
use crate::terminal::visible;
use crate::top::columns::{width, wrapped};
use crate::top::numbers::clock;
use crate::top::page::{Kind, Page, ROWS, Row};
use crate::top::place::{Place, key};

/// BOUND: rows of a message, and of an advice.
const LINES: usize = 3;

/// The page.
pub(super) fn page(reply: &Problems, look: Look) -> Page {
    let mut page = Page::default();
    if reply.problems.is_empty() {
        page.head("no problems are known", look.paint.good());
    } else {
        let title = "those that go on first, then the newest";
        page.head(title, look.paint.faint());
    }
    for of in reply.problems.iter().take(ROWS) {
        add(&mut page, of, look);
    }
    page.hidden(reply.hidden, "problems", look.paint.faint());
    page
}

fn add(page: &mut Page, of: &Problem, look: Look) {
    let paint = look.paint;
    let (mark, style) = match of.severity.as_str() {
        "error" => ("✗", paint.bad()),
        "warning" => ("!", paint.warning()),
        _ => ("i", Style::new()),
    };
    let since = match (&of.time, of.is_ongoing) {
        (Some(time), true) => format!("now, seen {}", clock(time)),
        (Some(time), false) => clock(time),
        (None, true) => "now".to_owned(),
        (None, false) => "–".to_owned(),
    };
    let name = of.name.as_deref();
    let name = name.map(|name| key(of.namespace.as_deref(), name));
    let parts = [
        of.controller.as_deref(),
        of.cache.as_deref(),
        name.as_deref(),
    ];
    let place: Vec<&str> = parts.into_iter().flatten().collect();
    let place = place.join(" · ");
    let mut spans = vec![
        Span::styled(format!("{mark} {:<18}", of.kind), style),
        Span::raw(format!("  {:<8}  {since:<18}  ", of.severity)),
    ];
    let used: usize = spans.iter().map(|span| width(&span.content)).sum();
    let fits = used + width(&place) <= look.width;
    if fits {
        spans.push(Span::raw(visible(&place).into_owned()));
    }
    page.add([Row::new(Kind::Item, spans, target(of))]);
    let room = look.width.saturating_sub(6);
    if !fits {
        for line in wrapped(&place, room, LINES) {
            page.more(format!("    {line}"), Style::new());
        }
    }
    for line in wrapped(&of.message, room, LINES) {
        page.more(format!("    {line}"), Style::new());
    }
    for (at, line) in wrapped(&of.advice, room, LINES).into_iter().enumerate() {
        let arrow = if at == 0 { "→" } else { " " };
        page.more(format!("    {arrow} {line}"), paint.faint());
    }
}

fn target(of: &Problem) -> Option<Place> {
    match (&of.cache, &of.controller, &of.name) {
        (Some(cache), _, Some(name)) => Some(Place::object(cache, of.namespace.as_deref(), name)),
        (_, Some(controller), name) => {
            let name = name.as_deref();
            let q = name.map(|name| key(of.namespace.as_deref(), name));
            Some(Place::Queues {
                controller: Some(controller.clone()),
                q: q.unwrap_or_default(),
            })
        }
        (Some(cache), None, None) => Some(Place::objects(Some(cache))),
        _ => None,
    }
}
