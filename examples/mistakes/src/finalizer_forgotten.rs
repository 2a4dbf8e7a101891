//! A finalizer forgotten: what only the operator can remove stays if it is not there at the delete.
//!
//! ```text
//! app is gone ─▶ on_gone: delete the config map of another namespace    (operator down: never called)
//! ```
//!
//! The correction keeps a finalizer, so the app stays until its cleanup has succeeded. Before it
//! writes, it asks the server for the app: one that is gone meanwhile would not be cleaned up again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::ObjectKey;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};

use crate::{App, Failure, State, Which, is_wanted, parts, usual, wanted};

/// The namespace of the config maps: no app there can own them.
const ELSEWHERE: &str = "kube-public";
/// The finalizer of apps.
const FINALIZER: &str = "example.com/elsewhere";

fn elsewhere(cx: &Ctx<State>) -> Result<Api<ConfigMap>, kinform::Error> {
    Ok(Api::namespaced(cx.client()?, ELSEWHERE))
}

async fn reconcile(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    let mut map = wanted(&app);
    map.metadata.namespace = Some(ELSEWHERE.to_owned());
    let params = PatchParams::apply("mistakes").force();
    let maps = elsewhere(&cx)?;
    maps.patch(&app.name_any(), &params, &Patch::Apply(&map))
        .await?;
    Ok(Action::await_change())
}

async fn corrected(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    match is_wanted(&app, cx.client()?).await? {
        true => reconcile(app, cx).await,
        false => Ok(Action::await_change()),
    }
}

async fn remove(cx: &Ctx<State>, name: &str) -> Result<(), Failure> {
    match elsewhere(cx)?.delete(name, &Default::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

async fn gone(key: ObjectKey, cx: Ctx<State>) -> Result<Action, Failure> {
    remove(&cx, key.name()).await?;
    Ok(Action::await_change())
}

async fn cleanup(app: Arc<App>, cx: Ctx<State>) -> Result<(), Failure> {
    remove(&cx, &app.name_any()).await
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    match which {
        Which::Mistaken => sim.operator(|client| async move {
            let (factory, controller) = parts(&client);
            factory.start()?;
            controller.on_gone(gone).run(reconcile).await
        }),
        Which::Corrected => sim.operator(|client| async move {
            let (factory, controller) = parts(&client);
            factory.start()?;
            let controller = controller.finalizer(FINALIZER, cleanup);
            controller.run(corrected).await
        }),
    };
    usual(sim);
}

/// Describes the correction without its question: right, unless a process that restarts can be shown
/// the past. An app of its first list may be gone, with its finalizer.
pub fn without_the_question(sim: &mut Simulation) {
    sim.operator(|client| async move {
        let (factory, controller) = parts(&client);
        factory.start()?;
        let controller = controller.finalizer(FINALIZER, cleanup);
        controller.run(reconcile).await
    });
    usual(sim);
}
