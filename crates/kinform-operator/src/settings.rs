//! The settings of an operator's process: addresses, certificates, leader election, limits.
//!
//! ```text
//! Flags (command line) | code → Settings → OperatorBuilder
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager` (`Options`).

use std::path::PathBuf;
use std::time::Duration;

use kinform::source::ConfigOverrides;
use kinform::{DiskCache, Shards};

use crate::candidate::LeaseCandidate;
use crate::leader::LeaseOptions;

/// The port of the webhooks, as upstream's.
const WEBHOOK_ADDRESS: &str = ":9443";
/// The time for all nodes to hear that a pod is not ready.
const WEBHOOK_DRAIN: Duration = Duration::from_secs(10);
/// The port of the probes, as upstream's scaffold sets it.
const PROBE_ADDRESS: &str = ":8081";
/// The grace period of running reconciles.
const GRACE: Duration = Duration::from_secs(25);
/// Requests a second, and the burst, of the operator's client; leases have a client of their own.
const RATE: (u32, u32) = (50, 100);

/// The settings of an operator's process. The defaults are those of its flags.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The address of the metrics, as `:8443` or `127.0.0.1:8080`; `None` if there are none.
    /// Default: `None`.
    pub metrics_address: Option<String>,
    /// The protection of the metrics. Default: `Reviewed`.
    pub metrics_access: MetricsAccess,
    /// The certificate of the metrics; made at start if it is `None`.
    pub metrics_certificate: Option<CertificateFiles>,
    /// The address of the probes; `None` if there are none. Default: `:8081`.
    pub probe_address: Option<String>,
    /// The address of the inspector, on loopback; `None` if there is none. Default: `None`.
    #[cfg(feature = "inspect")]
    pub inspect_address: Option<String>,
    /// The address of the webhooks. Default: `:9443`.
    pub webhook_address: String,
    /// The certificate of the webhooks, if it is in files.
    pub webhook_certificate: Option<CertificateFiles>,
    /// The time from the moment at which `/readyz` fails to the end of the webhooks: endpoints lead
    /// here until then. Default: 10 s.
    pub webhook_drain: Duration,
    /// The lease that this replica stands for; `None` if it always leads. Default:
    /// `None`.
    pub leader_election: Option<LeaseSettings>,
    /// The division of the work of sharded controllers among replicas; `None` if there is none.
    pub sharding: Option<ShardSettings>,
    /// The namespaces of the informers; all if it is empty.
    pub namespaces: Vec<String>,
    /// The place in which caches are kept for the next start; `None` if they are not.
    pub disk_cache: Option<DiskCache>,
    /// The bytes that all caches may take together, above which they give up decoded values, then plain
    /// bodies; `None` if there is no bound.
    pub memory_budget: Option<u64>,
    /// Requests a second, and their burst; zero is no limit. With leader election the caches and the
    /// leader's work have a client each, and each has this limit. Default: 50, 100.
    pub request_rate: (u32, u32),
    /// The time that running reconciles have to end. Default: 25 s.
    pub grace_period: Duration,
    /// The kubeconfig and what replaces parts of it.
    pub connection: ConfigOverrides,
}

/// The protection of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsAccess {
    /// HTTPS; each caller's token is reviewed by the API server, and so is its right.
    Reviewed,
    /// HTTP, for everybody.
    Open,
}

/// A certificate and its key as PEM files. Both are read again after they change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// The chain, the certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The lease of a leader election.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LeaseSettings {
    /// The name of the lease; the operator's if it is `None`.
    pub name: Option<String>,
    /// The namespace of the lease; the pod's if it is `None`.
    pub namespace: Option<String>,
    /// The timings.
    pub options: LeaseOptions,
    /// The consequence of a lost term. Default: the replica stands again.
    pub on_loss: OnLoss,
    /// The safeguards of the leader's writes. Default: the guard of the client.
    pub fencing: Fencing,
    /// The candidate that stands for this replica where the control plane chooses the leader; `None`
    /// if replicas take the lease themselves. See
    /// [`LeaderElection::coordinated`](crate::leader::LeaderElection::coordinated).
    pub candidate: Option<LeaseCandidate>,
}

/// The division of work among replicas.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShardSettings {
    /// The division of keys. All replicas have the same.
    pub shards: Shards,
    /// The name of the group of replicas, of which its leases are named; the operator's if it is
    /// `None`.
    pub name: Option<String>,
    /// The namespace of the leases; the pod's if it is `None`.
    pub namespace: Option<String>,
    /// The timings of the members' leases. All replicas have the same.
    pub options: LeaseOptions,
}

impl ShardSettings {
    /// A division with the default timings.
    pub fn new(shards: Shards) -> Self {
        Self {
            shards,
            name: None,
            namespace: None,
            options: LeaseOptions::default(),
        }
    }
}

/// The safeguards of a leader's writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// The guard looks at the term before each request.
    #[default]
    Guard,
    /// The server compares the term of each write with the lease, too: see
    /// [`LeaderElection::hard_fence`](crate::leader::LeaderElection::hard_fence).
    Hard,
}

/// The consequence of a lost term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// The caches stay, and this replica stands for the lease again.
    #[default]
    StandAgain,
    /// The program ends with an error, as upstream's does.
    Exit,
}

impl CertificateFiles {
    /// The files of a certificate and its key.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            metrics_address: None,
            metrics_access: MetricsAccess::Reviewed,
            metrics_certificate: None,
            probe_address: Some(PROBE_ADDRESS.to_owned()),
            #[cfg(feature = "inspect")]
            inspect_address: None,
            webhook_address: WEBHOOK_ADDRESS.to_owned(),
            webhook_certificate: None,
            webhook_drain: WEBHOOK_DRAIN,
            leader_election: None,
            sharding: None,
            namespaces: Vec::new(),
            disk_cache: None,
            memory_budget: None,
            request_rate: RATE,
            grace_period: GRACE,
            connection: ConfigOverrides::default(),
        }
    }
}
