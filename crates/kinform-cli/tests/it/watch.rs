//! `watch`, `get` and `measure` against the embedded server.

use std::time::Duration;

use bytes::Bytes;
use kinform_api::{GroupResource, Status};
use kinform_apiserver::{Fault, FaultRule, Seed, Server};
use serde_json::{Value, json};

use crate::command::{Kubeconfig, Watch, kinform, outcome};

async fn send(server: &Server, method: &str, path: &str, body: Value) {
    let content = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let reply = server.service().call(request).await;
    let status = reply.status();
    let body = reply.into_body().collect().await.unwrap();
    assert!(
        status.is_success(),
        "{method} {path}: {status} {}",
        String::from_utf8_lossy(&body)
    );
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn every_change_is_a_line_and_the_last_is_the_summary() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    send(&server, "POST", MAPS, config_map("a", "1")).await;
    let mut watch = Watch::start(kinform(
        Some(&kubeconfig.path()),
        &["watch", "cm", "-o", "json"],
    ));
    let added = watch.next().await.unwrap();
    assert_eq!(
        (&added["event"], &added["initial"], &added["name"]),
        (&json!("add"), &json!(true), &json!("a"))
    );
    assert_eq!(added.as_object().unwrap().len(), 15);
    watch.next_event("synced").await;

    send(
        &server,
        "PATCH",
        &format!("{MAPS}/a"),
        json!({"data": {"key": "2"}}),
    )
    .await;
    let updated = watch.next().await.unwrap();
    assert_eq!(updated["event"], "update");
    assert_eq!(updated["oldResourceVersion"], added["resourceVersion"]);

    send(&server, "DELETE", &format!("{MAPS}/a"), json!({})).await;
    let deleted = watch.next().await.unwrap();
    assert_eq!(
        (&deleted["event"], &deleted["finalStateUnknown"]),
        (&json!("delete"), &json!(false))
    );
    assert_ne!(deleted["resourceVersion"], updated["resourceVersion"]);

    let pid = nix::unistd::Pid::from_raw(i32::try_from(watch.child.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
    let summary = watch.next_event("summary").await;
    assert_eq!(summary["objects"], 0);
    assert_eq!(summary["events"], 2);
    assert!(watch.next().await.is_none());
    assert_eq!(watch.child.wait().await.unwrap().code(), Some(143));
}

#[tokio::test]
async fn a_definition_that_is_not_installed_yet_is_waited_for() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let mut watch = Watch::start(kinform(
        Some(&kubeconfig.path()),
        &["watch", "gadgets.example.com", "-A", "-o", "json"],
    ));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    send(
        &server,
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    let synced = watch.next_event("synced").await;
    assert_eq!(
        (&synced["group"], &synced["resource"]),
        (&json!("example.com"), &json!("gadgets"))
    );
}

#[tokio::test]
async fn a_right_that_is_missing_is_a_line_and_loses_nothing() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    send(&server, "POST", MAPS, config_map("a", "1")).await;
    let maps = GroupResource::new("", "configmaps");
    let status = Status::access_denied("somebody", "watch", &maps, "", None);
    let denied = FaultRule::new(Fault::Reply(status));
    server
        .faults()
        .inject(denied.on_verb("watch").on_resource("configmaps").times(2));
    let mut watch = Watch::start(kinform(
        Some(&kubeconfig.path()),
        &["watch", "cm", "-o", "json"],
    ));
    // The list is allowed, the watch is not, at first.
    assert_eq!(watch.next_event("add").await["name"], "a");
    let error = watch.next_event("error").await;
    assert_eq!(error["reason"], "Forbidden");
    assert!(error["retryInMs"].as_u64().is_some(), "{error}");
    send(
        &server,
        "PATCH",
        &format!("{MAPS}/a"),
        json!({"data": {"key": "2"}}),
    )
    .await;
    assert_eq!(watch.next_event("update").await["name"], "a");
}

#[tokio::test]
async fn an_elapsed_time_is_zero_if_synced_and_124_if_not() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let synced = kinform(
        Some(&kubeconfig.path()),
        &["watch", "cm", "--for", "5s", "-o", "json"],
    );
    assert_eq!(outcome(synced).await.0, 0);
    let never = kinform(
        Some(&kubeconfig.path()),
        &["watch", "gadgets.example.com", "--for", "100ms"],
    );
    assert_eq!(outcome(never).await.0, 124);
}

#[tokio::test]
async fn a_cache_can_be_read_by_name_index_and_form() {
    let server = Server::builder().start().await.unwrap();
    server.seed(Seed {
        seed: 1,
        nodes: 4,
        deployments: 3,
        pods: 40,
    });
    let kubeconfig = Kubeconfig::of(&server);
    let run = |words: &'static [&'static str]| outcome(kinform(Some(&kubeconfig.path()), words));

    let (code, stdout, _) = run(&["get", "nodes", "-o", "name"]).await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "node/node-0\nnode/node-1\nnode/node-2\nnode/node-3\n")
    );

    let (_, stdout, _) = run(&[
        "get",
        "pods",
        "-A",
        "--by",
        "spec.nodeName=node-1",
        "-o",
        "json",
    ])
    .await;
    let list: Value = serde_json::from_str(&stdout).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 10);
    assert!(
        items
            .iter()
            .all(|pod| pod["spec"]["nodeName"] == "node-1" && pod["kind"] == "Pod")
    );

    let (_, stdout, _) = run(&["get", "node", "node-2", "-o", "yaml"]).await;
    assert!(
        stdout.contains("kind: Node") && stdout.contains("name: node-2"),
        "{stdout}"
    );

    let (code, _, stderr) = run(&["get", "nodes", "nobody"]).await;
    assert_eq!(code, 1);
    assert!(stderr.contains("not found"), "{stderr}");

    let (code, _, stderr) = run(&["get", "pods", "--by", "spec.nodename=x"]).await;
    assert_eq!(code, 2, "{stderr}");
}

async fn two_thousand_pods() -> (Server, Kubeconfig) {
    let server = Server::builder().start().await.unwrap();
    server.seed(Seed {
        seed: 1,
        nodes: 4,
        deployments: 3,
        pods: 2_000,
    });
    let kubeconfig = Kubeconfig::of(&server);
    (server, kubeconfig)
}

#[tokio::test]
async fn a_measurement_is_one_object_a_type() {
    let (_server, kubeconfig) = two_thousand_pods().await;
    let ways = [
        ("--mode=list", "--encoding=json"),
        ("--mode=list", "--encoding=protobuf"),
        ("--mode=stream", "--encoding=auto"),
    ];
    for (mode, encoding) in ways {
        let (code, stdout, stderr) = outcome(kinform(
            Some(&kubeconfig.path()),
            &["measure", "pods", "-A", "-o", "json", mode, encoding],
        ))
        .await;
        assert_eq!(code, 0, "{stderr}");
        let measured: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(measured["objects"], 2_000);
        assert_eq!(measured["mode"], mode.strip_prefix("--mode=").unwrap());
        let number = |key: &str| {
            measured[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key} in {measured}"))
        };
        assert!(number("wireBytes") > number("cacheBytes"), "{measured}");
        assert!(
            number("managedFieldsBytes") > 0.3 * number("wireBytes"),
            "{measured}"
        );
        assert!(
            (2_000.0..12_000.0).contains(&number("bytesPerObject")),
            "{measured}"
        );
        assert!(
            number("cpuSeconds") > 0.0 && number("peakRssBytes") >= number("rssBytes"),
            "{measured}"
        );
        assert!((1.0..2.0).contains(&number("peakOverSteady")), "{measured}");
        let used = if encoding.ends_with("json") {
            "json"
        } else {
            "protobuf"
        };
        assert_eq!(measured["encoding"], used);
        let fields = measured["fields"].as_array().unwrap();
        let first = &fields[0];
        assert_eq!(
            (fields.len(), &first["path"]),
            (10, &"metadata.managedFields".into())
        );
        assert_eq!(
            (&first["kept"], &first["bytes"]),
            (&false.into(), &measured["managedFieldsBytes"])
        );
        let bytes = |field: &Value| field["bytes"].as_f64().unwrap();
        assert!(
            fields.is_sorted_by(|a, b| bytes(a) >= bytes(b)),
            "{measured}"
        );
        let share: f64 = fields
            .iter()
            .map(|field| field["share"].as_f64().unwrap())
            .sum();
        assert!((0.6..1.0).contains(&share), "{measured}");
        let kept: f64 = fields
            .iter()
            .filter(|field| field["kept"] == true)
            .map(bytes)
            .sum();
        let saved = number("projectionSavesBytes");
        assert!(saved > 0.5 * kept && saved < 1.1 * kept, "{measured}");
    }
}

#[cfg(not(all(feature = "typed", feature = "compressed")))]
#[tokio::test]
async fn a_measurement_that_this_program_was_not_built_for_is_refused() {
    for (flag, is_built) in [
        ("typed", cfg!(feature = "typed")),
        ("compressed", cfg!(feature = "compressed")),
    ] {
        if is_built {
            continue;
        }
        let words = ["measure", "pods", &format!("--{flag}")];
        let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        let hint = format!("cargo install kinform-cli --features {flag}");
        assert!(stderr.contains(&hint), "{stderr}");
    }
}

#[cfg(feature = "typed")]
#[tokio::test]
async fn a_measurement_with_typed_values_counts_them() {
    let (_server, kubeconfig) = two_thousand_pods().await;
    for encoding in ["json", "protobuf"] {
        let flag = format!("--encoding={encoding}");
        let mut bytes = Vec::new();
        for more in [&[][..], &["--typed"]] {
            let words = ["measure", "pods", "-A", "-o", "json", &flag];
            let words = [&words[..], more].concat();
            let (code, stdout, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
            assert_eq!(code, 0, "{stderr}");
            let measured: Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!(measured["encoding"], encoding);
            assert_eq!(measured["objects"], 2_000);
            bytes.push(measured["bytesPerObject"].as_f64().unwrap());
        }
        // A pod of k8s-openapi weighs several times its bytes.
        assert!(bytes[1] > 2.0 * bytes[0], "{encoding}: {bytes:?}");
    }
}

#[cfg(feature = "compressed")]
#[tokio::test]
async fn a_measurement_tells_what_compressing_would_leave() {
    let (_server, kubeconfig) = two_thousand_pods().await;
    let mut measured = Vec::new();
    for more in [&[][..], &["--compressed"]] {
        let words = ["measure", "pods", "-A", "-o", "json", "--encoding=json"];
        let words: Vec<_> = words.iter().chain(more).copied().collect();
        let (code, stdout, stderr) = outcome(kinform(Some(&kubeconfig.path()), &words)).await;
        assert_eq!(code, 0, "{stderr}");
        measured.push(serde_json::from_str::<Value>(&stdout).unwrap());
    }
    let [plain, compressed] = &measured[..] else {
        panic!("{measured:?}");
    };
    for key in ["objects", "wireBytes", "sizeP50", "sizeMax", "fields"] {
        assert_eq!(plain[key], compressed[key], "{key}");
    }
    let each = |measured: &Value| measured["bytesPerObject"].as_f64().unwrap();
    assert!(each(compressed) < each(plain) / 3.0, "{measured:?}");
}

#[tokio::test]
async fn a_closed_stdout_is_no_failure() {
    let server = Server::builder().start().await.unwrap();
    let kubeconfig = Kubeconfig::of(&server);
    let mut command = kinform(Some(&kubeconfig.path()), &["watch", "cm", "-o", "json"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    // Its next line finds nobody: `synced`, if nothing before.
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait())
        .await
        .unwrap();
    assert_eq!(ended.unwrap().code(), Some(0));
}
