//! Tests of the decision: the writes of one reconcile, as lines.
//!
//! ```text
//! deployment + sets → plan → "create 3", "NewReplicaSetCreated", "Scaled up replica set from 0 to 3"
//! ```

use serde_json::{Value, json};

use super::model::HASH;
use super::plan::{HasPods, Input, Plan, Write, plan};
use crate::json::{annotation, name, text};

#[derive(Debug)]
struct Pods(bool);

impl HasPods for Pods {
    fn has_pods(&self, _: &str) -> bool {
        self.0
    }
}

fn deployment(image: &str, changes: &[(&str, Value)]) -> Value {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "x", "namespace": "a", "uid": "d", "generation": 1},
        "spec": {
            "replicas": 3, "progressDeadlineSeconds": 6, "revisionHistoryLimit": 2,
            "selector": {"matchLabels": {"app": "x"}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    });
    for (path, value) in changes {
        let path: Vec<&str> = path.split('/').collect();
        crate::json::set(&mut deployment, &path, value.clone());
    }
    deployment
}

fn decide(deployment: &Value, sets: &[Value], pods: &Pods) -> Plan {
    plan(Input {
        deployment,
        sets: sets.to_vec(),
        has_pods: pods,
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    })
}

/// The writes as lines; hashes of names are left out.
fn told(plan: &Plan) -> Vec<String> {
    let replicas = |set: &Value| set["spec"]["replicas"].to_string();
    let tell = |write: &Write| match write {
        Write::CreateSet(set) => format!("create {}", replicas(set)),
        Write::ReplaceSet(set) => format!("scale {}", replicas(set)),
        Write::DeleteSet(name) => format!("delete {name}"),
        Write::Status(deployment) => {
            let conditions = deployment["status"]["conditions"].as_array().unwrap();
            let reasons = conditions.iter().map(|one| text(one, "/reason"));
            reasons.collect::<Vec<_>>().join(" ")
        }
        Write::Event(note) => {
            let words = note.split(' ').filter(|word| !word.starts_with("x-"));
            words.collect::<Vec<_>>().join(" ")
        }
    };
    plan.writes.iter().map(tell).collect()
}

/// The set that a plan creates, with its pods available.
fn created(plan: &Plan, at: &str) -> Value {
    let Some(Write::CreateSet(set)) = plan.writes.first() else {
        panic!("no set: {plan:?}");
    };
    let mut set = set.clone();
    set["metadata"]["creationTimestamp"] = at.into();
    let replicas = set["spec"]["replicas"].clone();
    set["status"] = json!({
        "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
    });
    set
}

/// The deployment after the last write of its status.
fn after(plan: &Plan) -> Value {
    let last = plan.writes.iter().rev().find_map(|write| match write {
        Write::Status(deployment) => Some(deployment.clone()),
        _ => None,
    });
    last.unwrap()
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

#[test]
fn a_new_deployment_creates_its_set_then_tells_it() {
    let plan = decide(&deployment("1", &[]), &[], &Pods(false));
    let expected = [
        "create 3",
        "NewReplicaSetCreated",
        "Scaled up replica set from 0 to 3",
    ];
    assert_eq!(told(&plan), expected);
    let set = created(&plan, EARLY);
    let hash = text(&set, "/metadata/labels/pod-template-hash");
    assert_eq!(name(&set), format!("x-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"][HASH], hash);
    assert_eq!(set["spec"]["template"]["metadata"]["labels"][HASH], hash);
    assert_eq!(
        annotation(&set, "deployment.kubernetes.io/max-replicas"),
        Some("4")
    );
    assert_eq!(set["metadata"]["ownerReferences"][0]["controller"], true);
    let next = decide(&after(&plan), &[set], &Pods(false));
    assert_eq!(
        told(&next),
        ["MinimumReplicasAvailable NewReplicaSetAvailable"]
    );
    assert_eq!(
        decide(&after(&next), &[created(&plan, EARLY)], &Pods(false)).writes,
        []
    );
}

#[test]
fn a_changed_template_rolls_and_an_old_one_is_found_again() {
    let first = decide(&deployment("1", &[]), &[], &Pods(false));
    let old = created(&first, EARLY);
    let second = decide(
        &deployment("2", &[]),
        std::slice::from_ref(&old),
        &Pods(false),
    );
    let expected = [
        "create 1",
        "NewReplicaSetCreated",
        "Scaled up replica set from 0 to 1",
    ];
    assert_eq!(told(&second), expected);
    let new = created(&second, LATE);
    assert_eq!(
        annotation(&new, "deployment.kubernetes.io/revision"),
        Some("2")
    );
    let third = decide(&after(&second), &[old.clone(), new.clone()], &Pods(false));
    assert_eq!(
        told(&third)[..2],
        ["scale 2", "Scaled down replica set from 3 to 2"]
    );
    // Back to the first template: its set gets the next revision.
    let back = [(
        "metadata/annotations",
        json!({"deployment.kubernetes.io/revision": "2"}),
    )];
    let back = decide(&deployment("1", &back), &[old, new], &Pods(false));
    let Write::ReplaceSet(found) = &back.writes[0] else {
        panic!("{back:?}");
    };
    assert_eq!(
        annotation(found, "deployment.kubernetes.io/revision"),
        Some("3")
    );
    assert_eq!(
        annotation(found, "deployment.kubernetes.io/revision-history"),
        Some("1")
    );
    assert_eq!(told(&back)[1], "FoundNewReplicaSet");
}

#[test]
fn scaling_writes_the_set_before_the_status() {
    let first = decide(&deployment("1", &[]), &[], &Pods(false));
    let mut scaled = after(&first);
    scaled["spec"]["replicas"] = 5.into();
    let plan = decide(&scaled, &[created(&first, EARLY)], &Pods(false));
    assert_eq!(
        told(&plan)[..2],
        ["scale 5", "Scaled up replica set from 3 to 5"]
    );
    assert_eq!(plan.writes.len(), 3);
}

#[test]
fn recreate_waits_until_the_old_pods_are_gone() {
    let strategy = || [("spec/strategy", json!({"type": "Recreate"}))];
    let first = decide(&deployment("1", &strategy()), &[], &Pods(false));
    let mut old = created(&first, EARLY);
    let next = deployment("2", &strategy());
    let plan = decide(&next, std::slice::from_ref(&old), &Pods(true));
    assert_eq!(
        told(&plan)[..2],
        ["scale 0", "Scaled down replica set from 3 to 0"]
    );
    old["spec"]["replicas"] = 0.into();
    let waiting = decide(&next, std::slice::from_ref(&old), &Pods(true));
    assert!(
        waiting
            .writes
            .iter()
            .all(|write| matches!(write, Write::Status(_)))
    );
    let gone = decide(&next, &[old], &Pods(false));
    assert_eq!(told(&gone)[0], "create 3");
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let first = decide(&deployment("1", &[]), &[], &Pods(false));
    let set = created(&first, EARLY);
    let mut paused = after(&first);
    paused["spec"]["paused"] = true.into();
    paused["spec"]["template"]["spec"]["containers"][0]["image"] = "2".into();
    let plan = decide(&paused, std::slice::from_ref(&set), &Pods(false));
    assert_eq!(told(&plan), ["DeploymentPaused"]);
    let mut paused = after(&plan);
    paused["spec"]["replicas"] = 4.into();
    let plan = decide(&paused, std::slice::from_ref(&set), &Pods(false));
    assert_eq!(
        told(&plan)[..2],
        ["scale 4", "Scaled up replica set from 3 to 4"]
    );
    paused["spec"]["paused"] = false.into();
    let plan = decide(&paused, &[set], &Pods(false));
    assert_eq!(told(&plan), ["DeploymentResumed"]);
}

#[test]
fn a_deployment_that_is_deleted_only_has_its_status_kept() {
    let deleted = [("metadata/deletionTimestamp", EARLY.into())];
    let plan = decide(&deployment("1", &deleted), &[], &Pods(false));
    assert_eq!(told(&plan), ["MinimumReplicasUnavailable"]);
}
