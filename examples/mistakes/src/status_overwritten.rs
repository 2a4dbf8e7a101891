//! A status written over a newer one: what somebody else has said meanwhile is lost.
//!
//! ```text
//! cached status + own field ─▶ the whole status, without a version ─▶ the verdict of another is gone
//! ```
//!
//! The correction changes its own field, on the version that it read, and decides again if that is
//! not the newest.

use std::sync::Arc;

use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{App, Failure, State, Which, app, operator};

async fn mistaken(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    let mut status = app.status.clone().unwrap_or_default();
    if status.text.as_ref() != Some(&app.spec.text) {
        status.text = Some(app.spec.text.clone());
        let apps: Api<App> = Api::default_namespaced(cx.client()?);
        let patch = Patch::Merge(json!({"status": status}));
        apps.patch_status(&app.name_any(), &PatchParams::default(), &patch)
            .await?;
    }
    Ok(Action::await_change())
}

async fn corrected(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    cx.status(&app, |status| status.text = Some(app.spec.text.clone()))
        .await?;
    Ok(Action::await_change())
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    match which {
        Which::Mistaken => sim.operator(|client| operator(client, mistaken)),
        Which::Corrected => sim.operator(|client| operator(client, corrected)),
    };
    let verdict = |text: &str| json!({"status": {"audited": text}});
    sim.crd::<App>()
        .create(app("a", "one"))
        .patch::<App>("default/a", json!({"spec": {"text": "two"}}))
        .patch_status::<App>("default/a", verdict("good"))
        .patch::<App>("default/a", json!({"spec": {"text": "three"}}))
        .patch_status::<App>("default/a", verdict("bad"));
}
