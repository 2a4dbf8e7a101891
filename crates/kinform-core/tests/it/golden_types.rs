//! Typed decoding of every recorded built-in object equals k8s-openapi's own.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::{
    admissionregistration, apps, autoscaling, batch, coordination, core, discovery, events,
    flowcontrol, networking, node, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinform_api::TypeMeta;
use kinform_core::{Object, Projection, TypedCache};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::golden::{expected_view, objects};

fn check<K>(meta: &TypeMeta, original: &Value, object: &Object)
where
    K: DeserializeOwned + Any + Send + Sync + PartialEq + Debug,
{
    let found = object.typed::<K>(meta, TypedCache::Always).unwrap();
    // From text, as an error is looked for: from a `Value`, each type would be compiled once more.
    let text = expected_view(meta, original).to_string();
    let expected: K = serde_json::from_str(&text).unwrap();
    assert_eq!(*found, expected);
    assert!(Arc::ptr_eq(
        &found,
        &object.typed::<K>(meta, TypedCache::Never).unwrap()
    ));
}

macro_rules! check_by_type {
    ($meta:expr, $original:expr, $object:expr, $($version:literal $kind:literal => $type:ty,)*) => {
        match (&*$meta.api_version, &*$meta.kind) {
            $(($version, $kind) => { check::<$type>($meta, $original, $object); true })*
            _ => false,
        }
    };
}

/// Returns whether the kind has a struct; then the object decodes as it, as serde_json decodes the original.
pub(crate) fn is_checked(meta: &TypeMeta, original: &Value, object: &Object) -> bool {
    check_by_type! { meta, original, object,
        "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" =>
            admissionregistration::v1::ValidatingWebhookConfiguration,
        "apiextensions.k8s.io/v1" "CustomResourceDefinition" => CustomResourceDefinition,
        "apps/v1" "ControllerRevision" => apps::v1::ControllerRevision,
        "apps/v1" "DaemonSet" => apps::v1::DaemonSet,
        "apps/v1" "Deployment" => apps::v1::Deployment,
        "apps/v1" "ReplicaSet" => apps::v1::ReplicaSet,
        "apps/v1" "StatefulSet" => apps::v1::StatefulSet,
        "autoscaling/v1" "Scale" => autoscaling::v1::Scale,
        "autoscaling/v2" "HorizontalPodAutoscaler" => autoscaling::v2::HorizontalPodAutoscaler,
        "batch/v1" "CronJob" => batch::v1::CronJob,
        "batch/v1" "Job" => batch::v1::Job,
        "coordination.k8s.io/v1" "Lease" => coordination::v1::Lease,
        "discovery.k8s.io/v1" "EndpointSlice" => discovery::v1::EndpointSlice,
        "events.k8s.io/v1" "Event" => events::v1::Event,
        "flowcontrol.apiserver.k8s.io/v1" "FlowSchema" => flowcontrol::v1::FlowSchema,
        "networking.k8s.io/v1" "Ingress" => networking::v1::Ingress,
        "networking.k8s.io/v1" "IngressClass" => networking::v1::IngressClass,
        "networking.k8s.io/v1" "NetworkPolicy" => networking::v1::NetworkPolicy,
        "node.k8s.io/v1" "RuntimeClass" => node::v1::RuntimeClass,
        "policy/v1" "PodDisruptionBudget" => policy::v1::PodDisruptionBudget,
        "rbac.authorization.k8s.io/v1" "ClusterRole" => rbac::v1::ClusterRole,
        "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" => rbac::v1::ClusterRoleBinding,
        "rbac.authorization.k8s.io/v1" "Role" => rbac::v1::Role,
        "rbac.authorization.k8s.io/v1" "RoleBinding" => rbac::v1::RoleBinding,
        "scheduling.k8s.io/v1" "PriorityClass" => scheduling::v1::PriorityClass,
        "storage.k8s.io/v1" "CSIDriver" => storage::v1::CSIDriver,
        "storage.k8s.io/v1" "CSINode" => storage::v1::CSINode,
        "storage.k8s.io/v1" "StorageClass" => storage::v1::StorageClass,
        "storage.k8s.io/v1" "VolumeAttachment" => storage::v1::VolumeAttachment,
        "v1" "ConfigMap" => core::v1::ConfigMap,
        "v1" "Endpoints" => core::v1::Endpoints,
        "v1" "Event" => core::v1::Event,
        "v1" "LimitRange" => core::v1::LimitRange,
        "v1" "Namespace" => core::v1::Namespace,
        "v1" "Node" => core::v1::Node,
        "v1" "PersistentVolume" => core::v1::PersistentVolume,
        "v1" "PersistentVolumeClaim" => core::v1::PersistentVolumeClaim,
        "v1" "Pod" => core::v1::Pod,
        "v1" "PodTemplate" => core::v1::PodTemplate,
        "v1" "ReplicationController" => core::v1::ReplicationController,
        "v1" "ResourceQuota" => core::v1::ResourceQuota,
        "v1" "Secret" => core::v1::Secret,
        "v1" "Service" => core::v1::Service,
        "v1" "ServiceAccount" => core::v1::ServiceAccount,
    }
}

/// Types that k8s-openapi has no struct for, or that are no objects of a store.
const OTHERS: [&str; 5] = [
    "APIGroupDiscovery",
    "Foo",
    "PartialObjectMetadata",
    "TokenRequest",
    "Widget",
];

#[test]
fn recorded_objects_decode_as_k8s_openapi_decodes_them() {
    let mut kinds = BTreeSet::new();
    for (meta, original) in objects() {
        let bytes = serde_json::to_vec(&original).unwrap();
        let object = Object::from_json(&bytes, &Projection::new()).unwrap();
        if is_checked(&meta, &original, &object) {
            kinds.insert((meta.api_version, meta.kind));
        } else {
            assert!(OTHERS.contains(&&*meta.kind), "{meta:?} is not compared");
            check::<Value>(&meta, &original, &object);
        }
    }
    assert_eq!(kinds.len(), 44);
}
