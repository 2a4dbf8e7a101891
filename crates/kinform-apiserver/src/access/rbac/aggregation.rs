//! Roles that aggregate the rules of others.
//!
//! ```text
//! cluster role written, or the start ──▶ rules of the roles that aggregate it
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/clusterroleaggregation`.

use kinform_api::selector::LabelSelector;
use serde_json::Value;

use super::CLUSTER_ROLES;
use crate::object::label_selector::label_selector;
use crate::storage::{Draft, Expect, Store};

/// BOUND: the depth of roles that aggregate aggregating roles.
const ROUNDS: usize = 8;

/// Updates every role that aggregates others.
pub(crate) fn aggregate(store: &Store) {
    let shelf = store.shelf(CLUSTER_ROLES);
    for _ in 0..ROUNDS {
        let view = store.view(shelf);
        let mut changed = false;
        for stored in view.snapshot.iter() {
            let mut role = stored.value();
            let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
            let Some(selectors) = selectors else {
                continue;
            };
            let selectors: Vec<LabelSelector> =
                selectors.iter().filter_map(label_selector).collect();
            let mut rules: Vec<Value> = Vec::new();
            for selector in &selectors {
                let others = view.snapshot.iter().filter(|other| {
                    other.name() != stored.name() && selector.matches(|key| other.label(key))
                });
                for other in others {
                    for rule in other.value()["rules"].as_array().into_iter().flatten() {
                        if !rules.contains(rule) {
                            rules.push(rule.clone());
                        }
                    }
                }
            }
            let had = role["rules"]
                .as_array()
                .is_some_and(|rules| !rules.is_empty());
            if role["rules"] == Value::from(rules.clone()) || (rules.is_empty() && !had) {
                continue;
            }
            role["rules"] = Value::from(rules);
            let expect = Expect::Revision(stored.revision());
            let draft = Draft::new(&[], role);
            changed |= draft.is_some_and(|draft| store.put(shelf, draft, expect).is_ok());
        }
        if !changed {
            return;
        }
    }
}
