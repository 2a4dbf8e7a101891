//! Time taken from the object: the youngest app wins, by the clock of whichever server made it.
//!
//! ```text
//! apps by creationTimestamp ─▶ the last one's text     (same second: by chance; a clock that jumps: wrong)
//! ```
//!
//! The correction decides by something that the user says: here, the name.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{App, Failure, State, Which, app, operator};

/// The order of apps.
#[derive(Clone, Copy)]
enum By {
    Time,
    Name,
}

async fn reconcile(_: Arc<App>, cx: Ctx<State>, by: By) -> Result<Action, Failure> {
    let apps: Vec<Arc<App>> = cx.apps.list().typed().collect();
    let youngest = match by {
        By::Time => apps.iter().max_by_key(|app| app.creation_timestamp()),
        By::Name => apps.iter().max_by_key(|app| app.name_any()),
    };
    let text = youngest.map(|app| app.spec.text.clone());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "active"},
        "data": {"text": text.unwrap_or_default()}});
    let maps: Api<ConfigMap> = Api::default_namespaced(cx.client()?);
    let params = PatchParams::apply("mistakes").force();
    maps.patch("active", &params, &Patch::Apply(&map)).await?;
    Ok(Action::await_change())
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    let by = match which {
        Which::Mistaken => By::Time,
        Which::Corrected => By::Name,
    };
    sim.operator(move |client| operator(client, move |app, cx| reconcile(app, cx, by)));
    sim.crd::<App>()
        .create(app("a", "one"))
        .create(app("b", "two"))
        .create(app("c", "three"));
}
