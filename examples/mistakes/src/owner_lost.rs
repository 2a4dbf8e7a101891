//! An owner lost: it is set by a second write, which a crash can leave out for ever.
//!
//! ```text
//! not there? ─▶ create ─▶ crash │ set the owner        there? ─▶ only the data is looked at
//! ```
//!
//! The correction writes object and owner at once, each time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::{App, Failure, State, Which, applied, operator, usual, wanted};

async fn mistaken(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    let maps: Api<ConfigMap> = Api::default_namespaced(cx.client()?);
    let (name, map) = (app.name_any(), wanted(&app));
    let merge = |patch| (PatchParams::default(), Patch::Merge(patch));
    match maps.get_opt(&name).await? {
        None => {
            maps.create(&PostParams::default(), &map).await?;
            let owner = app.controller_owner_ref(&());
            let (params, patch) = merge(json!({"metadata": {"ownerReferences": [owner]}}));
            maps.patch(&name, &params, &patch).await?;
        }
        Some(found) if found.data != map.data => {
            let (params, patch) = merge(json!({"data": map.data}));
            maps.patch(&name, &params, &patch).await?;
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
