//! `serve`: the server as a tool of its own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::command::{kinform, outcome};

#[tokio::test]
async fn a_command_gets_a_kubeconfig_and_its_code_is_ours() {
    let words = [
        "serve",
        "--pods",
        "3",
        "--",
        "sh",
        "-c",
        "test -s \"$KUBECONFIG\" && exit 7",
    ];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!((code, stdout.as_str()), (7, ""), "{stderr}");
}

#[tokio::test]
async fn kinform_reads_what_kinform_serves() {
    let this = env!("CARGO_BIN_EXE_kinform");
    for transport in [&[][..], &["--http"]] {
        let mut words = vec!["serve", "--pods", "3"];
        words.extend(transport);
        words.extend(["--", this, "get", "pods", "-A", "-o", "name"]);
        let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
        assert_eq!((code, stdout.lines().count()), (0, 3), "{stderr}");
    }
}

#[tokio::test]
async fn manifests_are_loaded_and_a_bad_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.yaml");
    std::fs::write(&good, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n").unwrap();
    let this = env!("CARGO_BIN_EXE_kinform");
    let words = [
        "serve",
        "--load",
        good.to_str().unwrap(),
        "--",
        this,
        "get",
        "cm",
        "-o",
        "name",
    ];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "configmap/a\nconfigmap/b\n"),
        "{stderr}"
    );

    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "apiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n").unwrap();
    let (code, _, stderr) = outcome(kinform(
        None,
        &["serve", "--load", bad.to_str().unwrap(), "--", "true"],
    ))
    .await;
    assert_eq!(code, 1);
    assert!(
        stderr.contains("bad.yaml") && stderr.contains("Gadget"),
        "{stderr}"
    );
}

#[tokio::test]
async fn the_kubeconfig_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kc");
    let words = [
        "serve",
        "--write-kubeconfig",
        path.to_str().unwrap(),
        "--",
        "true",
    ];
    assert_eq!(outcome(kinform(None, &words)).await.0, 0);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn plain_http_is_for_loopback_only() {
    let (code, _, stderr) = outcome(kinform(
        None,
        &["serve", "--http", "--listen", "0.0.0.0:0", "--", "true"],
    ))
    .await;
    assert_eq!(code, 1);
    assert!(stderr.contains("loopback"), "{stderr}");
}

#[tokio::test]
async fn a_server_on_all_addresses_is_reached_under_its_names() {
    let this = env!("CARGO_BIN_EXE_kinform");
    let script = format!(
        "grep -q 'server: https://127.0.0.1:' \"$KUBECONFIG\" || exit 3
         '{this}' get ns -o name || exit 4
         sed -i s/127.0.0.1/localhost/ \"$KUBECONFIG\" && '{this}' get ns -o name || exit 5"
    );
    let flags = ["serve", "--listen", "0.0.0.0:0", "--name", "box.test"];
    let words = [
        &flags[..],
        &["--name", "192.0.2.7", "--", "sh", "-c", &script],
    ]
    .concat();
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    for name in ["box.test:6443", "https://box.test", "", "a b"] {
        let words = ["serve", "--name", name, "--", "true"];
        assert_eq!(outcome(kinform(None, &words)).await.0, 2, "{name}");
    }
}

#[tokio::test]
async fn files_that_are_no_files_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("file"), &link).unwrap();
    for (flag, path) in [
        ("--journal", link.to_str().unwrap()),
        ("--journal", "/dev/null"),
        ("--token-file", "/dev/zero"),
        ("--write-kubeconfig", link.to_str().unwrap()),
        ("--write-kubeconfig", "/dev/null"),
    ] {
        let (code, _, stderr) = outcome(kinform(None, &["serve", flag, path, "--", "true"])).await;
        assert_eq!(code, 1, "{flag} {path}: {stderr}");
        assert!(stderr.contains(path), "{flag} {path}: {stderr}");
    }
    assert!(!folder.path().join("file").exists());
}

/// The reply of a served cluster to `kinform get`, or the failure.
async fn served(flags: &[&str], get: &[&str]) -> (i32, String, String) {
    let this = env!("CARGO_BIN_EXE_kinform");
    let words = [&["serve"], flags, &["--", this, "get"], get].concat();
    outcome(kinform(None, &words)).await
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[tokio::test]
async fn a_folder_of_manifests_and_dumps_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    // The kind comes after its object, and nobody makes the namespace.
    write(
        folder.path(),
        "a.yaml",
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g, namespace: made}\nspec: {size: 3}\n",
    );
    write(
        folder.path(),
        "b.yml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {name: gadgets.example.com}\n\
         spec:\n  group: example.com\n  scope: Namespaced\n\
        \x20 names: {plural: gadgets, singular: gadget, kind: Gadget}\n\
        \x20 versions:\n  - name: v1\n    served: true\n    storage: true\n\
        \x20   schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n",
    );
    // What `kubectl get --raw` and a watch of another server said.
    write(
        folder.path(),
        "c.json",
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
            {"metadata":{"name":"kept","namespace":"made","uid":"their-own","resourceVersion":"5",
             "creationTimestamp":"2020-01-01T00:00:00Z"},"data":{"a":"b"}}]}"#,
    );
    let frame = |kind: &str, name: &str, value: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":\
             {{\"name\":\"{name}\",\"namespace\":\"made\",\"uid\":\"u\"}},\"data\":{{\"v\":\"{value}\"}}}}}}\n"
        )
    };
    let frames = [
        frame("ADDED", "x", "1"),
        frame("ADDED", "y", "1"),
        frame("MODIFIED", "x", "2"),
        frame("DELETED", "y", "1"),
    ];
    write(folder.path(), "d.jsonl", &frames.concat());
    write(folder.path(), "notes.txt", "no manifest: [");
    let load = ["--load", folder.path().to_str().unwrap()];
    let (code, stdout, stderr) = served(&load, &["configmaps", "-n", "made", "-o", "json"]).await;
    assert_eq!(code, 0, "{stderr}");
    let list: Value = serde_json::from_str(&stdout).unwrap();
    let told: Vec<&str> = [
        "/items/0/metadata/uid",
        "/items/0/metadata/creationTimestamp",
        "/items/1/metadata/name",
        "/items/1/data/v",
    ]
    .iter()
    .map(|path| list.pointer(path).and_then(Value::as_str).unwrap_or("-"))
    .collect();
    assert_eq!(
        told,
        ["their-own", "2020-01-01T00:00:00Z", "x", "2"],
        "{list}"
    );
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    let (code, stdout, stderr) = served(&load, &["gadgets.example.com", "-A", "-o", "name"]).await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "gadget.example.com/g\n"),
        "{stderr}"
    );
}

#[tokio::test]
async fn faults_hurt_clients_and_a_wrong_rule_is_wrong_usage() {
    let fault = "verb=list,resource=configmaps,times=always,status=403,message=not today";
    let hurt = [
        "--fault",
        fault,
        "--fault",
        "verb=watch,resource=configmaps,times=always,status=403",
    ];
    let (code, _, stderr) = served(&hurt, &["configmaps"]).await;
    assert_eq!(code, 1, "{stderr}");
    let (code, _, stderr) = served(&["--fault", "status=200"], &["configmaps"]).await;
    assert_eq!(code, 2);
    assert!(stderr.contains("not a fault rule"), "{stderr}");
}

#[tokio::test]
async fn the_journal_has_a_line_for_each_request_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    write(
        folder.path(),
        "m.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    );
    let (manifest, journal) = (folder.path().join("m.yaml"), path.to_str().unwrap());
    let flags = ["--load", manifest.to_str().unwrap(), "--journal", journal];
    let (code, _, stderr) = served(&flags, &["configmaps", "-o", "name"]).await;
    assert_eq!(code, 0, "{stderr}");
    let text = std::fs::read_to_string(&path).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let read = records
        .iter()
        .filter(|it| it["resource"] == "configmaps" && it["verb"] != "create");
    assert!(read.clone().count() > 0, "{text}");
    assert!(
        records
            .iter()
            .all(|it| it["time"].is_string() && it["seconds"].is_number()),
        "{text}"
    );
}

/// A server of its own that goes on, and what its kubeconfig says.
async fn serving(folder: &Path, flags: &[&str]) -> (Child, Value) {
    let path = folder.join("kubeconfig");
    let words = [
        &[
            "serve",
            "--http",
            "--write-kubeconfig",
            path.to_str().unwrap(),
        ],
        flags,
    ]
    .concat();
    let mut child = kinform(None, &words)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line =
            tokio::time::timeout(std::time::Duration::from_secs(60), lines.next_line()).await;
        let line = line
            .expect("it serves within a minute")
            .unwrap()
            .expect("it serves");
        if line.contains("serving on") {
            break;
        }
    }
    let config = std::fs::read_to_string(&path).unwrap();
    (child, serde_saphyr::from_str(&config).unwrap())
}

async fn ask(config: &Value, (method, path): (&str, &str), body: &str) -> (u16, Value) {
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap();
    let address = text("/clusters/0/cluster/server").trim_start_matches("http://");
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn a_served_cluster_is_hurt_and_asked_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, config) = serving(folder.path(), &["--pods", "5"]).await;
    let pods = ("GET", "/api/v1/pods");
    assert_eq!(ask(&config, pods, "").await.0, 200);
    let rule = "verb=list,resource=pods,status=503";
    let (code, state) = ask(&config, ("POST", "/__kinform/faults"), rule).await;
    assert_eq!(
        (code, state["faults"].as_array().map(Vec::len)),
        (200, Some(1))
    );
    assert_eq!(ask(&config, pods, "").await.0, 503);
    assert_eq!(ask(&config, pods, "").await.0, 200);
    let (_, state) = ask(&config, ("POST", "/__kinform/expire"), "").await;
    assert_eq!(state["floor"], state["revision"]);
    let (_, journal) = ask(
        &config,
        ("GET", "/__kinform/journal?verb=list&resource=pods"),
        "",
    )
    .await;
    let codes: Vec<_> = journal["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].clone())
        .collect();
    assert_eq!(Value::from(codes), serde_json::json!([200, 503, 200]));
    let pid = nix::unistd::Pid::from_raw(child.id().unwrap().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(143));
}
