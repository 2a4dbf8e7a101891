//! Twelve classic mistakes of controllers, each beside its correction.
//!
//! ```text
//! App (a custom resource) ─▶ mistaken | corrected ─▶ ConfigMaps       simulate: found | passes
//! ```
//!
//! Each module is a reconcile function twice, and a script of changes: [`ALL`] lists them. The
//! simulation knows nothing of any of them: it compares runs with and without faults. To read the
//! story of one: `cargo run -p mistakes -- stale-cache`.

mod fight;
mod finalizer_forgotten;
mod finalizer_too_early;
mod generated_name;
mod handler_work;
mod missed_delete;
mod object_time;
mod order_of_types;
mod owner_lost;
mod requeue;
mod stale_cache;
mod status_overwritten;

pub use finalizer_forgotten::without_the_question;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Controller, Ctx};
use kinform::{Informer, InformerFactory};
use kinform_testkit::Simulation;
use kube::api::ObjectMeta;
use kube::{Api, Client, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The desired state of an app.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "App",
    namespaced,
    status = "AppStatus"
)]
pub struct AppSpec {
    /// The text of its config map.
    pub text: String,
}

/// The observed state of an app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppStatus {
    /// The text that its config map has.
    pub text: Option<String>,
    /// The verdict of somebody else.
    pub audited: Option<String>,
}

/// The error of a reconcile.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The informers and the client of an operator.
#[derive(Clone)]
pub struct State {
    pub(crate) client: Client,
    pub(crate) apps: Informer<App>,
    pub(crate) maps: Informer<ConfigMap>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// One of the two operators of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with the mistake.
    Mistaken,
    /// The one without.
    Corrected,
}

/// A mistake: its name, and its simulation.
#[derive(Clone, Copy, Debug)]
pub struct Mistake {
    /// Its name.
    pub name: &'static str,
    /// Describes the simulation of one of its operators.
    pub describe: fn(&mut Simulation, Which),
}

/// All of them.
pub const ALL: [Mistake; 12] = [
    Mistake {
        name: "stale-cache",
        describe: stale_cache::describe,
    },
    Mistake {
        name: "generated-name",
        describe: generated_name::describe,
    },
    Mistake {
        name: "status-overwritten",
        describe: status_overwritten::describe,
    },
    Mistake {
        name: "finalizer-forgotten",
        describe: finalizer_forgotten::describe,
    },
    Mistake {
        name: "finalizer-too-early",
        describe: finalizer_too_early::describe,
    },
    Mistake {
        name: "owner-lost",
        describe: owner_lost::describe,
    },
    Mistake {
        name: "fight",
        describe: fight::describe,
    },
    Mistake {
        name: "requeue",
        describe: requeue::describe,
    },
    Mistake {
        name: "handler-work",
        describe: handler_work::describe,
    },
    Mistake {
        name: "order-of-types",
        describe: order_of_types::describe,
    },
    Mistake {
        name: "missed-delete",
        describe: missed_delete::describe,
    },
    Mistake {
        name: "object-time",
        describe: object_time::describe,
    },
];

/// The informers of an operator, and its controller.
pub(crate) fn parts(client: &Client) -> (InformerFactory, Controller<App, State>) {
    let factory = InformerFactory::new(client.clone());
    let apps = factory.informer::<App>();
    let maps = factory.informer::<ConfigMap>();
    let controller = Controller::of(&apps).owns(&maps).context(State {
        client: client.clone(),
        apps,
        maps,
    });
    (factory, controller)
}

/// An operator that is its reconcile function.
pub(crate) async fn operator<F>(
    client: Client,
    reconcile: impl Fn(Arc<App>, Ctx<State>) -> F + Send + Sync + 'static,
) -> Result<(), kinform::Error>
where
    F: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    let (factory, controller) = parts(&client);
    factory.start()?;
    controller.run(reconcile).await
}

/// The correction of most mistakes: one write of the whole config map, under a name of its own, with
/// its owner. A repetition changes nothing.
pub(crate) async fn applied(app: Arc<App>, cx: Ctx<State>) -> Result<Action, Failure> {
    cx.apply(&wanted(&app)).await?;
    Ok(Action::await_change())
}

/// Asks the server whether this very app is there and wanted. The cache can be old: a process that
/// has started at a replica that is behind sees apps that are gone, and never sees their end. What
/// is made for those outside of the garbage collector's reach stays. While the app has the
/// operator's finalizer, the answer holds until the operator removes it.
pub(crate) async fn is_wanted(app: &App, client: Client) -> Result<bool, Failure> {
    let namespace = app.namespace().unwrap_or_default();
    let apps: Api<App> = Api::namespaced(client, &namespace);
    let now = apps.get_opt(&app.name_any()).await?;
    Ok(now.is_some_and(|now| {
        now.metadata.uid == app.metadata.uid && now.metadata.deletion_timestamp.is_none()
    }))
}

/// The usual script: two apps come, change, lose their config map, go, and come again.
pub(crate) fn usual(sim: &mut Simulation) -> &mut Simulation {
    sim.crd::<App>()
        .create(app("a", "one"))
        .create(app("b", "two"))
        .patch::<App>("default/a", json!({"spec": {"text": "three"}}))
        .delete::<App>("default/a")
        .create(app("a", "four"))
}

/// An app.
pub(crate) fn app(name: &str, text: &str) -> App {
    let text = text.to_owned();
    let mut app = App::new(name, AppSpec { text });
    app.metadata.namespace = Some("default".to_owned());
    app
}

/// The config map that an app wants, without an owner.
pub(crate) fn wanted(app: &App) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(app.name_any()),
            namespace: app.namespace(),
            ..ObjectMeta::default()
        },
        data: Some([("text".to_owned(), app.spec.text.clone())].into()),
        ..ConfigMap::default()
    }
}

/// A config map out of JSON.
pub(crate) fn map_of(value: Value) -> Result<ConfigMap, Failure> {
    Ok(serde_json::from_value(value)?)
}
