//! One row an object, and what changed in it last.
//!
//! ```text
//! Change, now ──▶ Rows { cells, marks } ──▶ a screen's lines │ a table at the end
//! ```
//!
//! Pure: time comes in. A row that is gone stays for a moment, marked as gone.
//!
//! BOUND: 100,000 rows; further objects are counted, not shown.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use crate::catalogue::ResourceEntry;
use crate::one::text;
use crate::output::change::{Change, EventWords, word};
use crate::output::diff::Differ;
use crate::output::line::Event;
use crate::output::table::{Table, age};
use crate::terminal::visible;
use crate::tree::readiness::Readiness;

const MAX_ROWS: usize = 100_000;
/// The time for which a change is marked.
const MARKED: Duration = Duration::from_secs(3);
/// The time for which a row stays that is gone.
const GONE: Duration = Duration::from_secs(5);

/// The place of a type, namespace, name.
type Key = (usize, String, String);

/// An object.
#[derive(Debug)]
pub(super) struct Row {
    title: String,
    created: String,
    readiness: Readiness,
    /// The last change in words; empty for an object of the first list.
    change: String,
    changed: Option<Instant>,
    /// The status before the last change differed.
    is_status_new: bool,
    is_gone: bool,
}

/// The way that a row is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Plain,
    New,
    Changed,
    Gone,
}

/// All rows, in the order of their types and keys.
#[derive(Debug)]
pub(super) struct Rows {
    rows: BTreeMap<Key, Row>,
    differ: Differ,
    words: EventWords,
    /// Objects that have no row.
    hidden: usize,
}

impl Rows {
    pub(super) fn new(words: EventWords) -> Self {
        Self {
            rows: BTreeMap::new(),
            differ: Differ::default(),
            words,
            hidden: 0,
        }
    }

    /// Takes a change.
    pub(super) fn hear(
        &mut self,
        place: usize,
        entry: &ResourceEntry,
        change: &Change<'_>,
        now: Instant,
    ) {
        // Stored objects were validated when they came; only a number out of range could fail here.
        let read = |json: Vec<u8>| serde_json::from_slice::<Value>(&json).unwrap_or_default();
        let after = read(change.object.to_json());
        let before = change.old.map(|old| read(old.to_json()));
        self.put(
            place,
            entry,
            &after,
            before.as_ref(),
            (change.event, change.initial),
            now,
        );
    }

    fn put(
        &mut self,
        place: usize,
        entry: &ResourceEntry,
        after: &Value,
        before: Option<&Value>,
        (event, initial): (Event, Option<bool>),
        now: Instant,
    ) {
        let key = (
            place,
            text(after, "/metadata/namespace").to_owned(),
            text(after, "/metadata/name").to_owned(),
        );
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&key) {
            self.hidden += usize::from(event == Event::Add);
            return;
        }
        let readiness = Readiness::of(&entry.kind, after);
        let said = word(event, self.words);
        let change = match (event, before) {
            _ if initial == Some(true) => String::new(),
            (Event::Update, Some(before)) => {
                let fields = self.differ.fields(&entry.kind, before, after);
                let more = match fields.len() {
                    0 | 1 => String::new(),
                    several => format!(" +{}", several - 1),
                };
                let first = fields.into_iter().next();
                let first = first.map(|field| {
                    let side = |side: Option<String>| side.unwrap_or_else(|| "(absent)".to_owned());
                    format!(
                        " {} {} → {}",
                        field.path,
                        side(field.before),
                        side(field.after)
                    )
                });
                format!("{said}{}{more}", first.unwrap_or_default())
            }
            _ => said.to_owned(),
        };
        let earlier = self.rows.get(&key).map(|row| &row.readiness);
        let row = Row {
            title: entry.title(),
            created: text(after, "/metadata/creationTimestamp").to_owned(),
            is_status_new: event == Event::Update
                && earlier.is_some_and(|earlier| *earlier != readiness),
            readiness,
            changed: (!change.is_empty()).then_some(now),
            change,
            is_gone: event == Event::Delete,
        };
        self.rows.insert(key, row);
    }

    /// Removes rows that have been gone for a while.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |row: &Row| row.is_gone && row.changed.is_none_or(|at| now - at > GONE);
        self.rows.retain(|_, row| !is_over(row));
    }

    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.rows.values().filter(|row| !row.is_gone).count() + self.hidden
    }

    /// The header, without the types if there is one only.
    pub(super) fn header(types: usize) -> Vec<&'static str> {
        let mut header = vec![
            "TYPE",
            "NAMESPACE",
            "NAME",
            "READY",
            "STATUS",
            "AGE",
            "CHANGE",
        ];
        if types < 2 {
            header.remove(0);
        }
        header
    }

    /// The cells of some rows, and their marks.
    pub(super) fn page(
        &self,
        types: usize,
        from: usize,
        count: usize,
        now: Instant,
    ) -> Vec<(Vec<String>, Mark)> {
        let rows = self.rows.iter().skip(from).take(count);
        rows.map(|(key, row)| (row.cells(key, types), row.mark(now)))
            .collect()
    }

    /// The number of rows, with those that are gone.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// All objects as a table.
    pub(super) fn table(&self, types: usize) -> String {
        let mut table = Table::new(&Self::header(types));
        let there = self.rows.iter().filter(|(_, row)| !row.is_gone);
        for (key, row) in there {
            table.push(row.cells(key, types));
        }
        table.render()
    }
}

impl Row {
    fn cells(&self, (_, namespace, name): &Key, types: usize) -> Vec<String> {
        let since = self.created.parse::<Timestamp>().ok();
        let now = Timestamp::now().as_second();
        let mut cells = vec![
            self.title.clone(),
            namespace.clone(),
            name.clone(),
            self.readiness.word().to_owned(),
            self.readiness.status.clone(),
            since.map_or_else(String::new, |at| age(now - at.as_second())),
            self.change.clone(),
        ];
        if types < 2 {
            cells.remove(0);
        }
        cells
            .iter()
            .map(|cell| visible(cell).into_owned())
            .collect()
    }

    fn mark(&self, now: Instant) -> Mark {
        match self.changed {
            _ if self.is_gone => Mark::Gone,
            Some(at) if now - at < MARKED => match self.is_status_new {
                true => Mark::Changed,
                false => Mark::New,
            },
            _ => Mark::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use kinform_api::{GroupVersionResource, Scope};
    use serde_json::json;

    use super::*;

    fn entry() -> ResourceEntry {
        ResourceEntry {
            gvr: GroupVersionResource::new("", "v1", "pods"),
            kind: "Pod".to_owned(),
            singular: "pod".to_owned(),
            short_names: Vec::new(),
            scope: Scope::Namespaced,
            verbs: Vec::new(),
        }
    }

    fn pod(name: &str, phase: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "a"}, "status": {"phase": phase}})
    }

    #[track_caller]
    fn check(rows: &Rows, at: Instant, expected: &[(&str, &str, &str, Mark)]) {
        let page = rows.page(1, 0, 10, at);
        let shown: Vec<_> = page
            .iter()
            .map(|(cells, mark)| (&*cells[1], &*cells[3], &*cells[5], *mark))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_row_marks_what_changed_for_a_moment() {
        let (start, mut rows) = (Instant::now(), Rows::new(EventWords::Handler));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        rows.put(
            0,
            &entry(),
            &pod("b", "Pending"),
            None,
            (Event::Add, Some(true)),
            at(0),
        );
        rows.put(
            0,
            &entry(),
            &pod("a", "Pending"),
            None,
            (Event::Add, Some(false)),
            at(0),
        );
        check(
            &rows,
            at(1),
            &[
                ("a", "Pending", "ADD", Mark::New),
                ("b", "Pending", "", Mark::Plain),
            ],
        );
        let (before, after) = (pod("b", "Pending"), pod("b", "Running"));
        rows.put(
            0,
            &entry(),
            &after,
            Some(&before),
            (Event::Update, None),
            at(4),
        );
        let change = "UPDATE status.phase Pending → Running";
        check(
            &rows,
            at(5),
            &[
                ("a", "Pending", "ADD", Mark::Plain),
                ("b", "Running", change, Mark::Changed),
            ],
        );
        rows.put(
            0,
            &entry(),
            &pod("a", "Pending"),
            None,
            (Event::Delete, None),
            at(8),
        );
        rows.expire(at(9));
        check(
            &rows,
            at(9),
            &[
                ("a", "Pending", "DELETE", Mark::Gone),
                ("b", "Running", change, Mark::Plain),
            ],
        );
        assert_eq!((rows.len(), rows.count()), (1, 2));
        rows.expire(at(20));
        check(&rows, at(20), &[("b", "Running", change, Mark::Plain)]);
        assert!(
            rows.table(1)
                .starts_with("NAMESPACE   NAME   READY   STATUS    AGE   CHANGE\na           b ")
        );
    }

    #[test]
    fn letters_that_control_a_terminal_are_not_shown() {
        let (now, mut rows) = (Instant::now(), Rows::new(EventWords::Server));
        rows.put(
            0,
            &entry(),
            &pod("b\u{1b}[2J", "x\u{9b}"),
            None,
            (Event::Add, Some(false)),
            now,
        );
        check(
            &rows,
            now,
            &[("b\u{fffd}[2J", "x\u{fffd}", "ADDED", Mark::New)],
        );
    }
}
