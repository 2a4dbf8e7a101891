//! *Caches*: a row an informer, and a row a handler.
//!
//! ```text
//! Caches ─▶ state, objects, bytes, ages, relists with their reasons; handlers and their lag
//! ```
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{CacheRow, Caches, HandlerRow};

use super::Look;
use crate::top::columns::{Cell, Column, Item, figures, table, words, wrapped};
use crate::top::numbers::{bytes, latency, ms, number};
use crate::top::page::{Kind, Page, Row};
use crate::top::place::Place;

const CACHES: [Column; 15] = [
    words("CACHE", 20),
    words("STATE", 19),
    figures("OBJECTS", 18),
    figures("MEMORY", 17),
    figures("WATCH", 15),
    figures("RELISTS", 16),
    figures("EVENTS", 9),
    figures("REOPENED", 8),
    figures("RETRIES", 10),
    figures("QUARANTINED", 12),
    words("VERSION", 14),
    words("API", 7),
    figures("BOOKMARKS", 5),
    figures("SILENT", 6),
    words("NARROWED TO", 4),
];

const HANDLERS: [Column; 7] = [
    words("HANDLER", 20),
    words("CACHE", 19),
    figures("LAG", 18),
    figures("HEARD", 16),
    words("HANDLED", 17),
    figures("BEHIND", 15),
    figures("PANICS", 14),
];

/// The page.
pub(super) fn page(reply: &Caches, look: Look) -> Page {
    let mut page = Page::default();
    let caches = reply.caches.iter().map(|of| cache(of, look)).collect();
    page.add(table(&CACHES, caches, look.width, look.paint));
    page.hidden(reply.hidden, "caches", look.paint.faint());
    page.blank();
    let handlers = reply
        .caches
        .iter()
        .flat_map(|cache| cache.handlers.iter().map(|of| handler(cache, of, look)));
    page.add(table(&HANDLERS, handlers.collect(), look.width, look.paint));
    page
}

fn cache(of: &CacheRow, look: Look) -> Item {
    let paint = look.paint;
    let narrowed = [&of.namespace, &of.labels, &of.fields];
    let narrowed: Vec<&str> = narrowed.into_iter().flatten().map(String::as_str).collect();
    let cells = vec![
        Cell::from(&of.cache),
        Cell::styled(&of.state, paint.state(&of.state)),
        number(of.objects).into(),
        bytes(of.bytes).into(),
        ms(of.watch_age_ms).into(),
        number(of.relists).into(),
        number(of.events).into(),
        number(of.reopens).into(),
        number(of.retries).into(),
        Cell::styled(&number(of.quarantined), paint.count(of.quarantined)),
        Cell::from(&of.resource_version),
        Cell::from(&of.api_version),
        number(of.bookmarks).into(),
        number(of.silences).into(),
        narrowed.join(" ").into(),
    ];
    let mut notes = Vec::new();
    if let Some(trouble) = &of.trouble {
        notes.push(format!("last attempt: {trouble}"));
    }
    if !of.relist_reasons.is_empty() {
        let reasons = of.relist_reasons.iter();
        let reasons: Vec<String> = reasons
            .map(|(why, times)| format!("{why} {}", number(*times)))
            .collect();
        notes.push(format!("relisted: {}", reasons.join(", ")));
    }
    if of.quarantined > 0 {
        notes.push(format!("quarantined objects: {}", number(of.quarantined)));
    }
    let lines = match notes.is_empty() {
        true => Vec::new(),
        false => wrapped(&notes.join(" · "), look.width.saturating_sub(2), 2),
    };
    let more = lines.into_iter().map(|line| {
        let span = ratatui::text::Span::styled(format!("  {line}"), paint.faint());
        Row::new(Kind::More, vec![span], None)
    });
    Item {
        cells,
        target: Some(Place::objects(Some(&of.cache))),
        more: more.collect(),
    }
}

fn handler(cache: &CacheRow, of: &HandlerRow, look: Look) -> Item {
    Item {
        cells: vec![
            Cell::from(&of.name),
            Cell::from(&cache.cache),
            number(of.lag).into(),
            number(of.heard).into(),
            latency(&of.handled).into(),
            number(of.times_behind).into(),
            Cell::styled(&number(of.panics), look.paint.count(of.panics)),
        ],
        target: Some(Place::objects(Some(&cache.cache))),
        more: Vec::new(),
    }
}
