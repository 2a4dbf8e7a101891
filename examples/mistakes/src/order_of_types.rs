//! Assuming an order between types: settings that were created before the app are taken for heard.
//!
//! ```text
//! watch of secrets (late) │ watch of apps ─▶ reconcile: "no settings" ─▶ never asked again
//! ```
//!
//! The correction reconciles the apps when the settings change.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;

use kinform::controller::{Action, Ctx};
use kinform::{Informer, Obj, ObjectKey};
use kinform_testkit::Simulation;
use serde_json::json;

use crate::{App, Failure, State, Which, app, parts, wanted};

async fn reconcile(
    app: Arc<App>,
    cx: Ctx<State>,
    settings: Informer<Secret>,
) -> Result<Action, Failure> {
    let settings = settings.get(&ObjectKey::new(Some("default"), "settings"));
    let suffix = match settings {
        Some(settings) => settings
            .typed()?
            .data
            .clone()
            .unwrap_or_default()
            .remove("suffix"),
        None => None,
    };
    let suffix = String::from_utf8(suffix.unwrap_or_default().0)?;
    let mut map = wanted(&app);
    let text = format!("{}{suffix}", app.spec.text);
    map.data = Some([("text".to_owned(), text)].into());
    cx.apply(&map).await?;
    Ok(Action::await_change())
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    sim.operator(move |client| async move {
        let (factory, mut controller) = parts(&client);
        let (apps, settings) = (factory.informer::<App>(), factory.informer::<Secret>());
        if which == Which::Corrected {
            controller = controller.watches(&settings, move |secret: &Obj<Secret>| {
                match secret.name() == "settings" {
                    true => apps.list().keys(),
                    false => Vec::new(),
                }
            });
        }
        factory.start()?;
        controller
            .run(move |app, cx| reconcile(app, cx, settings.clone()))
            .await
    });
    let settings = json!({"metadata": {"name": "settings", "namespace": "default"},
        "stringData": {"suffix": "!"}});
    let settings: Secret = serde_json::from_value(settings).expect("it is a secret");
    sim.crd::<App>()
        .create(settings)
        .create(app("a", "one"))
        .create(app("b", "two"));
}
