//! Prevents users from granting permissions that they do not hold.
//!
//! ```text
//! role or binding to be written + its writer's rules ──▶ go on | 403 with the missing rules
//! ```
//!
//! A user with permission to `escalate` a role, or to `bind` one, is not checked further.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/rbac/*/policybased`, `pkg/registry/rbac/escalation_check.go`.

use kinform_api::Status;
use serde_json::Value;

use super::rule::{everything, missing};
use super::{GROUP, RoleRef, Rule, decide, role_rules, rules_for};
use crate::access::attributes::ResourceRef;
use crate::access::{Attributes, User};
use crate::object::{at, metadata, text};
use crate::resource::ResourceInfo;
use crate::storage::Store;

/// Fields whose changes are not checked: the garbage collector's, and those that every write
/// changes.
const NOT_ASKED: [&str; 4] = [
    "finalizers",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
];

/// Checks that a user may replace the stored role or binding by this one. A changed label is
/// checked too, because an aggregating role may select the rules by it.
///
/// # Errors
/// 403 if it grants more than the user holds, 404 if the bound role does not exist.
pub(crate) fn check(
    store: &Store,
    user: &User,
    resource: &ResourceInfo,
    (object, old): (&Value, Option<&Value>),
) -> Result<(), Box<Status>> {
    if resource.group != GROUP || user.is_privileged() {
        return Ok(());
    }
    if old.is_some_and(|old| asked(object) == asked(old)) {
        return Ok(());
    }
    let of_resource = resource.group_resource();
    let (name, namespace) = (
        text(object, &["metadata", "name"]),
        text(object, &["metadata", "namespace"]),
    );
    let forbidden = |why: &str| Err(Box::new(Status::forbidden(&of_resource, name, why)));
    let gathers = match resource.plural.as_str() {
        "roles" | "clusterroles" => {
            if may(store, user, "escalate", (&resource.plural, namespace, name)) {
                return Ok(());
            }
            aggregates(object) || old.is_some_and(aggregates)
        }
        "rolebindings" | "clusterrolebindings" => false,
        _ => return Ok(()),
    };
    let wanted = match object.get("roleRef") {
        None => rules_of(object),
        Some(role) => {
            let role: RoleRef = serde_json::from_value(role.clone()).unwrap_or_default();
            let plural = match role.kind.as_str() {
                "Role" => "roles",
                _ => "clusterroles",
            };
            if may(store, user, "bind", (plural, namespace, &role.name)) {
                return Ok(());
            }
            role_rules(store, &role, namespace)
                .ok_or_else(|| Box::new(Status::not_found(&of_resource, &role.name)))?
        }
    };
    let held = rules_for(store, user, namespace);
    if let Some(lacks) = lacks(&held, &wanted) {
        let groups: Vec<String> = user.groups().iter().map(|of| format!("{of:?}")).collect();
        return forbidden(&format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently \
             held:\n{lacks}",
            user.name(),
            groups.join(" ")
        ));
    }
    // The rules that the role will aggregate are unknown, so the writer must hold all rules.
    if gathers && lacks(&held, &everything()).is_some() {
        return forbidden("must have cluster-admin privileges to use the aggregationRule");
    }
    Ok(())
}

/// Describes the wanted rules that no held rule covers. Returns `None` if all are covered.
fn lacks(held: &[Rule], wanted: &[Rule]) -> Option<String> {
    let Ok(rules) = missing(held, wanted) else {
        return Some("(too many to tell)".to_owned());
    };
    let told: Vec<String> = rules.iter().map(Rule::describe).collect();
    (!told.is_empty()).then(|| told.join("\n"))
}

/// Upstream: `IsOnlyMutatingGCFields`.
fn asked(object: &Value) -> Value {
    let mut asked = object.clone();
    let metadata = metadata::of(&mut asked);
    for name in NOT_ASKED {
        metadata.remove(name);
    }
    asked
}

/// Returns whether a role aggregates the rules of other roles.
fn aggregates(role: &Value) -> bool {
    let selectors = at(role, &["aggregationRule", "clusterRoleSelectors"]);
    let selectors = selectors.and_then(Value::as_array);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

fn rules_of(role: &Value) -> Vec<Rule> {
    serde_json::from_value::<Option<Vec<Rule>>>(role["rules"].clone())
        .ok()
        .flatten()
        .unwrap_or_default()
}

fn may(
    store: &Store,
    user: &User,
    verb: &str,
    (plural, namespace, name): (&str, &str, &str),
) -> bool {
    let of = ResourceRef {
        namespace: namespace.to_owned(),
        group: GROUP.to_owned(),
        resource: plural.to_owned(),
        subresource: String::new(),
        name: name.to_owned(),
    };
    decide(store, user, &Attributes::of(verb, of)).is_allowed
}
