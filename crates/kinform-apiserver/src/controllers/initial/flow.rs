//! Flow schemas and priority levels.
//!
//! ```text
//! LEVELS ──▶ prioritylevelconfigurations     SCHEMAS ──▶ flowschemas
//! ```
//!
//! This server gives every request room without them. Clients find them as on any other server, and
//! replies name them.
//!
//! Upstream: `apiserver:pkg/apis/flowcontrol/bootstrap/default.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Initial;
use crate::access::User;
use crate::object::metadata;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Shelves of the store.
pub(crate) const SCHEMA_SHELF: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
pub(crate) const LEVEL_SHELF: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
/// BOUND: requests in a queue, as upstream tells it.
const QUEUE_LENGTH: u32 = 50;

/// A level that is limited: shares, percentage that it lends, queues and hand size if it queues.
type Level = (&'static str, u32, u32, Option<(u32, u32)>);

const LEVELS: [Level; 7] = [
    ("system", 30, 33, Some((64, 6))),
    ("node-high", 40, 25, Some((64, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
    ("global-default", 20, 50, Some((128, 6))),
    ("catch-all", 5, 0, None),
];

/// Requests that a schema matches.
#[derive(Clone, Copy, Debug)]
enum Requests {
    All,
    Leases,
    Nodes,
    Probes,
}

/// The request whose flow is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) verb: &'a str,
    /// Group and plural name of the resource.
    pub(crate) resource: Option<(&'a str, &'a str)>,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) path: &'a str,
}

impl Requests {
    fn have(self, asked: &Asked<'_>) -> bool {
        let is_lease = asked.resource == Some(("coordination.k8s.io", "leases"))
            && asked.subresource.is_none();
        match self {
            Self::All => true,
            Self::Leases => is_lease && matches!(asked.verb, "get" | "create" | "update"),
            Self::Nodes => {
                let is_node = asked.resource == Some(("", "nodes"))
                    && matches!(asked.subresource, None | Some("status"));
                is_node || is_lease
            }
            Self::Probes => {
                let is_probe = matches!(asked.path, "/healthz" | "/readyz" | "/livez");
                is_probe && asked.verb == "get"
            }
        }
    }
}

/// Returns the schema, and its level, under which a request goes: the first by precedence of those
/// that every server has. Schemas that were added later are not looked at.
pub(crate) fn flow(user: &User, asked: &Asked<'_>) -> (&'static str, &'static str) {
    let is_of = |subject: &&str| match subject.split_once(' ') {
        Some(("User", name)) => user.name() == name,
        Some(("Group", name)) => user.groups().iter().any(|group| group == name),
        _ => user
            .name()
            .starts_with("system:serviceaccount:kube-system:"),
    };
    let matching = SCHEMAS
        .iter()
        .filter(|(.., subjects, requests)| subjects.iter().any(&is_of) && requests.have(asked));
    let first = matching.min_by_key(|(name, _, precedence, ..)| (*precedence, *name));
    first.map_or(("catch-all", "catch-all"), |schema| (schema.0, schema.1))
}

/// A schema: name, level, precedence, what tells flows apart, subjects, requests.
type Schema = (
    &'static str,
    &'static str,
    u32,
    &'static str,
    &'static [&'static str],
    Requests,
);

const EVERYBODY: &[&str] = &["Group system:unauthenticated", "Group system:authenticated"];
const MANAGER: &str = "User system:kube-controller-manager";
const SCHEDULER: &str = "User system:kube-scheduler";
const ACCOUNTS: &str = "ServiceAccount kube-system/*";

#[rustfmt::skip]
const SCHEMAS: [Schema; 11] = [
    ("system-nodes", "system", 500, "ByUser", &["Group system:nodes"], Requests::All),
    ("system-node-high", "node-high", 400, "ByUser", &["Group system:nodes"], Requests::Nodes),
    ("probes", "exempt", 2, "", EVERYBODY, Requests::Probes),
    ("system-leader-election", "leader-election", 100, "ByUser", &[MANAGER, SCHEDULER, ACCOUNTS],
        Requests::Leases),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", &[MANAGER], Requests::All),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", &[SCHEDULER], Requests::All),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &[ACCOUNTS], Requests::All),
    ("service-accounts", "workload-low", 9_000, "ByUser", &["Group system:serviceaccounts"],
        Requests::All),
    ("global-default", "global-default", 9_900, "ByUser", EVERYBODY, Requests::All),
    ("catch-all", "catch-all", 10_000, "ByUser", EVERYBODY, Requests::All),
    ("exempt", "exempt", 1, "", &["Group system:masters"], Requests::All),
];

pub(super) fn objects(now: Timestamp) -> impl Iterator<Item = Initial> {
    let levels = LEVELS.iter().map(|level| (level.0, limited(*level)));
    let exempt = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
    let exempt = json!({"type": "Exempt", "exempt": exempt});
    let levels = levels.chain([("exempt", exempt)]).map(|(name, spec)| {
        let object = json!({"metadata": head(name), "spec": spec});
        Initial {
            manager: PRODUCER,
            unowned: json!({"status": {}}),
            ..Initial::new((GROUP, "v1", "prioritylevelconfigurations"), object)
        }
    });
    levels.chain(SCHEMAS.iter().map(move |facts| schema(*facts, now)))
}

fn head(name: &str) -> Value {
    json!({"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}})
}

fn limited((_, shares, lends, queues): Level) -> Value {
    let response = match queues {
        None => json!({"type": "Reject"}),
        Some((queues, hand)) => json!({
            "type": "Queue",
            "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH},
        }),
    };
    json!({"type": "Limited", "limited": {
        "nominalConcurrencyShares": shares,
        "limitResponse": response,
        "lendablePercent": lends,
    }})
}

fn schema((name, level, precedence, apart, subjects, requests): Schema, now: Timestamp) -> Initial {
    let subjects: Vec<Value> = subjects.iter().map(|of| subject(of)).collect();
    let mut rule = rule(requests);
    rule["subjects"] = Value::from(subjects);
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rule],
    });
    if !apart.is_empty() {
        spec["distinguisherMethod"] = json!({"type": apart});
    }
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists"
    );
    let status = json!({"conditions": [{
        "type": "Dangling",
        "status": "False",
        "lastTransitionTime": metadata::time(now),
        "reason": "Found",
        "message": message,
    }]});
    let object = json!({"metadata": head(name), "spec": spec});
    Initial {
        manager: PRODUCER,
        status: Some((CONSUMER, status)),
        ..Initial::new((GROUP, "v1", "flowschemas"), object)
    }
}

fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(' ').unwrap_or_default();
    match (kind, name.split_once('/')) {
        ("ServiceAccount", Some((namespace, name))) => {
            json!({"kind": kind, "serviceAccount": {"namespace": namespace, "name": name}})
        }
        ("User", _) => json!({"kind": kind, "user": {"name": name}}),
        _ => json!({"kind": kind, "group": {"name": name}}),
    }
}

fn rule(requests: Requests) -> Value {
    let leases = |verbs: &[&str]| {
        json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "namespaces": ["*"]})
    };
    match requests {
        Requests::All => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        Requests::Leases => json!({"resourceRules": [leases(&["get", "create", "update"])]}),
        Requests::Nodes => json!({"resourceRules": [
            {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"],
                "clusterScope": true, "namespaces": ["*"]},
            leases(&["*"]),
        ]}),
        Requests::Probes => json!({"nonResourceRules": [{"verbs": ["get"],
            "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_under_the_first_schema_that_has_it() {
        let user = |name: &str, groups: &[&str]| {
            let begin = User::new(name);
            groups
                .iter()
                .fold(begin, |user, group| user.with_group(*group))
        };
        let known = "system:authenticated";
        let get = Asked {
            verb: "get",
            resource: Some(("", "pods")),
            subresource: None,
            path: "/api/v1/namespaces/a/pods/b",
        };
        let lease = Asked {
            resource: Some(("coordination.k8s.io", "leases")),
            ..get
        };
        let probe = Asked {
            resource: None,
            path: "/readyz",
            ..get
        };
        for (user, asked, expected) in [
            (
                user("a", &["system:masters", known]),
                get,
                ("exempt", "exempt"),
            ),
            (
                user("a", &[known]),
                get,
                ("global-default", "global-default"),
            ),
            (user("a", &[known]), probe, ("probes", "exempt")),
            (
                user("a", &["system:nodes", known]),
                get,
                ("system-nodes", "system"),
            ),
            (
                user("a", &["system:nodes", known]),
                lease,
                ("system-node-high", "node-high"),
            ),
            (
                user("system:kube-scheduler", &[known]),
                lease,
                ("system-leader-election", "leader-election"),
            ),
            (
                user("system:kube-scheduler", &[known]),
                get,
                ("kube-scheduler", "workload-high"),
            ),
            (
                user(
                    "system:serviceaccount:kube-system:x",
                    &["system:serviceaccounts", known],
                ),
                get,
                ("kube-system-service-accounts", "workload-high"),
            ),
            (
                user(
                    "system:serviceaccount:a:x",
                    &["system:serviceaccounts", known],
                ),
                get,
                ("service-accounts", "workload-low"),
            ),
        ] {
            assert_eq!(flow(&user, &asked), expected, "{user:?} {asked:?}");
        }
    }
}
