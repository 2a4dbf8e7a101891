//! `tree`, `story` and `diff`: one object, and what it owns.
//!
//! ```text
//! kinform tree | story | diff (a process) ⇄ embedded server, whose objects change meanwhile
//! ```

use std::process::Stdio;

use kinform_apiserver::Server;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::command::{Kubeconfig, Watch, kinform, outcome};
use crate::made::{CONFIG_MAPS, config_map, make, patch, send};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn spec(replicas: i64) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template":
        {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

fn owned(name: &str, kind: &str, owner: &Value) -> Value {
    json!({"name": name, "labels": {"a": "b"}, "ownerReferences": [{"apiVersion": owner["apiVersion"], "kind": kind,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true}]})
}

async fn pod(server: &Server, name: &str, set: &Value) {
    let object = json!({"metadata": owned(name, "ReplicaSet", set), "spec": {"containers": [{"name": "c", "image": "i"}]}});
    make(server, PODS, object).await;
}

/// A deployment, its set and two pods, one of them ready.
async fn served() -> (Server, Kubeconfig, Value) {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let deployment = make(
        &server,
        DEPLOYMENTS,
        json!({"metadata": {"name": "web"}, "spec": spec(2)}),
    )
    .await;
    let set = json!({"metadata": owned("web-1", "Deployment", &deployment), "spec": spec(2)});
    let set = make(&server, SETS, set).await;
    for name in ["web-1-a", "web-1-b"] {
        pod(&server, name, &set).await;
    }
    pod_is_ready(&server, "web-1-a").await;
    config_map(&server, "unowned", json!({})).await;
    (server, kubeconfig, set)
}

async fn pod_is_ready(server: &Server, name: &str) {
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    patch(server, &format!("{PODS}/{name}/status"), status).await;
}

#[tokio::test]
async fn a_tree_has_owners_and_owned_with_readiness() {
    let (server, kubeconfig, _) = served().await;
    let run = async |words: &[&str]| outcome(kinform(Some(&kubeconfig.path()), words)).await;
    let cells = |stdout: &str| -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = stdout
            .lines()
            .map(words)
            .map(|line| match line.rsplit_once(' ') {
                // The age.
                Some((rest, _)) => rest.to_owned(),
                None => line,
            });
        lines.collect()
    };
    let (code, stdout, stderr) = run(&["tree", "deploy/web"]).await;
    assert_eq!(code, 0, "{stderr}");
    let expected = [
        "NAME READY STATUS",
        "Deployment/web False 0/2 ready, 0 updated",
        "└─ReplicaSet/web-1 False 0/2 ready",
        "├─Pod/web-1-a True Running",
        "└─Pod/web-1-b False Pending",
    ];
    assert_eq!(cells(&stdout), expected, "{stdout}");
    let (_, stdout, _) = run(&["tree", "pod/web-1-a"]).await;
    assert_eq!(cells(&stdout).len(), 4, "{stdout}");
    let (_, stdout, _) = run(&["tree", "pod/web-1-a", "-o", "json"]).await;
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let parts: Vec<_> = lines
        .iter()
        .map(|it| (&it["depth"], &it["kind"], &it["isTarget"], &it["ready"]))
        .collect();
    assert_eq!(
        json!(parts),
        json!([
            [0, "Deployment", false, false],
            [1, "ReplicaSet", false, false],
            [2, "Pod", true, true]
        ])
    );
    // What the cluster owns is found from what it owns in a namespace.
    let node = make(
        &server,
        "/api/v1/nodes",
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}),
    )
    .await;
    let lease = json!({"metadata": owned("n", "Node", &json!({"apiVersion": "v1", "metadata": node["metadata"]}))});
    make(
        &server,
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        lease,
    )
    .await;
    for words in [
        &["tree", "lease/n", "-n", "kube-node-lease"][..],
        &["tree", "node/n"],
    ] {
        let (_, stdout, stderr) = run(words).await;
        assert!(
            stdout.contains("Node/n") && stdout.contains("└─Lease/n"),
            "{words:?} {stdout} {stderr}"
        );
    }
}

fn started(kubeconfig: &Kubeconfig, words: &[&str]) -> Child {
    let mut command = kinform(Some(&kubeconfig.path()), words);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn ended(child: Child) -> (i32, String, String) {
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

async fn watched(server: &Server, plural: &str) {
    while server.journal().open_watches(plural) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_story_tells_what_happens_to_an_object_and_what_it_owns() {
    let (server, kubeconfig, set) = served().await;
    let words = ["story", "deploy/web", "-o", "json"];
    let mut story = Watch::start(kinform(Some(&kubeconfig.path()), &words));
    let mut told = Vec::new();
    // The object, its set and two pods.
    for _ in 0..4 {
        told.push(story.next().await.unwrap());
    }
    let mut names: Vec<&str> = told.iter().map(|it| it["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["web", "web-1", "web-1-a", "web-1-b"]);
    assert!(
        told.iter()
            .all(|it| it["fact"].as_str().unwrap().starts_with("is there")),
        "{told:?}"
    );
    let next = async |story: &mut Watch| {
        let line = story.next().await.unwrap();
        format!(
            "{} {} {}",
            line["kind"].as_str().unwrap(),
            line["name"].as_str().unwrap(),
            line["fact"].as_str().unwrap()
        )
    };
    patch(
        &server,
        &format!("{DEPLOYMENTS}/web"),
        json!({"spec": {"replicas": 3}}),
    )
    .await;
    assert_eq!(next(&mut story).await, "Deployment web spec.replicas 2 → 3");
    assert_eq!(
        next(&mut story).await,
        "Deployment web 0/2 ready, 0 updated → 0/3 ready, 0 updated"
    );
    config_map(&server, "other", json!({})).await;
    pod(&server, "web-1-c", &set).await;
    assert_eq!(next(&mut story).await, "Pod web-1-c created: Pending");
    pod_is_ready(&server, "web-1-c").await;
    assert_eq!(next(&mut story).await, "Pod web-1-c Pending → Running");
    assert_eq!(next(&mut story).await, "Pod web-1-c Ready is True");
    let pods = server.objects("pods");
    let uid = pods
        .iter()
        .find(|it| it.value()["metadata"]["name"] == "web-1-c")
        .unwrap()
        .value()["metadata"]["uid"]
        .clone();
    let event = json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "BackOff", "message": "no",
        "involvedObject": {"kind": "Pod", "name": "web-1-c", "namespace": "default", "uid": uid}});
    // One of the first list is not told.
    watched(&server, "events").await;
    make(&server, "/api/v1/namespaces/default/events", event).await;
    assert_eq!(next(&mut story).await, "Pod web-1-c Warning BackOff: no");
    let orphan = json!({"propagationPolicy": "Orphan"});
    send(&server, "DELETE", &format!("{DEPLOYMENTS}/web"), &orphan).await;
    let mut last = next(&mut story).await;
    while last != "Deployment web deleted" {
        last = next(&mut story).await;
    }
    while story.next().await.is_some() {}
    assert_eq!(story.child.wait().await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn a_difference_is_what_changed_since_the_start() {
    let (server, kubeconfig, _) = served().await;
    config_map(&server, "a", json!({"k": "1"})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let words = ["diff", "cm/a", "--for", "6s"];
    let child = started(&kubeconfig, &words);
    watched(&server, "configmaps").await;
    patch(&server, &path, json!({"data": {"k": "2", "l": "3"}})).await;
    let (code, stdout, stderr) = ended(child).await;
    assert_eq!(
        (code, stdout.as_str()),
        (1, "data.k   1 → 2\ndata.l   (absent) → 3\n"),
        "{stderr}"
    );
    assert!(
        stderr.starts_with("1 new versions of configmaps \"a\""),
        "{stderr}"
    );
    server.cut_watches();
    let (code, stdout, stderr) =
        ended(started(&kubeconfig, &["diff", "cm/a", "--for", "4s"])).await;
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    // The watch of the one before may still be open here.
    while server.journal().open_watches("configmaps") > 0 {
        tokio::task::yield_now().await;
    }
    let child = started(&kubeconfig, &["diff", "cm/a", "--for", "1m"]);
    watched(&server, "configmaps").await;
    send(&server, "DELETE", &path, &json!({})).await;
    let (code, stdout, stderr) = ended(child).await;
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(
        stderr.contains("configmaps \"a\" was deleted\n  hint: "),
        "{stderr}"
    );
}

#[tokio::test]
async fn an_object_that_does_not_exist_is_one_line() {
    let (_server, kubeconfig, _) = served().await;
    for verb in ["tree", "story", "diff"] {
        for (word, code, expected) in [
            (
                "deploy/gone",
                1,
                "deployments.apps \"gone\" not found\n  hint: ",
            ),
            ("nothings/a", 1, "no resource type"),
            ("deploy", 2, "TYPE/NAME expected"),
        ] {
            let (got, stdout, stderr) =
                outcome(kinform(Some(&kubeconfig.path()), &[verb, word])).await;
            assert_eq!((got, stdout.as_str()), (code, ""), "{verb} {word} {stderr}");
            assert!(
                stderr.starts_with("error: ") && stderr.contains(expected),
                "{verb} {word} {stderr}"
            );
        }
    }
}
