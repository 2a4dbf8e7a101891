//! A shared informer: two controllers, one watch and one cache.
//!
//! ```text
//!                                ┌▶ controller "sizes" ─▶ its own queue, workers, retries
//! API server ─ one watch ─▶ cache┤
//!                                └▶ controller "labels" ─▶ its own
//! ```
//!
//! `factory.informer` returns the same informer to everybody who asks for the same objects. Prints
//! what each controller sees of each ConfigMap, and the number of lists in the end: one.
//!
//! Upstream counterpart: `client-go:informers` (`SharedInformerFactory`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Controller, Ctx, InformerFactory};

use crate::start::{Failure, Out, Start};

async fn sizes(map: Arc<ConfigMap>, cx: Ctx<Out>) -> Result<Action, Failure> {
    let entries = map.data.as_ref().map_or(0, |data| data.len());
    cx.line(format!("sizes: {} has {entries} entries", cx.key()));
    Ok(Action::await_change())
}

async fn labels(map: Arc<ConfigMap>, cx: Ctx<Out>) -> Result<Action, Failure> {
    let labels = map
        .metadata
        .labels
        .as_ref()
        .map_or(0, |labels| labels.len());
    cx.line(format!("labels: {} has {labels}", cx.key()));
    Ok(Action::await_change())
}

/// Runs both controllers until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let (one, other) = (
        factory.informer::<ConfigMap>(),
        factory.informer::<ConfigMap>(),
    );
    let first = Controller::of(&one)
        .named("sizes")
        .context(start.out.clone())
        .shutdown_on(start.stop.clone());
    let second = Controller::of(&other)
        .named("labels")
        .context(start.out.clone())
        .shutdown_on(start.stop);
    factory.start()?;
    futures::try_join!(first.run(sizes), second.run(labels))?;
    let stats = one.stats();
    let (lists, objects) = (stats.lists, stats.objects);
    start
        .out
        .line(format!("{lists} list of {objects} objects for both"));
    factory.shutdown().await;
    Ok(())
}
