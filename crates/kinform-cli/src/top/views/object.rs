//! *Object*: an object, its versions while it is watched, its owners, managers and reconciles.
//!
//! ```text
//! ObjectView ─▶ facts, owners, versions with their differences, keys that wait, runs, managers │ YAML
//! ```
//!
//! Upstream counterpart: none.

use kinform_apiserver::write_yaml;
use kinform_operator::inspect::{Manager, ObjectView, VersionRow};
use ratatui::style::Style;
use ratatui::text::Span;

use super::{Look, causes, runs};
use crate::top::columns::{Cell, Column, Item, table, words, wrapped};
use crate::top::numbers::{bytes, clock, ms, number};
use crate::top::page::{Kind, Page, Row};
use crate::top::place::Place;

/// BOUND: rows of one changed field, and of the fields of a manager.
const LINES: usize = 4;

const MANAGERS: [Column; 4] = [
    words("MANAGER", 9),
    words("OPERATION", 8),
    words("TIME", 6),
    words("SUBRESOURCE", 5),
];

/// The page.
pub(super) fn page(reply: &ObjectView, look: Look) -> Page {
    let paint = look.paint;
    let mut page = Page {
        is_text: true,
        ..Page::default()
    };
    let mut facts = vec![
        reply.resource.clone(),
        match reply.is_stored {
            true => "stored".to_owned(),
            false => "not stored: it was deleted".to_owned(),
        },
        bytes(reply.bytes),
    ];
    if reply.is_projected {
        facts.push("after a projection".to_owned());
    }
    page.head(&facts.join(" · "), Style::new());
    owners(&mut page, reply, look);
    page.blank();
    page.head(
        "versions since somebody looks, the newest first",
        paint.head(),
    );
    for of in &reply.versions {
        version(&mut page, of, look);
    }
    page.blank();
    page.head("reconciles of it, and those that it caused", paint.head());
    for of in &reply.waiting {
        let (word, time) = (&of.key.waits_for, ms(Some(of.key.ms)));
        let text = format!("{}: waits for {word} {time}", of.controller);
        let target = Place::queues(Some(&of.controller));
        page.add([Row::new(Kind::Item, vec![Span::raw(text)], Some(target))]);
        page.add(causes::rows(&of.key.causes, look));
    }
    page.add(runs::rows(&reply.runs, look));
    page.blank();
    managers(&mut page, reply.managers.as_deref(), look);
    page
}

fn owners(page: &mut Page, reply: &ObjectView, look: Look) {
    if reply.owners.is_empty() {
        page.head("no owners", look.paint.faint());
    }
    for of in &reply.owners {
        let controls = if of.controller { " (controller)" } else { "" };
        let text = format!("owner: {} {}{controls}", of.kind, of.name);
        let namespace = reply.namespace.as_deref().unwrap_or_default();
        let q = match namespace {
            "" => of.name.clone(),
            namespace => format!("{namespace}/{}", of.name),
        };
        let target = Place::Objects { cache: None, q };
        page.add([Row::new(Kind::Item, vec![Span::raw(text)], Some(target))]);
    }
}

fn version(page: &mut Page, of: &VersionRow, look: Look) {
    let word = match (&of.resource_version, of.changes.len()) {
        (None, _) => "deleted".to_owned(),
        (Some(_), 0) => "first seen, or no difference".to_owned(),
        (Some(_), 1) => "1 field differs".to_owned(),
        (Some(_), count) => format!("{} fields differ", number(count as u64)),
    };
    let version = of.resource_version.as_deref().unwrap_or("–");
    let text = format!("{}  {version}  {word}", clock(&of.seen));
    let span = Span::styled(text, look.paint.line());
    page.add([Row::new(Kind::Item, vec![span], None)]);
    for change in &of.changes {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
        let (before, after) = (side(&change.before), side(&change.after));
        let text = format!("{}: {before} → {after}", change.path);
        for line in wrapped(&text, look.width.saturating_sub(4), LINES) {
            page.more(format!("    {line}"), Style::new());
        }
    }
}

fn managers(page: &mut Page, known: Option<&[Manager]>, look: Look) {
    page.head("managers of fields", look.paint.head());
    let Some(known) = known else {
        page.head("m reads them from the API server", look.paint.faint());
        return;
    };
    if known.is_empty() {
        page.head("none, or they cannot be read", look.paint.faint());
        return;
    }
    let manager = |of: &Manager| {
        let fields = of.fields.join(", ");
        let lines = wrapped(&fields, look.width.saturating_sub(4), LINES);
        let row = |line: String| {
            let span = Span::styled(format!("    {line}"), look.paint.faint());
            Row::new(Kind::More, vec![span], None)
        };
        Item {
            cells: vec![
                Cell::from(&of.manager),
                Cell::from(&of.operation),
                Cell::from(of.time.as_deref().unwrap_or("–")),
                Cell::from(of.subresource.as_deref().unwrap_or_default()),
            ],
            target: None,
            more: lines.into_iter().map(row).collect(),
        }
    };
    let items = known.iter().map(manager).collect();
    page.add(table(&MANAGERS, items, look.width, look.paint));
}

/// The object as YAML.
pub(super) fn yaml(reply: &ObjectView, look: Look) -> Page {
    let mut page = Page {
        is_text: true,
        ..Page::default()
    };
    let Some(object) = &reply.object else {
        page.head("too large to be shown, or not known", look.paint.bad());
        return page;
    };
    if reply.is_projected {
        page.head("# after a projection", look.paint.faint());
    }
    let text = write_yaml(object);
    let row = |line: &str| Row::new(Kind::Item, vec![Span::raw(line.to_owned())], None);
    page.add(text.lines().map(row));
    page
}

/// The page of an object that is not there.
pub(super) fn missing() -> Page {
    let mut page = Page::default();
    let note = "the program does not have this object, or you may not list it";
    page.head(note, Style::new());
    page
}
