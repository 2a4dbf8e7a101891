//! Tests of the decision and of the status: the work of one reconcile, as words.
//!
//! ```text
//! set + nodes + pods → plan → "create a", "delete p", "clear p of a"        → status: counts
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::plan::Plan;
use super::*;
use crate::json::set as put;

const EARLY: &str = "2026-01-01T00:00:00Z";

/// A pod: its name, its node, its revision, and its state: `ready`, `pending`, `unbound`, `failed`,
/// `succeeded`, or one of them and `ending`.
type One = (&'static str, &'static str, &'static str, &'static str);

fn pod((name, node, hash, state): One) -> Arc<Pod> {
    let set = set(json!({}));
    let mut body = Template::of(&set, hash).pod_for(node);
    put(
        &mut body,
        &["metadata", "labels", "pod-template-generation"],
        hash.into(),
    );
    let first = state.split(' ').next();
    let phase = match first {
        Some("ready") => "Running",
        Some("failed") => "Failed",
        Some("succeeded") => "Succeeded",
        _ => "Pending",
    };
    let ready = if phase == "Running" { "True" } else { "False" };
    put(&mut body, &["metadata", "name"], name.into());
    put(&mut body, &["metadata", "namespace"], "ns".into());
    put(&mut body, &["metadata", "creationTimestamp"], EARLY.into());
    if first != Some("unbound") {
        put(&mut body, &["spec", "nodeName"], node.into());
    }
    let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": EARLY}]);
    body["status"] = json!({"phase": phase, "conditions": conditions});
    let mut pod: Pod = serde_json::from_value(body).unwrap();
    if state.ends_with(" ending") {
        pod.metadata.deletion_timestamp = Some(Time(EARLY.parse().unwrap()));
    }
    Arc::new(pod)
}

fn set(rolling: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "x", "namespace": "ns", "uid": "u", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}}, "spec": {"containers": []},
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    })
}

/// Nodes by their names. One with a `!` is tainted.
fn nodes(names: &[&str]) -> Vec<Arc<Node>> {
    let node = |name: &&str| {
        let taints = name
            .ends_with('!')
            .then_some(json!([{"key": "k", "effect": "NoSchedule"}]));
        let name = name.trim_end_matches('!');
        let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
        Arc::new(serde_json::from_value(node).unwrap())
    };
    names.iter().map(node).collect()
}

fn decide<T>(set: &Value, of_nodes: &[&str], pods: &[One], then: impl Fn(&Input<'_>) -> T) -> T {
    then(&Input {
        set,
        template: &Template::of(set, "new"),
        nodes: &nodes(of_nodes),
        pods: &pods.iter().copied().map(pod).collect::<Vec<_>>(),
        now: "2026-01-01T01:00:00Z".parse().unwrap(),
    })
}

fn told(plan: &Plan) -> Vec<String> {
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    let create = plan.create.iter().map(|node| format!("create {node}"));
    let delete = plan
        .delete
        .iter()
        .map(|pod| format!("delete {}", name(pod)));
    let ended = plan.ended.iter();
    let ended = ended.map(|(node, pod)| format!("clear {} of {node}", name(pod)));
    create.chain(delete).chain(ended).collect()
}

fn check(rolling: Value, of_nodes: &[&str], pods: &[One], expected: &[&str]) {
    let told = told(&decide(&set(rolling), of_nodes, pods, plan));
    assert_eq!(told, expected, "{of_nodes:?} {pods:?}");
}

#[test]
fn every_node_that_wants_a_pod_has_one() {
    let one = || json!({"maxUnavailable": 1});
    check(one(), &["b", "a"], &[], &["create a", "create b"]);
    check(
        one(),
        &["a", "b"],
        &[("p", "a", "new", "ready")],
        &["create b"],
    );
    check(one(), &["a"], &[("p", "a", "new", "ready ending")], &[]);
    check(one(), &["a!"], &[], &[]);
    check(one(), &["a!"], &[("p", "a", "new", "ready")], &[]);
    check(one(), &[], &[], &[]);
    let two = [("p", "a", "new", "ready"), ("q", "a", "new", "ready")];
    check(one(), &["a"], &two, &["delete q"]);
    let unbound = [("p", "a", "new", "unbound"), ("q", "a", "new", "ready")];
    check(one(), &["a"], &unbound, &["delete p"]);
    // Of a node that is gone.
    check(one(), &[], &[("p", "a", "new", "unbound")], &["delete p"]);
    check(one(), &[], &[("p", "a", "new", "ready")], &[]);
}

#[test]
fn a_pod_that_ended_is_cleared_and_then_replaced() {
    let one = || json!({"maxUnavailable": 1});
    check(
        one(),
        &["a"],
        &[("p", "a", "new", "failed")],
        &["clear p of a"],
    );
    check(
        one(),
        &["a"],
        &[("p", "a", "new", "succeeded")],
        &["clear p of a"],
    );
    // It is on its way out, and counts no more.
    check(
        one(),
        &["a"],
        &[("p", "a", "new", "failed ending")],
        &["create a"],
    );
    let pod = pod(("p", "a", "new", "failed"));
    let expected = "Found failed daemon pod ns/p on node a, will try to kill it";
    assert_eq!(
        about_ended("a", &pod),
        ("FailedDaemonPod", expected.to_owned())
    );
}

#[test]
fn a_node_that_no_longer_fits_loses_its_pod() {
    let mut set = set(json!({"maxUnavailable": 1}));
    let selector = json!({"kubernetes.io/hostname": "a"});
    set["spec"]["template"]["spec"]["nodeSelector"] = selector;
    let pods = [
        ("p", "a", "new", "ready"),
        ("q", "b", "new", "ready ending"),
    ];
    assert_eq!(told(&decide(&set, &["b"], &pods[..1], plan)), [""; 0]);
    assert_eq!(told(&decide(&set, &["a"], &pods[..1], plan)), ["delete p"]);
    assert_eq!(told(&decide(&set, &["b"], &pods[1..], plan)), [""; 0]);
}

#[test]
fn an_update_deletes_no_more_than_may_be_unavailable() {
    let one = || json!({"maxUnavailable": 1});
    let old = [("p", "a", "old", "ready"), ("q", "b", "old", "ready")];
    check(one(), &["a", "b"], &old, &["delete p"]);
    check(
        json!({"maxUnavailable": "100%"}),
        &["a", "b"],
        &old,
        &["delete p", "delete q"],
    );
    let going = [
        ("p", "a", "old", "ready ending"),
        ("q", "b", "old", "ready"),
    ];
    check(one(), &["a", "b"], &going, &[]);
    let waiting = [("p", "a", "new", "pending"), ("q", "b", "old", "ready")];
    check(one(), &["a", "b"], &waiting, &[]);
    let next = [("p", "a", "new", "ready"), ("q", "b", "old", "ready")];
    check(one(), &["a", "b"], &next, &["delete q"]);
    let ill = [("p", "a", "old", "pending"), ("q", "b", "old", "ready")];
    check(one(), &["a", "b"], &ill, &["delete p"]);
    check(
        json!({"maxUnavailable": 0}),
        &["a", "b"],
        &old,
        &["delete p"],
    );
    // Missing pods come first.
    check(one(), &["a", "b", "c"], &old, &["create c"]);
}

#[test]
fn an_update_with_surge_creates_before_it_deletes() {
    let surge = || json!({"maxSurge": 1, "maxUnavailable": 0});
    let old = [("p", "a", "old", "ready"), ("q", "b", "old", "ready")];
    check(surge(), &["a", "b"], &old, &["create a"]);
    check(
        json!({"maxSurge": 2}),
        &["a", "b"],
        &old,
        &["create a", "create b"],
    );
    let begun = |state| [old[0], old[1], ("r", "a", "new", state)];
    check(surge(), &["a", "b"], &begun("pending"), &[]);
    check(surge(), &["a", "b"], &begun("ready"), &["delete p"]);
    let ill = [("p", "a", "old", "pending"), ("q", "b", "old", "pending")];
    check(surge(), &["a", "b"], &ill, &["create a", "create b"]);
    let both_ill = [("p", "a", "old", "pending"), ("r", "a", "new", "pending")];
    check(surge(), &["a"], &both_ill, &["delete p"]);
    let three = [
        old[0],
        ("r", "a", "new", "pending"),
        ("s", "a", "new", "pending"),
    ];
    check(surge(), &["a"], &three, &["delete s"]);
    check(
        surge(),
        &["a"],
        &[("p", "a", "new", "ready ending")],
        &["create a"],
    );
    // The tainted node's pod goes when another one serves in its place.
    let served = |state| [old[0], ("q", "b", "new", state)];
    check(surge(), &["a!", "b"], &served("pending"), &[]);
    check(surge(), &["a!", "b"], &served("ready"), &["delete p"]);
}

#[test]
fn nodes_are_counted_as_recorded() {
    let check = |of_nodes: &[&str], pods: &[One], expected: Value| {
        let status = decide(&set(json!({})), of_nodes, pods, |input| {
            status::next(input, 0)
        });
        assert_eq!(status, expected, "{of_nodes:?} {pods:?}");
    };
    // As a real controller manager wrote them: created, rolling, restricted to one node.
    check(
        &["a", "b"],
        &[("p", "a", "new", "unbound")],
        json!({
            "currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 2,
            "numberReady": 0, "observedGeneration": 2, "updatedNumberScheduled": 1,
            "numberUnavailable": 2,
        }),
    );
    check(
        &["a", "b"],
        &[("p", "a", "new", "pending"), ("q", "b", "old", "ready")],
        json!({
            "currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2,
            "numberReady": 1, "observedGeneration": 2, "updatedNumberScheduled": 1,
            "numberAvailable": 1, "numberUnavailable": 1,
        }),
    );
    check(
        &["a", "b!"],
        &[
            ("p", "a", "old", "ready"),
            ("q", "b", "old", "ready ending"),
        ],
        json!({
            "currentNumberScheduled": 1, "numberMisscheduled": 1, "desiredNumberScheduled": 1,
            "numberReady": 1, "observedGeneration": 2, "numberAvailable": 1,
        }),
    );
}
