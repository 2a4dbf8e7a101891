//! Roles and bindings, for a server that authorizes by them.
//!
//! ```text
//! roles.txt ──parse──▶ cluster roles, roles, their bindings
//! ```
//!
//! The file says its own grammar. Its rules are those that a real server of release 1.37 lists.
//!
//! Upstream: `kubernetes/kubernetes:plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.

use serde_json::{Map, Value, json};

use super::Initial;
use crate::access::rbac::GROUP;

const ROLES: &str = include_str!("roles.txt");
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// Namespace of the accounts that the bindings name.
const ACCOUNTS: &str = "kube-system";

/// Returns the roles and bindings, each role before its own.
pub(super) fn objects() -> Vec<Initial> {
    let mut objects: Vec<Initial> = Vec::new();
    let mut place: Option<&str> = None;
    // The role that the lines are about: its place in the list.
    let mut role = 0;
    let lines = ROLES.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut words = line.split(' ');
        match words.next() {
            Some("role") => {
                let full = words.next().unwrap_or_default();
                let (namespace, name) = match full.split_once('/') {
                    Some((namespace, name)) => (Some(namespace), name),
                    None => (None, full),
                };
                place = namespace;
                role = objects.len();
                objects.push(self::role(namespace, name, words));
            }
            Some("bind") => {
                let bound = objects
                    .get(role)
                    .map(|role| &role.object["metadata"]["name"]);
                let bound = bound.and_then(Value::as_str).unwrap_or_default();
                let binding = binding(place, bound, words);
                objects.push(binding);
            }
            Some(verbs) if !verbs.is_empty() => {
                let rule = rule(verbs, words);
                if let Some(role) = objects.get_mut(role)
                    && let Some(rules) = role.object["rules"].as_array_mut()
                {
                    rules.push(rule);
                }
            }
            _ => {}
        }
    }
    objects
}

fn head(namespace: Option<&str>, name: &str) -> Value {
    let mut head = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    if let Some(namespace) = namespace {
        head["namespace"] = Value::from(namespace);
    }
    head
}

fn role<'a>(namespace: Option<&str>, name: &str, marks: impl Iterator<Item = &'a str>) -> Initial {
    let mut object = json!({"metadata": head(namespace, name), "rules": []});
    for mark in marks {
        match mark.split_once('=') {
            Some(("adds", to)) => {
                object["metadata"]["labels"][format!("{AGGREGATE}{to}")] = Value::from("true");
            }
            Some(("gathers", to)) => {
                let labels = Map::from_iter([(format!("{AGGREGATE}{to}"), Value::from("true"))]);
                object["aggregationRule"] =
                    json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
                object["rules"] = Value::Null;
            }
            _ => debug_assert!(false, "{name}: {mark}"),
        }
    }
    let plural = if namespace.is_some() {
        "roles"
    } else {
        "clusterroles"
    };
    Initial::new((GROUP, "v1", plural), object)
}

fn rule<'a>(verbs: &str, mut words: impl Iterator<Item = &'a str>) -> Value {
    let list = |text: &str| -> Vec<Value> {
        let name = |name| if name == "core" { "" } else { name };
        text.split(',')
            .map(|text| Value::from(name(text)))
            .collect()
    };
    let mut next = || words.next().unwrap_or_default();
    let (verbs, groups, resources, names) = (list(verbs), next(), next(), next());
    if groups == "@" {
        return json!({"verbs": verbs, "nonResourceURLs": list(resources)});
    }
    let mut rule = json!({"verbs": verbs, "apiGroups": list(groups), "resources": list(resources)});
    if !names.is_empty() {
        rule["resourceNames"] = Value::from(list(names));
    }
    rule
}

fn binding<'a>(
    namespace: Option<&str>,
    role: &str,
    words: impl Iterator<Item = &'a str>,
) -> Initial {
    let (mut name, mut subjects) = (role, Vec::new());
    for word in words {
        if let Some(other) = word.strip_prefix("as=") {
            name = other;
            continue;
        }
        let (kind, of) = word.split_once(':').unwrap_or_default();
        subjects.push(match kind {
            "account" => json!({"kind": "ServiceAccount", "name": of, "namespace": ACCOUNTS}),
            "user" => json!({"kind": "User", "apiGroup": GROUP, "name": of}),
            _ => json!({"kind": "Group", "apiGroup": GROUP, "name": of}),
        });
    }
    let (plural, kind) = match namespace {
        Some(_) => ("rolebindings", "Role"),
        None => ("clusterrolebindings", "ClusterRole"),
    };
    let mut object = json!({
        "metadata": head(namespace, name),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
    });
    if !subjects.is_empty() {
        object["subjects"] = Value::from(subjects);
    }
    Initial::new((GROUP, "v1", plural), object)
}
