//! The decision about a Deployment: the writes of one reconcile, in their order.
//!
//! ```text
//! deployment + its sets + (old pods alive?) + now ─▶ adopt │ pause │ scale │ roll ─▶ writes, later
//! ```
//!
//! A write of the status that a revision needs ends the reconcile, as upstream's: the rest follows
//! when the cache has it.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/deployment/deployment_controller.go`
//! (`syncDeployment`), `sync.go`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::model::{
    HASH, annotate_replicas, annotate_revision, condition, copy_annotations, index_of_new,
    progress_deadline, recreates, replicas, revision, set_condition,
};
use super::scaling::{Scaled, beyond_history, is_scaled, of_new, roll_new, roll_old, scale};
use super::status::{PROGRESSING, counted, is_complete, new_condition, rollout, until_deadline};
use crate::hash::template_hash;
use crate::json::{annotate, int, is_terminating, maybe_int, name, set, text, uid};
use crate::pods::owner_reference;

/// The state that a decision is made of.
#[derive(Debug)]
pub(super) struct Input<'i> {
    pub(super) deployment: &'i Value,
    /// The sets that it controls.
    pub(super) sets: Vec<Value>,
    /// Returns whether a set still has pods that did not end.
    pub(super) has_pods: &'i dyn HasPods,
    pub(super) now: Timestamp,
}

/// Tells whether a set, by its UID, still has pods that did not end.
pub(super) trait HasPods: std::fmt::Debug {
    fn has_pods(&self, uid: &str) -> bool;
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    CreateSet(Value),
    ReplaceSet(Value),
    DeleteSet(String),
    /// The Deployment with its status and annotations.
    Status(Value),
    Event(String),
}

/// The writes, and the time of the next look.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
    pub(super) later: Option<Duration>,
}

/// Decides the writes of one reconcile.
pub(super) fn plan(input: Input<'_>) -> Plan {
    let mut work = Work {
        deployment: input.deployment.clone(),
        sets: input.sets,
        seen: Vec::new(),
        has_pods: input.has_pods,
        now: input.now,
        plan: Plan::default(),
    };
    work.sets.sort_by_key(|set| name(set).to_owned());
    work.seen.clone_from(&work.sets);
    work.run();
    work.plan
}

struct Work<'i> {
    deployment: Value,
    /// The sets with the writes of this reconcile.
    sets: Vec<Value>,
    /// The sets before: the status is theirs, as upstream's.
    seen: Vec<Value>,
    has_pods: &'i dyn HasPods,
    now: Timestamp,
    plan: Plan,
}

/// The handling of a missing set of the current template.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Leave,
}

impl Work<'_> {
    fn run(&mut self) {
        let new = index_of_new(&self.deployment, &self.sets);
        if is_terminating(&self.deployment) {
            let status = counted(&self.deployment, &self.seen, new, self.now);
            return self.write_status(status);
        }
        if self.tell_pause() {
            return;
        }
        let is_paused = self.is_paused();
        if is_paused || is_scaled(&self.deployment, &self.sets) {
            let Ok(new) = self.sync_revision(Missing::Leave) else {
                return;
            };
            for scaled in scale(&self.deployment, &self.sets, new) {
                self.scale_set(scaled);
            }
            if is_paused {
                self.delete_history(new);
            }
            let status = counted(&self.deployment, &self.seen, new, self.now);
            return self.write_status(status);
        }
        if recreates(&self.deployment) {
            self.recreate();
        } else {
            self.roll();
        }
    }

    fn is_paused(&self) -> bool {
        let paused = self.deployment.pointer("/spec/paused");
        paused.and_then(Value::as_bool) == Some(true)
    }

    /// Tells by a condition that the Deployment is paused, or no longer. Returns whether it wrote.
    fn tell_pause(&mut self) -> bool {
        if progress_deadline(&self.deployment).is_none() {
            return false;
        }
        let status = self.deployment.get("status").cloned();
        let mut status = status.unwrap_or_else(|| json!({}));
        let told = condition(&status, PROGRESSING).map(|one| text(one, "/reason"));
        let told = match (self.is_paused(), told) {
            // A failed rollout keeps its reason until it progresses.
            (_, Some("ProgressDeadlineExceeded")) => return false,
            (true, Some("DeploymentPaused")) => return false,
            (true, _) => ("DeploymentPaused", "paused"),
            (false, Some("DeploymentPaused")) => ("DeploymentResumed", "resumed"),
            (false, _) => return false,
        };
        let message = format!("Deployment is {}", told.1);
        let told = new_condition(PROGRESSING, "Unknown", told.0, &message, self.now);
        set_condition(&mut status, told);
        self.write_status(status);
        true
    }

    /// Brings the revisions up to date and finds the set of the current template. An error means
    /// that a status was written, which ends the reconcile.
    fn sync_revision(&mut self, missing: Missing) -> Result<Option<usize>, ()> {
        let new = index_of_new(&self.deployment, &self.sets);
        let is_new = |index: &usize| Some(*index) == new;
        let old = (0..self.sets.len()).filter(|index| !is_new(index));
        let next = old
            .map(|index| revision(&self.sets[index]))
            .max()
            .unwrap_or(0)
            .saturating_add(1);
        match (new, missing) {
            (Some(new), _) => self.take_up(new, next).map(|()| Some(new)),
            (None, Missing::Create) => {
                self.create_set(next);
                Err(())
            }
            (None, Missing::Leave) => Ok(None),
        }
    }

    /// Takes up an existing set of the current template.
    fn take_up(&mut self, new: usize, next: i64) -> Result<(), ()> {
        let mut set_now = self.sets[new].clone();
        // All three are written together.
        let is_copied = copy_annotations(&self.deployment, &mut set_now);
        let is_revised = annotate_revision(&mut set_now, next);
        let wanted = int(&self.deployment, "/spec/minReadySeconds");
        let is_slower = int(&set_now, "/spec/minReadySeconds") != wanted;
        if is_slower {
            set(&mut set_now, &["spec", "minReadySeconds"], wanted.into());
        }
        if is_copied || is_revised || is_slower {
            self.sets[new] = set_now.clone();
            self.plan.writes.push(Write::ReplaceSet(set_now));
        }
        let revision = revision(&self.sets[new]).to_string();
        let mut is_changed = annotate(&mut self.deployment, super::model::REVISION, &revision);
        let mut status = self
            .deployment
            .get("status")
            .cloned()
            .unwrap_or_else(|| json!({}));
        let is_told = condition(&status, PROGRESSING).is_some();
        if progress_deadline(&self.deployment).is_some() && !is_told {
            let message = format!("Found new replica set \"{}\"", name(&self.sets[new]));
            let found = new_condition(
                PROGRESSING,
                "True",
                "FoundNewReplicaSet",
                &message,
                self.now,
            );
            set_condition(&mut status, found);
            is_changed = true;
        }
        if !is_changed {
            return Ok(());
        }
        set(&mut self.deployment, &["status"], status);
        self.plan
            .writes
            .push(Write::Status(self.deployment.clone()));
        Err(())
    }

    /// Creates the set of the current template.
    fn create_set(&mut self, revision: i64) {
        let set_new = self.new_set(revision);
        let (name, replicas) = (name(&set_new).to_owned(), replicas(&set_new));
        self.plan.writes.push(Write::CreateSet(set_new));
        annotate(
            &mut self.deployment,
            super::model::REVISION,
            &revision.to_string(),
        );
        let mut status = self
            .deployment
            .get("status")
            .cloned()
            .unwrap_or_else(|| json!({}));
        if progress_deadline(&self.deployment).is_some() {
            let message = format!("Created new replica set \"{name}\"");
            let created = new_condition(
                PROGRESSING,
                "True",
                "NewReplicaSetCreated",
                &message,
                self.now,
            );
            set_condition(&mut status, created);
        }
        set(&mut self.deployment, &["status"], status);
        self.plan
            .writes
            .push(Write::Status(self.deployment.clone()));
        if replicas > 0 {
            let note = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.plan.writes.push(Write::Event(note));
        }
    }

    fn new_set(&self, revision: i64) -> Value {
        let deployment = &self.deployment;
        let part = |pointer: &str| deployment.pointer(pointer).cloned().unwrap_or_default();
        let template = part("/spec/template");
        let collisions = maybe_int(deployment, "/status/collisionCount");
        let hash = template_hash(&template, collisions);
        let mut created = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{}-{hash}", name(deployment)),
                "namespace": text(deployment, "/metadata/namespace"),
                "labels": part("/spec/template/metadata/labels"),
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {
                "replicas": of_new(deployment, &self.sets, 0),
                "selector": part("/spec/selector"),
                "template": template,
            },
        });
        for path in [
            &["metadata", "labels", HASH][..],
            &["spec", "selector", "matchLabels", HASH],
            &["spec", "template", "metadata", "labels", HASH],
        ] {
            set(&mut created, path, hash.as_str().into());
        }
        let min_ready = int(deployment, "/spec/minReadySeconds");
        if min_ready != 0 {
            set(&mut created, &["spec", "minReadySeconds"], min_ready.into());
        }
        copy_annotations(deployment, &mut created);
        annotate_replicas(deployment, &mut created);
        annotate_revision(&mut created, revision);
        created
    }

    fn roll(&mut self) {
        let Ok(Some(new)) = self.sync_revision(Missing::Create) else {
            return;
        };
        if let Some(scaled) = roll_new(&self.deployment, &self.sets, new) {
            self.scale_set(scaled);
            return self.tell_progress(Some(new));
        }
        let down = roll_old(&self.deployment, &self.sets, new);
        if !down.is_empty() {
            for scaled in down {
                self.scale_set(scaled);
            }
            return self.tell_progress(Some(new));
        }
        self.end_rollout(new);
    }

    fn recreate(&mut self) {
        let Ok(new) = self.sync_revision(Missing::Leave) else {
            return;
        };
        let old: Vec<usize> = (0..self.sets.len())
            .filter(|index| Some(*index) != new)
            .collect();
        let down: Vec<Scaled> = old
            .iter()
            .filter(|index| replicas(&self.sets[**index]) > 0)
            .map(|index| (*index, 0))
            .collect();
        let is_first = !down.is_empty();
        for scaled in down {
            self.scale_set(scaled);
        }
        let has_pods = |index: &usize| self.has_pods.has_pods(uid(&self.sets[*index]));
        if is_first || old.iter().any(has_pods) {
            return self.tell_progress(new);
        }
        let Some(new) = new else {
            // Ends here: there is no set to go on with.
            let _ = self.sync_revision(Missing::Create);
            return;
        };
        let wanted = replicas(&self.deployment);
        if replicas(&self.sets[new]) != wanted {
            self.scale_set((new, wanted));
        }
        self.end_rollout(new);
    }

    fn end_rollout(&mut self, new: usize) {
        let status = self.deployment.get("status").unwrap_or(&Value::Null);
        if is_complete(&self.deployment, status) {
            self.delete_history(Some(new));
        }
        self.tell_progress(Some(new));
    }

    fn delete_history(&mut self, new: Option<usize>) {
        let gone = beyond_history(&self.deployment, &self.sets, new);
        let names = gone.iter().map(|index| name(&self.sets[*index]).to_owned());
        self.plan.writes.extend(names.map(Write::DeleteSet));
    }

    /// Scales a set, and tells so if its number changes.
    fn scale_set(&mut self, (index, next): Scaled) {
        let scaled = &mut self.sets[index];
        let before = replicas(scaled);
        let is_annotated = annotate_replicas(&self.deployment, scaled);
        if before == next && !is_annotated {
            return;
        }
        set(scaled, &["spec", "replicas"], next.into());
        self.plan.writes.push(Write::ReplaceSet(scaled.clone()));
        if before != next {
            let direction = if next > before { "up" } else { "down" };
            let set = name(scaled);
            let note = format!("Scaled {direction} replica set {set} from {before} to {next}");
            self.plan.writes.push(Write::Event(note));
        }
    }

    fn tell_progress(&mut self, new: Option<usize>) {
        let status = rollout(&self.deployment, &self.seen, new, self.now);
        if let Some(Some(left)) = until_deadline(&self.deployment, &status, self.now) {
            // Times of objects are whole seconds: a second later is certainly late enough.
            self.plan.later = Some(left + Duration::from_secs(1));
        }
        self.write_status(status);
    }

    fn write_status(&mut self, status: Value) {
        if self.deployment.get("status") != Some(&status) {
            set(&mut self.deployment, &["status"], status);
            self.plan
                .writes
                .push(Write::Status(self.deployment.clone()));
        }
    }
}
