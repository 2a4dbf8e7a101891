//! Joined: pods with the nodes that they run on, kept up to date by the differences of both caches.
//!
//! ```text
//! pods ──spec.nodeName──▶ nodes ──join──▶ rows ─▶ a line when a pod, or its node, changes
//! ```
//!
//! Prints each row that comes, changes or goes. A node that comes late, or goes, concerns its pods.
//!
//! Upstream counterpart: none; client-go's controllers look up both caches by hand.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::{Index, InformerFactory, Row};

use crate::start::{Failure, Start};

/// The zone of a pod's node, as its label says.
fn zone(row: &Row<Pod, Node>) -> String {
    let Some(node) = row.right() else {
        return "no such node".to_owned();
    };
    let zone = node.label("topology.kubernetes.io/zone");
    zone.map_or("no zone".to_owned(), |zone| zone.into_owned())
}

/// Follows the rows until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let (pods, nodes) = (factory.informer::<Pod>(), factory.informer::<Node>());
    // The values of the index are the names of nodes.
    let placed = pods.join(&nodes, Index::path("spec.nodeName"))?;
    let mut changes = placed.changes();
    factory.start()?;
    loop {
        let change = tokio::select! {
            biased;
            () = start.stop.cancelled() => break,
            change = changes.next() => change,
        };
        let Some(change) = change else { break };
        let line = match (&change.old, &change.new) {
            (None, Some(new)) => format!("{}: {}", change.key, zone(new)),
            (Some(old), Some(new)) => format!("{}: {} -> {}", change.key, zone(old), zone(new)),
            (_, None) => format!("{}: gone", change.key),
        };
        start.out.line(line);
    }
    factory.shutdown().await;
    Ok(())
}
