//! The sample controller: keeps a Deployment for every `Foo`.
//!
//! ```text
//! Foo {deploymentName, replicas} ─┐
//! Deployment (owned by a Foo) ────┴→ reconcile → create | repair Deployment, status of the Foo, Event
//! ```
//!
//! A library, so that a program with informers of its own (the demo) runs it on those; `main.rs` is the
//! whole program for a cluster that a kubeconfig names.
//!
//! Upstream counterpart: `sample-controller:controller.go`. Differences: repairs patch the one field
//! instead of replacing the Deployment; a status that is already correct is not written again; a
//! Deployment that the cache does not have yet is read from the server. The program has a finalizer
//! and webhooks, too.

mod foo;
mod reconcile;
#[cfg(feature = "operator")]
pub mod webhooks;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use kinform::controller::{Controller, ControllerMetrics};
use kinform::events::{EventDelivery, EventRecorder};
use kinform::{Error, Informer, InformerFactory, Reconciler, Share, Target};
use kube::Client;
use tokio_util::sync::CancellationToken;

pub use crate::foo::{Foo, FooSpec, FooStatus, definition, install_definition};
use crate::reconcile::State;
pub use crate::reconcile::{Failed, MESSAGE_SYNCED, REASON_EXISTS, REASON_SYNCED, deployment_for};

/// The controller's name in events.
pub const COMPONENT: &str = "sample-controller";

/// Workers, as in upstream's `main.go`.
const WORKERS: usize = 2;

/// The finalizer of a Foo: its Deployment goes first.
pub const FINALIZER: &str = "samplecontroller.k8s.io/cleanup";

/// The controller with its reconcile function and its finalizer, on the informers of `factory`; it
/// writes with `client` and tells people by `events`.
///
/// [`SampleController`] has no finalizer: what runs for a moment must leave no Foo behind that only it
/// can end.
pub fn reconciler(factory: &InformerFactory, client: Client, events: EventRecorder) -> Reconciler {
    controller(factory, client, events)
        .finalizer(FINALIZER, reconcile::cleanup)
        .reconciling(reconcile::reconcile)
}

/// The same for a replica that works on its share of the Foos.
pub fn sharded_reconciler(
    factory: &InformerFactory,
    client: Client,
    events: EventRecorder,
    share: &Share,
) -> Reconciler {
    let foos = factory.select::<Foo>(Target::<Foo>::new()).share(share);
    let deployments = factory.select::<Deployment>(Target::<Deployment>::new());
    let informers = (foos.build(), deployments.share_of_owners(share).build());
    controller_of(informers, client, events)
        .sharded(share)
        .finalizer(FINALIZER, reconcile::cleanup)
        .reconciling(reconcile::reconcile)
}

fn controller(
    factory: &InformerFactory,
    client: Client,
    events: EventRecorder,
) -> Controller<Foo, State> {
    let informers = (factory.informer::<Foo>(), factory.informer::<Deployment>());
    controller_of(informers, client, events)
}

fn controller_of(
    (foos, deployments): (Informer<Foo>, Informer<Deployment>),
    client: Client,
    events: EventRecorder,
) -> Controller<Foo, State> {
    let controller = Controller::of(&foos).owns(&deployments).client(client);
    controller.workers(WORKERS).context(State {
        events,
        deployments,
    })
}

/// The controller, ready to run.
#[derive(Debug)]
pub struct SampleController {
    controller: Controller<Foo, State>,
    delivery: EventDelivery,
}

impl SampleController {
    /// A controller on the informers of `factory`, which its owner starts; it writes with `client`.
    pub fn new(factory: &InformerFactory, client: Client) -> Self {
        let (events, delivery) = EventRecorder::new(client.clone(), COMPONENT);
        let controller = controller(factory, client, events);
        Self {
            controller,
            delivery,
        }
    }

    /// The statistics, readable while it runs.
    pub fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    /// Runs until `shutdown` is cancelled; then running reconciles and queued events end.
    ///
    /// # Errors
    /// As [`Controller::run`].
    ///
    /// # Cancel safety
    /// Dropping it drops the running reconciles; no task is left.
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
        // Boxed, so that it is compiled here and not in each program that runs it.
        self.run_until(shutdown).boxed()
    }

    async fn run_until(self, shutdown: CancellationToken) -> Result<(), Error> {
        let events_end = CancellationToken::new();
        let controller = async {
            let _events_end = events_end.clone().drop_guard();
            self.controller
                .shutdown_on(shutdown)
                .run(reconcile::reconcile)
                .await
        };
        let (ended, ()) = futures::join!(controller, self.delivery.run(events_end.clone()));
        ended
    }
}

/// Runs the controller on the informers of `factory` until `shutdown` is cancelled.
///
/// # Errors
/// The factory was shut down, or reconciles did not end in time.
pub async fn run(
    factory: &InformerFactory,
    client: Client,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let controller = SampleController::new(factory, client);
    factory.start()?;
    controller.run(shutdown).await
}
