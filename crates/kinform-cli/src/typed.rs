//! Maps a discovered resource to the Rust type that a program would use for it.
//!
//! ```text
//! (group, kind) → k8s-openapi's type | DynamicObject → every object decoded and kept
//! ```
//!
//! For `measure --typed`, which shows the cost of a cache of typed values.

use std::any::Any;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    coordination::v1::Lease,
    core::v1::{
        ConfigMap, Endpoints, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        Secret, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, NetworkPolicy},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kinform::Informer;
use kinform_core::object::typed::TypedCache;
use kube_core::DynamicObject;
use serde::de::DeserializeOwned;

use crate::catalogue::ResourceEntry;

/// Decodes every stored object into its type and keeps the value along with the bytes.
pub(crate) fn decode_and_keep(entry: &ResourceEntry, informer: &Informer<DynamicObject>) {
    macro_rules! by_kind {
        ($($group:literal $kind:literal $type:ty,)*) => {
            match (entry.gvr.group.as_str(), entry.kind.as_str()) {
                $(($group, $kind) => all::<$type>(informer),)*
                _ => {
                    crate::progress!(
                        "{}: decoded as dynamic objects, as this program has no type of that kind",
                        entry.title()
                    );
                    all::<DynamicObject>(informer)
                }
            }
        };
    }
    let undecodable = by_kind! {
        "" "ConfigMap" ConfigMap,
        "" "Endpoints" Endpoints,
        "" "Event" Event,
        "" "Namespace" Namespace,
        "" "Node" Node,
        "" "PersistentVolume" PersistentVolume,
        "" "PersistentVolumeClaim" PersistentVolumeClaim,
        "" "Pod" Pod,
        "" "Secret" Secret,
        "" "Service" Service,
        "" "ServiceAccount" ServiceAccount,
        "apps" "DaemonSet" DaemonSet,
        "apps" "Deployment" Deployment,
        "apps" "ReplicaSet" ReplicaSet,
        "apps" "StatefulSet" StatefulSet,
        "batch" "CronJob" CronJob,
        "batch" "Job" Job,
        "coordination.k8s.io" "Lease" Lease,
        "discovery.k8s.io" "EndpointSlice" EndpointSlice,
        "networking.k8s.io" "Ingress" Ingress,
        "networking.k8s.io" "NetworkPolicy" NetworkPolicy,
        "rbac.authorization.k8s.io" "ClusterRole" ClusterRole,
        "rbac.authorization.k8s.io" "ClusterRoleBinding" ClusterRoleBinding,
        "rbac.authorization.k8s.io" "Role" Role,
        "rbac.authorization.k8s.io" "RoleBinding" RoleBinding,
    };
    if undecodable > 0 {
        crate::progress!(
            "{}: {undecodable} objects do not fit their type",
            entry.title()
        );
    }
}

/// Decodes every object and returns the number of failures.
fn all<K: DeserializeOwned + Any + Send + Sync>(informer: &Informer<DynamicObject>) -> usize {
    let listing = informer.list();
    let decoded = listing.iter().map(|object| {
        object
            .raw()
            .typed::<K>(object.type_meta(), TypedCache::Always)
    });
    decoded.filter(Result::is_err).count()
}
