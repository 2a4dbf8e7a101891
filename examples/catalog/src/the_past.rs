//! The past: a cache as it was, and what has changed since.
//!
//! ```text
//! keep_past ─▶ states by version ──at(version)──▶ snapshot ──changes_to(now)──▶ differences
//! ```
//!
//! Remembers the version of the first list. When it is asked to end, it prints what has changed since,
//! and how the cache was then. The server is asked for its version only, so that the end is the newest.
//!
//! Upstream counterpart: none; client-go's store has one state.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{InformerFactory, Notification, PastLimits, Target};
use kube::Client;
use kube::api::{Api, ListParams};

use crate::start::{Failure, Start};

/// The version that the server has now.
async fn latest(client: &Client) -> Result<String, Failure> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let list = maps.list_metadata(&ListParams::default().limit(1)).await?;
    Ok(list.metadata.resource_version.unwrap_or_default())
}

/// Compares the end with the beginning.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client.clone());
    let maps = factory.select(Target::<ConfigMap>::new());
    let maps = maps.namespaces(["default"]).build();
    // States that are over cost the objects that were replaced since, up to these limits.
    maps.keep_past(PastLimits {
        age: Duration::from_secs(3600),
        ..PastLimits::default()
    });
    factory.start()?;
    factory.synced_within(Duration::from_secs(60)).await?;
    let versions = maps.snapshot();
    let first = versions.versions().next().unwrap_or_default().to_owned();
    start.out.line("remembered");

    start.stop.cancelled().await;
    maps.reached(latest(&start.client).await?).await?;
    let then = maps.store().at(first)?;
    for change in then.changes_to(&maps.snapshot())? {
        match change {
            Notification::Added(map) => start.out.line(format!("+ {}", map.name())),
            Notification::Deleted(map) => start.out.line(format!("- {}", map.name())),
            Notification::Updated { new, .. } => start.out.line(format!("~ {}", new.name())),
            _ => {}
        }
    }
    start.out.line(format!("{} then", then.len()));
    factory.shutdown().await;
    Ok(())
}
