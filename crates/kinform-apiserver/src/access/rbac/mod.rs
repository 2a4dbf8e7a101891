//! Authorization by the stored roles and bindings.
//!
//! ```text
//! user + bindings ──▶ roles ──▶ rules, in order ──▶ allowed, with the binding | not allowed
//! ```
//!
//! There is no cache: a binding takes effect with the revision that wrote it. Bindings of the
//! cluster are checked first, then those of the namespace. The first matching rule decides.
//!
//! * `rule.rs`: matching and comparing rules;
//! * `escalation.rs`: the check that users grant only permissions that they hold;
//! * `aggregation.rs`: roles that aggregate the rules of others.
//!
//! Complexity: linear in the bindings that are checked.
//!
//! Upstream: `kubernetes/kubernetes:plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac`.

pub(crate) mod aggregation;
pub(crate) mod escalation;
mod rule;

use std::ops::ControlFlow;
use std::sync::Arc;

use kinform_api::mutant;
use serde::Deserialize;

use super::attributes::{Attributes, Subject};
use super::decision::Decision;
use super::user::User;
use crate::storage::{Store, Stored};

pub(crate) use self::rule::{Rule, everything};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
pub(crate) const ROLES: &str = "roles.rbac.authorization.k8s.io";
pub(crate) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// The parts of a role that authorization uses.
#[derive(Debug, Default, Deserialize)]
struct Role {
    #[serde(default)]
    rules: Option<Vec<Rule>>,
}

/// The parts of a binding that authorization uses.
#[derive(Debug, Default, Deserialize)]
struct Binding {
    #[serde(default)]
    subjects: Option<Vec<BoundSubject>>,
    #[serde(default, rename = "roleRef")]
    role: RoleRef,
}

/// The role that a binding refers to.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct RoleRef {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: String,
}

#[derive(Debug, Default, Deserialize)]
struct BoundSubject {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
}

impl BoundSubject {
    /// Returns whether the subject is this user; `within` is the namespace of the binding.
    fn is(&self, user: &User, within: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name() == self.name,
            "Group" => user.has_group(&self.name),
            "ServiceAccount" => {
                let namespace = self.namespace_within(within);
                !namespace.is_empty()
                    && user.as_service_account() == Some((namespace, self.name.as_str()))
            }
            _ => false,
        }
    }

    fn namespace_within<'a>(&'a self, within: &'a str) -> &'a str {
        match self.namespace.as_str() {
            "" => within,
            namespace => namespace,
        }
    }

    fn describe(&self, within: &str) -> String {
        match self.kind.as_str() {
            "ServiceAccount" => {
                let namespace = self.namespace_within(within);
                format!("ServiceAccount {:?}", format!("{}/{namespace}", self.name))
            }
            kind => format!("{kind} {:?}", self.name),
        }
    }
}

/// Decides by the stored roles whether a user may do this.
pub(crate) fn decide(store: &Store, user: &User, asked: &Attributes) -> Decision {
    let namespace = match &asked.subject {
        Subject::Resource(of) => of.namespace.as_str(),
        Subject::Path => "",
    };
    let mut decision = Decision::default();
    visit(store, user, namespace, &mut |rule, told| {
        if !rule.allows(asked) {
            return ControlFlow::Continue(());
        }
        decision = Decision {
            is_allowed: true,
            reason: format!("RBAC: allowed by {}", told()),
        };
        ControlFlow::Break(())
    });
    decision
}

/// Returns all rules that a user has in a namespace, those of the cluster first.
pub(crate) fn rules_for(store: &Store, user: &User, namespace: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    visit(store, user, namespace, &mut |rule, _| {
        rules.push(rule.clone());
        ControlFlow::Continue(())
    });
    rules
}

type Visitor<'a> = &'a mut dyn FnMut(&Rule, &dyn Fn() -> String) -> ControlFlow<()>;

fn visit(store: &Store, user: &User, namespace: &str, visitor: Visitor<'_>) {
    let cluster = store.view(store.shelf(CLUSTER_BINDINGS));
    let all = cluster.snapshot.iter().map(|binding| (binding.clone(), ""));
    let mut bindings: Vec<(Arc<Stored>, &str)> = all.collect();
    if !namespace.is_empty() {
        let view = store.view(store.shelf(BINDINGS));
        let here = view
            .snapshot
            .iter()
            .filter(|binding| binding.namespace() == Some(namespace) || mutant!("S7"));
        bindings.extend(here.map(|binding| (binding.clone(), namespace)));
    }
    for (stored, within) in bindings {
        let Ok(binding) = serde_json::from_slice::<Binding>(stored.bytes()) else {
            continue;
        };
        let subjects = binding.subjects.unwrap_or_default();
        let Some(subject) = subjects.iter().find(|subject| subject.is(user, within)) else {
            continue;
        };
        let told = || {
            let (role, kind) = (&binding.role.name, &binding.role.kind);
            let (what, name) = match within {
                "" => ("ClusterRoleBinding", stored.name().to_owned()),
                _ => ("RoleBinding", format!("{}/{within}", stored.name())),
            };
            let whom = subject.describe(within);
            format!("{what} {name:?} of {kind} {role:?} to {whom}")
        };
        for rule in role_rules(store, &binding.role, within).unwrap_or_default() {
            if visitor(&rule, &told).is_break() {
                return;
            }
        }
    }
}

/// Returns the rules of the role that a binding names, or `None` if there is no such role.
pub(crate) fn role_rules(store: &Store, role: &RoleRef, namespace: &str) -> Option<Vec<Rule>> {
    let stored = match role.kind.as_str() {
        "ClusterRole" => store.get(store.shelf(CLUSTER_ROLES), &role.name)?,
        "Role" => store.get(store.shelf(ROLES), &format!("{namespace}/{}", role.name))?,
        _ => return None,
    };
    let role: Role = serde_json::from_slice(stored.bytes()).ok()?;
    Some(role.rules.unwrap_or_default())
}
