//! Tables of the constraints between pods.
//!
//! ```text
//! pods on nodes of two zones + a new pod ─▶ node │ reasons
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::ObjectKey;
use serde_json::{Value, json};

use super::choice::{Choice, choose};
use super::claims::Needs;
use super::incoming::Incoming;
use super::ledger::Ledger;
use super::neighbours::{Caches, Labels};

/// A cluster of two zones: a1 and a2 in a, b1 in b; x1 in none.
struct Cluster {
    nodes: Vec<Arc<Node>>,
    ledger: Ledger,
    labels: BTreeMap<ObjectKey, Labels>,
}

fn key(name: &str) -> ObjectKey {
    match name.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(Some(namespace), name),
        None => ObjectKey::new(Some("ns"), name),
    }
}

fn pod(app: &str, spec: &Value) -> Pod {
    let mut pod = json!({"metadata": {"name": "p", "labels": {"app": app}},
        "spec": {"containers": []}});
    let members = spec.as_object().unwrap().clone();
    pod["spec"].as_object_mut().unwrap().extend(members);
    serde_json::from_value(pod).unwrap()
}

impl Cluster {
    fn new() -> Self {
        let node = |(name, labels): (&str, Value)| {
            let node = json!({"metadata": {"name": name, "labels": labels},
                "status": {"allocatable": {"cpu": "1", "pods": "9"}}});
            Arc::new(serde_json::from_value(node).unwrap())
        };
        let nodes = [
            ("a1", json!({"zone": "a", "host": "a1"})),
            ("a2", json!({"zone": "a", "host": "a2"})),
            ("b1", json!({"zone": "b", "host": "b1"})),
            ("x1", json!({})),
        ];
        Self {
            nodes: nodes.map(node).into(),
            ledger: Ledger::default(),
            labels: BTreeMap::new(),
        }
    }

    /// The cluster with one more pod.
    fn with(mut self, name: &str, node: &str, app: &str, spec: Value) -> Self {
        let pod = pod(app, &spec);
        self.ledger.assume(&key(name), &pod, node);
        let labels = pod.metadata.labels.clone().unwrap();
        self.labels.insert(key(name), labels);
        self
    }

    fn choose(&self, pod: &Pod) -> Choice {
        let caches = Caches {
            pods: &|key| self.labels.get(key).cloned(),
            namespaces: &|name| BTreeMap::from([("name".to_owned(), name.to_owned())]),
            budgets: &Vec::new,
        };
        let (new, needs) = (key("new"), Needs::default());
        let incoming = Incoming::new(&new, pod, (&self.nodes, &needs), &self.ledger, caches);
        choose(&incoming, &self.ledger)
    }

    /// Checks the chosen node, or the reasons why there is none.
    fn check(&self, app: &str, spec: Value, expected: Result<&str, &str>) {
        let found = match self.choose(&pod(app, &spec)) {
            Choice::Node(node) => Ok(node),
            Choice::Unschedulable(why) => {
                let (why, _) = why.split_once(". preemption").unwrap();
                Err(why.split_once(": ").unwrap().1.to_owned())
            }
            other => panic!("{other:?}"),
        };
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(found, expected, "{spec}");
    }
}

fn term(app: &str, topology: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology})
}

fn affinity(kind: &str, terms: &[Value]) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn preferred(kind: &str, weight: i64, term: Value) -> Value {
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": weight, "podAffinityTerm": term},
    ]}}})
}

// kubernetes: TestRequiredAffinitySingleNode, TestRequiredAffinityMultipleNodes
#[test]
fn a_pod_is_near_those_that_it_asks_for() {
    let cluster = Cluster::new().with("db", "b1", "db", json!({}));
    cluster.check(
        "web",
        affinity("podAffinity", &[term("db", "zone")]),
        Ok("b1"),
    );
    let not_near = Err("4 node(s) didn't match pod affinity rules");
    let other = affinity("podAffinity", &[term("cache", "zone")]);
    cluster.check("web", other, not_near);
    // The first of a group is near itself, on a node with the label.
    let own = affinity("podAffinity", &[term("web", "zone")]);
    cluster.check("web", own, Ok("a1"));
    let elsewhere = Cluster::new().with("other/db", "b1", "db", json!({}));
    let near = affinity("podAffinity", &[term("db", "zone")]);
    elsewhere.check("web", near, not_near);
    for (member, value) in [
        ("namespaces", json!(["other"])),
        ("namespaceSelector", json!({})),
        (
            "namespaceSelector",
            json!({"matchLabels": {"name": "other"}}),
        ),
    ] {
        let mut term = term("db", "zone");
        term[member] = value;
        elsewhere.check("web", affinity("podAffinity", &[term]), Ok("b1"));
    }
}

// kubernetes: TestRequiredAffinitySingleNode (anti-affinity, also of existing pods)
#[test]
fn pods_stay_apart_whoever_of_them_asks() {
    let apart = |topology: &str| affinity("podAntiAffinity", &[term("web", topology)]);
    let cluster = Cluster::new().with("one", "a1", "web", json!({}));
    cluster.check("web", apart("zone"), Ok("b1"));
    cluster.check("web", apart("host"), Ok("a2"));
    let full = cluster.with("two", "b1", "web", json!({}));
    full.check("web", apart("zone"), Ok("x1"));
    let near = json!({"nodeSelector": {"zone": "a"}});
    let mut both = apart("zone");
    both["nodeSelector"] = near["nodeSelector"].clone();
    let why = "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod \
               anti-affinity rules";
    full.check("web", both, Err(why));
    let averse = Cluster::new().with("one", "a1", "db", apart("zone"));
    averse.check("web", json!({}), Ok("b1"));
    averse.check("db", json!({}), Ok("a2"));
    let why = "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't satisfy \
               existing pods anti-affinity rules";
    averse.check("web", near, Err(why));
    let mut gone = averse;
    gone.ledger.remove(&key("one"));
    gone.check("web", json!({}), Ok("a1"));
}

// kubernetes: TestPreferredAffinity
#[test]
fn preferences_decide_between_nodes_that_fit() {
    let cluster = Cluster::new().with("db", "b1", "db", json!({}));
    let near = preferred("podAffinity", 10, term("db", "zone"));
    cluster.check("web", near, Ok("b1"));
    let apart = preferred("podAntiAffinity", 10, term("db", "zone"));
    cluster.check("web", apart, Ok("a1"));
}

fn spread(skew: i64, topology: &str, when: &str) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": skew, "topologyKey": topology, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]})
}

// kubernetes: TestSingleConstraint
#[test]
fn pods_are_spread_within_the_skew() {
    let hard = |skew| spread(skew, "zone", "DoNotSchedule");
    let cluster = Cluster::new().with("one", "a1", "web", json!({}));
    cluster.check("web", hard(1), Ok("b1"));
    // Less skew than allowed: the emptiest node.
    cluster.check("web", hard(2), Ok("a2"));
    cluster.check("db", hard(1), Ok("a2"));
    let mut small = hard(1);
    small["nodeSelector"] = json!({"zone": "a"});
    cluster.check("web", small, Ok("a2"));
    let two = cluster.with("two", "a2", "web", json!({}));
    two.check("web", hard(2), Ok("b1"));
    let mut all_nodes = hard(1);
    all_nodes["nodeSelector"] = json!({"zone": "a"});
    all_nodes["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore".into();
    let why = "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod \
               topology spread constraints";
    two.check("web", all_nodes, Err(why));
    let mut three = hard(1);
    three["topologySpreadConstraints"][0]["minDomains"] = 3.into();
    let even = two.with("three", "b1", "web", json!({}));
    let why = "1 node(s) didn't match pod topology spread constraints (missing required label), 3 \
               node(s) didn't match pod topology spread constraints";
    even.check("web", three, Err(why));
}

#[test]
fn a_soft_constraint_only_prefers_the_emptier_part() {
    let cluster = Cluster::new()
        .with("one", "b1", "web", json!({}))
        .with("two", "a1", "web", json!({}))
        .with("three", "a1", "web", json!({}));
    let soft = spread(1, "zone", "ScheduleAnyway");
    // a2 has no pod, but its zone has two.
    cluster.check("web", soft, Ok("b1"));
}

#[test]
fn a_pod_goes_that_another_one_may_not_be_near() {
    let apart = affinity("podAntiAffinity", &[term("web", "zone")]);
    let cluster = Cluster::new()
        .with("one", "a1", "web", json!({}))
        .with("two", "b1", "web", json!({"priority": 50}))
        .with("three", "x1", "web", json!({"priority": 50}));
    let mut new = apart;
    new["priority"] = 10.into();
    new["nodeSelector"] = json!({"zone": "a"});
    let Choice::Preempt(preemption, _) = cluster.choose(&pod("web", &new)) else {
        panic!("no preemption");
    };
    assert_eq!(preemption.node, "a1");
    assert_eq!(preemption.victims, [key("one")]);
    new["priority"] = 0.into();
    let chosen = cluster.choose(&pod("web", &new));
    assert!(matches!(chosen, Choice::Unschedulable(_)), "{chosen:?}");
}
