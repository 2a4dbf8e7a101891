//! *Pipeline*: the way of data through the program, with rates and lag on each edge.
//!
//! ```text
//! Pipeline, Trends ─▶ an informer, a controller: a row with its last values, and its edges
//! ```
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{InformerFlow, Pipeline, QueueFlow};
use ratatui::style::Style;
use ratatui::text::Span;

use super::Look;
use crate::terminal::visible;
use crate::top::columns::{cut, width};
use crate::top::numbers::{byte_rate, bytes, latency, number, rate};
use crate::top::page::{Kind, Page, ROWS, Row};
use crate::top::place::Place;
use crate::top::trends::{Trend, Trends};

/// Letters of a name, at least, and at most where the screen is narrow.
const NAME: usize = 20;
/// From this width on, edges are in one row, with totals and further lines of values.
const WIDE: usize = 140;

/// The page.
pub(super) fn page(reply: &Pipeline, trends: &Trends, look: Look) -> Page {
    let mut page = Page::default();
    let paint = look.paint;
    if let Some(sharding) = &reply.sharding {
        let of = |state: &str| {
            let rows = sharding.rows.iter().filter(|row| row.state == state);
            rows.count()
        };
        let open = of("open") as u64;
        let style = match open == sharding.own {
            true => paint.good(),
            false => paint.warning(),
        };
        let (own, all, by) = (sharding.own, sharding.shards, &sharding.by);
        page.head(
            &format!("shards: {own} of {all} by {by}, {open} open"),
            style,
        );
    }
    if let Some(lease) = &reply.lease {
        let (words, style) = match lease.is_leading {
            true => ("this replica leads", paint.good()),
            false => ("another replica may lead", paint.warning()),
        };
        page.head(&format!("lease {}: {words}", lease.name), style);
    }
    page.head("SERVER ─▶ CACHE ─▶ HANDLERS", paint.head());
    for flow in reply.informers.iter().take(ROWS) {
        informer(&mut page, flow, trends, look);
    }
    page.hidden(reply.hidden, "informers", paint.faint());
    page.blank();
    page.head("QUEUE ─▶ RECONCILE", paint.head());
    for flow in reply.controllers.iter().take(ROWS) {
        controller(&mut page, flow, trends, look);
    }
    if reply.controllers.is_empty() {
        page.head("no controllers are shown here", paint.faint());
    }
    page
}

fn informer(page: &mut Page, of: &InformerFlow, trends: &Trends, look: Look) {
    let spans = vec![
        name(&of.cache, look),
        Span::styled(format!("  {:<12}", of.state), look.paint.state(&of.state)),
        Span::raw(format!("  lag {:<5}", number(of.lag))),
    ];
    let lines = [
        ("read", Trend::Read),
        ("told", Trend::Told),
        ("wire", Trend::Wire),
    ];
    let target = Place::objects(Some(&of.cache));
    page.add([titled(spans, &lines, &of.cache, target, trends, look)]);
    let (wire, read) = (byte_rate(&of.wire_bytes), rate(&of.deltas));
    let in_all = (bytes(of.wire_bytes.total), number(of.deltas.total));
    let store = format!("store {} {}", number(of.objects), bytes(of.bytes));
    let told = format!(
        "handlers {} told {}",
        number(of.handlers),
        rate(&of.notifications)
    );
    let handled = format!("handled {}", latency(&of.handled));
    let queued = number(of.queued);
    let (first, second) = match look.width < WIDE {
        true => (
            format!("wire {wire} ─▶ read {read} ─▶ wait {queued} ─▶ {store}"),
            format!("─▶ {told} ─▶ {handled}"),
        ),
        false => (
            format!(
                "wire {wire} ({} in all) ─▶ read {read} ({} in all) ─▶ wait {queued} ─▶ {store}",
                in_all.0, in_all.1
            ),
            format!(" ─▶ {told} ─▶ {handled}"),
        ),
    };
    edges(page, first, second, look);
}

fn controller(page: &mut Page, of: &QueueFlow, trends: &Trends, look: Look) {
    let busy = format!("{} of {}", number(of.in_work), number(of.workers));
    let spans = vec![
        name(&of.controller, look),
        Span::raw(format!("  in work {busy:<8}")),
        Span::styled(
            format!("  {}", of.resource.as_deref().unwrap_or_default()),
            look.paint.faint(),
        ),
    ];
    let target = Place::queues(Some(&of.controller));
    let lines = [("runs", Trend::Runs)];
    page.add([titled(spans, &lines, &of.controller, target, trends, look)]);
    let added = format!(
        "added {} ({} in all)",
        rate(&of.adds),
        number(of.adds.total)
    );
    let queue = format!("queue {}", number(of.depth));
    let waited = format!("waited {}", latency(&of.waited));
    let runs = format!("runs {}", rate(&of.runs));
    let took = format!("took {}", latency(&of.took));
    let failures = number(of.failures.total);
    let failed = format!("failed {} ({failures} in all)", rate(&of.failures));
    let first = format!("{added} ─▶ {queue} ─▶ {waited}");
    let second = match look.width < WIDE {
        true => format!("─▶ {runs} {took} ─▶ {failed}"),
        false => format!(" ─▶ {runs} {took} ─▶ {failed}"),
    };
    edges(page, first, second, look);
}

fn name(text: &str, look: Look) -> Span<'static> {
    let room = NAME.max(look.width / 6);
    let text = cut(&visible(text), room);
    let space = " ".repeat(room.saturating_sub(width(&text)));
    Span::styled(text + &space, look.paint.head())
}

/// A first row: spans, and lines of the last values in what is left of the width.
fn titled(
    mut spans: Vec<Span<'static>>,
    lines: &[(&str, Trend)],
    name: &str,
    target: Place,
    trends: &Trends,
    look: Look,
) -> Row {
    let used: usize = spans.iter().map(Span::width).sum();
    let lines = if look.width < WIDE {
        &lines[..1]
    } else {
        lines
    };
    let room = look.width.saturating_sub(used) / lines.len();
    for (label, trend) in lines {
        let Some(room) = room.checked_sub(label.len() + 3).filter(|room| *room >= 4) else {
            continue;
        };
        spans.push(Span::styled(format!("  {label} "), look.paint.faint()));
        spans.push(Span::styled(
            trends.drawn(*trend, name, room),
            look.paint.line(),
        ));
    }
    Row::new(Kind::Item, spans, Some(target))
}

/// The edges: in one row where there is room, else in two.
fn edges(page: &mut Page, first: String, second: String, look: Look) {
    let rows = match look.width < WIDE {
        true => vec![first, second],
        false => vec![first + &second],
    };
    for row in rows {
        page.more(
            format!("  {}", cut(&row, look.width.saturating_sub(2))),
            Style::new(),
        );
    }
}
