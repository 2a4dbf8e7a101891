//! The decision about a StatefulSet's pods: those to create, to mend and to delete now.
//!
//! ```text
//! set + revisions + pods + claims + now ─▶ replicas in range │ surplus pods │ old revisions ─▶ tasks
//! ```
//!
//! OrderedReady: one step at a time. A pod is created when all before it are available, surplus pods
//! go from the last, and an update begins when there is neither a missing nor a surplus pod. Parallel:
//! all pods at once; only updates keep within maxUnavailable.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/statefulset/stateful_set_control.go`
//! (`updateStatefulSet`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::identity::{
    Version, claim_names, identity_patch, ordinal, ordinals, pod, pod_name, revision_of,
};
use super::retention::{Holder, Place, goes_when_scaled, is_stale, settled};
use super::status::is_running_and_ready;
use crate::json::{int, name, text};
use crate::pods::{is_available, is_finished, is_terminating, min_ready, phase};
use crate::share::{Rounding, share};

/// BOUND: pods that one reconcile creates, as upstream's batches have at most.
const BURST: usize = 500;

/// The state that a decision is made of.
pub(super) struct Input<'i> {
    pub(super) set: &'i Value,
    pub(super) current: &'i Version,
    pub(super) update: &'i Version,
    /// The set's pods.
    pub(super) pods: &'i [Arc<Pod>],
    /// Looks up a claim by its name.
    pub(super) claim: &'i dyn Fn(&str) -> Option<Arc<Value>>,
    pub(super) now: Timestamp,
}

/// The work on one pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Task {
    /// Creates the missing claims of the ordinal, then this pod.
    Create(i64, Value),
    /// Creates the missing claims of a pod that waits for them.
    Supply(Arc<Pod>),
    /// Gives a pod the labels of its identity, and its claims their owners.
    Mend(Arc<Pod>),
    /// Gives the claims of a surplus pod their owners.
    Settle(Arc<Pod>),
    Delete(Arc<Pod>),
}

/// The order in which the tasks of a phase run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    OneByOne,
    /// In batches of 1, 2, 4, and so on.
    Batches,
}

/// The tasks, by phases that follow each other.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) pace: Pace,
    pub(super) phases: Vec<Vec<Task>>,
    /// Pods of other revisions, which are deleted one by one after the phases.
    pub(super) outdated: Vec<Arc<Pod>>,
}

/// Decides the work of one reconcile.
pub(super) fn plan(input: Input<'_>) -> Plan {
    let mut work = Work::of(input);
    // A step that must wait ends the plan.
    let _ = work.run();
    work.plan
}

struct Work<'i> {
    input: Input<'i>,
    /// The pods in the set's range, by ordinal.
    replicas: BTreeMap<i64, Arc<Pod>>,
    /// The pods beyond it, by ordinal.
    surplus: BTreeMap<i64, Arc<Pod>>,
    plan: Plan,
}

type Flow = ControlFlow<()>;
const GO_ON: Flow = Flow::Continue(());
const WAIT: Flow = Flow::Break(());

impl<'i> Work<'i> {
    fn of(input: Input<'i>) -> Self {
        let range = ordinals(input.set);
        let by_ordinal = input.pods.iter().filter_map(|pod| {
            let ordinal = ordinal(name(input.set), pod_name(pod))?;
            Some((ordinal, Arc::clone(pod)))
        });
        let (replicas, surplus) = by_ordinal.partition(|(ordinal, _)| range.contains(ordinal));
        let pace = match text(input.set, "/spec/podManagementPolicy") {
            "Parallel" => Pace::Batches,
            _ => Pace::OneByOne,
        };
        Self {
            input,
            replicas,
            surplus,
            plan: Plan {
                pace,
                phases: Vec::new(),
                outdated: Vec::new(),
            },
        }
    }

    fn is_ordered(&self) -> bool {
        self.plan.pace == Pace::OneByOne
    }

    fn run(&mut self) -> Flow {
        self.fill()?;
        self.settle_surplus();
        self.shrink()?;
        self.update();
        GO_ON
    }

    /// Creates, replaces and mends the pods that the set asks for.
    fn fill(&mut self) -> Flow {
        let (mut tasks, mut created, mut flow) = (Vec::new(), 0, GO_ON);
        for ordinal in ordinals(self.input.set) {
            flow = match self.replicas.get(&ordinal) {
                None if created == BURST => WAIT,
                None => {
                    created += 1;
                    self.create(ordinal, &mut tasks)
                }
                Some(pod) => self.keep(ordinal, pod, &mut tasks),
            };
            if flow.is_break() && (self.is_ordered() || created == BURST) {
                break;
            }
        }
        self.add(tasks);
        match self.is_ordered() {
            true => flow,
            false => GO_ON,
        }
    }

    fn add(&mut self, tasks: Vec<Task>) {
        if !tasks.is_empty() {
            self.plan.phases.push(tasks);
        }
    }

    fn create(&self, ordinal: i64, tasks: &mut Vec<Task>) -> Flow {
        let set = self.input.set;
        let body = pod(set, self.version_of(ordinal), ordinal);
        let is_in_the_way = |claim: String| {
            let claim = (self.input.claim)(&claim);
            claim.is_some_and(|claim| is_stale(&claim, name(&body), ""))
        };
        // Claims of the pod that was scaled away go first.
        let waits =
            goes_when_scaled(set) && claim_names(set, ordinal).into_iter().any(is_in_the_way);
        if !waits {
            tasks.push(Task::Create(ordinal, body));
        }
        WAIT
    }

    /// The revision of a new pod: the current one below the partition.
    fn version_of(&self, ordinal: i64) -> &'i Version {
        let set = self.input.set;
        let start = ordinals(set).start;
        let is_rolling = text(set, "/spec/updateStrategy/type") == "RollingUpdate";
        let kept = match set.pointer("/spec/updateStrategy/rollingUpdate") {
            Some(rolling) => int(rolling, "/partition"),
            None if is_rolling => int(set, "/status/currentReplicas"),
            None => 0,
        };
        match ordinal < start.saturating_add(kept) {
            true => self.input.current,
            false => self.input.update,
        }
    }

    fn keep(&self, ordinal: i64, pod: &Arc<Pod>, tasks: &mut Vec<Task>) -> Flow {
        if is_finished(pod) {
            // Another one is created when it is gone.
            if !is_terminating(pod) {
                tasks.push(Task::Delete(Arc::clone(pod)));
            }
            return WAIT;
        }
        let set = self.input.set;
        if phase(pod) == "Pending" {
            let claims = claim_names(set, ordinal).into_iter();
            let mut claims = claims.map(|claim| (self.input.claim)(&claim));
            if claims.any(|claim| claim.is_none()) {
                tasks.push(Task::Supply(Arc::clone(pod)));
            }
        }
        let waits = is_terminating(pod) || !is_running_and_ready(pod) || !self.is_available(pod);
        if waits && self.is_ordered() {
            return WAIT;
        }
        if identity_patch(pod, ordinal).is_some() || !self.is_settled(pod, ordinal, Place::Kept) {
            tasks.push(Task::Mend(Arc::clone(pod)));
        }
        GO_ON
    }

    fn is_settled(&self, pod: &Pod, ordinal: i64, place: Place) -> bool {
        let set = self.input.set;
        let holder = Holder {
            name: pod_name(pod),
            uid: pod.metadata.uid.as_deref().unwrap_or_default(),
            place,
        };
        let claims = claim_names(set, ordinal).into_iter();
        let mut claims = claims.filter_map(|claim| (self.input.claim)(&claim));
        claims.all(|claim| settled(&claim, set, holder).is_none())
    }

    fn is_available(&self, pod: &Pod) -> bool {
        is_available(pod, min_ready(self.input.set), self.input.now)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        !self.is_available(pod) || is_terminating(pod)
    }

    fn settle_surplus(&mut self) {
        let surplus = self.surplus.iter().rev();
        let unsettled = surplus
            .filter(|(ordinal, pod)| !self.is_settled(pod, **ordinal, Place::Surplus))
            .map(|(_, pod)| Task::Settle(Arc::clone(pod)));
        let unsettled = unsettled.collect();
        self.add(unsettled);
    }

    /// Deletes surplus pods: the last one, or all.
    fn shrink(&mut self) -> Flow {
        if !self.is_ordered() {
            let going = self.surplus.values().rev();
            let going = going.filter(|pod| !is_terminating(pod));
            let going = going.map(|pod| Task::Delete(Arc::clone(pod))).collect();
            self.add(going);
            return GO_ON;
        }
        let Some((last, pod)) = self.surplus.last_key_value() else {
            return GO_ON;
        };
        let mut upwards = self.surplus.iter();
        let first_ill = upwards.find(|(_, pod)| self.is_unavailable(pod));
        let is_ill = !is_running_and_ready(pod) || !self.is_available(pod);
        let waits = is_ill && first_ill.is_some_and(|(ordinal, _)| ordinal != last);
        if !is_terminating(pod) && !waits {
            let task = Task::Delete(Arc::clone(pod));
            self.add(vec![task]);
        }
        WAIT
    }

    /// Deletes pods of other revisions, from the last, as far as maxUnavailable allows.
    fn update(&mut self) {
        let set = self.input.set;
        if text(set, "/spec/updateStrategy/type") == "OnDelete" {
            return;
        }
        let range = ordinals(set);
        let wanted = range.end - range.start;
        let most = set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
        let most = most.map_or(1, |most| share(Some(most), wanted, Rounding::Down).max(1));
        let partition = int(set, "/spec/updateStrategy/rollingUpdate/partition");
        let first = range.start.saturating_add(partition);
        // Pods that were created in this reconcile are not available either.
        let available = self
            .replicas
            .values()
            .filter(|pod| !self.is_unavailable(pod));
        let unavailable = wanted - i64::try_from(available.count()).unwrap_or(i64::MAX);
        let is_going: BTreeSet<&str> = self
            .plan
            .phases
            .iter()
            .flatten()
            .filter_map(going)
            .collect();
        let outdated = self.replicas.iter().rev().filter(|(ordinal, pod)| {
            **ordinal >= first
                && revision_of(pod) != self.input.update.name
                && !is_terminating(pod)
                && !is_going.contains(pod_name(pod))
        });
        let room = usize::try_from(most.saturating_sub(unavailable)).unwrap_or(0);
        let outdated: Vec<Arc<Pod>> = match self.plan.pace {
            Pace::OneByOne => outdated
                .map(|(_, pod)| Arc::clone(pod))
                .take(room)
                .collect(),
            // Those that are not available cost nothing, and could not become so otherwise.
            Pace::Batches => {
                let pods = outdated.map(|(_, pod)| Arc::clone(pod));
                let (well, mut ill): (Vec<_>, Vec<_>) =
                    pods.partition(|pod| is_running_and_ready(pod) && self.is_available(pod));
                ill.extend(well.into_iter().take(room));
                ill
            }
        };
        self.plan.outdated = outdated;
    }
}

/// The name of the pod that a task deletes.
fn going(task: &Task) -> Option<&str> {
    match task {
        Task::Delete(pod) => Some(pod_name(pod)),
        _ => None,
    }
}
