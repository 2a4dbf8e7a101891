//! Deployments until all of their pods are available.
//!
//! ```text
//! nodes, Deployments created ─▶ controllers, scheduler, scripted pods ─▶ watch: condition Available
//! ```

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::subject::Failed;

/// BOUND: creations under way.
const AT_ONCE: usize = 32;

fn deployment(name: &str, replicas: usize) -> Value {
    let labels = json!({"app": name});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example/app:1",
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]},
            },
        },
    })
}

fn is_available(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas;
    let status = deployment.status.as_ref();
    status.is_some_and(|status| status.available_replicas == wanted)
}

/// Creates one Deployment of three pods, and returns when it is available.
///
/// # Errors
/// The server refuses it, or ends the watch.
pub async fn one_available(client: &Client, name: &str) -> Result<(), Failed> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let wanted = serde_json::from_value(deployment(name, 3))?;
    let made = deployments.create(&PostParams::default(), &wanted).await?;
    let version = made.metadata.resource_version.unwrap_or_default();
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = deployments.watch(&only, &version).await?.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Modified(deployment) = event
            && is_available(&deployment)
        {
            return Ok(());
        }
    }
    Err("the watch ended before the Deployment was available".into())
}

/// Creates nodes, and as many Deployments of as many pods, and returns when all are available.
///
/// # Errors
/// The server refuses an object, or ends the watch.
pub async fn all_available(
    client: &Client,
    nodes: usize,
    (deployments, pods): (usize, usize),
) -> Result<(), Failed> {
    let api: Api<Node> = Api::all(client.clone());
    let made = stream::iter(0..nodes).map(|number| {
        let api = api.clone();
        async move {
            let node = json!({"metadata": {"name": format!("bench-{number:03}")},
                "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                    "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}}});
            let node = serde_json::from_value(node)?;
            api.create(&PostParams::default(), &node).await?;
            Ok::<_, Failed>(())
        }
    });
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let api: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let begin = api.list_metadata(&ListParams::default().limit(1)).await?;
    let version = begin.metadata.resource_version.unwrap_or_default();
    let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
    let made = stream::iter(0..deployments).map(|number| {
        let api = api.clone();
        async move {
            let wanted = deployment(&format!("app-{number:04}"), pods);
            let wanted = serde_json::from_value(wanted)?;
            api.create(&PostParams::default(), &wanted).await?;
            Ok::<_, Failed>(())
        }
    });
    let make = made.buffer_unordered(AT_ONCE).try_collect::<()>();
    let wait = async {
        let mut available = std::collections::BTreeSet::new();
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Modified(deployment) = event
                && is_available(&deployment)
            {
                available.insert(deployment.metadata.name);
                if available.len() == deployments {
                    return Ok(());
                }
            }
        }
        Err::<(), Failed>("the watch ended before all Deployments were available".into())
    };
    tokio::try_join!(make, wait)?;
    Ok(())
}
