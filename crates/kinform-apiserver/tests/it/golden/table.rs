//! Tables of every recorded kind: the objects that the recording wrote, shown as it showed them.

use std::collections::BTreeMap;

use http::Method;
use kinform_apiserver::Server;
use serde_json::{Value, json};

use super::recorded::{Comparison, Exchange, Objects, exchanges, put, send};
use super::{Rows, is_plain_json, is_table, status};

/// Where the objects of a request's path are kept: its parts up to the plural, without a namespace.
fn collection(path: &str) -> Vec<String> {
    let path = path.split('?').next().unwrap();
    let mut parts: Vec<String> = path
        .trim_matches('/')
        .split('/')
        .map(str::to_owned)
        .collect();
    let at = if parts[0] == "api" { 2 } else { 3 };
    if parts[at] == "namespaces" && parts.len() > at + 2 {
        parts.drain(at..at + 2);
    }
    parts.truncate(at + 1);
    parts
}

/// The rows of the objects that are stored here. A real server holds more: those it makes by itself.
fn known_rows(recorded: &str, names: &[&String]) -> Value {
    let mut table: Value = serde_json::from_str(recorded).unwrap();
    let rows = table["rows"].as_array_mut().unwrap();
    rows.retain(|row| {
        let metadata = &row["object"]["metadata"];
        names.iter().any(|name| metadata["name"] == name.as_str())
    });
    // A real server sorts a few kinds by what they are for.
    rows.sort_by_key(|row| row["object"]["metadata"]["name"].to_string());
    table
}

#[tokio::test(start_paused = true)]
async fn tables_of_every_kind_are_those_of_a_real_server() {
    let mut stored: BTreeMap<Vec<String>, BTreeMap<String, Value>> = BTreeMap::new();
    let mut rows = Rows::default();
    for exchange in exchanges("kinds") {
        let path = collection(&exchange.path);
        let is_stored = matches!(&*exchange.method, "POST" | "PATCH")
            && exchange.status < 300
            && !exchange.path.contains("dryRun");
        if is_plain_json(&exchange) && is_stored {
            let object: Value = serde_json::from_str(&exchange.body).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            stored.entry(path).or_default().insert(name, object);
        } else if is_table(&exchange) {
            let objects = &stored[&path];
            let server = Server::builder().in_process();
            for object in objects.values() {
                put(&server, &path, object.clone());
            }
            let names: Vec<&String> = objects.keys().collect();
            let (code, body) = send(&server.service(), &exchange).await;
            let recorded = known_rows(&exchange.body, &names);
            let ours = known_rows(&body, &names);
            assert_eq!(
                ours["rows"].as_array().unwrap().len(),
                names.len(),
                "{}",
                exchange.file
            );
            let mut differences =
                Comparison::new(Objects::Written).bodies(&recorded.to_string(), &ours.to_string());
            differences.extend(status(exchange.status, code));
            rows.row(&exchange, &differences);
        }
    }
    rows.finish(41);
}

#[tokio::test(start_paused = true)]
async fn a_table_of_one_object_is_that_of_a_real_server() {
    let server = super::server(|_, items| items).await;
    let service = server.service();
    let mut rows = Rows::default();
    for exchange in exchanges("get")
        .iter()
        .filter(|exchange| is_table(exchange))
    {
        let (code, body) = send(&service, exchange).await;
        let mut differences = Comparison::new(Objects::Loaded).bodies(&exchange.body, &body);
        differences.extend(status(exchange.status, code));
        rows.row(exchange, &differences);
    }
    rows.finish(1);
}

/// What a table says, without the objects in it.
fn shown(table: &str) -> Value {
    let mut table: Value = serde_json::from_str(table).unwrap();
    for row in table["rows"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("object");
    }
    table.as_object_mut().unwrap().remove("metadata");
    table
}

#[tokio::test(start_paused = true)]
async fn objects_in_many_states_are_shown_as_by_a_real_server() {
    let server = Server::builder().in_process();
    let service = server.service();
    let mut rows = Rows::default();
    for exchange in exchanges("table") {
        let recorded: Value = serde_json::from_str(&exchange.body).unwrap();
        let object = recorded["rows"][0]["object"].clone();
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", exchange.path);
        server.restore(object.clone()).unwrap();
        let (code, body) = send(&service, &asked(Method::GET, &path, Value::Null)).await;
        let (recorded, ours) = (shown(&exchange.body), shown(&body));
        let mut differences =
            Comparison::new(Objects::Written).bodies(&recorded.to_string(), &ours.to_string());
        differences.extend(status(exchange.status, code));
        rows.row(&exchange, &differences);
    }
    rows.finish(66);
}

fn asked(method: Method, path: &str, request: Value) -> Exchange {
    Exchange {
        accept: "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned(),
        ..super::request(method.as_str(), path, request)
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_answered_by_tables_and_reviews_are_not() {
    let server = Server::builder().in_process();
    let service = server.service();
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = json!({"metadata": {"name": "x"}, "data": {"a": "b"}});
    for (path, version) in [
        (format!("{maps}?dryRun=All"), false),
        (maps.to_owned(), true),
    ] {
        let (code, body) = send(&service, &asked(Method::POST, &path, object.clone())).await;
        let table: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &table["kind"]), (201, &json!("Table")));
        assert_eq!(table["rows"][0]["cells"], json!(["x", 1, "0s"]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(table["metadata"]["resourceVersion"].is_string(), version);
    }
    let path = format!("{maps}/x?includeObject=Object");
    let (_, body) = send(&service, &asked(Method::GET, &path, Value::Null)).await;
    let table: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(table["rows"][0]["object"]["data"], json!({"a": "b"}));
    let path = format!("{maps}?includeObject=Nope");
    let (code, body) = send(&service, &asked(Method::GET, &path, Value::Null)).await;
    assert_eq!(code, 400, "{body}");
    // kubernetes: test/e2e/apimachinery/table_conversion.go, a backend that does not implement metadata
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, body) = send(&service, &asked(Method::POST, path, json!({"spec": {}}))).await;
    assert_eq!(code, 406, "{body}");
}
