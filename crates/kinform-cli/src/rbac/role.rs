//! The least role that gives some rights.
//!
//! ```text
//! {Asked} ──▶ rules, one for each group and set of verbs ──▶ Role (one namespace) | ClusterRole
//!     └─ leases of one namespace, where others are elsewhere ──▶ a Role of their own
//! ```
//!
//! Pure. Leases are apart because an election is in the namespace of its program: a ClusterRole with
//! them could take every lease of the cluster, those of nodes and of other programs too. Leases of
//! several namespaces stay with the others. A rule has no right that was not passed in: resources
//! share a rule only if their group, verbs and names are the same.
//!
//! Upstream counterpart: none; the rules are those of `rbac.authorization.k8s.io/v1`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::asked::{Asked, Target};

/// The objects that rules are narrowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// Any object of the resource.
    Any,
    /// The objects that were asked for, where a verb can be narrowed to them.
    Used,
}

/// A set of texts in order.
type Set = BTreeSet<String>;

/// The roles, each named `name`: one, or two if leases have a namespace of their own.
pub(super) fn roles(name: &str, asked: &BTreeSet<Asked>, names: Names) -> Vec<Value> {
    let (leases, others): (BTreeSet<Asked>, BTreeSet<Asked>) =
        asked.iter().cloned().partition(is_lease);
    match only_namespace(asked).is_none() && only_namespace(&leases).is_some() {
        true => vec![role(name, &others, names), role(name, &leases, names)],
        false => vec![role(name, asked, names)],
    }
}

/// Returns whether the right is one on leases of a namespace, or on candidates for them.
fn is_lease(asked: &Asked) -> bool {
    match &asked.target {
        Target::Path(_) => false,
        Target::Resource {
            namespace,
            group,
            resource,
            ..
        } => {
            let is_of_election = ["leases", "leasecandidates"].contains(&resource.as_str());
            !namespace.is_empty() && group == "coordination.k8s.io" && is_of_election
        }
    }
}

fn role(name: &str, asked: &BTreeSet<Asked>, names: Names) -> Value {
    let namespace = only_namespace(asked);
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": if namespace.is_some() { "Role" } else { "ClusterRole" },
        "metadata": metadata,
        "rules": rules(asked, names),
    })
}

/// The one namespace in which all rights are needed.
fn only_namespace(asked: &BTreeSet<Asked>) -> Option<&str> {
    let mut all = asked.iter().map(|asked| match &asked.target {
        Target::Path(_) => "",
        Target::Resource { namespace, .. } => namespace,
    });
    let first = all.next().filter(|first| !first.is_empty())?;
    all.all(|other| other == first).then_some(first)
}

fn rules(asked: &BTreeSet<Asked>, names: Names) -> Vec<Value> {
    // (group, resource, verb) → names; an empty name is any object.
    let mut resources: BTreeMap<(&str, &str, &str), Set> = BTreeMap::new();
    let mut paths: BTreeMap<&str, Set> = BTreeMap::new();
    for Asked { verb, target } in asked {
        match target {
            Target::Path(path) => {
                paths.entry(path).or_default().insert(verb.clone());
            }
            Target::Resource {
                group,
                resource,
                name,
                ..
            } => {
                let used = resources.entry((group, resource, verb)).or_default();
                used.insert(match names {
                    // An object that does not exist yet has no name that a rule could have.
                    Names::Used if verb != "create" || resource.contains('/') => name.clone(),
                    _ => String::new(),
                });
            }
        }
    }
    let mut of_resource: BTreeMap<(&str, &str, Set), Set> = BTreeMap::new();
    for ((group, resource, verb), mut used) in resources {
        if used.contains("") {
            used.clear();
        }
        let verbs = of_resource.entry((group, resource, used)).or_default();
        verbs.insert(verb.to_owned());
    }
    let mut merged: BTreeMap<(&str, Set, Set), Set> = BTreeMap::new();
    for ((group, resource, used), verbs) in of_resource {
        let rule = merged.entry((group, verbs, used)).or_default();
        rule.insert(resource.to_owned());
    }
    let of_resources = merged.into_iter().map(|((group, verbs, used), resources)| {
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !used.is_empty() {
            rule["resourceNames"] = json!(used);
        }
        rule
    });
    let of_paths = paths
        .into_iter()
        .map(|(path, verbs)| json!({"nonResourceURLs": [path], "verbs": verbs}));
    of_resources.chain(of_paths).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rights: &[(&str, &str, &str, &str, &str)]) -> BTreeSet<Asked> {
        let rights = rights
            .iter()
            .map(|(verb, group, resource, namespace, name)| Asked {
                verb: (*verb).to_owned(),
                target: Target::Resource {
                    namespace: (*namespace).to_owned(),
                    group: (*group).to_owned(),
                    resource: (*resource).to_owned(),
                    name: (*name).to_owned(),
                },
            });
        rights.collect()
    }

    #[test]
    fn rights_in_one_namespace_are_a_role() {
        let rights = asked(&[
            ("get", "", "pods", "shop", "a"),
            ("get", "", "configmaps", "shop", "b"),
            ("list", "apps", "deployments", "shop", ""),
            ("watch", "apps", "deployments", "shop", ""),
            ("create", "", "events", "shop", ""),
        ]);
        assert_eq!(
            role("it", &rights, Names::Any),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "it", "namespace": "shop"}, "rules": [
                    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
                    {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get"]},
                    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}]})
        );
    }

    #[test]
    fn several_namespaces_or_none_are_a_cluster_role() {
        for rights in [
            asked(&[("get", "", "pods", "a", "x"), ("get", "", "pods", "b", "x")]),
            asked(&[("get", "", "pods", "a", "x"), ("list", "", "pods", "", "")]),
            asked(&[("get", "", "nodes", "", "n")]),
            BTreeSet::new(),
        ] {
            assert_eq!(
                role("it", &rights, Names::Any)["kind"],
                "ClusterRole",
                "{rights:?}"
            );
        }
    }

    #[test]
    fn leases_of_one_namespace_have_a_role_of_their_own() {
        let of = |rights: &[(&str, &str, &str, &str, &str)]| {
            let roles = roles("it", &asked(rights), Names::Any);
            let shown = roles.iter().map(|role| {
                let (kind, namespace) = (&role["kind"], &role["metadata"]["namespace"]);
                let rules = role["rules"].as_array().unwrap().len();
                format!(
                    "{} {} {rules}",
                    kind.as_str().unwrap(),
                    namespace.as_str().unwrap_or("-")
                )
            });
            shown.collect::<Vec<_>>().join(", ")
        };
        let lease =
            |verb, namespace, name| (verb, "coordination.k8s.io", "leases", namespace, name);
        let pods = ("list", "", "pods", "", "");
        let (get, update) = (lease("get", "ops", "a"), lease("update", "ops", "a"));
        assert_eq!(of(&[pods, get, update]), "ClusterRole - 1, Role ops 1");
        let in_shop = ("list", "", "pods", "shop", "");
        assert_eq!(of(&[in_shop, get]), "Role shop 1, Role ops 1");
        let in_ops = ("list", "", "pods", "ops", "");
        assert_eq!(of(&[in_ops, get]), "Role ops 2");
        assert_eq!(of(&[get, update]), "Role ops 1");
        // Leases of many namespaces are objects as others.
        let many = lease("get", "kube-node-lease", "n");
        assert_eq!(of(&[pods, get, many]), "ClusterRole - 2");
        let all = lease("list", "", "");
        assert_eq!(of(&[all, get]), "ClusterRole - 1, Role ops 1");
    }

    #[test]
    fn names_narrow_a_rule_only_where_every_request_has_one() {
        let rights = asked(&[
            ("get", "", "pods", "a", "x"),
            ("get", "", "pods", "a", "y"),
            ("patch", "", "pods", "a", "x"),
            ("list", "", "pods", "a", "x"),
            ("list", "", "pods", "a", ""),
            ("create", "", "pods", "a", "x"),
            ("create", "", "pods/eviction", "a", "x"),
        ]);
        assert_eq!(
            role("it", &rights, Names::Used)["rules"],
            json!([
                {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"], "resourceNames": ["x"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "list"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x", "y"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"], "resourceNames": ["x"]}])
        );
    }

    #[test]
    fn paths_have_rules_of_their_own() {
        let rights = BTreeSet::from([Asked {
            verb: "get".to_owned(),
            target: Target::Path("/metrics".to_owned()),
        }]);
        let expected = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
        assert_eq!(role("it", &rights, Names::Any)["rules"], expected);
    }
}
