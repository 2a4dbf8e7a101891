//! `kinform tree`: the owners of an object and what it owns, with readiness.
//!
//! ```text
//! TYPE/NAME → the object; discovery → metadata of all types → owners (pure) → the objects shown → lines
//! ```
//!
//! All types are read, since any object may be owned by any other of its namespace, or of the
//! cluster. Only the objects that are shown are read whole.
//!
//! * `owners.rs`: the tree, pure; `readiness.rs`: a status in a few words, pure; `scan.rs`: lists.

pub(crate) mod owners;
pub(crate) mod readiness;
pub(crate) mod scan;

use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use kinform::source::fetch;
use kinform_api::Scope;
use serde::Serialize;
use serde_json::Value;

use self::owners::{Node, Owner, Row, rows};
use self::readiness::Readiness;
use self::scan::{Scan, is_of_interest, scan};
use crate::args::looking::{LineOutput, TreeArgs};
use crate::catalogue::ResourceEntry;
use crate::discovery::Discovery;
use crate::exit::{Ending, Failure};
use crate::one::{One, path, text};
use crate::output::table::{Table, age};
use crate::signals::Signals;
use crate::terminal::{Out, escaped_json};

/// BOUND: objects that are read whole for their readiness.
const MAX_READ: usize = 2_000;
/// BOUND: reads at a time, and bytes of one.
const AT_ONCE: usize = 16;
const MAX_OBJECT: usize = 64 << 20;
/// BOUND: owners above the namespace's objects that are looked up.
const MAX_ABOVE: usize = 32;

/// Prints the tree.
pub(crate) async fn run(args: TreeArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        printed = print(&args) => printed.map(|()| Ending::Done),
    }
}

async fn print(args: &TreeArgs) -> Result<(), Failure> {
    let one = One::find(&args.of).await?;
    let discovery = Discovery::new(&one.connection.client, &one.connection.address);
    let catalogue = discovery.everything().await?;
    let types: Vec<ResourceEntry> = catalogue
        .readable()
        .into_iter()
        .filter(|entry| is_of_interest(entry))
        .cloned()
        .collect();
    let namespace = one.namespace();
    let Scan {
        mut nodes,
        unlisted,
    } = scan(&one.connection.client, &types, namespace.as_deref()).await;
    if !unlisted.is_empty() {
        crate::progress!("not listed, so left out: {}", unlisted.join(", "));
    }
    if !nodes
        .iter()
        .any(|node| node.uid == text(&one.object, "/metadata/uid"))
    {
        // Only the object itself may be read.
        nodes.extend(target_node(&one, &types));
    }
    let forest = Forest {
        one: &one,
        types: &types,
    };
    forest.add_owners_above(&mut nodes).await;
    let rows = rows(&nodes, text(&one.object, "/metadata/uid"));
    if rows.is_empty() {
        return Err(one.gone());
    }
    let readiness = forest.readiness(&nodes, &rows).await;
    let mut out = Out::stdout();
    match args.output {
        LineOutput::Wide => out.text(&forest.table(&nodes, &rows, &readiness))?,
        LineOutput::Json => {
            for (row, readiness) in rows.iter().zip(&readiness) {
                let json = serde_json::to_string(&forest.line(&nodes[row.node], row, readiness));
                out.text(&(escaped_json(&json.map_err(std::io::Error::from)?) + "\n"))?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// The object asked for, out of its own metadata.
fn target_node(one: &One, types: &[ResourceEntry]) -> Option<Node> {
    let kind = types.iter().position(|entry| entry.gvr == one.entry.gvr)?;
    let references = one
        .object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let owner = |of: &Value| Owner {
        uid: text(of, "/uid").to_owned(),
        api_version: text(of, "/apiVersion").to_owned(),
        kind: text(of, "/kind").to_owned(),
        name: text(of, "/name").to_owned(),
    };
    Some(Node {
        uid: text(&one.object, "/metadata/uid").to_owned(),
        kind,
        namespace: text(&one.object, "/metadata/namespace").to_owned(),
        name: one.name.clone(),
        created: text(&one.object, "/metadata/creationTimestamp").to_owned(),
        owners: references.into_iter().flatten().map(owner).collect(),
    })
}

/// A line of `-o json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    depth: usize,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
    uid: &'a str,
    ready: Option<bool>,
    status: &'a str,
    is_target: bool,
}

struct Forest<'a> {
    one: &'a One,
    types: &'a [ResourceEntry],
}

impl Forest<'_> {
    /// Adds owners that are not in the namespace: objects of the cluster.
    async fn add_owners_above(&self, nodes: &mut Vec<Node>) {
        let mut next: Vec<String> = vec![text(&self.one.object, "/metadata/uid").to_owned()];
        let mut looked = std::collections::HashSet::new();
        while let Some(uid) = next.pop().filter(|_| looked.len() < MAX_ABOVE) {
            let Some(node) = nodes
                .iter()
                .find(|node| node.uid == uid)
                .filter(|_| looked.insert(uid.clone()))
            else {
                continue;
            };
            for owner in node.owners.clone() {
                next.push(owner.uid.clone());
                if !nodes.iter().any(|node| node.uid == owner.uid) {
                    nodes.extend(self.of_cluster(&owner).await);
                }
            }
        }
    }

    async fn of_cluster(&self, owner: &Owner) -> Option<Node> {
        let group = owner
            .api_version
            .rsplit_once('/')
            .map_or("", |(group, _)| group);
        let kind = self.types.iter().position(|entry| {
            entry.scope == Scope::Cluster && entry.gvr.group == group && entry.kind == owner.kind
        })?;
        let found = scan(&self.one.connection.client, &self.types[kind..=kind], None).await;
        let node = found.nodes.into_iter().find(|node| node.uid == owner.uid)?;
        Some(Node { kind, ..node })
    }

    async fn readiness(&self, nodes: &[Node], rows: &[Row]) -> Vec<Readiness> {
        let reads = rows.iter().enumerate().map(|(place, row)| async move {
            let node = &nodes[row.node];
            let entry = &self.types[node.kind];
            if place >= MAX_READ {
                return Readiness::default();
            }
            let namespace = Some(node.namespace.as_str()).filter(|it| !it.is_empty());
            let path = path(entry, namespace, &node.name);
            let object = fetch(&self.one.connection.client, &path, MAX_OBJECT)
                .await
                .ok();
            let object = object.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
            object.map_or_else(Readiness::default, |object| {
                Readiness::of(&entry.kind, &object)
            })
        });
        stream::iter(reads).buffered(AT_ONCE).collect().await
    }

    fn table(&self, nodes: &[Node], rows: &[Row], readiness: &[Readiness]) -> String {
        let is_of_cluster = self.one.entry.scope == Scope::Cluster;
        let mut header = vec!["NAMESPACE", "NAME", "READY", "STATUS", "AGE"];
        if !is_of_cluster {
            header.remove(0);
        }
        let mut table = Table::new(&header);
        let now = Timestamp::now();
        for (row, readiness) in rows.iter().zip(readiness) {
            let node = &nodes[row.node];
            let mut cells = Vec::new();
            if is_of_cluster {
                cells.push(node.namespace.clone());
            }
            let kind = &self.types[node.kind].kind;
            let since = node.created.parse::<Timestamp>().ok();
            cells.extend([
                format!("{}{kind}/{}", row.drawing, node.name),
                readiness.word().to_owned(),
                readiness.status.clone(),
                since.map_or_else(String::new, |at| age(now.as_second() - at.as_second())),
            ]);
            table.push(cells);
        }
        table.render()
    }

    fn line<'a>(&'a self, node: &'a Node, row: &Row, readiness: &'a Readiness) -> Line<'a> {
        let entry = &self.types[node.kind];
        Line {
            depth: row.depth,
            group: &entry.gvr.group,
            version: &entry.gvr.version,
            kind: &entry.kind,
            namespace: Some(node.namespace.as_str()).filter(|it| !it.is_empty()),
            name: &node.name,
            uid: &node.uid,
            ready: readiness.is_ready,
            status: &readiness.status,
            is_target: node.uid == text(&self.one.object, "/metadata/uid"),
        }
    }
}
