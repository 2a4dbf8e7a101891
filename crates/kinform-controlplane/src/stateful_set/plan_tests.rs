//! Tests of the decision: the tasks of one reconcile, as words; and a model that goes on to the end.
//!
//! ```text
//! set + pods + claims → plan → "create x-0 new", "delete x-2", "update x-2"
//! model: pods of any state + the plan's tasks, step by step → the pods that the set asks for
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::identity::{Version, ordinal, pod_name, revision_of};
use super::plan::{Input, Pace, Plan, Task, plan};
use super::*;
use crate::json::set as put;
use crate::pods::{is_available, is_finished, is_terminating as is_ending};

const EARLY: &str = "2026-01-01T00:00:00Z";

fn now() -> jiff::Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// The set "x" with changes at paths such as `spec/replicas`.
fn set(changes: &[(&str, Value)]) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "x", "namespace": "ns", "uid": "s"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "x"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        },
    });
    for (path, value) in changes {
        let path: Vec<&str> = path.split('/').collect();
        put(&mut set, &path, value.clone());
    }
    set
}

/// The pod x-ORDINAL of a revision: `ready`, `pending`, `failed`, or one of them and `ending`.
fn pod(ordinal: i64, revision: &str, state: &str) -> Arc<Pod> {
    let phase = match state.split(' ').next() {
        Some("pending") => "Pending",
        Some("failed") => "Failed",
        _ => "Running",
    };
    let ready = if phase == "Running" { "True" } else { "False" };
    let name = format!("x-{ordinal}");
    let pod = json!({
        "metadata": {
            "name": name, "uid": format!("uid of {name}"),
            "deletionTimestamp": state.ends_with(" ending").then_some(EARLY),
            "labels": {
                "app": "x", "controller-revision-hash": revision,
                "statefulset.kubernetes.io/pod-name": name,
            },
        },
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": EARLY},
        ]},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn version(name: &str) -> Version {
    Version {
        name: name.to_owned(),
        template: json!({"metadata": {"labels": {"app": "x"}}, "spec": {}}),
    }
}

fn decide(set: &Value, pods: &[Arc<Pod>], claims: &[Value]) -> Plan {
    plan(Input {
        set,
        current: &version("old"),
        update: &version("new"),
        pods,
        claim: &|wanted| {
            let claim = claims.iter().find(|claim| name(claim) == wanted)?;
            Some(Arc::new(claim.clone()))
        },
        now: now(),
    })
}

/// The tasks in words, phase by phase.
fn told(plan: &Plan) -> Vec<String> {
    let word = |task: &Task| match task {
        Task::Create(_, pod) => {
            let revision = text(pod, "/metadata/labels/controller-revision-hash");
            format!("create {} {revision}", name(pod))
        }
        Task::Supply(pod) => format!("supply {}", pod_name(pod)),
        Task::Mend(pod) => format!("mend {}", pod_name(pod)),
        Task::Settle(pod) => format!("settle {}", pod_name(pod)),
        Task::Delete(pod) => format!("delete {}", pod_name(pod)),
    };
    let phases = plan.phases.iter();
    let phases = phases.map(|phase| phase.iter().map(word).collect::<Vec<_>>().join(", "));
    let outdated = plan.outdated.iter();
    phases
        .chain(outdated.map(|pod| format!("update {}", pod_name(pod))))
        .collect()
}

fn check(changes: &[(&str, Value)], pods: &[(i64, &str, &str)], expected: &[&str]) {
    let made: Vec<_> = pods.iter().map(|(o, r, s)| pod(*o, r, s)).collect();
    let told = told(&decide(&set(changes), &made, &[]));
    assert_eq!(told, expected, "{changes:?} {pods:?}");
}

#[test]
fn pods_are_created_in_their_order() {
    check(&[], &[], &["create x-0 new"]);
    check(&[], &[(0, "new", "pending")], &[]);
    check(&[], &[(0, "new", "ready")], &["create x-1 new"]);
    check(&[], &[(0, "new", "ready ending"), (2, "new", "ready")], &[]);
    check(
        &[],
        &[(0, "new", "ready"), (2, "new", "ready")],
        &["create x-1 new"],
    );
    let three = [
        (0, "new", "ready"),
        (1, "new", "ready"),
        (2, "new", "ready"),
    ];
    check(&[], &three, &[]);
    check(
        &[("spec/ordinals", json!({"start": 4}))],
        &[],
        &["create x-4 new"],
    );
    check(&[("spec/replicas", json!(0))], &[], &[]);
    let slow = ("spec/minReadySeconds", json!(7200));
    check(&[slow], &[(0, "new", "ready")], &[]);
}

#[test]
fn parallel_pods_are_created_at_once() {
    let parallel = || ("spec/podManagementPolicy", json!("Parallel"));
    check(
        &[parallel()],
        &[],
        &["create x-0 new, create x-1 new, create x-2 new"],
    );
    check(
        &[parallel()],
        &[(1, "new", "pending")],
        &["create x-0 new, create x-2 new"],
    );
    let plan = decide(
        &set(&[parallel(), ("spec/replicas", json!(2_000_000_000))]),
        &[],
        &[],
    );
    assert_eq!((plan.pace, plan.phases[0].len()), (Pace::Batches, 500));
}

#[test]
fn a_pod_that_ended_is_deleted_and_then_created() {
    let failed = [(0, "new", "ready"), (1, "new", "failed")];
    check(&[], &failed, &["delete x-1"]);
    check(&[], &[(0, "new", "failed ending")], &[]);
    let parallel = ("spec/podManagementPolicy", json!("Parallel"));
    let failed = [
        (0, "old", "failed"),
        (1, "new", "ready"),
        (2, "new", "ready"),
    ];
    check(&[parallel], &failed, &["delete x-0"]);
}

#[test]
fn surplus_pods_go_from_the_last() {
    let one = || ("spec/replicas", json!(1));
    let three = [
        (0, "new", "ready"),
        (1, "new", "ready"),
        (2, "new", "ready"),
    ];
    check(&[one()], &three, &["delete x-2"]);
    let ending = [
        (0, "new", "ready"),
        (1, "new", "ready"),
        (2, "new", "ready ending"),
    ];
    check(&[one()], &ending, &[]);
    // An ill pod further down would be the second one that is missing.
    let ill = [
        (0, "new", "ready"),
        (1, "new", "pending"),
        (2, "new", "pending"),
    ];
    check(&[one()], &ill, &[]);
    check(
        &[one()],
        &[(0, "new", "ready"), (1, "new", "pending")],
        &["delete x-1"],
    );
    check(&[one()], &[(0, "new", "pending"), (1, "new", "ready")], &[]);
    let parallel = ("spec/podManagementPolicy", json!("Parallel"));
    check(&[one(), parallel], &three, &["delete x-2, delete x-1"]);
    let start = ("spec/ordinals", json!({"start": 1}));
    check(&[one(), start], &three, &["delete x-2"]);
}

#[test]
fn an_update_replaces_pods_from_the_last() {
    let old = [
        (0, "old", "ready"),
        (1, "old", "ready"),
        (2, "old", "ready"),
    ];
    check(&[], &old, &["update x-2"]);
    let second = [
        (0, "old", "ready"),
        (1, "old", "ready"),
        (2, "new", "ready"),
    ];
    check(&[], &second, &["update x-1"]);
    let waiting = [
        (0, "old", "ready"),
        (1, "old", "ready"),
        (2, "new", "pending"),
    ];
    check(&[], &waiting, &[]);
    check(
        &[],
        &[(0, "old", "ready"), (1, "old", "ready")],
        &["create x-2 new"],
    );
    check(
        &[("spec/updateStrategy", json!({"type": "OnDelete"}))],
        &old,
        &[],
    );
    let rolling = |rolling: Value| {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        [("spec/updateStrategy", rolling)]
    };
    check(&rolling(json!({"partition": 2})), &old, &["update x-2"]);
    check(&rolling(json!({"partition": 2})), &second, &[]);
    check(&rolling(json!({"partition": 2})), &[], &["create x-0 old"]);
    let two = json!({"maxUnavailable": 2});
    check(&rolling(two), &old, &["update x-2", "update x-1"]);
    check(
        &rolling(json!({"maxUnavailable": "40%"})),
        &old,
        &["update x-2"],
    );
}

#[test]
fn a_parallel_update_replaces_ill_pods_first() {
    let parallel = || ("spec/podManagementPolicy", json!("Parallel"));
    let ill = [
        (0, "old", "pending"),
        (1, "old", "ready"),
        (2, "old", "ready"),
    ];
    check(&[parallel()], &ill, &["update x-0"]);
    let well = [
        (0, "old", "ready"),
        (1, "old", "ready"),
        (2, "old", "ready"),
    ];
    check(&[parallel()], &well, &["update x-2"]);
    let waiting = [
        (0, "old", "ready"),
        (1, "old", "ready"),
        (2, "new", "pending"),
    ];
    check(&[parallel()], &waiting, &[]);
}

#[test]
fn claims_are_supplied_and_settled() {
    let templates = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let set = set(&[
        ("spec/replicas", json!(1)),
        ("spec/volumeClaimTemplates", templates),
        ("spec/persistentVolumeClaimRetentionPolicy", policy),
    ]);
    let claim = |ordinal: i64, owners: Value| json!({"metadata": {"name": format!("data-x-{ordinal}"), "ownerReferences": owners}});
    let owner = |api: &str, kind: &str, name: &str, uid: &str| json!([{"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true}]);
    let check = |pods: &[Arc<Pod>], claims: &[Value], expected: &[&str]| {
        assert_eq!(told(&decide(&set, pods, claims)), expected, "{claims:?}");
    };
    let of_set = || owner("apps/v1", "StatefulSet", "x", "s");
    check(&[pod(0, "new", "pending")], &[], &["supply x-0"]);
    check(&[pod(0, "new", "ready")], &[claim(0, of_set())], &[]);
    check(
        &[pod(0, "new", "ready")],
        &[claim(0, json!([]))],
        &["mend x-0"],
    );
    let pods = [pod(0, "new", "ready"), pod(1, "new", "ready")];
    let claims = [claim(0, of_set()), claim(1, of_set())];
    check(&pods, &claims, &["settle x-1", "delete x-1"]);
    // The claim goes with the pod that was scaled away: the new one waits for that.
    let stale = owner("v1", "Pod", "x-0", "an earlier one");
    check(&[], &[claim(0, stale)], &[]);
    check(&[], &[claim(0, of_set())], &["create x-0 new"]);
}

/// Pods of a cluster that does what the plan says.
struct Cluster {
    set: Value,
    pods: Vec<Arc<Pod>>,
    dice: u64,
}

impl Cluster {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's generator: the high bits are good enough for a test.
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn well(&self) -> usize {
        let well = |pod: &&Arc<Pod>| {
            is_available(pod, std::time::Duration::ZERO, now())
                && !is_ending(pod)
                && ordinals(&self.set).contains(&ordinal("x", pod_name(pod)).unwrap())
        };
        self.pods.iter().filter(well).count()
    }

    fn end(&mut self, name: &str) {
        for pod in &mut self.pods {
            if pod_name(pod) == name {
                let mut ending = Pod::clone(pod);
                ending.metadata.deletion_timestamp = Some(Time(now()));
                *pod = Arc::new(ending);
            }
        }
    }

    /// Does what a plan says.
    fn follow(&mut self, plan: &Plan) {
        let is_ordered = plan.pace == Pace::OneByOne;
        let tasks: Vec<Task> = plan.phases.iter().flatten().cloned().collect();
        assert!(!is_ordered || tasks.len() <= 1, "{plan:?}");
        for task in tasks {
            match task {
                Task::Create(ordinal, body) => {
                    let before = ordinals(&self.set).start..ordinal;
                    let lower = before.clone().count();
                    let is_lower = |pod: &&Arc<Pod>| {
                        before.contains(&super::ordinal("x", pod_name(pod)).unwrap())
                            && is_available(pod, std::time::Duration::ZERO, now())
                            && !is_ending(pod)
                    };
                    let well = self.pods.iter().filter(is_lower).count();
                    assert!(!is_ordered || well == lower, "{ordinal} too early");
                    let revision = text(&body, "/metadata/labels/controller-revision-hash");
                    self.pods.push(pod(ordinal, revision, "pending"));
                }
                Task::Delete(pod) => self.end(pod_name(&pod)),
                other => panic!("there are no claims: {other:?}"),
            }
        }
        for pod in &plan.outdated {
            self.end(pod_name(pod));
        }
    }

    /// One pod gets on with its life.
    fn live(&mut self) {
        if self.pods.is_empty() {
            return;
        }
        let sides = u64::try_from(self.pods.len()).unwrap();
        let index = usize::try_from(self.roll(sides)).unwrap();
        let one = Arc::clone(&self.pods[index]);
        if is_ending(&one) {
            self.pods.remove(index);
        } else if !is_finished(&one) {
            let number = ordinal("x", pod_name(&one)).unwrap();
            self.pods[index] = pod(number, revision_of(&one), "ready");
        }
    }
}

fn ordinals(set: &Value) -> std::ops::Range<i64> {
    super::identity::ordinals(set)
}

#[test]
fn every_start_ends_with_the_pods_that_the_set_asks_for() {
    for seed in 0..2000 {
        let mut cluster = Cluster {
            set: Value::Null,
            pods: Vec::new(),
            dice: seed,
        };
        let parallel = cluster.roll(2) == 0;
        let (replicas, start) = (cluster.roll(5), cluster.roll(2));
        let (partition, most) = (cluster.roll(3), 1 + cluster.roll(2));
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        cluster.set = set(&[
            ("spec/replicas", json!(replicas)),
            ("spec/ordinals", json!({"start": start})),
            ("spec/podManagementPolicy", json!(policy)),
            (
                "spec/updateStrategy/rollingUpdate/partition",
                json!(partition),
            ),
            (
                "spec/updateStrategy/rollingUpdate/maxUnavailable",
                json!(most),
            ),
        ]);
        for number in 0..6 {
            let states = ["ready", "pending", "failed", "ready ending"];
            let state = states[usize::try_from(cluster.roll(4)).unwrap()];
            // An OrderedReady set waits for ill pods that it would not replace, as upstream's.
            let is_kept = ordinals(&cluster.set).contains(&number) && state == "failed";
            let is_ill = matches!(state, "pending" | "failed");
            let state = match !parallel && is_ill && !is_kept {
                true => "ready",
                false => state,
            };
            if cluster.roll(2) == 0 {
                cluster.pods.push(pod(number, "old", state));
            }
        }
        let mut steps = 0;
        loop {
            let plan = decide(&cluster.set, &cluster.pods, &[]);
            let before = cluster.well();
            let is_idle = plan.phases.is_empty() && plan.outdated.is_empty();
            cluster.follow(&plan);
            let lost = before - cluster.well();
            let most = usize::try_from(most).unwrap();
            assert!(lost <= most, "seed {seed}: {lost} pods lost at once");
            let is_over = cluster
                .pods
                .iter()
                .all(|pod| !is_ending(pod) && is_available(pod, std::time::Duration::ZERO, now()));
            if is_idle && is_over {
                break;
            }
            cluster.live();
            steps += 1;
            assert!(steps < 2000, "seed {seed} does not end: {:?}", cluster.pods);
        }
        let range = ordinals(&cluster.set);
        let mut found: Vec<(i64, bool)> = cluster
            .pods
            .iter()
            .map(|pod| {
                let is_new = revision_of(pod) == "new";
                (ordinal("x", pod_name(pod)).unwrap(), is_new)
            })
            .collect();
        found.sort_unstable();
        let first_new = range.start + i64::try_from(partition).unwrap();
        let expected: Vec<_> = range
            .map(|ordinal| (ordinal, ordinal >= first_new))
            .collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}
