//! Two managers that fight: each sets the same field to its own value when it sees another.
//!
//! ```text
//! controller 1 ─▶ data.text: one ─▶ controller 2 ─▶ data.text: two ─▶ controller 1 ─▶ ..
//! ```
//!
//! The correction gives each its own object.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube::ResourceExt;
use serde_json::json;

use crate::{App, Failure, State, Which, map_of, parts, usual};

/// Writes a config map of the app.
async fn write(
    app: Arc<App>,
    cx: Ctx<State>,
    (suffix, text): (&'static str, &'static str),
) -> Result<Action, Failure> {
    let name = format!("{}{suffix}", app.name_any());
    let map = map_of(json!({"metadata": {"name": name, "namespace": "default"}}))?;
    cx.create_or_update(map, |map: &mut ConfigMap| {
        let data = map.data.get_or_insert_default();
        data.insert("text".to_owned(), text.to_owned());
    })
    .await?;
    Ok(Action::await_change())
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    let suffix = match which {
        Which::Mistaken => "",
        Which::Corrected => "-second",
    };
    sim.operator(move |client| async move {
        // Each with informers of its own, as two operators have.
        let (first, controller) = parts(&client);
        let (other, opponent) = parts(&client);
        first.start()?;
        other.start()?;
        let opponent = opponent.named("second");
        let (one, two) = futures::join!(
            controller.run(|app, cx| write(app, cx, ("", "one"))),
            opponent.run(move |app, cx| write(app, cx, (suffix, "two"))),
        );
        one.and(two)
    });
    usual(sim);
}
