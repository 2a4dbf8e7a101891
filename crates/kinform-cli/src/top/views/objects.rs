//! *Objects*: what a search found.
//!
//! ```text
//! Objects ─▶ a row an object
//! ```
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{ObjectRow, Objects};

use super::Look;
use crate::top::columns::{Cell, Column, Item, table, words};
use crate::top::numbers::number;
use crate::top::page::Page;
use crate::top::place::{Place, key};

const OBJECTS: [Column; 3] = [words("OBJECT", 9), words("RESOURCE", 5), words("CACHE", 7)];

/// The page.
pub(super) fn page(reply: &Objects, look: Look) -> Page {
    let mut page = Page::default();
    let (found, searched) = (number(reply.found), number(reply.searched));
    let first = match reply.found > reply.objects.len() as u64 {
        true => format!(", the first {}", reply.objects.len()),
        false => String::new(),
    };
    let note = format!(
        "{found} of {searched} objects{first}; / finds a part of the name, or of namespace/name"
    );
    page.head(&note, look.paint.faint());
    let item = |of: &ObjectRow| Item {
        cells: vec![
            key(of.namespace.as_deref(), &of.name).into(),
            Cell::from(&of.resource),
            Cell::from(&of.cache),
        ],
        target: Some(Place::object(&of.cache, of.namespace.as_deref(), &of.name)),
        more: Vec::new(),
    };
    let items = reply.objects.iter().map(item).collect();
    page.add(table(&OBJECTS, items, look.width, look.paint));
    page
}
