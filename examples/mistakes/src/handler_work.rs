//! Work in a handler: what fails there is never tried again.
//!
//! ```text
//! notification ─▶ handler ─▶ request ─▶ refused: forgotten          (a queue would try again)
//! ```
//!
//! The correction works in a controller, whose queue tries again until it succeeds.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::Action;
use kinform::{Handlers, Notification};
use kinform_testkit::Simulation;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};

use crate::{App, Failure, Which, applied, operator, parts, usual, wanted};

/// Writes the config map of an app; an error is nobody's matter.
async fn write(client: Client, app: Arc<App>) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut map = wanted(&app);
    map.metadata.owner_references = app.controller_owner_ref(&()).map(|owner| vec![owner]);
    let params = PatchParams::apply("mistakes").force();
    let written = maps
        .patch(&app.name_any(), &params, &Patch::Apply(&map))
        .await;
    drop(written);
}

async fn mistaken(client: Client) -> Result<(), kinform::Error> {
    let (factory, controller) = parts(&client);
    let handlers = Handlers::new().on_event_async(move |heard: Notification<App>| {
        let client = client.clone();
        async move {
            let is_there = !matches!(heard, Notification::Deleted(_));
            if let (Some(object), true) = (heard.object(), is_there)
                && let Ok(app) = object.typed()
            {
                write(client, app).await;
            }
        }
    });
    let _registration = factory.informer::<App>().add_handler(handlers)?;
    factory.start()?;
    // It only keeps the operator alive.
    controller
        .run(|_, _| async { Ok::<_, Failure>(Action::await_change()) })
        .await
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    match which {
        Which::Mistaken => sim.operator(mistaken),
        Which::Corrected => sim.operator(|client| operator(client, applied)),
    };
    usual(sim);
}
