//! `kinform get`: objects out of a synced cache, by name, selector or index.
//!
//! ```text
//! flags → informer (+ index) → synced → table | names | JSON | YAML on stdout
//! ```
//!
//! It prints the objects that an informer with these flags would hold at this moment, and ends.

use std::io::Write as _;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use kinform::source::Wire;
use kinform::{Index, Informer, InformerFactory, Obj, ReportEvent};
use kinform_api::{FieldPath, Scope};
use kube_core::DynamicObject;
use serde_json::{Value, json};

use crate::args::{GetArgs, GetOutput};
use crate::catalogue::ResourceEntry;
use crate::connect::{Connection, split_name};
use crate::exit::{Ending, Failure};
use crate::output::change::left_out;
use crate::output::table::{Table, age};
use crate::signals::Signals;
use crate::sync::synced;
use crate::watch::failure;

/// Prints the objects.
pub(crate) async fn run(args: GetArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        printed = print(&args) => printed.map(|()| Ending::Done),
    }
}

async fn print(args: &GetArgs) -> Result<(), Failure> {
    let connection = Connection::open(&args.cluster).await?;
    let (kind, in_word) = split_name(&args.kind);
    let name = args.name.clone().or(in_word);
    let entry = connection.resolve(&[kind]).await?.remove(0);
    // All fields of the server are printed, also those that this version does not know.
    let factory = InformerFactory::builder(connection.client.clone())
        .wire(Wire::Json)
        .build();
    let info = connection.info(&entry, &args.select, name.as_deref());
    let informer = factory.select::<DynamicObject>(info).build();
    let lookup = args
        .by
        .as_deref()
        .map(|by| Lookup::new(&informer, by))
        .transpose()?;
    let mut reports = informer.reports();
    factory.start().map_err(failure)?;
    synced(&informer).await?;
    while let Some(Some(report)) = reports.next().now_or_never() {
        if let ReportEvent::Quarantined(object) = &report.event {
            crate::progress!("{}: {}", entry.title(), left_out(object));
        }
    }

    let mut objects: Vec<Obj<DynamicObject>> = match &lookup {
        Some(lookup) => lookup.objects(&informer),
        None => informer.list().to_objs(),
    };
    objects.sort_by_cached_key(|object| {
        (
            object.namespace().map(str::to_owned),
            object.name().to_owned(),
        )
    });
    let mut stdout = std::io::stdout().lock();
    match (&name, objects.as_slice()) {
        (Some(name), []) => {
            return Err(Failure::new(format!(
                "{} {name:?} not found",
                entry.title()
            )));
        }
        (None, []) => crate::progress!("no {} found", entry.title()),
        _ => {}
    }
    let text = match args.output {
        Some(GetOutput::Json) => pretty(&whole(&objects, name.is_some())?)?,
        Some(GetOutput::Yaml) => yaml(&whole(&objects, name.is_some())?)?,
        Some(GetOutput::Name) => names(&entry, &objects),
        Some(GetOutput::Wide) => table(&entry, &objects, Columns::All),
        None => table(&entry, &objects, Columns::Few),
    };
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    drop(stdout);
    factory.shutdown_within(Duration::from_secs(2)).await;
    Ok(())
}

/// `--by INDEX=VALUE`.
enum Lookup {
    Namespace(String),
    Index(kinform::IndexReader<DynamicObject>, String),
}

impl Lookup {
    fn new(informer: &Informer<DynamicObject>, by: &str) -> Result<Self, Failure> {
        let (index, value) = by.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--by {by:?}: INDEX=VALUE expected"))
                .with_hint("INDEX is namespace, label:KEY, owner, or a path as spec.nodeName")
        })?;
        let index = match index {
            "namespace" => return Ok(Self::Namespace(value.to_owned())),
            "owner" => Index::owner(),
            _ => match index.strip_prefix("label:") {
                Some(key) => Index::label(key),
                None => Index::path(index),
            },
        };
        let reader = informer
            .add_index(index)
            .map_err(|error| Failure::usage(format!("--by {by:?}: {error}")))?;
        Ok(Self::Index(reader, value.to_owned()))
    }

    fn objects(&self, informer: &Informer<DynamicObject>) -> Vec<Obj<DynamicObject>> {
        match self {
            Self::Namespace(namespace) => informer.snapshot().in_namespace(namespace).to_objs(),
            Self::Index(reader, value) => reader.get(value).to_objs(),
        }
    }
}

/// One object by itself, several as a List.
fn whole(objects: &[Obj<DynamicObject>], single: bool) -> Result<Value, Failure> {
    let read = |object: &Obj<DynamicObject>| {
        serde_json::from_slice::<Value>(&object.to_json())
            .map_err(|error| Failure::new(format!("{}: {error}", object.key())))
    };
    match objects {
        [object] if single => read(object),
        _ => {
            let items = objects.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            Ok(
                json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}),
            )
        }
    }
}

fn pretty(value: &Value) -> Result<String, Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Failure::new(error.to_string()))?;
    Ok(text + "\n")
}

fn yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|error| Failure::new(error.to_string()))
}

fn names(entry: &ResourceEntry, objects: &[Obj<DynamicObject>]) -> String {
    let kind = if entry.gvr.group.is_empty() {
        entry.singular.clone()
    } else {
        format!("{}.{}", entry.singular, entry.gvr.group)
    };
    objects
        .iter()
        .map(|object| format!("{kind}/{}\n", object.name()))
        .collect()
}

/// The set of columns in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Columns {
    Few,
    All,
}

fn table(entry: &ResourceEntry, objects: &[Obj<DynamicObject>], columns: Columns) -> String {
    if objects.is_empty() {
        return String::new();
    }
    let created: Option<FieldPath> = "metadata.creationTimestamp".parse().ok();
    let now = Timestamp::now();
    let mut header = vec!["NAMESPACE", "NAME", "AGE"];
    if entry.scope == Scope::Cluster {
        header.remove(0);
    }
    if columns == Columns::All {
        header.extend(["VERSION", "UID", "LABELS"]);
    }
    let mut table = Table::new(&header);
    for object in objects {
        let mut row = Vec::with_capacity(header.len());
        if entry.scope == Scope::Namespaced {
            row.push(object.namespace().unwrap_or_default().to_owned());
        }
        row.push(object.name().to_owned());
        let since = created.as_ref().and_then(|path| {
            object
                .at(path)
                .first()
                .and_then(|at| at.parse::<Timestamp>().ok())
        });
        row.push(since.map_or_else(
            || "<unknown>".to_owned(),
            |at| age(now.as_second() - at.as_second()),
        ));
        if columns == Columns::All {
            let labels: Vec<String> = object
                .labels()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            row.push(object.resource_version().to_owned());
            row.push(object.uid().to_owned());
            row.push(if labels.is_empty() {
                "<none>".to_owned()
            } else {
                labels.join(",")
            });
        }
        table.push(row);
    }
    table.render()
}
