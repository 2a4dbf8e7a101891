//! An own custom resource: a Website makes a ConfigMap and reports its status.
//!
//! ```text
//! struct WebsiteSpec ─ derive ─▶ definition ─▶ server
//! Website, its ConfigMap ─▶ informers ─▶ reconcile ─▶ apply the ConfigMap ─▶ status of the Website
//! ```
//!
//! Prints a line for each reconcile. A ConfigMap that somebody deletes comes back; one whose Website
//! is deleted goes with it, by its owner reference. On a cluster, create a `Website` of
//! `example.com/v1` with a `spec.title`.
//!
//! Upstream counterpart: `sample-controller:controller.go`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kinform::{Action, CancellationToken, Controller, Ctx, InformerFactory};
use kube::core::ObjectMeta;
use kube::{Client, CustomResource, ResourceExt as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::start::{Failure, Out, Start};

/// The desired state of a website.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
#[kube(status = "WebsiteStatus")]
pub struct WebsiteSpec {
    /// The title of its page.
    pub title: String,
}

/// The observed state of a website.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WebsiteStatus {
    /// The title that is served.
    pub served: Option<String>,
    /// `Ready`.
    #[serde(default)]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// The schema of conditions; the feature `schemars` of k8s-openapi derives one, for all its types.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type"],
            "properties": {"type": {"type": "string"}},
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

/// The ConfigMap of a website; `apply` adds namespace and owner.
fn page(website: &Website) -> ConfigMap {
    let html = format!("<h1>{}</h1>", website.spec.title);
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{}-page", website.name_any())),
            ..ObjectMeta::default()
        },
        data: Some([("index.html".to_owned(), html)].into()),
        ..ConfigMap::default()
    }
}

async fn reconcile(website: Arc<Website>, cx: Ctx<Out>) -> Result<Action, Failure> {
    cx.apply(&page(&website)).await?;
    cx.status(&website, |status| {
        status.served = Some(website.spec.title.clone());
        status.condition("Ready", true, "Served", "the page is up to date");
    })
    .await?;
    cx.line(format!("{} serves {:?}", cx.key(), website.spec.title));
    Ok(Action::await_change()) // an error retries the key, later each time
}

/// The operator, which the example about simulations runs, too.
pub(crate) async fn operator(
    client: Client,
    out: Out,
    stop: CancellationToken,
) -> Result<(), kinform::Error> {
    let factory = InformerFactory::new(client);
    let websites = factory.informer::<Website>();
    let controller = Controller::of(&websites)
        .owns(&factory.informer::<ConfigMap>())
        .context(out)
        .shutdown_on(stop);
    factory.start()?;
    controller.run(reconcile).await?;
    factory.shutdown().await;
    Ok(())
}

/// Installs the definition, and reconciles until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    start.install::<Website>().await?;
    Ok(operator(start.client, start.out, start.stop).await?)
}
