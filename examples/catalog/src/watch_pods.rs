//! Watch pods: handlers that hear each pod come, change and go.
//!
//! ```text
//! API server ─▶ informer ─▶ on_add (initial or not) │ on_update (old, new) │ on_delete (last state)
//! ```
//!
//! Prints a line for each change, and `synced` between the pods that were there and the rest. A watch
//! that breaks is resumed, so that no change is missed.
//!
//! Upstream counterpart: `client-go:examples/workqueue` without its queue.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::{Handlers, InformerFactory, Obj};

use crate::start::{Failure, Start};

/// The phase, read from the stored bytes; `pod.typed()` decodes the whole pod. This cache gives up no field.
fn phase(pod: &Obj<Pod>) -> String {
    let path = "status.phase".parse().expect("it is a path");
    pod.at(&path).unwrap_or_default().join(" ")
}

/// Watches until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let pods = factory.informer::<Pod>();
    let [added, synced, updated, deleted] = std::array::from_fn(|_| start.out.clone());
    pods.add_handler(
        Handlers::new()
            .on_add(move |pod| {
                let was = if pod.is_initial() { "found" } else { "added" };
                added.line(format!("{was} {} {}", pod.key(), phase(pod)));
            })
            .on_synced(move || synced.line("synced"))
            .on_update(move |old, new| {
                let (key, before, after) = (new.key(), phase(old), phase(new));
                updated.line(format!("updated {key} {before} -> {after}"));
            })
            .on_delete(move |pod| deleted.line(format!("deleted {}", pod.key()))),
    )?;
    factory.start()?;
    // Or an error that says which informer is late, and why.
    factory.synced_within(Duration::from_secs(60)).await?;
    start.stop.cancelled().await;
    factory.shutdown().await;
    Ok(())
}
