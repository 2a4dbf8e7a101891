//! The reconciliation of one Foo: its Deployment exists, is its own and has the desired replicas.
//!
//! ```text
//! Foo (from the cache) + Deployment (from the cache) → writes: create | patch replicas, patch status
//! Foo that is being deleted ──────────────────────────→ cleanup: delete the Deployment
//! ```
//!
//! Called again until there is no more to do; repeating a write does no harm.
//!
//! Upstream counterpart: `sample-controller:controller.go` (`syncHandler`, `newDeployment`).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kinform::controller::{Action, Ctx};
use kinform::events::{EventRecorder, EventType};
use kinform::{Informer, ObjectKey};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::Foo;

/// The reason of the event for a Foo in its desired state.
pub const REASON_SYNCED: &str = "Synced";
/// The reason of the event for a Foo whose Deployment has another owner.
pub const REASON_EXISTS: &str = "ErrResourceExists";
/// The message of [`REASON_SYNCED`].
pub const MESSAGE_SYNCED: &str = "Foo synced successfully";

/// The context of every reconcile.
pub(crate) struct State {
    pub(crate) events: EventRecorder,
    pub(crate) deployments: Informer<Deployment>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// The reason why a Foo could not be reconciled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// The Deployment of that name has another owner.
    #[error("Resource {0:?} already exists and is not managed by Foo")]
    NotOurs(String),
    /// The Deployment in the cache does not decode.
    #[error("the Deployment does not decode")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The controller has no client.
    #[error("the controller cannot write")]
    NoClient(#[source] kinform::Error),
    /// The Deployment of a deleted Foo could not be deleted.
    #[error("cannot delete the Deployment")]
    Undeleted(#[source] kinform::Error),
    /// The server refused, or did not reply.
    #[error("cannot {verb} the {what}")]
    Api {
        /// The verb of the request.
        verb: &'static str,
        /// The object of the request.
        what: &'static str,
        /// The error of the request.
        #[source]
        source: kube::Error,
    },
}

impl Failed {
    fn to(verb: &'static str, what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { verb, what, source }
    }
}

pub(crate) async fn reconcile(foo: Arc<Foo>, cx: Ctx<State>) -> Result<Action, Failed> {
    let name = &foo.spec.deployment_name;
    if name.is_empty() {
        // A retry cannot help: the next change of the Foo brings it back.
        tracing::warn!("deployment name must be specified");
        return Ok(Action::await_change());
    }
    let namespace = foo.namespace().unwrap_or_default();
    // What is written through it is in the caches when this Foo is reconciled next. It has a task,
    // and most runs write nothing.
    let client = || cx.client().map_err(Failed::NoClient);
    let mut deployment = match cached(&cx.deployments, &namespace, name)? {
        Some(deployment) => deployment,
        None => Arc::new(create(&Api::namespaced(client()?, &namespace), &foo).await?),
    };
    if !is_controlled_by(&deployment, &foo) {
        let failed = Failed::NotOurs(name.clone());
        let about = foo.object_ref(&());
        cx.events.event(
            about,
            EventType::Warning,
            REASON_EXISTS,
            &failed.to_string(),
        );
        return Err(failed);
    }
    let replicas = deployment.spec.replicas;
    if foo.spec.replicas.is_some() && foo.spec.replicas != replicas {
        let patch = json!({"spec": {"replicas": foo.spec.replicas}});
        let params = PatchParams::default();
        let deployments: Api<Deployment> = Api::namespaced(client()?, &namespace);
        let patched = deployments
            .patch(name, &params, &Patch::Merge(&patch))
            .await;
        deployment = Arc::new(patched.map_err(Failed::to("patch", "Deployment"))?);
    }
    let status = deployment.status.as_ref();
    let available = status.and_then(|s| s.available_replicas).unwrap_or(0);
    let told = foo.status.as_ref().map(|status| status.available_replicas);
    if told != Some(available) {
        update_status(&Api::namespaced(client()?, &namespace), &foo, available).await?;
    }
    cx.events.event(
        foo.object_ref(&()),
        EventType::Normal,
        REASON_SYNCED,
        MESSAGE_SYNCED,
    );
    Ok(Action::await_change())
}

/// Deletes the Deployment of a Foo that is being deleted, unless it has another owner.
///
/// The garbage collector does it, too, and later. A finalizer is for what it cannot know.
pub(crate) async fn cleanup(foo: Arc<Foo>, cx: Ctx<State>) -> Result<(), Failed> {
    let namespace = foo.namespace().unwrap_or_default();
    let Some(deployment) = cached(&cx.deployments, &namespace, &foo.spec.deployment_name)? else {
        return Ok(());
    };
    if is_controlled_by(&deployment, &foo) {
        cx.delete(&*deployment).await.map_err(Failed::Undeleted)?;
    }
    Ok(())
}

/// The Deployment in the cache: for reading only.
fn cached(
    deployments: &Informer<Deployment>,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Deployment>>, Failed> {
    let Some(object) = deployments.get(&ObjectKey::new(Some(namespace), name)) else {
        return Ok(None);
    };
    object
        .typed()
        .map(Some)
        .map_err(|error| Failed::Unreadable(error.into()))
}

/// Creates the Deployment, or returns an existing one that is not in the cache yet.
async fn create(deployments: &Api<Deployment>, foo: &Foo) -> Result<Deployment, Failed> {
    let wanted = deployment_for(foo);
    match deployments.create(&PostParams::default(), &wanted).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let name = &foo.spec.deployment_name;
            deployments
                .get(name)
                .await
                .map_err(Failed::to("get", "Deployment"))
        }
        created => created.map_err(Failed::to("create", "Deployment")),
    }
}

async fn update_status(foos: &Api<Foo>, foo: &Foo, available: i32) -> Result<(), Failed> {
    let patch = json!({"status": {"availableReplicas": available}});
    let params = PatchParams::default();
    let patched = foos
        .patch_status(&foo.name_any(), &params, &Patch::Merge(&patch))
        .await;
    patched
        .map(drop)
        .map_err(Failed::to("update", "status of the Foo"))
}

/// Returns whether `foo` is the one owner that manages `deployment`.
fn is_controlled_by(deployment: &Deployment, foo: &Foo) -> bool {
    let controller = deployment
        .owner_references()
        .iter()
        .find(|is| is.controller == Some(true));
    controller.is_some_and(|owner| Some(&owner.uid) == foo.metadata.uid.as_ref())
}

/// The Deployment of a Foo: nginx, labelled with the Foo's name and owned by it.
pub fn deployment_for(foo: &Foo) -> Deployment {
    let labels: BTreeMap<_, _> = [("app", "nginx"), ("controller", &foo.name_any())]
        .map(|(k, v)| (k.into(), v.into()))
        .into();
    let container = Container {
        name: "nginx".into(),
        image: Some("nginx:latest".into()),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(foo.spec.deployment_name.clone()),
            namespace: foo.namespace(),
            owner_references: foo.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: foo.spec.replicas,
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..Default::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        },
        status: None,
    }
}
