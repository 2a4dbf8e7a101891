//! *Memory*: bytes by cache, and of one cache by field and namespace.
//!
//! ```text
//! Memory ─▶ a row a cache; of the chosen one what projections would save, and its namespaces
//! ```
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{CacheMemory, FieldRow, Memory, NamespaceMemory};

use super::Look;
use crate::top::columns::{Cell, Column, Item, figures, table, words};
use crate::top::numbers::{bar, bytes, number};
use crate::top::page::Page;
use crate::top::place::Place;

const CACHES: [Column; 6] = [
    words("CACHE", 9),
    figures("OBJECTS", 8),
    figures("MEMORY", 8),
    figures("AN OBJECT", 5),
    figures("MANAGED FIELDS NOT KEPT", 4),
    words("SHARE", 3),
];
const FIELDS: [Column; 4] = [
    words("FIELD", 9),
    figures("SHARE", 8),
    words("", 3),
    figures("A PROJECTION SAVES", 7),
];
const NAMESPACES: [Column; 3] = [
    words("NAMESPACE", 9),
    figures("OBJECTS", 8),
    figures("MEMORY", 8),
];

/// The page.
pub(super) fn page(reply: &Memory, look: Look) -> Page {
    let paint = look.paint;
    let mut page = Page::default();
    page.head(
        "by cache: the stores, without decoded values",
        paint.faint(),
    );
    let most = reply.caches.iter().map(|of| of.bytes).max().unwrap_or(0);
    let caches = reply.caches.iter().map(|of| cache(of, most)).collect();
    page.add(table(&CACHES, caches, look.width, paint));
    page.hidden(reply.hidden, "caches", paint.faint());
    page.blank();
    let Some(fields) = &reply.fields else {
        let note =
            "Enter shows the fields and namespaces of a cache, if you may list all of its objects.";
        page.head(note, paint.faint());
        return page;
    };
    let sampled = number(fields.sampled);
    let title = format!(
        "{} by field, in a sample of {sampled} objects",
        fields.cache
    );
    page.head(&title, paint.head());
    let items = fields.fields.iter().map(field).collect();
    page.add(table(&FIELDS, items, look.width, paint));
    let of = reply.caches.iter().find(|of| of.cache == fields.cache);
    if let Some(of) = of {
        page.blank();
        page.head(&format!("{} by namespace", of.cache), paint.head());
        let items = of.namespaces.iter().map(namespace).collect();
        page.add(table(&NAMESPACES, items, look.width, paint));
        if of.hidden_bytes > 0 {
            let note = format!(
                "{} in namespaces that are not shown",
                bytes(of.hidden_bytes)
            );
            page.head(&note, paint.faint());
        }
    }
    page
}

fn cache(of: &CacheMemory, most: u64) -> Item {
    let each = of.bytes.checked_div(of.objects).unwrap_or(0);
    Item {
        cells: vec![
            Cell::from(&of.cache),
            number(of.objects).into(),
            bytes(of.bytes).into(),
            bytes(each).into(),
            bytes(of.managed_fields_bytes).into(),
            bar(of.bytes as f64 / most.max(1) as f64).into(),
        ],
        target: Some(Place::Memory {
            cache: Some(of.cache.clone()),
        }),
        more: Vec::new(),
    }
}

fn field(of: &FieldRow) -> Item {
    Item {
        cells: vec![
            Cell::from(&of.path),
            format!("{:.1} %", 100.0 * of.share).into(),
            bar(of.share).into(),
            bytes(of.saves_bytes).into(),
        ],
        target: None,
        more: Vec::new(),
    }
}

fn namespace(of: &NamespaceMemory) -> Item {
    Item {
        cells: vec![
            Cell::from(of.namespace.as_deref().unwrap_or("(cluster)")),
            number(of.objects).into(),
            bytes(of.bytes).into(),
        ],
        target: None,
        more: Vec::new(),
    }
}
