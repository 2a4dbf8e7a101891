//! Acting on a stale cache: config maps whose app is not in the cache are deleted.
//!
//! ```text
//! list of config maps (fresh) - apps (cache, an hour behind after a restart) ─▶ deletes of live ones
//! ```
//!
//! The correction leaves the deletion to the garbage collector, by an owner.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::ObjectKey;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{App, Failure, State, Which, applied, operator, usual, wanted};

async fn mistaken(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    let maps: Api<ConfigMap> = Api::default_namespaced(cx.client()?);
    let mut map = wanted(&app);
    map.metadata.labels = Some([("of-an-app".to_owned(), "yes".to_owned())].into());
    let params = PatchParams::apply("mistakes").force();
    maps.patch(&app.name_any(), &params, &Patch::Apply(&map))
        .await?;
    let all = maps
        .list(&kube::api::ListParams::default().labels("of-an-app"))
        .await?;
    for map in all {
        let key = ObjectKey::new(Some("default"), &map.name_any());
        if cx.apps.get(&key).is_none() {
            let gone = maps.delete(&map.name_any(), &Default::default()).await;
            drop(gone);
        }
    }
    Ok(Action::await_change())
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    match which {
        Which::Mistaken => sim.operator(|client| operator(client, mistaken)),
        Which::Corrected => sim.operator(|client| operator(client, applied)),
    };
    usual(sim).patch::<App>("default/b", json!({"spec": {"text": "five"}}));
}
