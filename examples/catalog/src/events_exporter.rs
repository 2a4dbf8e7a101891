//! An exporter: the events of a cluster as JSON lines.
//!
//! ```text
//! API server ─ events.k8s.io ─▶ informer ─▶ stream of changes ─▶ one JSON object a line
//! ```
//!
//! Prints each event that is added, or counted again, since the start: those that were there are
//! skipped. A reader that is slower than the cluster receives the last state of each event.
//!
//! Upstream counterpart: none; exporters of events are programs of others.

use futures::StreamExt as _;
use k8s_openapi::api::events::v1::Event;
use kinform::{InformerFactory, Notification, Obj};
use serde_json::json;

use crate::start::{Failure, Start};

/// The line of an event.
fn line(event: &Obj<Event>) -> Result<String, Failure> {
    let event = event.typed()?;
    let about = event.regarding.clone().unwrap_or_default();
    let count = event.series.as_ref().map_or(1, |series| series.count);
    let line = json!({
        "time": event.event_time,
        "type": event.type_,
        "reason": event.reason,
        "note": event.note,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "count": count,
    });
    Ok(line.to_string())
}

/// Exports until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let mut changes = factory.informer::<Event>().changes()?;
    factory.start()?;
    loop {
        let change = tokio::select! {
            biased;
            () = start.stop.cancelled() => break,
            change = changes.next() => change.ok_or("the informer was stopped")?,
        };
        match change {
            Notification::Added(added) if added.is_initial() => {}
            Notification::Added(added) => start.out.line(line(added.object())?),
            Notification::Updated { new, .. } => start.out.line(line(&new)?),
            // A server forgets events after an hour.
            _ => {}
        }
    }
    factory.shutdown().await;
    Ok(())
}
