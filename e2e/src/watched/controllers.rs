//! Controllers: one that fails at hostile widgets, and four with a habit that the inspector has to name.
//!
//! ```text
//! widgets ─▶ planner        config maps hot, restless, fought ─▶ hot | restless | ours, theirs
//! ```
//!
//! A habit begins when its config map is changed, and ends some runs after it was found.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, CancellationToken, Controller, Ctx, Error, Informer, Reconciler};
use kube::core::DynamicObject;
use kube_client::Client;
use serde_json::json;

use super::hostile;

/// The config maps of the start.
pub(super) const MAPS: [&str; 4] = ["plain", "hot", "restless", "fought"];
/// BOUND: runs of a habit.
const RUNS: usize = 40;
/// The time that a reconcile takes.
const WORK: Duration = Duration::from_millis(10);

/// A way to reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Asks for the next run at once.
    Hot,
    /// Writes the time.
    Restless,
    /// Sets a field to this value, which another controller sets otherwise.
    Fight(&'static str),
}

/// All controllers.
pub(super) fn all(
    maps: &Informer<ConfigMap>,
    widgets: &Informer<DynamicObject>,
    client: &Client,
    stop: &CancellationToken,
) -> Vec<Reconciler> {
    let planner = Controller::of(widgets)
        .named("planner")
        .workers(2)
        .shutdown_on(stop.clone())
        .reconciling(|widget: Arc<DynamicObject>, _: Ctx<()>| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            // Their names stay in the queue, and among the problems.
            match widget.metadata.namespace.as_deref() == Some(hostile::NAMESPACE) {
                true => Err("a widget of that kind is not planned"),
                false => Ok(Action::await_change()),
            }
        });
    let habit = |name: &str, map: &'static str, habit: Habit| {
        let runs = Arc::<AtomicUsize>::default();
        let controller = Controller::of(maps).named(name).shutdown_on(stop.clone());
        controller.reconciling(move |object: Arc<ConfigMap>, cx: Ctx<()>| {
            let runs = Arc::clone(&runs);
            async move {
                let is_asked = object
                    .data
                    .as_ref()
                    .is_some_and(|all| all.contains_key("go"));
                if object.metadata.name.as_deref() != Some(map) || !is_asked {
                    return Ok(Action::await_change());
                }
                let run = runs.fetch_add(1, Ordering::Relaxed);
                match run < RUNS {
                    true => habit.reconcile(&object, &cx, run).await,
                    false => Ok(Action::await_change()),
                }
            }
        })
    };
    let all = vec![
        planner,
        habit("hot", "hot", Habit::Hot),
        habit("restless", "restless", Habit::Restless),
        habit("ours", "fought", Habit::Fight("ours")),
        habit("theirs", "fought", Habit::Fight("theirs")),
    ];
    let within = |one: Reconciler| one.within("watched", client.clone());
    all.into_iter().map(within).collect()
}

impl Habit {
    async fn reconcile(self, map: &ConfigMap, cx: &Ctx<()>, run: usize) -> Result<Action, Error> {
        tokio::time::sleep(WORK).await;
        let now = map.data.as_ref().and_then(|all| all.get("colour"));
        let set = |key: &str, value: String| json!({"data": {key: value}});
        match self {
            Self::Hot => return Ok(Action::requeue(Duration::ZERO)),
            Self::Restless => {
                let time = format!("2026-01-01T00:00:{run:02}Z");
                cx.patch(map, set("seen", time)).await?;
            }
            Self::Fight(mine) if now.is_some_and(|now| now == mine) => {}
            Self::Fight(mine) => {
                cx.patch(map, set("colour", mine.to_owned())).await?;
            }
        }
        Ok(Action::await_change())
    }
}
