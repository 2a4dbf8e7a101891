//! The initial roles of every cluster, and roles that aggregate the rules of others.
//!
//! ```text
//! bootstrap.json ──at start──▶ cluster roles, bindings    cluster role ──▶ roles that aggregate it
//! ```
//!
//! The roles of upstream's own controllers are left out, because those do not run here. Roles that
//! are already stored are not changed.
//!
//! Upstream: `kubernetes/kubernetes:plugin/pkg/auth/authorizer/rbac/bootstrappolicy`,
//! `pkg/controller/clusterroleaggregation`.

use jiff::Timestamp;
use kinform_api::selector::LabelSelector;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CLUSTER_BINDINGS, CLUSTER_ROLES, GROUP};
use crate::object::label_selector::label_selector;
use crate::object::metadata;
use crate::storage::{Draft, Expect, Store};

const POLICY: &str = include_str!("bootstrap.json");
/// BOUND: the depth of roles that aggregate aggregating roles.
const ROUNDS: usize = 8;

#[derive(Deserialize)]
struct Policy {
    roles: Vec<PolicyRole>,
    bindings: Vec<PolicyBinding>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PolicyRole {
    name: String,
    #[serde(default)]
    labels: Map<String, Value>,
    #[serde(default)]
    aggregation_rule: Option<Value>,
    #[serde(default)]
    rules: Value,
}

#[derive(Deserialize)]
struct PolicyBinding {
    role: String,
    groups: Vec<String>,
}

/// Stores the initial roles and bindings of every cluster.
pub(crate) fn found(store: &Store, now: Timestamp) {
    let Ok(policy) = serde_json::from_str::<Policy>(POLICY) else {
        debug_assert!(false, "the policy is compiled in");
        return;
    };
    let head = |name: &str, mut labels: Map<String, Value>| {
        labels.insert(
            "kubernetes.io/bootstrapping".to_owned(),
            json!("rbac-defaults"),
        );
        json!({
            "name": name,
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": metadata::time(now),
            "labels": labels,
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        })
    };
    let put = |shelf: &str, object: Value| {
        if let Some(draft) = Draft::new(&[], object) {
            // An object that is already stored is not changed.
            drop(store.put(store.shelf(shelf), draft, Expect::Absent));
        }
    };
    for role in policy.roles {
        let mut object = json!({"metadata": head(&role.name, role.labels), "rules": role.rules});
        if let Some(rule) = role.aggregation_rule {
            object["aggregationRule"] = rule;
        }
        put(CLUSTER_ROLES, object);
    }
    for binding in policy.bindings {
        let subject = |group: &String| json!({"kind": "Group", "apiGroup": GROUP, "name": group});
        let object = json!({
            "metadata": head(&binding.role, Map::new()),
            "subjects": binding.groups.iter().map(subject).collect::<Vec<_>>(),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": binding.role},
        });
        put(CLUSTER_BINDINGS, object);
    }
    aggregate(store);
}

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
