//! A creation without a name of its own: whether it was done is only known from the cache.
//!
//! ```text
//! none in the cache? ─▶ create, the server names it ─▶ answer lost, or cache late ─▶ create again
//! ```
//!
//! The correction derives the name from the app, so a second creation is none.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};

use crate::{App, Failure, State, Which, applied, operator, usual, wanted};

async fn mistaken(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    let uid = app.uid().unwrap_or_default();
    let is_ours = |map: &ConfigMap| map.owner_references().iter().any(|owner| owner.uid == uid);
    let found = cx.maps.list().typed().find(|map| is_ours(map));
    // The client of the process, not of this reconcile: nobody waits for its writes.
    let maps: Api<ConfigMap> = Api::default_namespaced(cx.client.clone());
    match found {
        None => {
            let mut map = wanted(&app);
            map.metadata.name = None;
            map.metadata.generate_name = Some(format!("{}-", app.name_any()));
            map.metadata.owner_references = app.controller_owner_ref(&()).map(|owner| vec![owner]);
            maps.create(&PostParams::default(), &map).await?;
        }
        Some(map) if map.data != wanted(&app).data => {
            let mut map = ConfigMap::clone(&map);
            map.data = wanted(&app).data;
            maps.replace(&map.name_any(), &PostParams::default(), &map)
                .await?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    match which {
        Which::Mistaken => sim.operator(|client| operator(client, mistaken)),
        Which::Corrected => sim.operator(|client| operator(client, applied)),
    };
    usual(sim);
}
