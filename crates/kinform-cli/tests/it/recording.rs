//! `record` and `replay` against the embedded server.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kinform_apiserver::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::command::{Kubeconfig, Watch, kinform, outcome};
use crate::made::{CONFIG_MAPS, config_map, make, patch, send};

const CANARY: &str = "Y2FuYXJ5LW9mLXRoZS1jb21tYW5k";

/// Records while `change` runs once the first list was recorded. The time is that of a busy machine.
async fn record(
    server: &Server,
    words: &[&str],
    file: &Path,
    change: impl AsyncFnOnce(),
) -> (i32, String) {
    let kubeconfig = Kubeconfig::of(server);
    let file = file.to_str().unwrap();
    let words = [&["record"], words, &["--out", file, "--for", "8s"]].concat();
    let mut command = kinform(Some(&kubeconfig.path()), &words);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    let mut change = Some(change);
    while let Some(line) = lines.next_line().await.unwrap() {
        said.push_str(&line);
        said.push('\n');
        if line.contains(": listed at ")
            && let Some(change) = change.take()
        {
            change().await;
        }
    }
    (child.wait().await.unwrap().code().unwrap(), said)
}

async fn hour(server: &Server, file: &Path) -> (i32, String) {
    config_map(server, "a", json!({"key": "1"})).await;
    config_map(server, "b", json!({"key": "1"})).await;
    record(server, &["cm"], file, async || {
        patch(
            server,
            &format!("{CONFIG_MAPS}/a"),
            json!({"data": {"key": "2"}}),
        )
        .await;
        server.cut_watches();
        let (code, _) = send(server, "DELETE", &format!("{CONFIG_MAPS}/b"), &json!({})).await;
        assert_eq!(code, 200);
        config_map(server, "c", json!({"key": "1"})).await;
    })
    .await
}

#[tokio::test]
async fn a_recording_is_replayed_as_changes_without_a_cluster() {
    let server = Server::builder().start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cm.kinrec");
    let (code, said) = hour(&server, &file).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("configmaps: 2 objects"), "{said}");
    server.stop().await;
    let path = file.to_str().unwrap();
    let words = ["replay", path, "--speed", "4", "-o", "json"];
    let mut replay = Watch::start(kinform(None, &words));
    let mut heard = Vec::new();
    while let Some(line) = replay.next().await {
        let (event, name) = (line["event"].as_str().unwrap(), line["name"].as_str());
        // A cut is an error or an end, as it happened.
        if event != "error" {
            heard.push(format!("{event} {}", name.unwrap_or_default()));
        }
    }
    // There is an order for each object, not between two.
    heard[..2].sort_unstable();
    heard[3..6].sort_unstable();
    let expected = [
        "add a", "add b", "synced ", "add c", "delete b", "update a", "summary ",
    ];
    assert_eq!(heard, expected);
    assert_eq!(replay.child.wait().await.unwrap().code(), Some(0));
    // A file is not written over.
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let words = ["record", "cm", "--out", path];
    let (code, _, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
    assert!(code == 1 && stderr.contains("exists"), "{code} {stderr}");
}

#[tokio::test]
async fn each_change_is_heard_again_without_waiting() {
    let server = Server::builder().start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cm.kinrec");
    let large = json!({"key": "0", "all": "x".repeat(64_000)});
    config_map(&server, "a", large).await;
    let (code, said) = record(&server, &["cm"], &file, async || {
        let begun = Instant::now();
        // 51 MB: more than the ring of a handler keeps, and less than the queue of a recorder.
        for key in 1..800 {
            // On a machine that is so slow, the recording would end before.
            if begun.elapsed() > Duration::from_secs(2) {
                break;
            }
            let change = json!({"data": {"key": key.to_string()}});
            patch(&server, &format!("{CONFIG_MAPS}/a"), change).await;
        }
    })
    .await;
    assert_eq!(code, 0, "{said}");
    server.stop().await;
    let path = file.to_str().unwrap();
    let words = ["replay", path, "--speed", "max", "--output-watch-events"];
    let mut command = kinform(None, &[&words[..], &["-o", "json"]].concat());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // A reader of small pieces: the handler that prints is slower than its informer.
    let stdout = child.stdout.take().unwrap();
    let mut lines = BufReader::with_capacity(256, stdout).lines();
    let mut updates = 0;
    while let Some(line) = lines.next_line().await.unwrap() {
        updates += usize::from(line.contains(r#""type":"MODIFIED""#));
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    let recorded = said.split("objects, ").nth(1).unwrap();
    assert!(
        recorded.starts_with(&format!("{updates} events")),
        "{updates}: {said}"
    );
}

#[tokio::test]
async fn a_command_is_answered_from_a_recording() {
    let server = Server::builder().start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cm.kinrec");
    hour(&server, &file).await;
    let (_, recorded) = send(&server, "GET", &format!("{CONFIG_MAPS}/a"), &json!({})).await;
    server.stop().await;
    let path = file.to_str().unwrap();
    let itself = env!("CARGO_BIN_EXE_kinform");
    let words = [
        "replay", path, "--speed", "max", "--", itself, "get", "cm", "-o", "json",
    ];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(code, 0, "{stderr}");
    let list: Value = serde_json::from_str(&stdout).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let names: Vec<_> = items.map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "c"]);
    let replayed = &list["items"][0];
    for pointer in ["/metadata/uid", "/metadata/creationTimestamp", "/data"] {
        assert_eq!(
            replayed.pointer(pointer),
            recorded.pointer(pointer),
            "{pointer}"
        );
    }
    // The exit code is the command's.
    let words = [
        "replay", path, "--speed", "max", "--", itself, "get", "cm", "nobody",
    ];
    let (code, _, stderr) = outcome(kinform(None, &words)).await;
    assert!(code == 1 && stderr.contains("nobody"), "{code} {stderr}");
    kubectl(path).await;
}

/// The same by kubectl, where this machine has one.
#[expect(clippy::print_stderr, reason = "a check that is left out is said")]
async fn kubectl(path: &str) {
    let found = std::process::Command::new("kubectl")
        .arg("version")
        .arg("--client")
        .output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no kubectl on this machine, so it was not asked");
        return;
    }
    let get = [
        "get",
        "cm",
        "-o",
        "custom-columns=N:.metadata.name,D:.data.key",
        "--no-headers",
    ];
    let words = [
        &["replay", path, "--speed", "max", "--", "kubectl"],
        &get[..],
    ]
    .concat();
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    let cells: Vec<&str> = stdout.split_whitespace().collect();
    assert_eq!(
        (code, &cells[..]),
        (0, &["a", "2", "c", "1"][..]),
        "{stderr}"
    );
}

#[tokio::test]
async fn a_secrets_value_is_in_no_byte_and_it_is_a_secret_still() {
    let server = Server::builder().start().await.unwrap();
    let applied = json!({"data": {"password": CANARY}}).to_string();
    let secret = json!({
        "metadata": {
            "name": "s",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied},
        },
        "data": {"password": CANARY, "again": CANARY},
    });
    make(&server, "/api/v1/namespaces/default/secrets", secret).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.kinrec");
    let (code, said) = record(&server, &["secrets", "-A"], &file, async || {}).await;
    assert!(code == 0 && said.contains("digests"), "{code} {said}");
    server.stop().await;
    let bytes = std::fs::read(&file).unwrap();
    let path = file.to_str().unwrap();
    let itself = env!("CARGO_BIN_EXE_kinform");
    let words = [
        "replay", path, "--speed", "max", "--", itself, "get", "secrets", "-o", "json",
    ];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(code, 0, "{stderr}");
    for part in [CANARY, "Y2FuYXJ5", "canary-of"] {
        let is_there = bytes.windows(part.len()).any(|at| at == part.as_bytes());
        assert!(!is_there && !stdout.contains(part));
    }
    let list: Value = serde_json::from_str(&stdout).unwrap();
    let data = list["items"][0]["data"]
        .as_object()
        .or(list["data"].as_object())
        .unwrap();
    assert!(data["password"].as_str().unwrap().starts_with("redacted"));
    assert_eq!(data["password"], data["again"]);
}

#[tokio::test]
async fn a_type_that_the_server_does_not_know_is_served_too() {
    let server = Server::builder().start().await.unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    make(&server, base, definition).await;
    let gadget = json!({"apiVersion": "example.com/v1beta2", "kind": "Gadget",
        "metadata": {"name": "g"}, "spec": {"deep": [{"er": 1}]}});
    make(&server, "/apis/example.com/v1beta2/gadgets", gadget).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gadgets.kinrec");
    let (code, said) = record(&server, &["gadgets"], &file, async || {}).await;
    assert_eq!(code, 0, "{said}");
    server.stop().await;
    let path = file.to_str().unwrap();
    let itself = env!("CARGO_BIN_EXE_kinform");
    let get = [
        itself,
        "get",
        "gadgets.example.com",
        "g",
        "-o",
        "jsonpath={.spec.deep[0].er}",
    ];
    let words = [&["replay", path, "--speed", "100", "--"], &get[..]].concat();
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!((code, stdout.trim()), (0, "1"), "{stderr}");
}

#[tokio::test]
async fn what_cannot_be_replayed_is_said_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pods.yaml");
    std::fs::write(&file, "kind: List").unwrap();
    let path = file.to_str().unwrap();
    let check = async |words: &[&str], code: i32, part: &str| {
        let (ended, _, stderr) = outcome(kinform(None, words)).await;
        assert!(
            ended == code && stderr.contains(part),
            "{words:?}: {ended} {stderr}"
        );
    };
    check(&["replay", path], 1, "the file is no recording").await;
    check(&["replay", "/nonexistent/file"], 1, "cannot be read").await;
    check(&["replay", path, "--speed", "0"], 2, "a speed is a number").await;
    check(&["record", "pods"], 2, "--out").await;
    check(
        &["record", "pods", "--out", path, "--with-secrets-in-clear"],
        2,
        "unexpected",
    )
    .await;
}
