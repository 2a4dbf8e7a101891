//! Small examples of kinform, each one file to copy.
//!
//! ```text
//! ALL ─▶ Example {name, about, run} ─▶ start::on_embedded | start::on_cluster ─▶ lines
//! ```
//!
//! An example is a module with `pub async fn run(start: Start)`, and a line in [`ALL`]. The changes
//! that others make on the embedded server are a function of the same name in `scenes.rs`. A new
//! example needs all three, and a line in `examples/README.md`; a test compares list and page.

pub mod dynamic_types;
pub mod events_exporter;
pub mod finalizer;
pub mod index_and_lister;
pub mod joined;
pub mod leader_election;
pub mod many_clusters;
pub mod many_namespaces;
pub mod memory_budget;
pub mod metadata_only;
pub mod own_crd;
mod scenes;
pub mod sharded_operator;
pub mod shared_informer;
pub mod simulation;
pub mod start;
pub mod test_with_faults;
pub mod the_past;
pub mod warm_restart;
pub mod watch_pods;
pub mod web_cache;
pub mod webhook;
pub mod work_queue_alone;

use futures::future::BoxFuture;

use crate::start::{Failure, Out, Scene, Start};

/// An example.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// Its subject, in a line.
    pub about: &'static str,
    pub(crate) place: Place,
}

/// The place that an example runs at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// On a cluster, or on the embedded server with a scene.
    Cluster {
        run: fn(Start) -> BoxFuture<'static, Result<(), Failure>>,
        scene: Scene,
    },
    /// On neither.
    Alone(fn(Out) -> BoxFuture<'static, Result<(), Failure>>),
}

impl Example {
    /// Runs it on a cluster.
    pub(crate) async fn run(&self, start: Start) -> Result<(), Failure> {
        match self.place {
            Place::Cluster { run, .. } => run(start).await,
            Place::Alone(run) => run(start.out).await,
        }
    }
}

macro_rules! cluster {
    ($name:ident, $about:literal) => {
        Example {
            name: stringify!($name),
            about: $about,
            place: Place::Cluster {
                run: |start| Box::pin($name::run(start)),
                scene: |stage| Box::pin(scenes::$name(stage)),
            },
        }
    };
}

macro_rules! alone {
    ($name:ident, $about:literal) => {
        Example {
            name: stringify!($name),
            about: $about,
            place: Place::Alone(|out| Box::pin($name::run(out))),
        }
    };
}

/// All of them, widest use first.
pub const ALL: [Example; 21] = [
    cluster!(
        watch_pods,
        "handlers that hear each pod come, change and go"
    ),
    cluster!(
        index_and_lister,
        "a cache that answers by node, by label and by image"
    ),
    cluster!(
        dynamic_types,
        "types that are known by name only, one of them not installed yet"
    ),
    cluster!(
        metadata_only,
        "Secrets whose values never enter the process"
    ),
    alone!(
        work_queue_alone,
        "a queue with workers, retries and delays, without a cluster"
    ),
    cluster!(shared_informer, "two controllers, one watch and one cache"),
    cluster!(
        own_crd,
        "a custom resource that makes a ConfigMap and reports its status"
    ),
    cluster!(
        finalizer,
        "something outside of the cluster that is cleaned up first"
    ),
    cluster!(
        leader_election,
        "two replicas, one leader, with metrics and probes"
    ),
    cluster!(
        webhook,
        "an admission webhook with a certificate that it makes itself"
    ),
    cluster!(events_exporter, "the events of a cluster as JSON lines"),
    cluster!(web_cache, "an HTTP endpoint that answers from a cache"),
    cluster!(
        joined,
        "pods with their nodes, kept up to date by the differences of both"
    ),
    cluster!(the_past, "a cache as it was, and what has changed since"),
    cluster!(many_namespaces, "an informer whose namespaces come and go"),
    cluster!(
        many_clusters,
        "one handle over the caches of a fleet, by kubeconfigs in Secrets"
    ),
    cluster!(
        memory_budget,
        "caches that stay within a number of bytes, and say what they gave up"
    ),
    cluster!(
        sharded_operator,
        "replicas that divide the keys of a controller"
    ),
    cluster!(warm_restart, "a second start that lists nothing"),
    alone!(
        test_with_faults,
        "a test that cuts watches and expires the history"
    ),
    alone!(
        simulation,
        "a reconcile function under crashes, stale caches and lost replies"
    ),
];
