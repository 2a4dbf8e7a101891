//! Eviction: a pod is deleted if its disruption budget allows it.
//!
//! ```text
//! Eviction + pod + budgets ──▶ budget counted down, pod marked and deleted, 201
//!                         └──▶ 429 with the budget's reason
//! ```
//!
//! This server does not count healthy pods: the status of a budget decides, as the client in the
//! role of the disruption controller wrote it.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/storage/eviction.go`.

use std::sync::Arc;

use http::Response;
use jiff::Timestamp;
use kinform_api::{Status, StatusCause, reason};
use serde_json::{Value, json};

use super::condition::set_condition;
use super::{Act, Owners};
use crate::controllers::follow;
use crate::http::body::Body;
use crate::object::label_selector::label_selector;
use crate::object::{at, metadata, text};
use crate::resource::{Found, ResourceInfo};
use crate::storage::{Draft, Expect, Stored};
use crate::write::commit::TRIES;
use crate::write::options::{DeleteOptions, WriteOptions};
use crate::write::{self, Context, Fresh};

/// Field manager of the updates that count a budget down.
const MANAGER: &str = "apiserver";
/// The condition of a pod that is evicted, and its reason.
const TARGET: &str = "DisruptionTarget";
const EVICTED: &str = "EvictionByEvictionAPI";
/// BOUND: evicted pods that a budget remembers.
const DISRUPTED: usize = 2000;

/// Evicts a pod.
pub(super) async fn evict(act: &Act<'_>) -> Result<Response<Body>, Box<Status>> {
    let body = |version| act.body_owned(["policy", version, "Eviction"], Owners::Recorded);
    let eviction = body("v1").or_else(|error| body("v1beta1").map_err(|_| error))?;
    if text(&eviction, &["metadata", "name"]) != act.name() {
        let message = "name in URL does not match name in Eviction object";
        return Err(Box::new(Status::bad_request(message)));
    }
    let eviction = act
        .admitted_create(["policy", "v1", "Eviction"], eviction, |_| {})
        .await?;
    let given = at(&eviction, &["deleteOptions"]).cloned();
    let mut options = DeleteOptions::from_value(&given.unwrap_or_else(|| json!({})))?;
    options.dry_run |= act.options()?.dry_run;
    let resource = &act.target.resource;
    for _ in 0..TRIES {
        let pod = act.object()?;
        let state = pod.value();
        let mut once = options.clone();
        // The decision holds for this very state, unless the client named another one.
        let mut judged = || {
            let version = || pod.revision().to_string();
            once.resource_version.get_or_insert_with(version);
        };
        if is_beyond_budgets(&state) {
            if !has_ended_or_goes(&state) {
                judged();
            }
        } else {
            match permission(act, &pod, &state)? {
                Permission::Free => {}
                Permission::Unready => judged(),
                Permission::Counted(budget) if options.dry_run => drop(budget),
                Permission::Counted(budget) => {
                    if !count_down(act, &budget, act.name())? {
                        continue;
                    }
                }
            }
        }
        let was_judged = once.resource_version != options.resource_version;
        if !options.dry_run
            && let Some(revision) = mark(act, pod.key(), &once)
            && let Some(version) = &mut once.resource_version
        {
            *version = revision.to_string();
        }
        match follow::delete_object(act.state, resource, pod.key(), &once) {
            Ok(()) => return Ok(act.done()),
            Err(status) if status.code == 409 && was_judged => {}
            Err(status) => return Err(status),
        }
    }
    let resource = resource.group_resource();
    Err(Box::new(Status::modified(&resource, act.name())))
}

/// Tells in a condition of the pod why it goes, as its owners read it. Returns the revision that the
/// pod then has; `None` if it is not the one that is meant, which the delete tells.
fn mark(act: &Act<'_>, key: &str, options: &DeleteOptions) -> Option<u64> {
    let is_meant = |said: &Option<String>, is: &str| said.as_ref().is_none_or(|said| said == is);
    let resource = &act.target.resource;
    for _ in 0..TRIES {
        let pod = act.state.store.get(resource.shelf, key)?;
        let version = pod.revision().to_string();
        if !is_meant(&options.uid, pod.uid()) || !is_meant(&options.resource_version, &version) {
            return None;
        }
        let mut next = pod.value();
        let told = at(&next, &["status", "conditions"]).and_then(Value::as_array);
        let mut told = told.into_iter().flatten();
        if told.any(|of| text(of, &["type"]) == TARGET && text(of, &["reason"]) == EVICTED) {
            return Some(pod.revision());
        }
        let now = metadata::time(act.state.clock.now());
        set_condition(
            &mut next,
            json!({"type": TARGET, "status": "True", "reason": EVICTED, "lastProbeTime": null,
                "message": "Eviction API: evicting", "lastTransitionTime": now}),
        );
        let draft = Draft::new(&resource.fields, next)?;
        let expect = Expect::Revision(pod.revision());
        if let Ok(done) = act.state.store.put(resource.shelf, draft, expect) {
            return Some(done.object.revision());
        }
    }
    None
}

/// Returns whether budgets ignore the pod: it has ended, has not begun, or is being deleted.
fn is_beyond_budgets(pod: &Value) -> bool {
    text(pod, &["status", "phase"]) == "Pending" || has_ended_or_goes(pod)
}

fn has_ended_or_goes(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
        || metadata::is_terminating(pod)
}

enum Permission {
    /// No budget covers this pod.
    Free,
    /// The pod is not ready, and enough others are.
    Unready,
    /// This budget has to be counted down.
    Counted(Budget),
}

struct Budget {
    resource: Arc<ResourceInfo>,
    stored: Arc<Stored>,
}

fn permission(act: &Act<'_>, pod: &Stored, state: &Value) -> Result<Permission, Box<Status>> {
    let Found::Resource(budgets) = act
        .state
        .registry
        .find("policy", "v1", "poddisruptionbudgets")
    else {
        return Ok(Permission::Free);
    };
    let view = act.state.store.view(budgets.shelf);
    let mut meant = view.snapshot.iter().filter(|budget| {
        budget.namespace() == pod.namespace()
            && at(&budget.value(), &["spec", "selector"])
                .filter(|selector| !selector.is_null())
                .and_then(label_selector)
                .is_some_and(|selector| selector.matches(|key| pod.label(key)))
    });
    let Some(stored) = meant.next().cloned() else {
        return Ok(Permission::Free);
    };
    if meant.next().is_some() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                       subresource does not support.";
        return Err(Box::new(Status::failure(500, "", message)));
    }
    if !is_ready(state) {
        let budget = stored.value();
        let count = |name| {
            at(&budget, &["status", name])
                .and_then(Value::as_i64)
                .unwrap_or(0)
        };
        let always = text(&budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        let healthy =
            count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy");
        if always || healthy {
            return Ok(Permission::Unready);
        }
    }
    let budget = Budget {
        resource: budgets,
        stored,
    };
    counted(&budget, pod.name(), act.state.clock.now())?;
    Ok(Permission::Counted(budget))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = at(pod, &["status", "conditions"]).and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|of| text(of, &["type"]) == "Ready" && text(of, &["status"]) == "True")
}

/// Stores the budget as it is after this eviction, unless it has changed meanwhile.
fn count_down(act: &Act<'_>, budget: &Budget, pod: &str) -> Result<bool, Box<Status>> {
    let mut next = counted(budget, pod, act.state.clock.now())?;
    let options = WriteOptions {
        manager: MANAGER.to_owned(),
        ..WriteOptions::default()
    };
    let context = Context {
        resource: &budget.resource,
        namespace: budget.stored.namespace(),
        options: &options,
        now: act.state.clock.now(),
        fresh: Fresh::default(),
        meter: &act.request.meter,
    };
    write::own_status(&context, &mut next, &budget.stored.value());
    let expect = Expect::Revision(budget.stored.revision());
    let draft = Draft::new(&budget.resource.fields, next);
    let shelf = budget.resource.shelf;
    Ok(draft.is_some_and(|draft| act.state.store.put(shelf, draft, expect).is_ok()))
}

/// The budget as it is after this eviction.
fn counted(budget: &Budget, pod: &str, now: Timestamp) -> Result<Value, Box<Status>> {
    let (mut next, name) = (budget.stored.value(), budget.stored.name());
    let of = |object: &Value, path: &[&str]| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let status = |field| of(&next, &["status", field]);
    if status("observedGeneration") < of(&next, &["metadata", "generation"]) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many(why, Some(10)));
    }
    let (allowed, healthy, desired) = (
        status("disruptionsAllowed"),
        status("currentHealthy"),
        status("desiredHealthy"),
    );
    let forbidden = |why| {
        let resource = budget.resource.group_resource();
        Err(Box::new(Status::forbidden(&resource, name, why)))
    };
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let known = at(&next, &["status", "disruptedPods"]).and_then(Value::as_object);
    if known.is_some_and(|known| known.len() > DISRUPTED) {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 {
        let failed = sync_failure(&next);
        let why = match failed {
            Some(failed) => format!(
                "The disruption budget {name} does not allow evicting pods currently because it \
                 failed sync: {failed}"
            ),
            None => format!(
                "The disruption budget {name} needs {desired} healthy pods and has {healthy} \
                 currently"
            ),
        };
        return Err(too_many(why, None));
    }
    let now = metadata::time(now);
    let generation = next["metadata"]["generation"].clone();
    let status = &mut next["status"];
    status["disruptionsAllowed"] = Value::from(allowed - 1);
    status["disruptedPods"][pod] = now.clone();
    if allowed == 1 {
        let condition = json!({"type": "DisruptionAllowed", "status": "False", "message": "",
            "reason": "InsufficientPods", "observedGeneration": generation,
            "lastTransitionTime": now});
        let others = status["conditions"].as_array().into_iter().flatten();
        let others = others.filter(|of| text(of, &["type"]) != "DisruptionAllowed");
        let conditions: Vec<Value> = others.cloned().chain([condition]).collect();
        status["conditions"] = Value::from(conditions);
    }
    Ok(next)
}

fn sync_failure(budget: &Value) -> Option<String> {
    let conditions = at(budget, &["status", "conditions"])?.as_array()?;
    let failed = conditions
        .iter()
        .find(|of| text(of, &["reason"]) == "SyncFailed")?;
    Some(text(failed, &["message"]).to_owned())
}

fn too_many(why: String, retry_after: Option<u32>) -> Box<Status> {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let status = match retry_after {
        Some(seconds) => Status::too_many_requests(message, seconds),
        None => Status::failure(429, reason::TOO_MANY_REQUESTS, message),
    };
    Box::new(status.with_cause(StatusCause {
        reason: "DisruptionBudget".to_owned(),
        message: why,
        field: String::new(),
    }))
}
