//! Two controllers with a classic mistake each, which run only while their act is on.
//!
//! ```text
//! Deployments named act-.. ─▶ hot loop: writes the time into the status, and hears of it
//!                          └▶ fight: sets the replicas back, whoever changed them
//! ```
//!
//! They are made at the start, so that the inspector knows them.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kinform::controller::{ControllerMetrics, Finish, Reconciler};
use kinform::{Action, Controller, Ctx, Error, InformerFactory, Timestamp, predicate};
use kube_client::Client;
use kube_client::api::{Api, Patch, PatchParams};
use kube_core::ResourceExt as _;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;

/// The namespace of the objects.
pub(crate) const NAMESPACE: &str = "default";
/// The time of a reconcile, as of one that asks another service. It keeps the loop at 20 runs a
/// second.
const PAUSE: Duration = Duration::from_millis(50);
/// The replicas that the fighting controller wants.
const REPLICAS: i32 = 3;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Each reconcile changes the status, which starts the next.
    HotLoop,
    /// A field is set back that another manager sets, too.
    Fight,
}

impl Kind {
    /// The prefix of the names of its objects.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::HotLoop => "act-hot-loop-",
            Self::Fight => "act-fight-",
        }
    }

    /// The reason of its finding.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::HotLoop => "ReconcileLoop",
            Self::Fight => "FieldFight",
        }
    }

    fn controller(self) -> &'static str {
        match self {
            Self::HotLoop => "act-hot-loop",
            Self::Fight => "act-fight",
        }
    }
}

/// Both controllers.
#[derive(Debug)]
pub(crate) struct Mistakes {
    hot_loop: Mistake,
    fight: Mistake,
}

impl Mistakes {
    /// The controllers on the informers of `factory`; neither runs.
    pub(crate) fn new(factory: &InformerFactory, client: &Client) -> Self {
        Self {
            hot_loop: Mistake::new(factory, client, Kind::HotLoop, write_the_time),
            fight: Mistake::new(factory, client, Kind::Fight, set_back),
        }
    }

    /// The controller with this mistake.
    pub(crate) fn of(&self, kind: Kind) -> &Mistake {
        match kind {
            Kind::HotLoop => &self.hot_loop,
            Kind::Fight => &self.fight,
        }
    }

    /// Both.
    pub(crate) fn all(&self) -> [&Mistake; 2] {
        [&self.hot_loop, &self.fight]
    }
}

/// A controller with a mistake.
pub(crate) struct Mistake {
    reconciler: Arc<Reconciler>,
    running: Mutex<Option<Running>>,
}

struct Running {
    end: CancellationToken,
    task: JoinHandle<Result<Finish, Error>>,
}

impl Mistake {
    fn new<F, R>(factory: &InformerFactory, client: &Client, kind: Kind, reconcile: F) -> Self
    where
        F: Fn(Arc<Deployment>, Ctx<()>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, Error>> + Send + 'static,
    {
        let is_of_act = predicate::matching(move |object| object.name().starts_with(kind.prefix()));
        let controller = Controller::of(&factory.informer::<Deployment>())
            .named(kind.controller())
            .client(client.clone())
            .filter(is_of_act);
        Self {
            reconciler: Arc::new(controller.workers(1).reconciling(reconcile)),
            running: Mutex::default(),
        }
    }

    /// The name of the controller.
    pub(crate) fn name(&self) -> &str {
        self.reconciler.name()
    }

    /// The controller, to be inspected.
    pub(crate) fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    /// The numbers of the controller.
    pub(crate) fn metrics(&self) -> ControllerMetrics {
        self.reconciler.metrics()
    }

    /// Starts the controller, unless it runs.
    pub(crate) fn start(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return;
        }
        let (reconciler, end) = (Arc::clone(&self.reconciler), CancellationToken::new());
        let lost = end.clone();
        let task = tokio::spawn(async move {
            // A controller that was stopped could not run again; one whose term is lost can.
            reconciler.lead(&CancellationToken::new(), &lost).await
        });
        *running = Some(Running { end, task });
    }

    /// Ends the controller; its reconcile was dropped and joined when this returns.
    pub(crate) async fn end(&self) -> Result<(), Failure> {
        let running = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.take()
        };
        let Some(Running { end, task }) = running else {
            return Ok(());
        };
        end.cancel();
        let failed = |error: &dyn fmt::Display| Failure::new(format!("{}: {error}", self.name()));
        match task.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(failed(&error)),
        }
    }
}

impl fmt::Debug for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mistake").field(&self.name()).finish()
    }
}

/// The mistake: a status that is another one each time.
async fn write_the_time(deployment: Arc<Deployment>, cx: Ctx<()>) -> Result<Action, Error> {
    tokio::time::sleep(PAUSE).await;
    let deployments: Api<Deployment> = Api::namespaced(cx.client()?, NAMESPACE);
    let patch = json!({"status": {"conditions": [{
        "type": "Progressing", "status": "True", "reason": "Checked",
        "message": Timestamp::now().to_string(),
    }]}});
    let params = PatchParams {
        field_manager: Some(cx.field_manager().to_owned()),
        ..PatchParams::default()
    };
    let name = deployment.name_any();
    deployments
        .patch_status(&name, &params, &Patch::Merge(&patch))
        .await?;
    Ok(Action::await_change())
}

/// The mistake: a field that belongs to somebody else is set back.
async fn set_back(deployment: Arc<Deployment>, cx: Ctx<()>) -> Result<Action, Error> {
    tokio::time::sleep(PAUSE).await;
    let replicas = deployment.spec.replicas;
    if replicas != Some(REPLICAS) {
        cx.patch(&*deployment, json!({"spec": {"replicas": REPLICAS}}))
            .await?;
    }
    Ok(Action::await_change())
}
