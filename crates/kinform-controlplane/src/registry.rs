//! The controllers by name, and selections of them.
//!
//! ```text
//! "deployment,replicaset" → Selection | UnknownController (by name)
//! ```
//!
//! Upstream counterpart: `kube-controller-manager --controllers`.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A built-in controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ControllerName {
    /// Rolls out Deployments.
    Deployment,
    /// Keeps the number of pods of a ReplicaSet.
    ReplicaSet,
    /// Keeps the number of pods of a ReplicationController.
    ReplicationController,
    /// Keeps the pods of StatefulSets, by their names and in their order.
    StatefulSet,
    /// Runs the pods of Jobs.
    Job,
    /// Keeps a pod of a DaemonSet on every node that wants one.
    DaemonSet,
    /// Binds PersistentVolumeClaims and PersistentVolumes.
    VolumeBinder,
    /// Lets deleted PersistentVolumeClaims go when no pod uses them.
    ClaimProtection,
    /// Starts the Jobs of CronJobs.
    CronJob,
    /// Deletes finished Jobs after a time.
    TtlAfterFinished,
    /// Counts the pods of PodDisruptionBudgets.
    Disruption,
    /// Sizes workloads by the usage of their pods.
    HorizontalPodAutoscaler,
    /// Keeps the endpoints of Services.
    EndpointSlice,
    /// Keeps the deprecated Endpoints of Services.
    Endpoints,
    /// Mirrors Endpoints of others in EndpointSlices.
    EndpointSliceMirroring,
    /// Notices lost nodes, and taints nodes by their conditions.
    NodeLifecycle,
    /// Deletes pods from nodes whose taints evict.
    TaintEviction,
    /// Deletes pods that nobody ends.
    PodGarbage,
    /// Tells kubelets how long they may keep secrets.
    Ttl,
    /// Binds pods to nodes.
    Scheduler,
    /// Plays nodes and their pods.
    Kubelet,
}

impl ControllerName {
    /// All controllers.
    pub const ALL: [Self; 21] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::StatefulSet,
        Self::Job,
        Self::DaemonSet,
        Self::VolumeBinder,
        Self::ClaimProtection,
        Self::CronJob,
        Self::TtlAfterFinished,
        Self::Disruption,
        Self::HorizontalPodAutoscaler,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::EndpointSliceMirroring,
        Self::NodeLifecycle,
        Self::TaintEviction,
        Self::PodGarbage,
        Self::Ttl,
        Self::Scheduler,
        Self::Kubelet,
    ];

    /// The name in `--controllers`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::ReplicationController => "replicationcontroller",
            Self::StatefulSet => "statefulset",
            Self::Job => "job",
            Self::DaemonSet => "daemonset",
            Self::VolumeBinder => "persistentvolume-binder",
            Self::ClaimProtection => "claimprotection",
            Self::CronJob => "cronjob",
            Self::TtlAfterFinished => "ttl-after-finished",
            Self::Disruption => "disruption",
            Self::HorizontalPodAutoscaler => "horizontalpodautoscaling",
            Self::EndpointSlice => "endpointslice",
            Self::Endpoints => "endpoints",
            Self::EndpointSliceMirroring => "endpointslicemirroring",
            Self::NodeLifecycle => "nodelifecycle",
            Self::TaintEviction => "taint-eviction-controller",
            Self::PodGarbage => "podgc",
            Self::Ttl => "ttl",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
        }
    }
}

/// Controllers to run. Default: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(BTreeSet<ControllerName>);

impl Selection {
    /// Every controller.
    #[must_use]
    pub fn all() -> Self {
        Self(ControllerName::ALL.into())
    }

    /// The same controllers but one.
    #[must_use]
    pub fn without(mut self, name: ControllerName) -> Self {
        self.0.remove(&name);
        self
    }

    /// Returns whether a controller is selected.
    #[must_use]
    pub fn has(&self, name: ControllerName) -> bool {
        self.0.contains(&name)
    }
}

impl Default for Selection {
    fn default() -> Self {
        Self::all()
    }
}

impl FromIterator<ControllerName> for Selection {
    fn from_iter<I: IntoIterator<Item = ControllerName>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

/// A name that no controller of this crate has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {name:?}; there are {}", known())]
pub struct UnknownController {
    name: String,
}

fn known() -> String {
    ControllerName::ALL.map(ControllerName::as_str).join(", ")
}

impl FromStr for Selection {
    type Err = UnknownController;

    /// Parses names between commas; `*` is every controller.
    fn from_str(names: &str) -> Result<Self, UnknownController> {
        if names == "*" {
            return Ok(Self::all());
        }
        let parse = |name: &str| {
            let known = ControllerName::ALL.into_iter();
            let unknown = || UnknownController {
                name: name.to_owned(),
            };
            known
                .into_iter()
                .find(|known| known.as_str() == name)
                .ok_or_else(unknown)
        };
        names.split(',').map(str::trim).map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_and_unknown_ones_are_named() {
        let some: Selection = "deployment, replicaset".parse().unwrap();
        assert!(some.has(ControllerName::Deployment) && !some.has(ControllerName::Kubelet));
        assert_eq!("*".parse(), Ok(Selection::all()));
        assert!(
            !some
                .without(ControllerName::Deployment)
                .has(ControllerName::Deployment)
        );
        let error = "deployment,ingress".parse::<Selection>().unwrap_err();
        let known = ControllerName::ALL.map(ControllerName::as_str).join(", ");
        assert_eq!(
            error.to_string(),
            format!("there is no controller \"ingress\"; there are {known}")
        );
        assert!("".parse::<Selection>().is_err());
    }
}
