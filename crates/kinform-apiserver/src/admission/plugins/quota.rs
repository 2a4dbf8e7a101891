//! ResourceQuota: counts what a namespace holds, and refuses what exceeds a quota.
//!
//! ```text
//! object (and old) ──usage──▶ delta ──each quota that it touches──▶ reserved in status.used | 403
//!                                     commit ──▶ kept      refused, lost ──▶ given back
//! ```
//!
//! A quota limits nothing until its status says what is hard, as on a real server, where a controller
//! does it. A delete gives nothing back: that is the controller's, too.
//!
//! INVARIANT: `status.used` never exceeds `status.hard` by a reservation: each is one
//! compare-and-swap of the quota as it was judged.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/resourcequota`, `kubernetes:pkg/quota/v1`.

use std::sync::Arc;

use kinform_api::{Status, mutant};
use serde_json::{Value, json};

use super::amounts::{self, Amounts};
use super::usage;
use super::{forbidden, in_namespace};
use crate::admission::{Objects, Operation, Question};
use crate::budget::Meter;
use crate::object::part::Part;
use crate::object::quantity::Quantity;
use crate::object::text;
use crate::ownership::{self, Writer};
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::state::plugins::Plugin;
use crate::storage::{Draft, Expect, Stored};

/// BOUND: attempts of a reservation that loses races against other writers.
const TRIES: usize = 64;
/// The field manager of the server's own writes.
const MANAGER: &str = "apiserver";
const SHELF: &str = "resourcequotas";

/// A reservation in quotas. It is given back when it is dropped, unless it was kept.
#[derive(Debug)]
pub(crate) struct Reserved<'a> {
    state: &'a State,
    /// Each quota as it was judged, and what was added to it.
    taken: Vec<(Arc<Stored>, Amounts)>,
}

impl<'a> Reserved<'a> {
    /// Returns a reservation in no quota.
    pub(crate) fn nothing(state: &'a State) -> Self {
        Self {
            state,
            taken: Vec::new(),
        }
    }

    /// Keeps the reservation: the object is stored.
    pub(crate) fn keep(mut self) {
        for (quota, usage) in self.taken.drain(..) {
            self.state.quota_counts.release(quota.key(), &usage);
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        for (quota, usage) in std::mem::take(&mut self.taken) {
            give_back(self.state, &quota, &usage);
            self.state.quota_counts.release(quota.key(), &usage);
        }
    }
}

/// Returns whether a quota may count an operation on this resource, or on this subresource of it.
pub(crate) fn counts(state: &State, resource: &ResourceInfo, part: (&str, Operation)) -> bool {
    let store = &state.store;
    usage::grows(resource, part)
        && state.plugins.has(Plugin::ResourceQuota)
        && !store.is_empty(store.shelf(SHELF))
}

/// Reserves the usage of an object in all quotas that count it. A dry run only checks.
///
/// # Errors
/// 403 that names the first quota that is exceeded.
pub(crate) fn reserve<'a>(
    state: &'a State,
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<Reserved<'a>, Box<Status>> {
    let part = (question.subresource, question.operation);
    let Some(object) = objects
        .object
        .filter(|_| counts(state, question.resource, part))
    else {
        return Ok(Reserved::nothing(state));
    };
    for _ in 0..TRIES {
        let mut reserved = Reserved::nothing(state);
        let mut is_lost = false;
        for quota in quotas(question) {
            let value = quota.value();
            let Some(delta) = delta(question.resource, &value, (object, objects.old)) else {
                continue;
            };
            check(question, &value, object, &delta)?;
            if question.dry_run {
                continue;
            }
            state.quota_counts.reserve(quota.key(), &delta);
            match put(state, &quota, &delta) {
                true => reserved.taken.push((quota, delta)),
                false => {
                    state.quota_counts.release(quota.key(), &delta);
                    is_lost = true;
                    break;
                }
            }
        }
        if !is_lost {
            return Ok(reserved);
        }
    }
    Err(Box::new(Status::conflict(
        &question.resource.group_resource(),
        text(object, &["metadata", "name"]),
        "the quota of the namespace changed too often",
    )))
}

/// The quotas of the question's namespace, by name.
fn quotas(question: &Question<'_>) -> Vec<Arc<Stored>> {
    in_namespace(question, SHELF)
}

/// The usage that an object adds to the resources that a quota limits; `None` if it adds none.
fn delta(
    resource: &ResourceInfo,
    quota: &Value,
    (object, old): (&Value, Option<&Value>),
) -> Option<Amounts> {
    if !usage::is_in_scope(&quota["spec"], resource, object) {
        return None;
    }
    // An object that comes into the quota's scope counts as a new one.
    let old = old.filter(|old| usage::is_in_scope(&quota["spec"], resource, old));
    let mut delta = usage::of(resource, object);
    for (name, amount) in old.map(|old| usage::of(resource, old)).unwrap_or_default() {
        if let Some(new) = delta.get_mut(&name) {
            *new = new.minus(amount);
        }
    }
    let hard = &quota["status"]["hard"];
    let is_update = old.is_some();
    delta.retain(|name, amount| {
        !hard[name.as_str()].is_null() && !(is_update && (amount.is_zero() || amount.is_negative()))
    });
    (!delta.is_empty()).then_some(delta)
}

fn check(
    question: &Question<'_>,
    quota: &Value,
    object: &Value,
    delta: &Amounts,
) -> Result<(), Box<Status>> {
    let name = text(object, &["metadata", "name"]);
    let quota_name = text(quota, &["metadata", "name"]);
    let limited: Vec<&str> = names(&quota["status"]["hard"]);
    if question.resource.is_core("pods")
        && let Some(missing) = usage::unspecified(object, &limited)
    {
        let why = format!("failed quota: {quota_name}: must specify {missing}");
        return Err(forbidden(question, name, &why));
    }
    let (hard, used) = (
        amounts::read(&quota["status"]["hard"]),
        amounts::read(&quota["status"]["used"]),
    );
    let [mut requested, mut in_use, mut most] = [Vec::new(), Vec::new(), Vec::new()];
    for (resource, amount) in delta {
        let Some(limit) = hard.get(resource).filter(|_| !amount.is_zero()) else {
            continue;
        };
        let before = used.get(resource).copied().unwrap_or_default();
        if before.plus(*amount) > *limit && !mutant!("S15") {
            requested.push(format!("{resource}={amount}"));
            in_use.push(format!("{resource}={before}"));
            most.push(format!("{resource}={limit}"));
        }
    }
    if requested.is_empty() {
        return Ok(());
    }
    let why = format!(
        "exceeded quota: {quota_name}, requested: {}, used: {}, limited: {}",
        requested.join(","),
        in_use.join(","),
        most.join(",")
    );
    Err(forbidden(question, name, &why))
}

fn names(of: &Value) -> Vec<&str> {
    let entries = of.as_object().into_iter().flatten();
    entries.map(|(name, _)| name.as_str()).collect()
}

/// Adds a usage to a quota, if it is still as it was read.
fn put(state: &State, quota: &Stored, delta: &Amounts) -> bool {
    let mut next = quota.value();
    let used = amounts::read(&next["status"]["used"]);
    for (name, amount) in delta {
        let sum = used
            .get(name)
            .map_or(*amount, |before| before.plus(*amount));
        next["status"]["used"][name.as_str()] = Value::from(sum.to_string());
    }
    write(state, quota, next, MANAGER)
}

/// Takes a usage from a quota again, unless the quota is another one by now.
fn give_back(state: &State, judged: &Stored, usage: &Amounts) {
    let key = judged.key();
    for _ in 0..TRIES {
        let found = state.store.get(state.store.shelf(SHELF), key);
        let Some(quota) = found.filter(|quota| quota.uid() == judged.uid()) else {
            return;
        };
        let mut next = quota.value();
        let used = amounts::read(&next["status"]["used"]);
        for (name, amount) in usage {
            let Some(used) = used.get(name) else { continue };
            let left = used.minus(*amount).max(Quantity::default());
            next["status"]["used"][name.as_str()] = Value::from(left.to_string());
        }
        if write(state, &quota, next, MANAGER) {
            return;
        }
    }
    tracing::warn!(quota = key, "a usage could not be taken from a quota again");
}

/// Writes the status of a quota, if it is still as it was read.
pub(crate) fn write(state: &State, quota: &Stored, mut next: Value, manager: &str) -> bool {
    let Found::Resource(resource) = state.registry.find("", "v1", SHELF) else {
        return false;
    };
    let writer = Writer {
        resource: &resource,
        manager,
        now: state.clock.now(),
        meter: &Meter::endless(),
    };
    ownership::updated(&writer, Part::Status, &mut next, &quota.value());
    if next["status"].is_null() {
        next["status"] = json!({});
    }
    let Some(draft) = Draft::new(&resource.fields, next) else {
        return false;
    };
    let expect = Expect::Revision(quota.revision());
    state.store.put(resource.shelf, draft, expect).is_ok()
}
