//! The controller: keeps a ConfigMap for every `Gizmo`.
//!
//! `api.rs` is the custom resource, `reconcile.rs` what is done for one object, and `main.rs` the
//! program around it. The tests run the same controller on an embedded API server.

pub mod api;
mod reconcile;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Controller, Reconciler};
use kinform_operator::Operator;

pub use crate::reconcile::READY;

/// The name in events, in the lease and as a field manager.
pub const NAME: &str = "gizmo-operator";

/// The finalizer: while an object has it, the server keeps the object until the cleanup is done.
pub const FINALIZER: &str = "gizmo.example/cleanup";

/// Objects that are reconciled at the same time.
const WORKERS: usize = 2;

/// The controller, on the caches of an operator.
pub fn controller(operator: &Operator) -> Reconciler {
    let objects = operator.informer::<api::Gizmo>();
    let config_maps = operator.informer::<ConfigMap>();
    Controller::of(&objects)
        .owns(&config_maps)
        .workers(WORKERS)
        .context(reconcile::State {
            events: operator.events().clone(),
            config_maps,
        })
        .finalizer(FINALIZER, reconcile::cleanup)
        .reconciling(reconcile::reconcile)
}
