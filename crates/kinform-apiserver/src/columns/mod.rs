//! Tables: the columns of a kind, and the cells of an object.
//!
//! ```text
//! columns.txt | a definition's printer columns -> [Column];  object + now -> cells
//! ```
//!
//! The columns of built-in kinds are data (`columns.txt`, as a real server describes them). A cell
//! that is not the value at a path is a function of `printers.rs`, `pods.rs` or `cluster.rs`. Kinds
//! without columns of their own have a name and an age, or the time of creation. Custom resources
//! have their printer columns (`custom.rs`).
//!
//! Upstream: `kubernetes/kubernetes:pkg/printers/internalversion/printers.go`,
//! `apiextensions-apiserver:pkg/registry/customresource/tableconvertor`.

mod cluster;
pub(crate) mod custom;
mod pods;
mod printers;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use kinform_api::JsonPath;
use serde_json::{Value, json};

use self::printers::Printer;
use crate::storage::shelf_name;

static DATA: &str = include_str!("columns.txt");

/// The columns of a kind.
pub(crate) type Columns = Arc<[Column]>;

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    kind: String,
    format: String,
    priority: i64,
    description: String,
    cell: Cell,
}

/// The source of a cell.
#[derive(Clone, Debug)]
enum Cell {
    /// The value at a path, or a default.
    Value(&'static str, Value),
    /// The value at a path as text, or a default.
    Text(&'static str, &'static str),
    /// `True`, `False` or `<unset>`.
    Flag(&'static str),
    /// The number of members or items at some paths.
    Count(&'static str),
    /// The time since the timestamp at a path, or a default.
    Age(&'static str, Value),
    /// The values at a path, in which `*` is every item, joined.
    Join(&'static str, &'static str),
    /// A label selector in short form.
    Selector(&'static str),
    /// Labels in short form.
    Labels(&'static str),
    Function(Printer, &'static str),
    /// A printer column of a definition; `None` if its path is not supported.
    Custom(Option<JsonPath>),
}

/// Returns the conditions of a row. Only a finished pod has any.
pub(crate) fn conditions(kind: &str, object: &Value) -> Option<Value> {
    let (reason, message) = match (kind, text(object, "status.phase")) {
        ("Pod", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("Pod", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// The columns of a built-in resource.
pub(crate) fn builtin_columns(group: &str, plural: &str) -> Columns {
    static TABLES: OnceLock<HashMap<&'static str, Columns>> = OnceLock::new();
    let tables = TABLES.get_or_init(read);
    let named = |name: &str| tables.get(name).cloned();
    let name = shelf_name(group, plural);
    named(&name)
        // A kind without a printer upstream shows the time of its creation.
        .or_else(|| named("limitranges"))
        .unwrap_or_default()
}

/// Parses the data. The tests find lines that do not parse.
fn read() -> HashMap<&'static str, Columns> {
    let (mut tables, mut aliases) = (HashMap::new(), HashMap::new());
    let (mut resource, mut columns) = ("", Vec::new());
    for line in DATA.lines().chain(["R "]) {
        if let Some(next) = line.strip_prefix("R ") {
            tables.insert(resource, Columns::from(std::mem::take(&mut columns)));
            resource = next;
        } else if let Some((name, text)) = line.strip_prefix('@').and_then(|it| it.split_once(' '))
        {
            aliases.insert(name, text);
        } else if !line.starts_with('#') {
            columns.extend(column(line, &aliases));
        }
    }
    tables
}

fn column(line: &'static str, aliases: &HashMap<&str, &'static str>) -> Option<Column> {
    let mut parts = line.split('\t');
    let mut part = || parts.next();
    let (name, kind, format, priority, cell, text) =
        (part()?, part()?, part()?, part()?, part()?, part()?);
    let alias = text.strip_prefix('@').and_then(|name| aliases.get(name));
    Some(Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.trim_matches('-').to_owned(),
        priority: priority.parse().ok()?,
        description: alias.unwrap_or(&text).replace('~', "\n"),
        cell: read_cell(cell)?,
    })
}

fn read_cell(text: &'static str) -> Option<Cell> {
    let (what, rest) = text.split_once(' ')?;
    let (path, default) = rest.split_once(' ').unwrap_or((rest, ""));
    let value = || serde_json::from_str(default).ok();
    Some(match what {
        "val" => Cell::Value(path, value()?),
        "text" => Cell::Text(path, default),
        "flag" => Cell::Flag(path),
        "count" => Cell::Count(rest),
        "age" => Cell::Age(path, value()?),
        "join" => Cell::Join(path, default),
        "sel" => Cell::Selector(path),
        "labels" => Cell::Labels(path),
        "fn" => Cell::Function(printers::find(path)?, default),
        _ => return None,
    })
}

impl Column {
    /// Returns the column's definition in a table. A few cells belong to no column.
    pub(crate) fn definition(&self) -> Option<Value> {
        (!self.name.is_empty()).then(|| {
            json!({"name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority})
        })
    }

    /// The cell of an object.
    pub(crate) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Value(path, default) => {
                let found = at(object, path).filter(|found| !is_empty(found));
                found.unwrap_or(default).clone()
            }
            Cell::Text(path, default) => Value::from(text_or(object, path, default)),
            Cell::Flag(path) => Value::from(match at(object, path).and_then(Value::as_bool) {
                Some(true) => "True",
                Some(false) => "False",
                None => "<unset>",
            }),
            Cell::Count(paths) => {
                let size = |path| at(object, path).map_or(0, size);
                Value::from(paths.split(' ').map(size).sum::<usize>())
            }
            Cell::Age(path, default) => match at(object, path).and_then(Value::as_str) {
                Some(time) => Value::from(age(time, now)),
                None => default.clone(),
            },
            Cell::Join(path, default) => {
                let mut found = Vec::new();
                collect(object, path, &mut found);
                let joined = found.join(",");
                Value::from(if joined.is_empty() { default } else { &*joined })
            }
            Cell::Selector(path) => Value::from(selector(at(object, path))),
            Cell::Labels(path) => Value::from(labels(at(object, path))),
            Cell::Function(printer, argument) => printer(object, argument, now),
            Cell::Custom(path) => custom::cell(&self.kind, path.as_ref(), object, now),
        }
    }
}

/// Returns the value at a path whose members are joined by dots, or `None` if it is null.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let found = path
        .split('.')
        .try_fold(object, |value, name| value.get(name));
    found.filter(|value| !value.is_null())
}

/// The text at a path; empty when absent.
fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

fn text_or(object: &Value, path: &str, default: &str) -> String {
    match at(object, path) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => default.to_owned(),
    }
}

/// The items of the list at a path.
fn items<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    at(object, path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::String(text) if text.is_empty())
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// The texts at a path, where `*` is every item of a list.
fn collect(value: &Value, path: &str, found: &mut Vec<String>) {
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let next: Vec<&Value> = match (name, value) {
        ("*", Value::Array(items)) => items.iter().collect(),
        (name, value) => value.get(name).into_iter().collect(),
    };
    for value in next {
        match (rest, value) {
            (Some(rest), value) => collect(value, rest, found),
            (None, Value::String(text)) => found.push(text.clone()),
            (None, value) => found.push(value.to_string()),
        }
    }
}

fn labels(map: Option<&Value>) -> String {
    let members = map.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> = members
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    or_none(pairs.join(","))
}

/// Formats a selector as in a query, sorted by its keys.
fn selector(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "<none>".to_owned();
    };
    let labels = at(value, "matchLabels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten().map(|(name, value)| {
        let term = format!("{name}={}", value.as_str().unwrap_or_default());
        (name.as_str(), term)
    });
    let expressions = items(value, "matchExpressions").map(|term| {
        let (key, mut values) = (text(term, "key"), Vec::new());
        collect(term, "values.*", &mut values);
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(term, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, shown)
    });
    let mut terms: Vec<(&str, String)> = labels.chain(expressions).collect();
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    or_none(terms.join(","))
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        return "<none>".to_owned();
    }
    text
}

/// Returns the time since a timestamp in human-readable form.
fn age(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Upstream: `apimachinery:pkg/util/duration`, `HumanDuration`.
fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match (seconds, minutes, hours) {
        (..-1, ..) => "<invalid>".to_owned(),
        (-1, ..) => "0s".to_owned(),
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, _) => two(minutes, 'm', seconds % 60, 's'),
        (_, ..180, _) => format!("{minutes}m"),
        (_, _, ..8) => two(hours, 'h', minutes % 60, 'm'),
        (_, _, ..48) => format!("{hours}h"),
        (_, _, ..192) => two(hours / 24, 'd', hours % 24, 'h'),
        (_, _, ..17_520) => format!("{}d", hours / 24),
        (_, _, ..70_080) => two(hours / 8760, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 8760),
    }
}

/// The status of a condition.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let mut conditions = items(object, "status.conditions");
    conditions
        .find(|it| text(it, "type") == kind)
        .map(|it| text(it, "status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_the_data_is_read() {
        let tables = read();
        let written = DATA.lines().filter(|line| line.contains('\t')).count();
        let read: usize = tables.values().map(|columns| columns.len()).sum();
        assert_eq!(read, written);
        assert_eq!(
            tables.len(),
            DATA.lines().filter(|it| it.starts_with("R ")).count() + 1
        );
    }

    // apimachinery: util/duration, TestHumanDuration
    #[test]
    fn ages_are_told_as_people_tell_them() {
        let day = 24 * 3600;
        for (seconds, told) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (123, "2m3s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (2 * day, "2d"),
            (2 * day + 3600, "2d1h"),
            (8 * day, "8d"),
            (729 * day, "729d"),
            (2 * 365 * day, "2y"),
            (2 * 365 * day + day, "2y1d"),
            (8 * 365 * day + day, "8y"),
        ] {
            assert_eq!(human(seconds), told, "{seconds}");
        }
    }
}
