//! Lists, single objects and refusals, in every form: JSON, tables, metadata alone, protobuf,
//! compressed.

use kinform_apiserver::{Server, User};
use serde_json::{Value, json};

use super::comparison::{Comparison, Objects};
use super::recorded::{Exchange, builder, exchanges, load, reach, reply, request, send, server};
use super::rows::Rows;
use super::streams;

/// Sends every exchange of a folder.
async fn replay(server: &Server, folder: &'static str) -> Rows {
    let (service, mut rows) = (server.service(), Rows::of(folder));
    for exchange in exchanges(folder) {
        let reply = reply(&service, &exchange).await;
        let differences = Comparison::new(Objects::Loaded).reply(&exchange, &reply);
        rows.row(&exchange, &differences);
    }
    rows
}

#[tokio::test(start_paused = true)]
async fn lists_are_those_of_a_real_server() {
    let server = server().await;
    reach(&server, 725);
    replay(&server, "list").await.finish();
}

#[tokio::test(start_paused = true)]
async fn objects_are_those_of_a_real_server() {
    let server = server().await;
    reach(&server, 725);
    replay(&server, "get").await.finish();
}

/// Credential of the request, unless it is the administrator's.
fn credential(file: &str) -> Option<&'static str> {
    match file {
        // A credential that is not a token does not authenticate.
        "error/403-anonymous.json" => Some("Basic bm9ib2R5"),
        "error/401-wrong-token.json" => Some("Bearer wrong"),
        "error/403-list.json"
        | "error/403-watch.json"
        | "error/403-get.json"
        | "error/403-create.json" => Some("Bearer limited-token"),
        _ => None,
    }
}

/// The exchange as it was sent: with a credential, and with the bodies that were too large to keep.
fn as_sent(exchange: &Exchange) -> Exchange {
    let mut exchange = exchange.clone();
    let length = match exchange.file.as_str() {
        "error/413-too-large.json" => 3_200_000,
        "error/422-too-large-object.json" => 1_100_000,
        _ => 0,
    };
    if length > 0 {
        let map = json!({"metadata": {"name": "x"}, "data": {"k": "x".repeat(length)}});
        exchange.content_type = Some("application/json".to_owned());
        exchange.request = Some(map.to_string().into_bytes());
    }
    match credential(&exchange.file) {
        None => exchange,
        Some(credential) => exchange.header("authorization", credential),
    }
}

#[tokio::test(start_paused = true)]
async fn errors_are_those_of_a_real_server() {
    let exchanges = exchanges("error");
    let exact = exchanges
        .iter()
        .find(|e| e.file == "error/410-list-exact.json")
        .unwrap();
    let maps: Value = serde_json::from_str(&exact.body).unwrap();
    let maps = maps["items"].as_array().unwrap().clone();
    let server = builder().user("limited-token", User::new("limited"));
    let server = load(server.in_process(), |plural, items| match plural {
        // The maps at the time the errors were recorded.
        "configmaps" => maps.clone(),
        _ => items,
    })
    .await;
    let service = server.service();
    reach(&server, 863);
    let dying = json!({"metadata": {"name": "dying", "finalizers": ["example.com/hold"]}});
    for step in [
        request("POST", "/api/v1/namespaces", dying),
        request("DELETE", "/api/v1/namespaces/dying", Value::Null),
    ] {
        let (code, body) = send(&service, &step).await;
        assert!(code < 300, "{body}");
    }
    let mut rows = Rows::of("error");
    for exchange in &exchanges {
        let reply = reply(&service, &as_sent(exchange)).await;
        let mut comparison = Comparison::new(Objects::WrittenInOrder);
        let is_stream = exchange.path.contains("watch=true") && exchange.status == 200;
        let mut differences = match is_stream {
            true => streams::compare(&exchange.bytes, &reply.bytes),
            false => comparison.bodies(&exchange.bytes, &reply.bytes),
        };
        differences.extend(comparison.head(exchange, &reply));
        rows.row(exchange, &differences);
    }
    rows.finish();
}
