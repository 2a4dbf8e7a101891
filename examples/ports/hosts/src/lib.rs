//! wasmCloud's operator of hosts, moved over: what both columns share.
//!
//! ```text
//! HostConfig ─▶ desired.rs: the objects that it asks for ─▶ bin/kube_runtime.rs │ bin/kinform.rs
//! ```
//!
//! A `HostConfig` becomes a ConfigMap, a ServiceAccount with a Role and its RoleBinding, a Deployment or
//! a DaemonSet, and a Service. A move to kinform leaves the type and the desired objects as they are,
//! so they count for neither column.
//!
//! Upstream counterpart: `wasmcloud-operator:src/controller.rs`, from whose behaviour this is written.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod desired;

/// The name of the controller, also as a field manager.
pub const CONTROLLER: &str = "host-controller";
/// The finalizer of a host configuration.
pub const FINALIZER: &str = "hosts.ports.kinform.dev/cleanup";
/// The key of the credentials in a Secret.
pub const CREDENTIALS: &str = "nats.creds";

/// A group of hosts.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ports.kinform.dev",
    version = "v1",
    kind = "HostConfig",
    namespaced
)]
#[kube(status = "HostConfigStatus")]
#[serde(rename_all = "camelCase")]
pub struct HostConfigSpec {
    /// The lattice that the hosts join.
    pub lattice: String,
    /// The version of the hosts.
    pub version: String,
    /// The number of hosts.
    #[serde(default = "one")]
    pub host_replicas: i32,
    /// A host on each node instead.
    #[serde(default)]
    pub daemonset: bool,
    /// Labels of the hosts.
    #[serde(default)]
    pub host_labels: BTreeMap<String, String>,
    /// The image instead of that of the version.
    pub image: Option<String>,
    /// A Secret with credentials for the message bus.
    pub secret_name: Option<String>,
    /// The address of the message bus.
    #[serde(default = "bus")]
    pub nats_address: String,
    /// The level of the log.
    #[serde(default = "info")]
    pub log_level: String,
    /// Lets hosts use images without a version.
    #[serde(default)]
    pub allow_latest: bool,
    /// Registries that hosts may use without TLS.
    #[serde(default)]
    pub allowed_insecure: Vec<String>,
    /// The endpoint of observations, which are off without one.
    pub observability_endpoint: Option<String>,
}

/// The state of a group of hosts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostConfigStatus {
    /// The hosts that work, as their Deployment or DaemonSet says.
    pub hosts: i32,
    /// Credentials were found.
    pub has_credentials: bool,
}

fn one() -> i32 {
    1
}

fn bus() -> String {
    "nats://nats.default.svc.cluster.local".to_owned()
}

fn info() -> String {
    "INFO".to_owned()
}

/// The pause after which a configuration is looked at again if nothing happens.
#[must_use]
pub fn check_back() -> Duration {
    unchanged::check_back(Duration::from_secs(300))
}

/// The pause after a failure.
pub const RETRY: Duration = Duration::from_secs(1);
