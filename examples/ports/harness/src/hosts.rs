//! The host configurations of a measurement: made, changed, deleted and judged by the harness.
//!
//! ```text
//! Hosts: Port ─▶ configurations with their six objects; one host, two hosts; as many as asked for?
//! ```
//!
//! No controller of Deployments runs: no host ever works, and the status says 0.

use hosts::{CONTROLLER, FINALIZER, HostConfig, desired};
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cluster::Body;
use crate::measure::Plan;
use crate::{Cluster, Column, Port, StageError};

/// The path of configurations.
const PATH: &str = "/apis/ports.kinform.dev/v1/namespaces/default/hostconfigs";
/// The path of Deployments.
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// The port of the controller of hosts.
#[derive(Clone, Copy, Debug)]
pub struct Hosts;

impl Port for Hosts {
    const NAME: &'static str = "hosts";
    type Object = HostConfig;

    fn plan() -> Plan {
        Plan::full(&[500, 2_000], 500)
    }

    async fn seed(cluster: &Cluster, column: Column, count: usize) -> Result<(), StageError> {
        for number in 0..count {
            let made = make(cluster, &name(number)).await?;
            let config: HostConfig = serde_json::from_value(made)?;
            let mut owner = config.controller_owner_ref(&()).ok_or("no uid")?;
            // kinform's owners hold their deletion up, where it is asked for in the foreground.
            owner.block_owner_deletion = (column == Column::Kinform).then_some(true);
            let manager = &*manager(column);
            let by = (&owner, manager);
            own(cluster, by, desired::config_map(&config, false)).await?;
            own(cluster, by, desired::service_account(&config)).await?;
            own(cluster, by, desired::role(&config)).await?;
            own(cluster, by, desired::role_binding(&config)).await?;
            own(cluster, by, desired::deployment(&config, false)).await?;
            own(cluster, by, desired::service(&config)).await?;
            let status = json!({"status": {"hosts": 0, "hasCredentials": false}});
            let path = format!("{PATH}/{}/status?fieldManager={manager}", name(number));
            cluster
                .call(Method::PATCH, &path, Body::Merge(&status))
                .await?;
        }
        Ok(())
    }

    async fn toggle(cluster: &Cluster, number: usize, on: bool) -> Result<(), StageError> {
        let patch = json!({"spec": {"hostReplicas": 1 + i32::from(on)}});
        let path = format!("{PATH}/{}?fieldManager=kubectl-edit", name(number));
        cluster
            .call(Method::PATCH, &path, Body::Merge(&patch))
            .await?;
        Ok(())
    }

    async fn create(cluster: &Cluster, name: &str) -> Result<(), StageError> {
        make(cluster, name).await.map(drop)
    }

    async fn delete(cluster: &Cluster, name: &str) -> Result<(), StageError> {
        cluster
            .call(Method::DELETE, &format!("{PATH}/{name}"), Body::Empty)
            .await?;
        Ok(())
    }

    async fn unsettled(cluster: &Cluster) -> Result<Vec<String>, StageError> {
        let list = cluster.call(Method::GET, PATH, Body::Empty).await?;
        let deployments = cluster.call(Method::GET, DEPLOYMENTS, Body::Empty).await?;
        let replicas = |name: &Value| {
            let mut all = deployments["items"].as_array().into_iter().flatten();
            let found = all.find(|item| item["metadata"]["name"] == *name);
            found.map(|item| item["spec"]["replicas"].clone())
        };
        let items = list["items"].as_array().into_iter().flatten();
        let items = items.filter(|item| {
            !item["metadata"]["deletionTimestamp"].is_null()
                || item["status"]["hosts"].is_null()
                || replicas(&item["metadata"]["name"]) != Some(item["spec"]["hostReplicas"].clone())
        });
        let name = |item: &Value| {
            item["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Ok(items.map(name).collect())
    }
}

fn name(number: usize) -> String {
    format!("h-{number}")
}

async fn make(cluster: &Cluster, name: &str) -> Result<Value, StageError> {
    let config = json!({
        "apiVersion": "ports.kinform.dev/v1",
        "kind": "HostConfig",
        "metadata": {"name": name, "namespace": "default", "finalizers": [FINALIZER]},
        "spec": {
            "lattice": format!("lattice-{name}"), "version": "1.4.0", "hostReplicas": 1,
            "hostLabels": {"zone": "north", "disk": "fast"}, "logLevel": "DEBUG",
        },
    });
    let path = format!("{PATH}?fieldManager=kubectl-create");
    cluster
        .call(Method::POST, &path, Body::Object(&config))
        .await
}

/// The field manager with which a column applies. With another one here, each apply at a start would
/// change its object.
fn manager(column: Column) -> String {
    match column {
        Column::KubeRuntime => CONTROLLER.to_owned(),
        // The operator, then the controller.
        Column::Kinform => format!("{CONTROLLER}/{CONTROLLER}"),
    }
}

/// Applies an object as the controller does.
async fn own<K>(
    cluster: &Cluster,
    (owner, manager): (&OwnerReference, &str),
    mut object: K,
) -> Result<(), StageError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    object.owner_references_mut().push(owner.clone());
    let (name, place) = (object.name_any(), K::url_path(&(), Some("default")));
    let path = format!("{place}/{name}?fieldManager={manager}&force=true");
    let object = serde_json::to_value(&object)?;
    cluster
        .call(Method::PATCH, &path, Body::Apply(&object))
        .await?;
    Ok(())
}
