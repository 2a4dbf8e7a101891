//! The control plane: its controllers, their informers and their events, as one future.
//!
//! ```text
//! clients + selection → ControlPlane → run(stop): informers start, controllers run, events follow
//! ```
//!
//! Everything lives inside [`ControlPlane::run`]; its end leaves no task behind.

use std::fmt;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use kinform::events::{EventDelivery, EventRecorder};
use kinform::{CancellationToken, Error, InformerFactory, Reconciler};
use kube_client::Client;

use crate::clock;
use crate::frame::{self, Frame};
use crate::kubelet::NewNodes;
use crate::node_lifecycle::Watched;
use crate::registry::{ControllerName, Selection};
use crate::scheduler::WithoutNodes;
use crate::{
    claim_protection, cron_job, daemon_set, deployment, disruption, endpoint_slice, endpoints,
    horizontal_pod_autoscaler, job, kubelet, node_lifecycle, pod_garbage, replica_set, scheduler,
    stateful_set, taint_eviction, ttl, ttl_after_finished, volumes,
};

/// The time in which informers must have their first lists.
pub(crate) const SYNC_WITHIN: Duration = Duration::from_secs(30);
/// The time that queued events have at the end.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// The users that controllers write as.
const USERS: [&str; 21] = [
    frame::READER,
    kubelet::USER,
    scheduler::USER,
    "system:serviceaccount:kube-system:daemon-set-controller",
    "system:serviceaccount:kube-system:deployment-controller",
    "system:serviceaccount:kube-system:endpoint-controller",
    "system:serviceaccount:kube-system:cronjob-controller",
    "system:serviceaccount:kube-system:disruption-controller",
    "system:serviceaccount:kube-system:endpointslice-controller",
    "system:serviceaccount:kube-system:endpointslicemirroring-controller",
    "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
    "system:serviceaccount:kube-system:job-controller",
    "system:serviceaccount:kube-system:node-controller",
    "system:serviceaccount:kube-system:persistent-volume-binder",
    "system:serviceaccount:kube-system:pod-garbage-collector",
    "system:serviceaccount:kube-system:pvc-protection-controller",
    "system:serviceaccount:kube-system:replicaset-controller",
    "system:serviceaccount:kube-system:replication-controller",
    "system:serviceaccount:kube-system:statefulset-controller",
    "system:serviceaccount:kube-system:ttl-after-finished-controller",
    "system:serviceaccount:kube-system:ttl-controller",
];

/// Built-in controllers, ready to run.
#[must_use = "a control plane does nothing before `run`"]
pub struct ControlPlane {
    frame: Frame,
    reconcilers: Vec<Reconciler>,
    deliveries: Vec<EventDelivery>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("controllers", &self.reconcilers.len())
            .finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// The selected controllers. `client` makes the client of a user, by its name, such as
    /// `system:serviceaccount:kube-system:deployment-controller`; it is called once for each user.
    ///
    /// # Errors
    /// An informer cannot be made.
    pub fn new(client: impl Fn(&str) -> Client, selection: &Selection) -> Result<Self, Error> {
        Self::at(clock::system(), client, selection)
    }

    /// As [`new`](Self::new), with a clock that starts at `now` and goes with tokio's: that of a
    /// server whose clock is not the system's.
    ///
    /// # Errors
    /// An informer cannot be made.
    pub fn at(
        now: Timestamp,
        client: impl Fn(&str) -> Client,
        selection: &Selection,
    ) -> Result<Self, Error> {
        let mut plane = Self {
            frame: Frame::new(USERS.map(|user| (user, client(user))).into(), now)?,
            reconcilers: Vec::new(),
            deliveries: Vec::new(),
        };
        for name in ControllerName::ALL {
            if selection.has(name) {
                plane.add(name, selection)?;
            }
        }
        Ok(plane)
    }

    fn add(&mut self, name: ControllerName, selection: &Selection) -> Result<(), Error> {
        let frame = self.frame.clone();
        let mut events = |component| self.events(component);
        let made = match name {
            ControllerName::Deployment => {
                vec![deployment::controller(
                    &frame,
                    events("deployment-controller"),
                )?]
            }
            ControllerName::ReplicaSet => {
                vec![replica_set::controller(
                    &frame,
                    events("replicaset-controller"),
                )]
            }
            ControllerName::ReplicationController => {
                let events = events("replication-controller");
                vec![replica_set::of_replication_controllers(&frame, events)]
            }
            ControllerName::StatefulSet => {
                vec![stateful_set::controller(
                    &frame,
                    events("statefulset-controller"),
                )?]
            }
            ControllerName::Job => job::controllers(&frame, events("job-controller")).into(),
            ControllerName::DaemonSet => {
                let events = self.events_of("daemon-set-controller", "daemonset-controller");
                vec![daemon_set::controller(&frame, events)?]
            }
            ControllerName::VolumeBinder => {
                let events =
                    self.events_of("persistent-volume-binder", "persistentvolume-controller");
                volumes::controllers(&frame, events).into()
            }
            ControllerName::ClaimProtection => vec![claim_protection::controller(&frame)],
            ControllerName::CronJob => {
                vec![cron_job::controller(&frame, events("cronjob-controller"))?]
            }
            ControllerName::TtlAfterFinished => vec![ttl_after_finished::controller(&frame)],
            ControllerName::Disruption => {
                let events = self.events_of("disruption-controller", "controllermanager");
                vec![disruption::controller(&frame, events)]
            }
            ControllerName::HorizontalPodAutoscaler => {
                let events = events("horizontal-pod-autoscaler");
                vec![horizontal_pod_autoscaler::controller(&frame, events)]
            }
            ControllerName::EndpointSlice => vec![endpoint_slice::controller(&frame)?],
            ControllerName::Endpoints => vec![endpoints::controller(&frame)],
            ControllerName::EndpointSliceMirroring => vec![endpoints::mirroring(&frame)?],
            ControllerName::NodeLifecycle => vec![self.node_lifecycle(selection)],
            ControllerName::TaintEviction => {
                let events = self.events_of("node-controller", "taint-eviction-controller");
                vec![taint_eviction::controller(&frame, events)]
            }
            ControllerName::PodGarbage => vec![pod_garbage::controller(&frame)?],
            ControllerName::Ttl => vec![ttl::controller(&frame)],
            ControllerName::Scheduler => vec![self.scheduler(selection)?],
            ControllerName::Kubelet => kubelet::controllers(&frame, new_nodes(selection)).into(),
        };
        self.reconcilers.extend(made);
        Ok(())
    }

    fn node_lifecycle(&mut self, selection: &Selection) -> Reconciler {
        let events = self.events("node-controller");
        let watched = match selection.has(ControllerName::Kubelet) {
            true => Watched::Leased,
            false => Watched::All,
        };
        node_lifecycle::controller(&self.frame, events, watched)
    }

    fn scheduler(&mut self, selection: &Selection) -> Result<Reconciler, Error> {
        let client = self.frame.client_of(scheduler::USER);
        let (events, delivery) = EventRecorder::with_series(client, "default-scheduler");
        self.deliveries.push(delivery.flush_within(FLUSH_WITHIN));
        let without_nodes = match selection.has(ControllerName::Kubelet) {
            true => WithoutNodes::Wait,
            false => WithoutNodes::Tell,
        };
        scheduler::controller(&self.frame, events, without_nodes)
    }

    fn events(&mut self, component: &str) -> EventRecorder {
        self.events_of(component, component)
    }

    /// The recorder of a component whose service account has another name.
    fn events_of(&mut self, account: &str, component: &str) -> EventRecorder {
        let (events, delivery) = EventRecorder::new(self.frame.client(account), component);
        self.deliveries.push(delivery.flush_within(FLUSH_WITHIN));
        events
    }

    /// The informers, to wait for their first lists: [`InformerFactory::synced_within`].
    #[must_use]
    pub fn informers(&self) -> InformerFactory {
        self.frame.factory.clone()
    }

    /// Runs the controllers until `stop` is cancelled.
    ///
    /// # Errors
    /// The informers have no first list within 30 s, or a controller cannot run.
    ///
    /// # Cancel safety
    /// Dropping it drops the running reconciles; informers end by themselves then.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let Self {
            frame,
            reconcilers,
            deliveries,
        } = self;
        let events_end = CancellationToken::new();
        let ended = async {
            let _events_end = events_end.clone().drop_guard();
            frame.factory.start()?;
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                synced = frame.factory.synced_within(SYNC_WITHIN) => synced?,
            }
            let running = try_join_all(reconcilers.into_iter().map(Reconciler::run));
            let stopping = async {
                stop.cancelled().await;
                frame.stop.cancel();
            };
            tokio::pin!(running);
            tokio::select! {
                biased;
                ended = &mut running => return ended.map(drop),
                () = stopping => {}
            }
            running.await.map(drop)
        };
        let events = deliveries
            .into_iter()
            .map(|one| one.run(events_end.clone()));
        let (ended, _) = futures::join!(ended, join_all(events));
        frame.factory.shutdown().await;
        ended
    }
}

/// The state in which new nodes begin.
fn new_nodes(selection: &Selection) -> NewNodes {
    match selection.has(ControllerName::NodeLifecycle) {
        true => NewNodes::Tainted,
        false => NewNodes::Untainted,
    }
}
