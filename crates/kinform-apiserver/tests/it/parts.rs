//! Action subresources, beyond what was recorded: logs, the end of tokens, refusals.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use crate::support::{get, send, server};

const PODS: &str = "/api/v1/namespaces/a/pods";

async fn pod(service: &Service, name: &str, containers: &[&str]) {
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| json!({"name": name, "image": "i"}))
        .collect();
    let pod = json!({"metadata": {"name": name},
        "spec": {"nodeName": "n", "containers": containers}});
    let (code, reply) = send(service, Method::POST, PODS, pod).await;
    assert_eq!(code, 201, "{reply}");
}

async fn text(service: &Service, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    let reply = service.call(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_log_is_what_was_registered_for_the_container() {
    let (server, service) = server().await;
    pod(&service, "p", &["c"]).await;
    assert_eq!(
        text(&service, &format!("{PODS}/p/log")).await,
        (200, String::new())
    );
    let logs = server.pod_logs();
    logs.append("a", "p", "c", "one\ntwo\n");
    logs.append("a", "p", "c", "three");
    logs.append_previous("a", "p", "c", "before");
    for (query, want) in [
        ("", "one\ntwo\nthree\n"),
        ("?tailLines=2", "two\nthree\n"),
        ("?tailLines=0", ""),
        ("?limitBytes=5", "one\nt"),
        ("?container=c&sinceSeconds=3600&tailLines=1", "three\n"),
        ("?sinceTime=2999-01-01T00:00:00Z", ""),
        ("?previous=true", "before\n"),
    ] {
        let got = text(&service, &format!("{PODS}/p/log{query}")).await;
        assert_eq!(got, (200, want.to_owned()), "{query}");
    }
    let (_, timed) = text(
        &service,
        &format!("{PODS}/p/log?timestamps=true&tailLines=1"),
    )
    .await;
    let (time, line) = timed.split_once(' ').unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    assert_eq!(line, "three\n");
    pod(&service, "q", &["c"]).await;
    let (code, refusal) = text(&service, &format!("{PODS}/q/log?previous=true")).await;
    assert_eq!(code, 400, "{refusal}");
    assert!(
        refusal.contains("previous terminated container"),
        "{refusal}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_log_hears_each_line_and_ends_with_the_container_or_the_pod() {
    let (server, service) = server().await;
    pod(&service, "p", &["c", "d"]).await;
    for container in ["c", "d"] {
        server.pod_logs().append("a", "p", container, "old\nfirst");
    }
    let follow = |container: &str| {
        let path = format!("{PODS}/p/log?follow=true&tailLines=1&container={container}");
        let service = service.clone();
        tokio::spawn(async move { text(&service, &path).await })
    };
    let (of_c, of_d) = (follow("c"), follow("d"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.pod_logs().append("a", "p", "c", "second");
    server.pod_logs().append("a", "p", "d", "second");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!of_c.is_finished());
    server.pod_logs().finish("a", "p", "c");
    assert_eq!(of_c.await.unwrap(), (200, "first\nsecond\n".to_owned()));
    assert!(!of_d.is_finished());
    send(&service, Method::DELETE, &format!("{PODS}/p"), Value::Null).await;
    assert_eq!(of_d.await.unwrap(), (200, "first\nsecond\n".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_long_log_keeps_its_newest_lines() {
    let (server, service) = server().await;
    pod(&service, "p", &["c"]).await;
    let line = "x".repeat(1 << 16);
    for at in 0..100 {
        server
            .pod_logs()
            .append("a", "p", "c", &format!("{at} {line}"));
    }
    let (_, log) = text(&service, &format!("{PODS}/p/log")).await;
    assert!(log.len() <= 4 << 20, "{}", log.len());
    assert!(log.lines().last().unwrap().starts_with("99 "));
}

/// Objects that this server would not act on, and requests that need another component.
#[tokio::test(start_paused = true)]
async fn what_is_beyond_this_server_is_refused_and_never_stored() {
    let (server, service) = server().await;
    pod(&service, "p", &["c"]).await;
    let rows = [(
        "/apis/apiregistration.k8s.io/v1/apiservices".to_owned(),
        json!({"metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com",
                "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
                "insecureSkipTLSVerify": true, "service": {"name": "s", "namespace": "n"}}}),
    )];
    let before = server.store().revision();
    for (path, object) in rows {
        let (code, reply) = send(&service, Method::POST, &path, object).await;
        assert_eq!(
            (code, &reply["reason"]),
            (501, &json!("NotImplemented")),
            "{path}: {reply}"
        );
        assert_eq!(get(&service, &path).await.0, 200, "{path}");
    }
    for part in ["exec?command=ls", "attach", "portforward"] {
        let (code, reply) = send(
            &service,
            Method::POST,
            &format!("{PODS}/p/{part}"),
            Value::Null,
        )
        .await;
        assert_eq!(code, 501, "{part}: {reply}");
    }
    let (code, _) = get(&service, "/api/v1/namespaces/a/services/s/proxy/deep/path").await;
    assert_eq!(code, 503);
    assert_eq!(server.store().revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_its_account() {
    let server = Server::builder().in_process();
    let service = server.service();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "robot"}});
    send(&service, Method::POST, accounts, account.clone()).await;
    let path = format!("{accounts}/robot/token");
    let (code, reply) = send(&service, Method::POST, &path, json!({"spec": {}})).await;
    assert_eq!(code, 201, "{reply}");
    let token = reply["status"]["token"].as_str().unwrap().to_owned();
    let ask = |token: String| {
        let request =
            Request::get("/api/v1/pods").header("authorization", format!("Bearer {token}"));
        let call = service.call(request.body(Bytes::new()).unwrap());
        async move { call.await.status().as_u16() }
    };
    assert_eq!(ask(token.clone()).await, 200);
    let mut forged = token.clone();
    forged.replace_range(token.len() - 3.., "AAA");
    assert_eq!(ask(forged).await, 401);
    send(
        &service,
        Method::DELETE,
        &format!("{accounts}/robot"),
        Value::Null,
    )
    .await;
    send(&service, Method::POST, accounts, account).await;
    // Another account with the same name.
    assert_eq!(ask(token).await, 401);
}

// kubernetes: TestGetPodQOS; the messages are those of a real server
#[tokio::test(start_paused = true)]
async fn amounts_of_nothing_give_a_pod_no_class() {
    let server = Server::builder().in_process();
    let service = server.service();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |requests: Value| {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"requests": requests}}]}})
    };
    let (_, made) = send(&service, Method::POST, pods, pod(json!({"cpu": "0"}))).await;
    assert_eq!(made["status"]["qosClass"], "BestEffort");
    let resize = async |requests: Value| {
        let request = Request::patch(format!("{pods}/p/resize"))
            .header("content-type", "application/strategic-merge-patch+json")
            .body(Bytes::from(pod(requests).to_string()))
            .unwrap();
        let reply = service.call(request).await;
        let code = reply.status().as_u16();
        let body = reply.into_body().collect().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        (code, body["message"].clone())
    };
    let words = "Pod \"p\" is invalid: spec: Invalid value: \"BestEffort\": Pod QOS Class may not \
                 change as a result of resizing";
    assert_eq!(resize(json!({"cpu": "1m"})).await, (422, json!(words)));
    assert_eq!(resize(json!({"memory": "0"})).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_tells_why_it_goes() {
    let (_server, service) = server().await;
    let body = json!({"metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    let (code, made) = send(&service, Method::POST, PODS, body).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{PODS}/p");
    let evict = |options: Value| json!({"metadata": {"name": "p"}, "deleteOptions": options});
    let eviction = format!("{path}/eviction");
    for (options, code) in [
        (json!({"preconditions": {"resourceVersion": "1"}}), 409),
        (json!({"preconditions": {"uid": "another"}}), 409),
        (json!({"dryRun": ["All"]}), 201),
    ] {
        let (got, reply) = send(&service, Method::POST, &eviction, evict(options)).await;
        assert_eq!(got, code, "{reply}");
        let (_, pod) = get(&service, &path).await;
        assert_eq!(pod, made, "an eviction that does nothing leaves no trace");
    }
    let version = &made["metadata"]["resourceVersion"];
    let options = json!({"preconditions": {"resourceVersion": version}});
    let (code, reply) = send(&service, Method::POST, &eviction, evict(options)).await;
    assert_eq!(code, 201, "{reply}");
    let (_, pod) = get(&service, &path).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "{pod}");
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget", "{pod}");
    assert_eq!(condition["reason"], "EvictionByEvictionAPI");
    assert_eq!(condition["message"], "Eviction API: evicting");
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_the_zone_and_region_of_its_node() {
    let (_server, service) = server().await;
    let labels = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r",
        "other": "o"});
    let node = json!({"metadata": {"name": "n", "labels": labels}});
    let (code, _) = send(&service, Method::POST, "/api/v1/nodes", node).await;
    assert_eq!(code, 201);
    let want = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
    pod(&service, "named", &["c"]).await;
    let (_, named) = get(&service, &format!("{PODS}/named")).await;
    assert_eq!(named["metadata"]["labels"], want);
    let waiting = json!({"metadata": {"name": "bound", "labels": {
        "topology.kubernetes.io/zone": "elsewhere"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (_, mut waiting) = send(&service, Method::POST, PODS, waiting).await;
    waiting["status"]["nominatedNodeName"] = json!("n");
    let path = format!("{PODS}/bound/status");
    let (code, nominated) = send(&service, Method::PUT, &path, waiting).await;
    assert_eq!(code, 200, "{nominated}");
    assert_eq!(nominated["status"]["nominatedNodeName"], "n");
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{PODS}/bound/binding");
    assert_eq!(send(&service, Method::POST, &path, binding).await.0, 201);
    let (_, bound) = get(&service, &format!("{PODS}/bound")).await;
    assert_eq!(bound["metadata"]["labels"], want);
    assert_eq!(bound["status"]["nominatedNodeName"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_job_without_labels_has_those_of_its_template() {
    let (_server, service) = server().await;
    let jobs = "/apis/batch/v1/namespaces/a/jobs";
    let job = |name: &str, own: Value, of_template: Value| {
        json!({"metadata": {"name": name, "labels": own}, "spec": {"template": {
            "metadata": {"labels": of_template},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    for (name, own, of_template, has_job_name) in [
        ("none", Value::Null, Value::Null, true),
        ("template", Value::Null, json!({"x": "1"}), true),
        ("own", json!({"x": "1"}), Value::Null, false),
        ("other", json!({"x": "1"}), json!({"x": "2"}), false),
        ("equal", json!({"x": "1"}), json!({"x": "1"}), false),
    ] {
        let body = job(name, own.clone(), of_template);
        let (code, made) = send(&service, Method::POST, jobs, body).await;
        assert_eq!(code, 201, "{made}");
        let labels = &made["metadata"]["labels"];
        let template = &made["spec"]["template"]["metadata"]["labels"];
        assert_eq!(template["job-name"], name, "{made}");
        match has_job_name {
            true => assert_eq!(labels, template, "{name}"),
            false => assert_eq!(*labels, own, "{name}"),
        }
    }
}
