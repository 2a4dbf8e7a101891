//! A finalizer removed too early: a crash between that and the cleanup, and nothing is left to know.
//!
//! ```text
//! app is being deleted ─▶ remove the finalizer ─▶ crash │ delete the config map (never)
//! ```
//!
//! The correction cleans up first, and removes the finalizer when that has succeeded. It writes
//! nothing for an app that is gone by the server's word, whatever its cache says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{App, Failure, State, Which, is_wanted, operator, usual, wanted};

/// The finalizer.
const NAME: &str = "example.com/elsewhere";
/// The namespace of the config maps: no app there can own them.
const ELSEWHERE: &str = "kube-public";

/// The order of a cleanup.
#[derive(Clone, Copy)]
enum Order {
    FinalizerFirst,
    CleanupFirst,
}

/// The state of the finalizer.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    Yes,
    No,
}

async fn reconcile(app: Arc<App>, cx: Ctx<State>, order: Order) -> Result<Action, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(cx.client()?, ELSEWHERE);
    let has_it = app.finalizers().iter().any(|one| one == NAME);
    if app.metadata.deletion_timestamp.is_none() {
        if !has_it {
            set(&app, &cx, Held::Yes).await?;
        }
        if !is_wanted(&app, cx.client()?).await? {
            return Ok(Action::await_change());
        }
        let mut map = wanted(&app);
        map.metadata.namespace = Some(ELSEWHERE.to_owned());
        let params = PatchParams::apply("mistakes").force();
        maps.patch(&app.name_any(), &params, &Patch::Apply(&map))
            .await?;
    } else if has_it {
        match order {
            Order::FinalizerFirst => {
                set(&app, &cx, Held::No).await?;
                remove(&maps, &app.name_any()).await?;
            }
            Order::CleanupFirst => {
                remove(&maps, &app.name_any()).await?;
                set(&app, &cx, Held::No).await?;
            }
        }
    }
    Ok(Action::await_change())
}

/// Adds or removes the finalizer of this very app, not of a successor; those of others stay, and an
/// app that is gone needs none.
async fn set(app: &App, cx: &Ctx<State>, held: Held) -> Result<(), Failure> {
    let mut finalizers = app.finalizers().to_vec();
    finalizers.retain(|one| one != NAME);
    if held == Held::Yes {
        finalizers.push(NAME.to_owned());
    }
    let patch = json!({"metadata": {"uid": app.uid(), "finalizers": finalizers,
        "resourceVersion": app.resource_version()}});
    let apps: Api<App> = Api::default_namespaced(cx.client()?);
    let params = PatchParams::default();
    match apps
        .patch(&app.name_any(), &params, &Patch::Merge(patch))
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

async fn remove(maps: &Api<ConfigMap>, name: &str) -> Result<(), Failure> {
    match maps.delete(name, &Default::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    let order = match which {
        Which::Mistaken => Order::FinalizerFirst,
        Which::Corrected => Order::CleanupFirst,
    };
    sim.operator(move |client| operator(client, move |app, cx| reconcile(app, cx, order)));
    usual(sim);
}
