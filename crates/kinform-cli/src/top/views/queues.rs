//! *Queues*: controllers, the keys that wait and those in work, and why each is reconciled.
//!
//! ```text
//! Queues ─▶ a row a controller; of the chosen one its keys and last runs, with causes
//! ```
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{InWork, KeyRow, QueueRow, Queues};
use ratatui::text::Span;

use super::{Look, causes, runs};
use crate::top::columns::{Cell, Column, Item, figures, table, words, wrapped};
use crate::top::numbers::{latency, ms, number, rate};
use crate::top::page::{Kind, Page, Row};
use crate::top::place::{Place, key};

const QUEUES: [Column; 17] = [
    words("CONTROLLER", 20),
    figures("WAITING", 19),
    figures("OLDEST", 18),
    figures("DELAYED", 13),
    figures("IN WORK", 17),
    words("WAITED", 10),
    figures("RUNS", 14),
    words("TOOK", 11),
    figures("FAILED", 16),
    figures("RETRIES", 15),
    figures("LONGEST", 9),
    figures("PANICS", 8),
    figures("CONFLICTS", 7),
    figures("PARKED", 6),
    figures("NO-OPS", 5),
    figures("ELIDED", 4),
    words("RESOURCE", 12),
];

const KEYS: [Column; 5] = [
    words("KEY", 9),
    words("WAITS FOR", 8),
    figures("TIME", 7),
    words("PRIORITY", 5),
    figures("FAILURES", 6),
];

/// The page.
pub(super) fn page(reply: &Queues, controller: Option<&str>, look: Look) -> Page {
    let paint = look.paint;
    let mut page = Page::default();
    let queues = reply.queues.iter();
    let queues = queues.filter(|queue| controller.is_none_or(|name| queue.controller == name));
    let queues: Vec<Item> = queues.map(|of| queue(of, look)).collect();
    let is_known = !queues.is_empty();
    page.add(table(&QUEUES, queues, look.width, paint));
    let Some(controller) = controller else {
        let note = match is_known {
            true => "Enter shows the keys of a controller, and why they are reconciled.",
            false => "no controllers are shown here",
        };
        page.blank();
        page.head(note, paint.faint());
        return page;
    };
    if !is_known {
        page.head("the program has no controller of this name", paint.bad());
    }
    page.blank();
    page.head(&format!("keys of {controller} that wait"), paint.head());
    let keys = reply.keys.iter().map(|of| waiting(of, controller, look));
    page.add(table(&KEYS, keys.collect(), look.width, paint));
    page.hidden(reply.hidden, "keys", paint.faint());
    page.blank();
    page.head("last reconciles, the newest first", paint.head());
    page.add(runs::rows(&reply.runs, look));
    page
}

fn queue(of: &QueueRow, look: Look) -> Item {
    let paint = look.paint;
    let lanes = match of.depth_high + of.depth_low {
        0 => number(of.depth),
        _ => format!(
            "{} ({}↑ {}↓)",
            number(of.depth),
            of.depth_high,
            of.depth_low
        ),
    };
    let cells = vec![
        Cell::from(&of.controller),
        lanes.into(),
        ms(of.oldest_ms).into(),
        number(of.delayed).into(),
        format!("{}/{}", number(of.in_work), number(of.workers)).into(),
        latency(&of.waited).into(),
        rate(&of.runs).into(),
        latency(&of.took).into(),
        Cell::styled(&number(of.failures.total), paint.count(of.failures.total)),
        number(of.retries.total).into(),
        ms(Some(of.longest_running_ms)).into(),
        Cell::styled(&number(of.panics), paint.count(of.panics)),
        number(of.conflicts).into(),
        number(of.parked).into(),
        number(of.noop_writes).into(),
        number(of.elided).into(),
        Cell::from(of.resource.as_deref().unwrap_or_default()),
    ];
    Item {
        cells,
        target: Some(Place::queues(Some(&of.controller))),
        more: in_work(&of.running, look),
    }
}

/// The keys that workers have.
fn in_work(running: &[InWork], look: Look) -> Vec<Row> {
    if running.is_empty() {
        return Vec::new();
    }
    let key_of = |of: &InWork| {
        format!(
            "{} for {}",
            key(of.namespace.as_deref(), &of.name),
            ms(Some(of.since_ms))
        )
    };
    let text: Vec<String> = running.iter().map(key_of).collect();
    let text = format!("in work: {}", text.join(", "));
    let lines = wrapped(&text, look.width.saturating_sub(2), 2);
    let row = |line: String| {
        let span = Span::styled(format!("  {line}"), look.paint.faint());
        Row::new(Kind::More, vec![span], None)
    };
    lines.into_iter().map(row).collect()
}

fn waiting(of: &KeyRow, controller: &str, look: Look) -> Item {
    let key = key(of.namespace.as_deref(), &of.name);
    Item {
        cells: vec![
            Cell::from(&key),
            Cell::from(&of.waits_for),
            ms(Some(of.ms)).into(),
            Cell::from(&of.priority),
            Cell::styled(&number(of.failures), look.paint.count(of.failures)),
        ],
        target: Some(Place::Queues {
            controller: Some(controller.to_owned()),
            q: key,
        }),
        more: causes::rows(&of.causes, look),
    }
}
