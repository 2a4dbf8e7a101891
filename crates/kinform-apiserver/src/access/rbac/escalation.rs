//! Nobody gives away what they do not hold.
//!
//! ```text
//! role or binding to be written + its writer's rules ──▶ go on | 403 with what is missing
//! ```
//!
//! Whoever has the right to `escalate` a role, or to `bind` one, is not asked for more.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/rbac/*/policybased`, `pkg/registry/rbac/escalation_check.go`.

use kinform_api::Status;
use serde_json::Value;

use super::rule::missing;
use super::{GROUP, RoleRef, Rule, decide, role_rules, rules_for};
use crate::access::attributes::ResourceRef;
use crate::access::{Attributes, User};
use crate::resource::ResourceInfo;
use crate::storage::Store;
use crate::write::text;

/// Whether a user may write this role or binding over what is stored.
///
/// # Errors
/// 403 if it gives more than the user holds, 404 if the role that is bound does not exist.
pub(crate) fn check(
    store: &Store,
    user: &User,
    resource: &ResourceInfo,
    (object, old): (&Value, Option<&Value>),
) -> Result<(), Box<Status>> {
    if resource.group != GROUP || user.is_privileged() {
        return Ok(());
    }
    let of_resource = resource.group_resource();
    let (name, namespace) = (
        text(object, &["metadata", "name"]),
        text(object, &["metadata", "namespace"]),
    );
    let wanted = match resource.plural.as_str() {
        "roles" | "clusterroles" => {
            let same = old.is_some_and(|old| {
                old.get("rules") == object.get("rules")
                    && old.get("aggregationRule") == object.get("aggregationRule")
            });
            if same || may(store, user, "escalate", (&resource.plural, namespace, name)) {
                return Ok(());
            }
            if !object["aggregationRule"].is_null() {
                // What it will hold is not known: only who holds everything may say it.
                vec![everything()]
            } else {
                rules_of(object)
            }
        }
        "rolebindings" | "clusterrolebindings" => {
            if old.is_some_and(|old| {
                old.get("subjects") == object.get("subjects")
                    && old.get("roleRef") == object.get("roleRef")
            }) {
                return Ok(());
            }
            let role: RoleRef =
                serde_json::from_value(object["roleRef"].clone()).unwrap_or_default();
            let (plural, within) = match role.kind.as_str() {
                "Role" => ("roles", namespace),
                _ => ("clusterroles", namespace),
            };
            if may(store, user, "bind", (plural, within, &role.name)) {
                return Ok(());
            }
            role_rules(store, &role, namespace)
                .ok_or_else(|| Box::new(Status::not_found(&of_resource, &role.name)))?
        }
        _ => return Ok(()),
    };
    let held = rules_for(store, user, namespace);
    let lacks = missing(&held, &wanted).map(|rules| {
        let told: Vec<String> = rules.iter().map(Rule::told).collect();
        told.join("\n")
    });
    let lacks = match lacks.as_deref() {
        Ok("") => return Ok(()),
        Ok(lacks) => lacks,
        Err(_) => "(too many to tell)",
    };
    let groups: Vec<String> = user.groups().iter().map(|of| format!("{of:?}")).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{lacks}",
        user.name(),
        groups.join(" ")
    );
    Err(Box::new(Status::forbidden(&of_resource, name, &why)))
}

fn everything() -> Rule {
    let all = || vec!["*".to_owned()];
    Rule {
        verbs: all(),
        api_groups: all(),
        resources: all(),
        ..Rule::default()
    }
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
