//! Ignoring a delete that was missed: a memory of one's own that only events change.
//!
//! ```text
//! watch ─▶ ADDED: count up, DELETED: count down ─▶ watch breaks, an object goes, watch anew ─▶ wrong for ever
//! ```
//!
//! The correction counts what the informer has: a list replaces what a broken watch has missed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::{App, Failure, State, Which, app, parts};

/// Writes the number of apps.
async fn write(client: Client, count: usize) -> Result<(), Failure> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "count"},
        "data": {"apps": count.to_string()}});
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let params = PatchParams::apply("mistakes").force();
    maps.patch("count", &params, &Patch::Apply(&map)).await?;
    Ok(())
}

async fn mistaken(client: Client) -> Result<(), Failure> {
    let apps: Api<App> = Api::all(client.clone());
    let mut known = BTreeSet::new();
    loop {
        // From "0": all that is there comes as ADDED. What has gone meanwhile does not come.
        if let Ok(watch) = apps.watch(&WatchParams::default(), "0").await {
            let mut watch = watch.boxed();
            while let Some(Ok(event)) = watch.next().await {
                match event {
                    WatchEvent::Added(app) | WatchEvent::Modified(app) => {
                        known.insert(app.name_any());
                    }
                    WatchEvent::Deleted(app) => drop(known.remove(&app.name_any())),
                    _ => continue,
                }
                while write(client.clone(), known.len()).await.is_err() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn corrected(_: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    write(cx.client()?, cx.apps.list().len()).await?;
    Ok(Action::await_change())
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    match which {
        Which::Mistaken => sim.operator(mistaken),
        Which::Corrected => sim.operator(|client| async move {
            let (factory, controller) = parts(&client);
            factory.start()?;
            let controller = controller.on_gone(|_, cx: Ctx<State>| async move {
                write(cx.client()?, cx.apps.list().len()).await?;
                Ok::<_, Failure>(Action::await_change())
            });
            controller.run(corrected).await.map_err(Failure::from)
        }),
    };
    sim.crd::<App>()
        .create(app("a", "one"))
        .create(app("b", "two"))
        .delete::<App>("default/a")
        .create(app("c", "three"))
        .delete::<App>("default/b");
}
