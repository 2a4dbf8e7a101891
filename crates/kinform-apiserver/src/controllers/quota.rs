//! The counts of quotas: their status says what is hard, and what the namespace holds of it.
//!
//! ```text
//! quota written, object gone, pod ended ──▶ namespace to count ──task──▶ status { hard, used }
//! ```
//!
//! Admission adds what is created; everything else is counted here, soon after the reply. Changes of
//! a namespace that come while it is counted are one further count.
//!
//! INVARIANT: a count never loses a reservation. It reads the quota, then the reservations in
//! flight, then the objects; a reservation in between changes the quota, and the count is void.
//!
//! Upstream: `kubernetes:pkg/controller/resourcequota`.

use std::collections::BTreeSet;
use std::sync::Arc;

use kinform_api::mutant;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::removal::keys;
use crate::admission::plugins::amounts::{self, Amounts};
use crate::admission::plugins::{quota, usage};
use crate::object::quantity::Quantity;
use crate::object::text;
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::state::plugins::Plugin;
use crate::state::quota_counts::Next;
use crate::storage::Stored;

const SHELF: &str = "resourcequotas";
const MANAGER: &str = "kube-controller-manager";
/// BOUND: attempts of a count that loses races against reservations; each race is another request
/// that was served.
const TRIES: usize = 64;

/// Returns whether this server counts quotas, and there is one.
fn is_on(state: &State) -> bool {
    let store = &state.store;
    state.namespace_authority.is_some()
        && state.plugins.has(Plugin::ResourceQuota)
        && !store.is_empty(store.shelf(SHELF))
}

/// Has the quotas of an object's namespace counted, if the change may lower its usage.
pub(super) fn follow(state: &Arc<State>, resource: &ResourceInfo, object: &Stored) {
    let Some(namespace) = object.namespace().filter(|_| is_on(state)) else {
        return;
    };
    let is_gone = || {
        let now = state.store.get(resource.shelf, object.key());
        // Another object of its name was counted when it was created.
        now.is_none_or(|now| now.uid() != object.uid())
    };
    // It has ended, or its resources were changed.
    let is_less = || {
        let value = object.value();
        matches!(text(&value, &["status", "phase"]), "Succeeded" | "Failed")
            || value["metadata"]["generation"].as_i64() > Some(1)
    };
    let may_lower = ["persistentvolumeclaims", SHELF, "services"]
        .iter()
        .any(|plural| resource.is_core(plural))
        || is_gone()
        || resource.is_core("pods") && is_less();
    if may_lower && !mutant!("S16") {
        count_soon(state, namespace);
    }
}

/// Has the quotas of a namespace counted.
pub(super) fn count_soon(state: &Arc<State>, namespace: &str) {
    if !is_on(state) || !state.quota_counts.mark(namespace) {
        return;
    }
    let task = state
        .stopping
        .clone()
        .run_until_cancelled_owned(run(state.clone()));
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(task)),
        // The next request begins it.
        Err(_) => state.quota_counts.rest(),
    }
}

/// A task that counts. If it ends before its work does, with its runtime, the next request begins one.
struct Counting(Option<Arc<State>>);

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            state.quota_counts.rest();
        }
    }
}

async fn run(state: Arc<State>) {
    let mut counting = Counting(Some(state.clone()));
    loop {
        match state.quota_counts.next() {
            Next::Count(namespace) => count_all(&state, &namespace),
            Next::Wait => state.quota_counts.woken().await,
            Next::End => {
                // Another task may have begun: it is not this one's to end.
                counting.0 = None;
                return;
            }
        }
        tokio::task::yield_now().await;
    }
}

fn count_all(state: &State, namespace: &str) {
    for key in keys(
        &state.store,
        state.store.shelf(SHELF),
        &format!("{namespace}/"),
    ) {
        let counted = (0..TRIES).any(|_| count(state, namespace, &key));
        if !counted {
            tracing::warn!(quota = key, "the quota changed too often to be counted");
        }
    }
}

/// Counts one quota. Returns false if it changed meanwhile.
fn count(state: &State, namespace: &str, key: &str) -> bool {
    let Some(stored) = state.store.get(state.store.shelf(SHELF), key) else {
        return true;
    };
    let mut next = stored.value();
    let hard = next["spec"]["hard"].clone();
    let names: BTreeSet<&str> = hard
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let mut used: Amounts = names
        .iter()
        .map(|name| ((*name).to_owned(), Quantity::default()))
        .collect();
    let mut add = |usage: Amounts| {
        for (name, amount) in usage {
            if let Some(sum) = used.get_mut(&name) {
                *sum = sum.plus(amount);
            }
        }
    };
    // Before the objects: one that is stored in between is counted twice, and then again.
    state.quota_counts.meet(key).into_iter().for_each(&mut add);
    for resource in counted(state, &names) {
        for key in keys(&state.store, resource.shelf, &format!("{namespace}/")) {
            let Some(object) = state.store.get(resource.shelf, &key) else {
                continue;
            };
            let object = object.value();
            if usage::is_in_scope(&next["spec"], &resource, &object) {
                add(usage::of(&resource, &object));
            }
        }
    }
    let known = amounts::read(&next["status"]["used"]);
    if next["status"]["hard"] == hard && known == used {
        return true;
    }
    let used: Value = used
        .iter()
        .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    next["status"] = json!({"hard": hard, "used": used});
    quota::write(state, &stored, next, MANAGER)
}

/// The resources that a quota of these names counts, each once.
fn counted(state: &State, names: &BTreeSet<&str>) -> Vec<Arc<ResourceInfo>> {
    let mut shelves = BTreeSet::new();
    let mut found = Vec::new();
    for entry in state.registry.entries().iter() {
        let resource = match state
            .registry
            .find(&entry.group, &entry.version, &entry.plural)
        {
            Found::Resource(resource) if resource.is_namespaced() => resource,
            _ => continue,
        };
        let is_asked = names.contains(&*usage::count_name(&resource))
            || usage::has_measures(&resource)
                && names.iter().any(|name| !name.starts_with("count/"));
        if is_asked && shelves.insert(resource.shelf) {
            found.push(resource);
        }
    }
    found
}
