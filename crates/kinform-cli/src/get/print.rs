//! Objects as text: a table, names, JSON, YAML, a template or columns of the user's own.
//!
//! ```text
//! [Group { type, objects }] ──▶ Out
//! ```

use jiff::Timestamp;
use kinform_api::Scope;
use kinform_apiserver::write_yaml;
use serde_json::{Value, json};

use super::object::Shown;
use crate::args::reading::GetOutput;
use crate::catalogue::ResourceEntry;
use crate::exit::Failure;
use crate::output::table::{Table, age};
use crate::terminal::{Out, escaped_json, visible};

/// The objects of one type.
pub(crate) struct Group {
    pub(crate) entry: ResourceEntry,
    pub(crate) objects: Vec<Shown>,
}

/// The form of several objects as one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// The one object that was asked for by its name.
    Object,
    /// A List.
    List,
}

/// Prints all groups.
///
/// # Errors
/// Stdout is closed, or a path of the output leads out of a list.
pub(crate) fn print(
    output: Option<&GetOutput>,
    groups: &[Group],
    root: Root,
    out: &mut Out,
) -> Result<(), Failure> {
    let wrong = |error: kinform_api::JsonPathError| Failure::new(error.to_string());
    match output {
        Some(GetOutput::Json) => {
            let text = serde_json::to_string_pretty(&whole(groups, root)?)
                .map_err(|error| Failure::new(error.to_string()))?;
            out.text(&escaped_json(&text))?;
            out.text("\n")?;
        }
        Some(GetOutput::Yaml) => out.text(&write_yaml(&whole(groups, root)?))?,
        Some(GetOutput::JsonPath(template)) => {
            out.text(&template.print(&whole(groups, root)?).map_err(wrong)?)?;
        }
        Some(GetOutput::CustomColumns(columns)) => {
            let objects = groups.iter().flat_map(|group| &group.objects);
            let objects = objects
                .map(|object| object.json())
                .collect::<Result<Vec<_>, _>>()?;
            let objects = objects.iter().map(AsRef::as_ref);
            out.text(&columns.print(objects).map_err(wrong)?)?;
        }
        Some(GetOutput::Name) => {
            for group in groups {
                names(group, out)?;
            }
        }
        Some(GetOutput::Wide) => tables(groups, Columns::All, out)?,
        None => tables(groups, Columns::Few, out)?,
    }
    out.flush()?;
    Ok(())
}

/// The one object, or a List of them all.
fn whole(groups: &[Group], root: Root) -> Result<Value, Failure> {
    let objects = groups.iter().flat_map(|group| &group.objects);
    let items = objects.map(|object| object.json().map(std::borrow::Cow::into_owned));
    let mut items = items.collect::<Result<Vec<_>, _>>()?;
    match (root, items.len()) {
        (Root::Object, 1) => Ok(items.remove(0)),
        _ => Ok(
            json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}),
        ),
    }
}

pub(crate) fn singular(entry: &ResourceEntry) -> String {
    if entry.gvr.group.is_empty() {
        entry.singular.clone()
    } else {
        format!("{}.{}", entry.singular, entry.gvr.group)
    }
}

fn names(group: &Group, out: &mut Out) -> Result<(), Failure> {
    let kind = singular(&group.entry);
    for object in &group.objects {
        let line = format!("{kind}/{}", object.name());
        out.text(&visible(&line))?;
        out.text("\n")?;
    }
    Ok(())
}

/// The set of columns in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Columns {
    Few,
    All,
}

/// A table for each type; of several, names are after their types.
fn tables(groups: &[Group], columns: Columns, out: &mut Out) -> Result<(), Failure> {
    let filled = || groups.iter().filter(|group| !group.objects.is_empty());
    let prefixes = filled().count() > 1;
    for (place, group) in filled().enumerate() {
        if place > 0 {
            out.text("\n")?;
        }
        let prefix = match prefixes {
            true => format!("{}/", singular(&group.entry)),
            false => String::new(),
        };
        out.text(&table(group, columns, &prefix))?;
    }
    Ok(())
}

fn table(group: &Group, columns: Columns, prefix: &str) -> String {
    let now = Timestamp::now();
    let mut header = vec!["NAMESPACE", "NAME", "AGE"];
    if group.entry.scope == Scope::Cluster {
        header.remove(0);
    }
    if columns == Columns::All {
        header.extend(["VERSION", "UID", "LABELS"]);
    }
    let mut table = Table::new(&header);
    for object in &group.objects {
        let mut row = Vec::with_capacity(header.len());
        if group.entry.scope == Scope::Namespaced {
            row.push(object.namespace().to_owned());
        }
        row.push(format!("{prefix}{}", object.name()));
        let since = object.created().and_then(|at| at.parse::<Timestamp>().ok());
        row.push(since.map_or_else(
            || "<unknown>".to_owned(),
            |at| age(now.as_second() - at.as_second()),
        ));
        if columns == Columns::All {
            let labels = object.labels();
            row.push(object.version().to_owned());
            row.push(object.uid().to_owned());
            row.push(match labels.is_empty() {
                true => "<none>".to_owned(),
                false => labels.join(","),
            });
        }
        table.push(row);
    }
    table.render()
}
