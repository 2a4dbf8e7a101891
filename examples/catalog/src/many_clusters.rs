//! Many clusters: one handle over the caches of a fleet, whose kubeconfigs are Secrets of a hub.
//!
//! ```text
//! Secrets of the hub ──follow_secrets──▶ Clusters ─▶ handlers, reads: each with its cluster's name
//! ```
//!
//! Prints each cluster that joins or goes, and the ConfigMaps of all in the namespace `default`. A
//! cluster that goes deletes nothing.
//!
//! Upstream counterpart: `multicluster-runtime:providers/kubeconfig`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::{Clusters, Discovered, Handlers, InformerFactory, Target};

use crate::start::{Failure, Start};

/// The label of the Secrets that hold a kubeconfig.
pub const LABEL: &str = "example.com/cluster";

/// Follows the fleet until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let clusters = Clusters::new();
    let maps = clusters.select(|cluster| {
        let maps = cluster.factory().select(Target::<ConfigMap>::new());
        maps.namespaces(["default"]).build()
    })?;
    let out = start.out.clone();
    let _registration = maps.add_handler(move |cluster| {
        let (out, name) = (out.clone(), cluster.name().to_owned());
        Handlers::new().on_add(move |map| out.line(format!("{name}: {}", map.name())))
    })?;
    clusters.start()?;

    let hub = InformerFactory::new(start.client);
    let secrets = hub.select(Target::<Secret>::new());
    let secrets = secrets.namespaces(["default"]).labels(LABEL).build();
    let mut discovery = clusters.follow_secrets(&secrets, "kubeconfig")?;
    hub.start()?;
    loop {
        let outcome = tokio::select! {
            biased;
            () = start.stop.cancelled() => break,
            outcome = discovery.next() => outcome,
        };
        match outcome {
            Some(Discovered::Added { cluster }) => {
                let synced = clusters.synced_within(Duration::from_secs(30)).await;
                start.out.line(format!("{cluster} joined: {synced:?}"));
            }
            Some(Discovered::Removed { cluster }) => start.out.line(format!("{cluster} left")),
            Some(Discovered::Refused { cluster, reason }) => {
                start
                    .out
                    .line(format!("{cluster} cannot be used: {reason}"));
            }
            Some(_) => {}
            None => break,
        }
    }
    start
        .out
        .line(format!("in the end: {} objects", maps.len()));
    clusters.shutdown().await;
    hub.shutdown().await;
    Ok(())
}
