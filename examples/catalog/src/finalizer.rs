//! A finalizer: something outside of the cluster that is cleaned up before its object goes.
//!
//! ```text
//! Bucket comes ─▶ finalizer stored ─▶ reconcile ─▶ created in the cloud
//! Bucket is deleted ─▶ cleanup, until it succeeds ─▶ finalizer removed ─▶ gone
//! ```
//!
//! Prints what it creates and deletes. The cloud is a set of names here; it refuses the first deletion,
//! which is tried again. Garbage collection by owner references needs no finalizer.
//!
//! Upstream counterpart: `controller-runtime:pkg/finalizer`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use kinform::{Action, Cleanup, Controller, Ctx, InformerFactory};
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::start::{Failure, Out, Start};

/// The finalizer's name: a domain, and what it is for.
pub const FINALIZER: &str = "example.com/bucket";

/// The desired state of a bucket.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Bucket", namespaced)]
pub struct BucketSpec {
    /// Its place.
    pub region: String,
}

/// Buckets, and those whose deletion was refused once.
#[derive(Default)]
struct Cloud {
    buckets: BTreeSet<String>,
    refused: BTreeSet<String>,
}

struct State {
    cloud: Mutex<Cloud>,
    out: Out,
}

async fn reconcile(bucket: Arc<Bucket>, cx: Ctx<State>) -> Result<Action, Failure> {
    let mut cloud = cx.cloud.lock().unwrap_or_else(PoisonError::into_inner);
    // It is called again for a bucket that is there.
    if cloud.buckets.insert(bucket.name_any()) {
        cx.out
            .line(format!("{} created in {}", cx.key(), bucket.spec.region));
    }
    Ok(Action::await_change())
}

/// Instead of `reconcile`, while the object is being deleted. It may be called again after it succeeded.
async fn cleanup(bucket: Arc<Bucket>, cx: Ctx<State>) -> Result<Cleanup, Failure> {
    let mut cloud = cx.cloud.lock().unwrap_or_else(PoisonError::into_inner);
    if cloud.refused.insert(bucket.name_any()) {
        cx.out.line(format!("{} is not empty yet", cx.key()));
        return Err("the cloud refused".into()); // the key is retried; the object stays
    }
    cloud.buckets.remove(&bucket.name_any());
    cx.out.line(format!("{} deleted in the cloud", cx.key()));
    Ok(Cleanup::Done)
}

/// Reconciles until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    start.install::<Bucket>().await?;
    let factory = InformerFactory::new(start.client);
    let buckets = factory.informer::<Bucket>();
    let state = State {
        cloud: Mutex::default(),
        out: start.out,
    };
    let controller = Controller::of(&buckets)
        .context(state)
        .finalizer(FINALIZER, cleanup)
        .shutdown_on(start.stop);
    factory.start()?;
    controller.run(reconcile).await?;
    factory.shutdown().await;
    Ok(())
}
