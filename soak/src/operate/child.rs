//! The controller: each parent has a child with the parent's number.
//!
//! ```text
//! ConfigMap with the label of parents ──reconcile──▶ Secret `child-NAME`, owned, with the number
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinform::controller::{Controller, Reconciler};
use kinform::{Action, Ctx, Error, Informer};

use super::witness::Witness;

/// The parents among the config maps.
pub(super) const PARENTS: &str = "soak.kinform/parent=yes";
/// The key of the number in both.
pub(super) const NUMBER: &str = "number";
/// Reconciles at a time.
const WORKERS: usize = 4;

/// The controller, ready to be added.
pub(super) fn controller(
    parents: &Informer<ConfigMap>,
    children: &Informer<Secret>,
    witness: &Arc<Witness>,
) -> Reconciler {
    Controller::of(parents)
        .owns(children)
        .workers(WORKERS)
        .context(Arc::clone(witness))
        .reconciling(reconcile)
}

async fn reconcile(parent: Arc<ConfigMap>, cx: Ctx<Arc<Witness>>) -> Result<Action, Error> {
    let child = Secret {
        metadata: ObjectMeta {
            name: Some(name(cx.key().name())),
            namespace: cx.key().namespace().map(str::to_owned),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            NUMBER.to_owned(),
            ByteString(number(&parent)),
        )])),
        ..Secret::default()
    };
    cx.apply(&child).await?;
    cx.reconciles.fetch_add(1, Ordering::Relaxed);
    Ok(Action::await_change())
}

/// The name of a parent's child.
pub(super) fn name(parent: &str) -> String {
    format!("child-{parent}")
}

/// The number of a parent.
pub(super) fn number(parent: &ConfigMap) -> Vec<u8> {
    let number = parent.data.as_ref().and_then(|data| data.get(NUMBER));
    number.map_or_else(Vec::new, |number| number.clone().into_bytes())
}
