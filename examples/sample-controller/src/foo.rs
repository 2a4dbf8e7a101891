//! `Foo`, the custom resource, and its definition.
//!
//! ```text
//! struct FooSpec → derive → Foo, its CustomResourceDefinition → the server
//! ```
//!
//! Upstream counterpart: `sample-controller:pkg/apis/samplecontroller/v1alpha1/types.go`,
//! `artifacts/examples/crd-status-subresource.yaml`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::{Client, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of a Foo.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus",
    annotation("api-approved.kubernetes.io", "unapproved, experimental-only"),
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The name of the Deployment.
    pub deployment_name: String,
    /// The number of replicas; one if absent.
    #[schemars(range(min = 0, max = 10))]
    pub replicas: Option<i32>,
}

/// The observed state of a Foo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// Replicas of the Deployment that are available.
    #[serde(default)]
    pub available_replicas: i32,
}

/// The definition of `foos.samplecontroller.k8s.io`.
///
/// Its group is one of Kubernetes' own, so a server requires a statement about its approval. Like
/// upstream's sample, it states that it was not approved.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = Foo::crd();
    definition.metadata.annotations = Some(BTreeMap::from([(
        "api-approved.kubernetes.io".to_owned(),
        "unapproved, experimental-only".to_owned(),
    )]));
    definition
}

/// Defines Foo, unless it is defined, and waits until the server serves it. An existing definition,
/// upstream's for example, is left unchanged.
///
/// # Errors
/// The server refuses, or the definition is not served within ten seconds.
///
/// # Cancel safety
/// The definition may exist although the wait was dropped.
pub fn install_definition(client: Client) -> BoxFuture<'static, Result<(), kube::Error>> {
    // Boxed, so that it is compiled here and not in each program that calls it.
    install(client).boxed()
}

async fn install(client: Client) -> Result<(), kube::Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let definition = definition();
    let name = definition.name_any();
    // A user without the right to define types can still use existing ones.
    if definitions.get_opt(&name).await?.is_none() {
        match definitions
            .create(&PostParams::default(), &definition)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
    }
    // BOUND: a hundred requests in ten seconds; a server needs one or two.
    for _ in 0..100 {
        if definitions
            .get(&name)
            .await
            .is_ok_and(|definition| is_established(&definition))
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let late = format!("{name} is defined, but not served after ten seconds");
    Err(kube::Error::Service(late.into()))
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref());
    conditions
        .flatten()
        .any(|is| is.type_ == "Established" && is.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_the_one_that_upstream_installs() {
        let json = serde_json::to_value(definition()).unwrap();
        assert_eq!(json["metadata"]["name"], "foos.samplecontroller.k8s.io");
        let version = &json["spec"]["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!(version["subresources"]["status"], serde_json::json!({}));
        let properties = &version["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(
            properties["spec"]["properties"]["deploymentName"]["type"],
            "string"
        );
        assert_eq!(
            properties["status"]["properties"]["availableReplicas"]["type"],
            "integer"
        );
    }
}
