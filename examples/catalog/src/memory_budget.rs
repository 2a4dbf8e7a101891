//! Memory budget: caches that stay within a number of bytes, and say what they gave up for it.
//!
//! ```text
//! caches ──sum of what they hold──▶ above the budget: decoded values, then plain bodies are given up
//! ```
//!
//! Prints what the caches hold before and after a budget that is half of it. Reads give the same.
//!
//! Upstream counterpart: none.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Informer, InformerFactory, Target};
use kube::Client;

use crate::start::{Failure, Start};

/// A cache of the ConfigMaps of a namespace, within a budget if there is one.
async fn cache(client: Client, budget: Option<u64>) -> Result<Cache, Failure> {
    let factory = InformerFactory::builder(client)
        .memory_budget(budget)
        .build();
    let maps = factory.select(Target::<ConfigMap>::new());
    let maps = maps.namespaces(["default"]).build();
    factory.start()?;
    factory.synced_within(Duration::from_secs(60)).await?;
    Ok(Cache { factory, maps })
}

struct Cache {
    factory: InformerFactory,
    maps: Informer<ConfigMap>,
}

/// Compares a cache without a budget with one that has half of what it takes.
pub async fn run(start: Start) -> Result<(), Failure> {
    let whole = cache(start.client.clone(), None).await?;
    let held = whole.maps.stats().held_bytes;
    let small = cache(start.client, Some(held / 2)).await?;
    let stats = small.maps.stats();
    let (step, less) = (stats.memory.as_str(), stats.held_bytes < held);
    start
        .out
        .line(format!("{step}; less than without a budget: {less}"));

    let typed = |cache: &Cache| -> Vec<ConfigMap> {
        let list = cache.maps.list();
        let mut all: Vec<_> = list.typed().map(|map| (*map).clone()).collect();
        all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        all
    };
    let same = typed(&whole) == typed(&small);
    start.out.line(format!(
        "{} objects, the same: {same}",
        small.maps.list().len()
    ));
    for cache in [whole, small] {
        cache.factory.shutdown().await;
    }
    Ok(())
}
