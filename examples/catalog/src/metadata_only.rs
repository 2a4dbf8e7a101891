//! Metadata only: Secrets whose values never enter the process.
//!
//! ```text
//! API server ─ PartialObjectMetadata ─▶ informer ─▶ names, labels, annotations, owners
//! ```
//!
//! Prints the Secrets that have the label `rotate=true`, with the day of their last rotation from an
//! annotation. The server sends no `data`, so the memory of the process has no secret. The account
//! needs the right to list Secrets all the same. For large objects it is also the smallest cache.
//!
//! Upstream counterpart: `client-go:metadata/metadatainformer`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kinform::{Handlers, InformerFactory, Target};

use crate::start::{Failure, Start};

/// The annotation with the day of the last rotation.
const ROTATED: &str = "example.com/rotated";

/// Watches until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let secrets = factory.select(Target::<Secret>::new());
    let secrets = secrets.metadata_only().labels("rotate=true").build();
    let out = start.out.clone();
    let told = secrets.add_handler(Handlers::new().on_add(move |secret| {
        let rotated = secret.annotation(ROTATED);
        let rotated = rotated.as_deref().unwrap_or("never");
        out.line(format!("{} rotated: {rotated}", secret.key()));
    }))?;
    factory.start()?;
    factory.synced_within(Duration::from_secs(60)).await?;
    told.synced().await;
    for secret in secrets.list().typed() {
        let values = secret.data.as_ref().map_or(0, |data| data.len());
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        start
            .out
            .line(format!("{name} in this process: {values} values"));
    }
    start.stop.cancelled().await;
    factory.shutdown().await;
    Ok(())
}
