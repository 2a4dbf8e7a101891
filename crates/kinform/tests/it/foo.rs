//! A custom resource with a status, as kube's derive would make it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::discovery::ApiResource;
use kube_core::object::HasStatus;
use kube_core::{CustomResourceExt, ObjectMeta, Resource, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Foo {
    #[serde(flatten)]
    types: Option<TypeMeta>,
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: FooSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<FooStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FooSpec {
    #[serde(default)]
    pub(crate) replicas: i32,
    /// Fields that tests make up.
    #[serde(flatten)]
    pub(crate) rest: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FooStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

impl Foo {
    pub(crate) fn named(name: &str) -> Self {
        let mut foo = Self {
            types: Some(TypeMeta::resource::<Self>()),
            ..Self::default()
        };
        foo.metadata.name = Some(name.to_owned());
        foo.metadata.namespace = Some("default".to_owned());
        foo
    }
}

impl Resource for Foo {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Foo".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "foos".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasStatus for Foo {
    type Status = FooStatus;

    fn status(&self) -> Option<&FooStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<FooStatus> {
        &mut self.status
    }
}

impl CustomResourceExt for Foo {
    fn crd() -> CustomResourceDefinition {
        let kept = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        serde_json::from_value(json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "subresources": {"status": {}, "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.ready",
                    }},
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": kept, "status": kept},
                    }},
                }],
            },
        }))
        .unwrap()
    }

    fn crd_name() -> &'static str {
        "foos.example.com"
    }

    fn api_resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }

    fn shortnames() -> &'static [&'static str] {
        &[]
    }
}
