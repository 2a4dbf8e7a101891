//! The built-in controllers of Kubernetes, on kinform's own informers, queues and controllers.
//!
//! ```text
//! client of each user ─▶ shared informers ─▶ queues ─▶ decisions (pure) ─▶ writes, as upstream's
//!
//! Deployment ─▶ ReplicaSet ─▶ Pod ─▶ scheduler: node ─▶ kubelet: Running, Ready ─▶ statuses back up
//! ```
//!
//! A server of objects alone answers, and then nothing happens: with these controllers a Deployment
//! gets pods, and they become ready, in milliseconds and without a container. They write what
//! upstream's controllers write: the same owners, conditions, events and order, under the same user
//! names and field managers. The hash of a pod template is of our own kind.
//!
//! The crate never imports the server: it takes a client for each user name, so it runs against any
//! API server. Everything that must be there when a reply is, such as removed dependents or emptied
//! namespaces, is the server's.
//!
//! ```no_run
//! # async fn example(client: kube_client::Client) -> Result<(), kinform::Error> {
//! use kinform_controlplane::{ControlPlane, Selection};
//!
//! let plane = ControlPlane::new(move |_user| client.clone(), &Selection::all())?;
//! plane.run(kinform::CancellationToken::new()).await
//! # }
//! ```
//!
//! Upstream counterpart: `kubernetes:cmd/kube-controller-manager`, `cmd/kube-scheduler`,
//! `kubernetes-sigs/kwok`.

mod claim_protection;
mod clock;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoint_slice;
mod endpoints;
mod frame;
mod hash;
mod horizontal_pod_autoscaler;
mod job;
mod json;
mod kubelet;
mod node_lifecycle;
mod ownership;
mod plane;
mod pod_control;
mod pod_garbage;
mod pods;
mod quantity;
mod registry;
mod replica_set;
mod revision;
mod running;
mod scale_subresource;
mod scheduler;
mod selector;
mod share;
mod stateful_set;
mod taint_eviction;
mod ttl;
mod ttl_after_finished;
mod volumes;
mod writer;

pub use crate::plane::ControlPlane;
pub use crate::registry::{ControllerName, Selection, UnknownController};
pub use crate::running::{Running, client_of};
