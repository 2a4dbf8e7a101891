//! A warm restart: a second start that lists nothing.
//!
//! ```text
//! start 1: list, watch ─▶ cache ─▶ file          start 2: file ─▶ cache, watch from its version
//! ```
//!
//! Prints the lists, the objects that came over the wire and the changes of each start. What happened
//! between them is heard in the second, deletes included.
//!
//! Upstream counterpart: none; client-go lists at each start. `docs/restarts.md` says when it is used.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{DiskCache, Handlers, InformerFactory};

use crate::start::{Failure, Start};

/// One life of a program, until its cache is up to date.
async fn life(number: usize, folder: &Path, start: &Start) -> Result<(), Failure> {
    // In a pod: a volume that outlives the container.
    let factory = InformerFactory::builder(start.client.clone())
        .disk_cache(DiskCache::in_dir(folder))
        .build();
    let maps = factory.informer::<ConfigMap>();
    let (added, deleted) = (start.out.clone(), start.out.clone());
    let heard = maps.add_handler(
        Handlers::new()
            .on_add(move |map| {
                if !map.is_initial() {
                    added.line(format!("start {number}: {} is new", map.key()));
                }
            })
            .on_delete(move |map| deleted.line(format!("start {number}: {} is gone", map.key()))),
    )?;
    factory.start()?;
    factory.synced_within(Duration::from_secs(60)).await?;
    let stats = maps.stats();
    let (lists, items, objects) = (stats.lists, stats.items, stats.objects);
    start.out.line(format!(
        "start {number}: lists: {lists}, items read: {items}, cached: {objects}"
    ));
    heard.drain().await;
    factory.shutdown().await; // writes the file
    Ok(())
}

/// Starts twice, and ends.
pub async fn run(start: Start) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    life(1, folder.path(), &start).await?;
    start.out.line("stopped");
    // On the embedded server, somebody changes objects now.
    start.pause().await;
    life(2, folder.path(), &start).await
}
