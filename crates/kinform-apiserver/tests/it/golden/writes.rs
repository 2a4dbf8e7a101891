//! Writes in their recorded order, and the life of a definition.

use std::time::Duration;

use kinform_apiserver::Service;
use serde_json::json;

use super::comparison::{Comparison, Objects};
use super::recorded::{Exchange, exchanges, reach, reply, request, send, server};
use super::rows::Rows;
use super::streams::{self, story};

/// Repeats the recorder's unrecorded requests before a row.
async fn prepare(service: &Service, file: &str) {
    let maps = "/api/v1/namespaces/shop/configmaps";
    let step = match file {
        "write/delete-precondition.json" => {
            request("POST", maps, json!({"metadata": {"name": "pre"}}))
        }
        "write/delete-finalizer.json" => Exchange {
            content_type: Some("application/merge-patch+json".to_owned()),
            ..request(
                "PATCH",
                &format!("{maps}/pre"),
                json!({"metadata": {"finalizers": ["example.com/hold"]}}),
            )
        },
        "write/eviction-429.json" => request(
            "POST",
            "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
            json!({"metadata": {"name": "all"}, "spec": {"minAvailable": "100%", "selector": {}}}),
        ),
        "write/namespace-delete.json" => request(
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "dying", "finalizers": ["example.com/hold"]}}),
        ),
        _ => return,
    };
    let (code, body) = send(service, &step).await;
    assert!(code < 300, "{body}");
}

/// Sends every write to a server on which the story ran; returns the learned values.
pub(crate) async fn writes(service: &Service, rows: &mut Rows) -> Comparison {
    let mut comparison = Comparison::new(Objects::Written);
    for exchange in exchanges("write") {
        prepare(service, &exchange.file).await;
        let exchange = exchange.in_ours(&comparison.learned);
        let reply = reply(service, &exchange).await;
        let differences = comparison.reply(&exchange, &reply);
        rows.row(&exchange, &differences);
    }
    comparison
}

#[tokio::test(start_paused = true)]
async fn writes_are_those_of_a_real_server() {
    let server = server().await;
    let (service, mut rows) = (server.service(), Rows::of("write"));
    story(&service).await;
    writes(&service, &mut rows).await;
    rows.finish();
}

/// Replays the whole life of a definition, with the watches that were open meanwhile.
pub(crate) async fn definition(service: &Service, rows: &mut Rows) {
    let all = exchanges("crd");
    let opened = |file: &str| {
        all.iter()
            .find(|exchange| exchange.file == file)
            .unwrap()
            .clone()
    };
    let watch = |file: &str, service: &Service| {
        let (exchange, service) = (opened(file), service.clone());
        tokio::spawn(async move { (reply(&service, &exchange).await, exchange) })
    };
    // Opened before any other request: the clock stands still until they wait.
    let mut watches = vec![watch("crd/watch-definitions.jsonl", service)];
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut comparison = Comparison::new(Objects::Written);
    for exchange in &all {
        match exchange.file.as_str() {
            file if file.contains("/watch-") => continue,
            "crd/create-default.json" => {
                watches.push(watch("crd/watch-objects.jsonl", service));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            _ => {}
        }
        let reply = reply(service, exchange).await;
        let differences = comparison.reply(exchange, &reply);
        rows.row(exchange, &differences);
    }
    for watch in watches {
        let (reply, exchange) = watch.await.unwrap();
        let mut differences = streams::compare_as(&mut comparison, &exchange.bytes, &reply.bytes);
        differences.extend(comparison.head(&exchange, &reply));
        rows.row(&exchange, &differences);
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_lives_as_on_a_real_server() {
    let server = server().await;
    reach(&server, 805);
    let mut rows = Rows::of("crd");
    definition(&server.service(), &mut rows).await;
    rows.finish();
}
